"""The panel without its looks: what follows from its settings, what is refused, what it tells."""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import fields as fields_of
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpcsim import Network
from mpcsim.errors import UsageError
from mpcsim.lab.what_if import Configuration, WhatIf, what_if
from mpcsim.lab.what_if.fields import FIELDS, GROUPS, ineffective_settings
from mpcsim.lab.what_if.panel import LEAST_MS, _path
from mpcsim.lab.what_if.views import CAUSES, as_json, view
from mpcsim.sim.replay.kernels.arrays import PARTS
from node.calls import Signing, signing_call
from tests.helpers.reviewed import check_calls, check_reviewed

COPY = Path(__file__).with_name("panel.txt")
FEW = 400
TOKYO = {"region": "tokyo", "loss": 0.01, "cold": True}
EVERYTHING = {"region": "tokyo", "gateway": "california", "operator": "frankfurt"}
EVERYTHING |= {"institution": "singapore", "access": "wifi", "loss": 0.007, "up_mbit_per_s": 2.5}
EVERYTHING |= {"down_mbit_per_s": 40.0, "cold": True, "curve": "secp256k1"}
EVERYTHING |= {"signer": "institution", "vault_policy": "signer", "early_requests": False}
EVERYTHING |= {"ot_extension_k": 4, "separate_messages": True}


def panel(a: Any = None, b: Any = None, **options: Any) -> WhatIf:
    return what_if(a, b, samples=FEW, **options)


def test_a_configuration_is_the_network_that_it_says() -> None:
    expected = Network.preset("tokyo", institution="frankfurt", access="lte", loss=0.01)
    assert Configuration(**TOKYO).network == expected.with_connection(cold=True)
    own = Configuration(institution=None, access="fibre", up_mbit_per_s=3, down_mbit_per_s=5.5)
    assert own.network == Network.preset("seoul", access="fibre").with_link(
        "client", "gateway", mbit_per_s=3, back_mbit_per_s=5.5
    )


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", [0, 7])
@pytest.mark.parametrize("settings", [{}, TOKYO, EVERYTHING, {"curve": "ed25519"}])
def test_the_python_lines_give_the_figures_that_are_shown(
    settings: dict[str, Any], seed: int
) -> None:
    shown = panel(settings, {"access": "fibre"}, seed=seed)
    names: dict[str, Any] = {}
    *lines, last = shown.python.splitlines()
    exec("\n".join(lines), names)
    percentiles = eval(last, names)
    for side, at in zip("ab", percentiles, strict=True):
        made = view(shown).sides[side]
        assert {str(name): ms for name, ms in at.items()} == made.percentiles
        assert names[side].mean_ms == made.mean_ms
        assert np.array_equal(names[side].finished_ms, shown.replays[side].finished_ms)
        assert names[side].explanation == shown.replays[side].explanation


def test_b_is_as_a_but_for_what_is_said() -> None:
    shown = panel(TOKYO, {"institution": "singapore"})
    assert shown.a == Configuration(**TOKYO)
    assert shown.b == Configuration(**TOKYO, institution="singapore")
    assert panel(TOKYO).b == Configuration(**TOKYO)


def test_changes_copies_and_swaps() -> None:
    shown = panel()
    before = view(shown)
    shown.set("b", access="fibre", institution="tokyo")
    after = view(shown)
    assert after.sides["a"] == before.sides["a"]
    assert after.sides["b"].percentiles["50"] < before.sides["b"].percentiles["50"]
    a, b = shown.a, shown.b
    shown.swap()
    assert (shown.a, shown.b) == (b, a)
    assert view(shown).sides["a"] == after.sides["b"]
    shown.copy()
    assert (shown.a, shown.b) == (b, b)


def test_what_is_refused_leaves_everything_as_it_is() -> None:
    """A change, from Python and from the beginning; what is typed."""
    shown = panel(TOKYO)
    before = view(shown)

    def changed(**changes: Any) -> None:
        with pytest.raises(UsageError) as refused:
            shown.set("b", **changes)
        with pytest.raises(UsageError, match=re.escape(f"{refused.value}")):
            panel(changes)
        assert view(shown) == before
        raise refused.value

    names = {"changed": changed, "typed": lambda name, text: FIELDS[name].value(text)}
    check_calls(Path(__file__).with_name("wrong_settings.txt"), math, **names)


def test_no_samples() -> None:
    with pytest.raises(UsageError, match="samples is 0"):
        what_if(samples=0)


# ---------------------------------------------------------------------- what is typed


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("loss", "1", 0.01),
        ("loss", " 0.7 % ", 0.007),
        ("loss", "", None),
        ("loss", "50", 0.5),
        ("up_mbit_per_s", "1e2", 100.0),
        ("gateway", "", None),
        ("region", "oregon", "oregon"),
        ("ot_extension_k", "4", 4),
        ("cold", True, True),
    ],
)
def test_what_is_typed(name: str, text: object, value: object) -> None:
    assert FIELDS[name].value(text) == value


def test_every_setting_has_a_control() -> None:
    assert FIELDS.keys() == {f.name for f in fields_of(Configuration)}
    assert sum(len(group.fields) for group in GROUPS) == len(FIELDS)
    for configuration in (Configuration(), Configuration(**EVERYTHING)):
        for name, field in FIELDS.items():
            value = getattr(configuration, name)
            assert field.value(field.text(value)) == value


@pytest.mark.soak
def test_settings_that_are_said_to_have_no_effect_have_none() -> None:
    found = 0
    for options in ({"curve": "ed25519"}, {"presigned": True}):
        plain = signing_call(**options)
        for name in ineffective_settings(Configuration(**options)).keys() - {"presigned"}:
            changed = {"early_requests": False, "ot_extension_k": 4, "separate_messages": True}
            other = signing_call(**options, **{name: changed[name]})
            assert (other.steps, other.messages) == (plain.steps, plain.messages)
            found += 1
    assert found == 5


def test_what_has_no_effect_is_said() -> None:
    assert ineffective_settings(Configuration(presigned=True)).keys() == {
        *("early_requests", "ot_extension_k", "separate_messages")
    }
    for options in ({"curve": "ed25519"}, {"vault_policy": "signer"}):
        assert "presigned" in ineffective_settings(Configuration(**options))
        with pytest.raises(UsageError, match="presigned"):
            Signing(**options, presigned=True)
    assert not ineffective_settings(Configuration())


# ---------------------------------------------------------------------- what is shown


def test_the_view_adds_up() -> None:
    made = view(panel(TOKYO, {"institution": "singapore"}))
    assert {cause.name for cause in CAUSES} == set(PARTS) - {"compute", "service"}
    for side in made.sides.values():
        assert sum(each.ms for each in side.path) == pytest.approx(side.mean_ms)
        assert {each.link for each in side.path} <= {link.name for link in made.links}
        times, shares = zip(*side.tail, strict=True)
        assert list(times) == sorted(times)
        assert (shares[0], shares[-1]) == (1.0, pytest.approx(1e-3))


def test_the_tail_is_that_of_the_times() -> None:
    shown = panel(TOKYO)
    times = shown.replays["a"].finished_ms
    for ms, share in view(shown).sides["a"].tail:
        assert (times > ms).mean() <= share + 1e-9
        assert (times >= ms).mean() >= share - 1e-9


def everything() -> Iterator[str]:
    """A panel without a widget, as text, and all that its view has, times to a nanosecond."""
    shown = panel(TOKYO, {"curve": "ed25519", "up_mbit_per_s": 5})
    bundle = shown._repr_mimebundle_()
    text = re.sub(r"<style.*?</style>", "", bundle["text/html"], flags=re.DOTALL)
    assert "data:image/svg+xml" in text
    assert "<script" not in text
    rows = (" ".join(re.sub("<[^>]*>", " ", row).split()) for row in re.split("</tr>|</p>", text))
    yield from (bundle["text/plain"], *rows)
    for name, value in as_json(view(shown)).items():
        plain = json.loads(
            json.dumps(value, allow_nan=False), parse_float=lambda text: round(float(text), 6)
        )
        for each in plain if isinstance(plain, list) else [plain]:
            yield f"{name}: {json.dumps(each)}"


def test_what_is_shown_is_as_written_down() -> None:
    check_reviewed(everything(), COPY)


def test_the_path_names_what_takes_long_on_either_side() -> None:
    made = view(panel(TOKYO))
    sides = dict.fromkeys("ab", made.sides["a"])
    few = [replace(each, ms=0.05) for each in sides["b"].path]
    sides["b"] = replace(sides["b"], path=few)
    long = [each for each in sides["a"].path if each.ms >= LEAST_MS]
    assert len(_path(replace(made, sides=sides)).rows) == len(long) > 0


# ---------------------------------------------------------------------- the widget's side in Python


def ask(shown: WhatIf, number: int = 1, **command: Any) -> str:
    shown.widget._handle_custom_msg({**command, "id": number}, [])
    assert shown.widget.answered == number
    return str(shown.widget.problem)


def test_commands() -> None:
    pytest.importorskip("anywidget")
    shown = panel()
    assert {"view", "problem", "answered"} <= shown.widget.get_state().keys()
    assert ask(shown, do="set", side="a", name="loss", value="2") == ""
    assert shown.a.loss == 0.02
    assert shown.widget.view == as_json(view(shown))
    assert "is not a number" in ask(shown, 2, do="set", side="a", name="loss", value="two")
    assert shown.a.loss == 0.02
    assert ask(shown, 3, do="copy") == ""
    assert shown.b.loss == 0.02
    shown.set("b", access="fibre")
    assert shown.widget.view["sides"]["b"]["values"]["access"] == "fibre"
    assert ask(shown, 4, do="swap") == ""
    assert shown.a.access == "fibre"
    assert "unhashable" in ask(shown, 5, do="set", side=[], name="loss", value="2")
    assert "unknown command" in ask(shown, 5, do="burn")
    assert "nothing" in ask(shown, 6, do="set", side="a", name="nothing", value="1")
    assert "unknown side" in ask(shown, 7, do="set", side="c", name="loss", value="1")


def test_calls_that_fail_are_said_or_refused() -> None:
    """At 0.01 Mbit/s no signature is there within 30 s; many packets lost fail some."""
    lossy = WhatIf({"loss": 0.3}, samples=300)
    assert lossy.replays["a"].failed
    assert "of the calls failed" in view(lossy).sides["a"].network
    before = lossy.a
    with pytest.raises(UsageError, match="every call fails"):
        lossy.set("a", up_mbit_per_s=0.01)
    assert lossy.a == before

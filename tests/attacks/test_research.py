"""Research builds: apart from the product, and the product none the worse for them."""

import ast
import subprocess
import sys
from types import FunctionType

import pytest

from mpcsim.attacks import research
from mpcsim.attacks.catalogue import ATTACKS
from mpcsim.attacks.model import Verdict, observe
from mpcsim.attacks.research import PRODUCT, ResearchBuild, ResearchDefinition, without
from mpcsim.attacks.stage import party, play
from mpcsim.errors import Reason, UsageError, check
from mpcsim.mta.ot import OtMta
from mpcsim.mta.schemes import mta_scheme
from mpcsim.primitives import ot_base, schnorr
from mpcsim.protocol import Done
from mpcsim.protocols import dkg, ecdsa, frost, reshare
from mpcsim.protocols.dkg import DKG, steps
from mpcsim.protocols.ecdsa import ECDSA
from mpcsim.protocols.frost import FROST
from mpcsim.protocols.reshare import RESHARE
from mpcsim.protocols.signing import PROTOCOLS
from mpcsim.sample_keys import keys
from tests.helpers.repo import ROOT

REPORTS = ("mpcsim.attacks.report", "mpcsim.attacks.service.report")
DEFINITIONS = tuple(PROTOCOLS.values())

# ---------------------------------------------------------------------- who may import what


def imported(path):
    """Dotted names of everything a file imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_no_product_code_imports_the_gallery():
    """But for the command line, which imports its reports and nothing else of it."""
    files = [*(ROOT / "mpcsim").rglob("*.py"), *(ROOT / "node").rglob("*.py")]
    assert len(files) > 80
    seen = set()
    for path in files:
        where = path.relative_to(ROOT).as_posix()
        if where.startswith("mpcsim/attacks/"):
            continue
        text = path.read_text(encoding="utf-8")
        found = {name for name in imported(path) if "attacks" in name.split(".")}
        if where.startswith("mpcsim/cli/"):
            found = {name for name in found if not name.startswith(("mpcsim.cli", *REPORTS))}
        else:
            assert "mpcsim.attacks" not in text, f"{where} names the gallery"
        assert not found, f"{where} imports {found}"
        seen.add(where)
    assert {"mpcsim/protocol/party.py", "node/__init__.py"} <= seen


def test_the_protocol_gallery_does_not_load_the_service():
    code = (
        "import sys, mpcsim.attacks.report\n"
        "sys.exit(any(name in ('node', 'mpcsim.attacks.service') for name in sys.modules))\n"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_importing_the_product_does_not_load_the_gallery():
    code = (
        "import sys, mpcsim, mpcsim.runner, mpcsim.sim, mpcsim.sim.simulation\n"
        "from mpcsim.protocols import dkg, ecdsa, frost, reshare\n"
        "sys.exit(any(name.startswith('mpcsim.attacks') for name in sys.modules))\n"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


# ---------------------------------------------------------------------- nothing leaks


def portrait():
    """Every product module: what its names refer to, and what its functions and classes hold."""
    found = {}
    for name, module in sorted(sys.modules.items()):
        if not name.startswith("mpcsim") or name.startswith("mpcsim.attacks"):
            continue
        for key, value in vars(module).items():
            found[name, key] = id(value)
            if isinstance(value, FunctionType):
                parts = (value.__code__, value.__globals__, value.__defaults__, value.__dict__)
                found[name, key, "parts"] = tuple(map(id, parts))
            elif isinstance(value, type):
                found[name, key, "members"] = {k: id(v) for k, v in vars(value).items()}
    return found


@pytest.mark.soak
def test_the_product_is_the_same_after_all_attacks():
    before, rounds = portrait(), [definition.rounds for definition in DEFINITIONS]
    many = [attack for attack in ATTACKS if not attack.id.startswith("O2")]  # they copy nothing
    for attack in many:
        assert observe(attack, check_on=False).observed.verdict is Verdict.BROKEN
    assert portrait() == before
    assert [definition.rounds for definition in DEFINITIONS] == rounds
    for definition in DEFINITIONS:
        for round_ in definition.rounds:
            assert round_.run.__globals__ is vars(sys.modules[round_.run.__module__])
            assert round_.run.__globals__["check"] is check
    assert mta_scheme("ot/80") is mta_scheme("ot/80")
    assert type(mta_scheme("ot/80")) is OtMta


def test_an_attack_that_worked_without_the_check_still_fails_with_it():
    (rogue_key,) = [attack for attack in ATTACKS if attack.id == "D1"]
    for check_on in (True, False, True):
        assert observe(rogue_key, check_on).as_expected


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition.name)
def test_a_research_definition_is_new_and_says_what_it_is(definition):
    weak = without(definition, Reason.ECHO_MISMATCH, Reason.SESSION_MISMATCH)
    assert isinstance(weak, ResearchDefinition)
    assert not isinstance(definition, ResearchDefinition)
    assert weak.name == (f"{definition.name} [RESEARCH: without ECHO_MISMATCH, SESSION_MISMATCH]")
    assert weak.switched_off == ("ECHO_MISMATCH", "SESSION_MISMATCH")
    for mine, theirs in zip(weak.rounds, definition.rounds, strict=True):
        assert mine.run is not theirs.run
        assert (mine.needs, mine.sends) == (theirs.needs, theirs.sends)


def test_a_copied_function_has_a_namespace_of_its_own():
    build = ResearchBuild(without=[Reason.SHARE_INCONSISTENT])
    copy = build.function(steps.check_share)
    assert copy is build.function(steps.check_share)
    assert copy is not steps.check_share
    assert copy.__code__ is steps.check_share.__code__
    assert copy.__globals__ is not steps.check_share.__globals__
    assert copy.__globals__["check"] is not check
    assert "research" in copy.__qualname__
    other = ResearchBuild(without=[Reason.SHARE_INCONSISTENT]).function(steps.check_share)
    assert other.__globals__ is not copy.__globals__, "builds have nothing in common either"
    assert PRODUCT.function(steps.check_share) is steps.check_share
    assert PRODUCT.definition(DKG) is DKG


def test_only_the_named_reasons_are_off():
    lenient = ResearchBuild(without=[Reason.ECHO_MISMATCH]).function(steps.check_share)
    check_copy = lenient.__globals__["check"]
    check_copy(False, Reason.ECHO_MISMATCH)
    with pytest.raises(Exception, match=Reason.SHARE_INCONSISTENT.text):
        check_copy(False, Reason.SHARE_INCONSISTENT)


def test_replacements_reach_every_module_that_uses_the_function():
    def stand_in(*_):
        raise AssertionError("not called")

    build = ResearchBuild(replacing={schnorr.verify: stand_in})
    assert build.function(schnorr.verify) is stand_in
    reached = build.function(steps.check_reveal).__globals__["schnorr"]
    assert reached.verify is stand_in
    with pytest.raises(AttributeError):
        _ = reached.no_such_name
    assert schnorr.verify is not stand_in


def test_a_replacement_that_would_do_nothing_is_refused():
    with pytest.raises(UsageError, match="does nothing"):
        ResearchBuild(replacing={keys: keys})


# ---------------------------------------------------------------------- what a copy is worth


def run_all(build):
    """A key generation and a signature on each curve, and a resharing, all by one build."""
    new = {}
    for curve in ("secp256k1", "ed25519"):
        agreed = dkg.setup(curve, 2, (1, 2, 3))
        outcomes = play(*(party(build, DKG, agreed, i) for i in (1, 2, 3)))
        new[curve] = {i: outcome.result for i, outcome in outcomes.items()}
    ed, secp = new["ed25519"], new["secp256k1"]
    signing = [
        (FROST, [frost.setup(ed[i], (1, 2), b"m") for i in (1, 2)]),
        (ECDSA, [ecdsa.setup(secp[i], (1, 2), bytes(32)) for i in (1, 2)]),
        (RESHARE, [reshare.setup(ed[1].record, (1, 2, 3), share=ed[i]) for i in (1, 2, 3)]),
    ]
    outcomes = [
        play(*(party(build, definition, setup, i) for i, setup in enumerate(setups, start=1)))
        for definition, setups in signing
    ]
    return new, outcomes


def test_without_any_check_off_the_copy_does_exactly_what_the_product_does():
    """Same seeds, same shares, same signatures: what an attack shows is due to the check alone."""
    (mine, ends), (theirs, others) = run_all(ResearchBuild()), run_all(PRODUCT)
    assert mine == theirs
    assert ends == others
    assert all(isinstance(end, Done) for outcomes in ends for end in outcomes.values())


def test_results_carry_nothing_of_the_copy():
    shares, _ = run_all(ResearchBuild(replacing={ot_base._hash_point: ot_base._hash_point}))
    for share in shares["secp256k1"].values():
        assert share.mta is mta_scheme("ot/80")
        assert type(share.mta) is OtMta


def test_a_forgetful_guard_forgets():
    guard = research.ForgetfulGuard()
    guard.discard(2)
    assert not guard.discarded

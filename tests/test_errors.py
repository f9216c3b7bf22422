"""How an abort reads; what a refusal says would do, does."""

import re
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import pytest

from mpcsim.crypto.bip32 import check_path, parse_path
from mpcsim.errors import (
    Aborted,
    Consequence,
    InRound,
    MissingExtra,
    OnReceipt,
    Reason,
    UsageError,
    needs_extra,
)
from mpcsim.lab.explorer.model.retime import with_link_numbers
from mpcsim.lab.what_if import Configuration
from mpcsim.protocols.frost.definition import _check_message
from mpcsim.protocols.presign.definition import _check_count
from mpcsim.service.fault_injection.commands import COMMANDS, Argument
from mpcsim.service.precis import enforce_password, enforce_username
from mpcsim.sim.network.latency import Gamma, LogNormal
from mpcsim.sim.network.topology import Link, Network, _sites
from mpcsim.sim.network.transport import Connection
from mpcsim.sim.run.engine import check_resend
from mpcsim.sim.statistics.quantile_sketch import QuantileSketch


@pytest.mark.parametrize(
    ("aborted", "text"),
    [
        (
            Aborted(Reason.OT_EXTENSION_CHECK, InRound(3, "respond"), frozenset({8, 2})),
            "aborted in round 3 (respond): OT-extension correlation check fails; party 2, 8; "
            "ban and discard OT",
        ),
        (
            Aborted(Reason.MALFORMED_MESSAGE, OnReceipt(2, "Deal"), detail="Deal: empty"),
            "aborted while receiving from party 2: message does not decode (Deal: empty); "
            "nobody can be named; retry",
        ),
        (
            Aborted(Reason.ECHO_MISMATCH, InRound(3, "deal"), suspects=frozenset({8, 1})),
            f"aborted in round 3 (deal): {Reason.ECHO_MISMATCH.text}; one of parties 1, 8; retry",
        ),
    ],
)
def test_text(aborted: Aborted, text: str) -> None:
    assert str(aborted) == text


def test_a_library_that_is_missing_is_named_with_its_extra() -> None:
    with pytest.raises(MissingExtra) as caught, needs_extra("lab", "a page"):
        import_module("nowhere.at_all")
    said = caught.value
    assert (str(said), said.name) == ("a page needs nowhere: install mpcsim[lab]", "nowhere")


def test_consequences_in_a_few_words() -> None:
    assert [each.label for each in Consequence] == ["retry", "ban", "ban and discard OT"]


def test_a_usage_error_is_one_line_in_a_notebook() -> None:
    """IPython asks the exception itself how it is shown."""
    with pytest.raises(UsageError) as caught:
        exec(compile("\n\nraise UsageError('seed: expected int')", "cell", "exec"), globals())
    caught.value.__traceback__ = caught.tb.tb_next  # without this test's own frame
    shown = ["UsageError: seed: expected int (line 3 of the cell)"]
    assert caught.value._render_traceback_() == shown


STAR = Network.star()
CONTROLLED = {each.wanted: each for c in COMMANDS.values() for each in c.arguments}


def controlled(argument: Argument, number: str) -> None:
    try:
        argument.read(number)
    except ValueError:
        raise UsageError(argument.wanted) from None


BOUNDED: list[tuple[Callable[[Any], object], list[Any]]] = [
    (_sites, [0, 257]),
    (lambda n: Connection(initial_window=n), [0, 10**9]),
    (lambda n: Connection(pool=n), [0, 10**9]),
    (lambda n: LogNormal(5.0, n), [-1.0, 99.0]),
    (lambda n: Gamma(5.0, n), [1e-9]),
    (lambda n: Link("a", "b", 1.0, mbit_per_s=n), [1e-9]),  # type: ignore[arg-type]
    (lambda n: check_resend("a run's", 1.0, n), [1e99]),
    (lambda n: QuantileSketch().add([n]), [-1.0, 1e99]),
    (lambda n: check_path((n,)), [-1, 2**32]),
    (lambda n: check_path((0,) * n), [11]),
    (lambda n: parse_path("m" + "/0" * n), [11]),
    (_check_count, [0, 10**9]),
    (lambda n: _check_message(bytes(n)), [10**7]),
    (lambda n: enforce_username("u" * n), [0, 999]),
    (lambda n: enforce_password("p" * n), [0, 9999]),
    (lambda n: Configuration(loss=n), [-1.0, 0.9]),
    (lambda n: Configuration(up_mbit_per_s=n), [0.0, 1e99]),
    (lambda n: with_link_numbers(STAR, STAR, "client", "gateway", one_way_ms=n), [-1.0, 1e99]),
    (lambda n: with_link_numbers(STAR, STAR, "client", "gateway", mbit_per_s=n), [0.0]),
    (lambda n: with_link_numbers(STAR, STAR, "client", "gateway", loss=n / 100), [-1.0, 99.0]),
    *(
        (partial(controlled, each), [str(-(10**99)), str(10**99)])
        for each in CONTROLLED.values()
        if "number from" in each.wanted
    ),
]
"""A function of one number, and numbers that it refuses, saying from where to where they may be."""


@pytest.mark.parametrize(("take", "refused"), BOUNDED)
def test_the_bounds_that_a_refusal_names_are_taken(
    take: Callable[[Any], object], refused: list[Any]
) -> None:
    for wrong in refused:
        with pytest.raises(UsageError) as caught:
            take(wrong)
        said = str(caught.value).replace(str(wrong), "").replace(",", "")
        found = re.findall(r"(?:from|to|least|most|below|not|makes) (-?\d[\d.]*(?:e[+]\d+)?)", said)
        assert len(found) == len(refused), said
        for text in found:
            take(type(wrong)(text))

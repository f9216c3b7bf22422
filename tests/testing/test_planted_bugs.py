"""Planted bugs: which check finds each, at which example, and how short that is told."""

import re
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import pytest

from mpcsim.errors import UsageError
from mpcsim.testing import BrokenInvariant
from mpcsim.testing.protocols import (
    TwoFaced,
    check_protocol,
    ecdsa_signing,
    frost_signing,
    key_generation,
    presigned_signing,
    presigning,
    protocol_examples,
    resharing,
    run_protocol,
    rushing,
)
from mpcsim.testing.runs import session_checks
from tests.testing import planted
from tests.testing.planted import toss

FOUND = dict(
    line.split(": ")
    for line in Path(__file__).with_name("planted_bugs.txt").read_text("utf-8").splitlines()
)
"""By bug: the check that finds it, the number of the example (of some 115), and the lines in which
it is told. Examples 34 and 35 are the two-faced party."""


def test_bugs_are_all_in_the_table() -> None:
    assert {*planted.TOSSES, *planted.WRAPPED} == FOUND.keys()


@pytest.mark.parametrize("bug", FOUND)
def test_planted(bug: str) -> None:
    number = int(FOUND[bug].split()[2].removesuffix(","))
    (example,) = islice(protocol_examples(planted.planted(bug), (2,)), number - 1, number)
    with pytest.raises(BrokenInvariant) as caught:
        example()
    broken = caught.value
    lines = len(str(broken).splitlines())
    assert f"{broken.name}, example {number}, {lines} lines" == FOUND[bug], broken
    if broken.failure is not None:
        with pytest.raises(type(broken)) as again:
            exec(broken.failure.snippet, {})
        assert str(again.value) == str(broken)


DECLARED = {
    "repeated": ({"Commit.nonce": "why"}, "repeated: unknown field 'Commit.nonce'"),
    "no reason": ({"Commit.commitment": " "}, "it says Commit.commitment, and not why"),
    "heard": ({"Comit": ("Commit",)}, "heard: unknown message 'Comit'; did you mean Commit"),
    "unnamed": ({"OPENED": "why"}, "unnamed: no party aborts for 'OPENED'"),
}


@pytest.mark.parametrize("what", DECLARED)
def test_a_declaration_of_nothing_is_refused(what: str) -> None:
    declared, told = DECLARED[what]
    field = what if what in ("heard", "unnamed") else "repeated"
    with pytest.raises(UsageError, match=re.escape(told)):
        check_protocol(replace(toss("toss()"), **{field: declared}), cheaters=())


def test_more_is_heard_than_is_declared_and_less() -> None:
    told = "whoever withholds its Commit never hears Deal; .*Commit never hears Reveal"
    with pytest.raises(rushing.Broken, match=told):
        rushing(replace(toss("toss()"), heard={"Commit": ("Commit", "Reveal", "Deal")}))
    told = "its Commit, has heard Commit from party 2.*its Commit, has heard Reveal from party 2"
    with pytest.raises(rushing.Broken, match=told):
        rushing(replace(planted.planted("opened early, without echo"), heard={}))


def test_an_honest_session_that_is_wrong_is_told_first() -> None:
    wrong = replace(toss("toss()"), problem=lambda outcomes: "it is wrong")
    told = r"ran coin toss\n  2. it is wrong\n(.*\n)+    check_protocol\(\n"
    with pytest.raises(BrokenInvariant, match=told):
        check_protocol(wrong, cheaters=())


def test_one_party_that_notices_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    run = SimpleNamespace(outcomes={1: "the same", 2: "another"})
    monkeypatch.setattr(session_checks, "run_protocol", lambda *_, **__: run)
    for second, noticed in (("another", False), ("the other", True)):
        honest = {1: "the same", 2: second}
        assert session_checks._has_effect(None, None, honest) is noticed  # type: ignore[arg-type]


OWN = {
    "frost": frost_signing(2, 3, (1, 2, 3)),
    "dkg": key_generation("ed25519", 2, 3),
    "reshare": resharing("ed25519", 2, 3, (1, 2), (2, 3, 4)),
    "ecdsa": ecdsa_signing(2, 3, (1, 2)),
    "presign": presigning(2, 3, (1, 2), 1),
    "presigned": presigned_signing(3, 3, (1, 2, 3), 1),
}
LONG = {
    "ecdsa of three": ecdsa_signing(3, 3, (1, 2, 3)),
    "dkg on secp256k1": key_generation("secp256k1", 2, 2),
    "reshare on secp256k1": resharing("secp256k1", 2, 3, (1, 2), (1, 2)),
}


@pytest.mark.parametrize("name", [*OWN, *(pytest.param(n, marks=pytest.mark.soak) for n in LONG)])
def test_sessions_of_our_own(name: str) -> None:
    """The same again, two compared, a message withheld, and what the results show."""
    for example in islice(protocol_examples({**OWN, **LONG}[name], ()), 4):
        example()


@pytest.mark.soak
@pytest.mark.parametrize("name", OWN)
def test_our_own_protocols(name: str) -> None:
    assert check_protocol(OWN[name], cheaters=(2,)) > 40


def test_a_two_faced_party_is_heard_by_others() -> None:
    for heard in ((), (1, 3), (1, 2), (4,)):
        told = f"one copy is heard by {sorted(heard)}: some of [1, 3], not all"
        with pytest.raises(UsageError, match=re.escape(told)):
            run_protocol(OWN["frost"], deviation=TwoFaced(2, frozenset(heard)))

"""What a protocol's author can get wrong is refused with the place of the mistake."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import pytest

from mpcsim.crypto.encoding import NO_CONTEXT, POINT, U16, Message, Optional, Seq, wire
from mpcsim.crypto.hashing import HashTag, tagged_hash
from mpcsim.errors import Aborted, AbortReason, Blame, Consequence, ContractError, UsageError, check
from mpcsim.protocols import run
from mpcsim.protocols.engine import Definition, Delivery, Inbox, Party, Round, RoundOutput, Sends
from tests.helpers import toy
from tests.helpers.reviewed import check_calls
from tests.helpers.toy import ASKED, TOY, Answer, Question, ToySetup, ask, end


@wire
class WithPoint(Message):
    parties: Annotated[tuple[int, ...], Seq(U16)]
    key: Annotated[Any, Optional(POINT)]


AS_POINT = Sends(WithPoint, Delivery.BROADCAST, sealed=False)
TO_ALL = Sends(Question, Delivery.BROADCAST, sealed=False)
SETUP = ToySetup((1, 2, 3), 200, 200)
HERE = r"\(test_contract.py:\d+\)"


def made(first: Round, *others: Round, **changes: Any) -> Definition[Any, Any]:
    return replace(TOY, rounds=(first, *others), **changes)


def sender(*sends: Sends, number: int = 1) -> Round:
    return Round(number, "ask", ask, sends=sends)


class CoinReason(AbortReason):
    COIN_FIXED = ("the coin was fixed", Consequence.BAN, Blame.PUBLIC)


class EnginesReason(AbortReason):
    PEER_ABORTED = ("another one", Consequence.RETRY, Blame.NOBODY)


def test_a_definition_that_contradicts_itself_is_refused() -> None:
    names = {"made": made, "sender": sender, "replace": replace, "Round": Round}
    names |= {"WithPoint": WithPoint, "EnginesReason": EnginesReason}
    copy = Path(__file__).with_name("wrong_definitions.txt")
    check_calls(copy, toy, refusal=ContractError, **names)


def at_creation(**changes: Any) -> Party[Any, Any]:
    return Party(replace(TOY, **changes), SETUP, 1, session_id=bytes(32))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"rounds": (sender(replace(ASKED, senders="askr")),)}, "unknown role 'askr'; did you me"),
        ({"roles": lambda setup: {}}, "have no 'all'"),
        ({"roles": lambda setup: {"all": (1, 2), "asker": (1,), "others": (3, 4)}}, "party 3, who"),
        ({"check": lambda setup, me: False}, "the check of 'toy' returned False; it raises"),
        (
            {"rounds": (sender(AS_POINT),), "wire": lambda setup: NO_CONTEXT},
            f"{HERE}: field 'key' of WithPoint is read with the group of the session, and wire giv",
        ),
        ({"pair_secrets": lambda setup: {2: b"short"}}, f"{HERE}: the secret with party 2 has 5"),
    ],
    ids=["role", "all", "stranger", "check", "context", "secret"],
)
def test_what_does_not_fit_the_set_up_is_refused_before_the_start(
    changes: dict[str, Any], told: str
) -> None:
    with pytest.raises(ContractError, match=told):
        at_creation(**changes)


def test_a_field_has_one_codec() -> None:
    class Bare(Message):
        n: int

    with pytest.raises(ContractError, match=r"field 'n' of Bare has no codec, .*Annotated\[int, U"):
        wire(Bare)


QUESTION, ANSWER = Question(b"?"), Answer(b"!")
DIRECT = Sends(Question, Delivery.DIRECT, sealed=False)


@pytest.mark.parametrize(
    ("sends", "output", "told"),
    [
        ((), RoundOutput(broadcast=QUESTION), "broadcast a Question, and declares none"),
        ((TO_ALL,), RoundOutput(), "did not broadcast the Question declared"),
        ((TO_ALL,), RoundOutput(broadcast=ANSWER), "did not broadcast the Question"),
        ((TO_ALL,), RoundOutput(broadcast=QUESTION, direct={2: QUESTION}), "own to 2, and"),
        ((DIRECT,), RoundOutput(direct={2: QUESTION}), "sent party 3 no Question"),
        ((replace(TO_ALL, sealed=True),), RoundOutput(broadcast=QUESTION), "sealed=False, or"),
        ((), None, "it returned NoneType, not RoundOutput"),
        ((DIRECT,), RoundOutput(direct={1: QUESTION, 2: QUESTION, 3: QUESTION}), "sent itself a m"),
        ((), RoundOutput(pair_secrets={3: bytes(31)}), "the secret with party 3 has 31 bytes, exp"),
        ((), RoundOutput(), "is the last round and says no result: result=None, if"),
        ((), CoinReason.COIN_FIXED, "aborts for COIN_FIXED, and the definition has no reasons=C"),
    ],
    ids=[
        *("undeclared", "nothing", "another", "direct", "forgotten", "sealed", "no output"),
        *("to itself", "secret", "no result", "reasons"),
    ],
)
def test_a_round_that_breaks_the_definition_ends_with_its_place(
    sends: tuple[Sends, ...], output: Any, told: str
) -> None:
    def one_round(view: Any, keep: Any, inbox: Any) -> Any:
        check(not isinstance(output, AbortReason), output, 1)
        return output

    party = at_creation(rounds=(Round(1, "one", one_round, sends=sends),))
    with pytest.raises(ContractError, match=rf"one_round {HERE}, round 1 \(one\): .*{told}"):
        party.start()
    with pytest.raises(UsageError, match="already started"):
        party.start()


class CoinTag(HashTag):
    COMMITMENT = "coin-toss/commitment/v1"


def test_a_protocol_has_reasons_and_tags_of_its_own() -> None:
    """Its reason ends a run and is told to the others by name; theirs is known, too."""

    def refuse(view: Any, keep: Any, inbox: Any) -> RoundOutput:
        for j, question in inbox.received(Question).items():
            expected = tagged_hash(CoinTag.COMMITMENT, b"")
            check(question.content == expected, CoinReason.COIN_FIXED, j)
        return RoundOutput()

    rounds = (sender(ASKED), Round(2, "refuse", refuse, needs=(Question,), sends=()))
    toy = replace(TOY, rounds=(*rounds, Round(3, "end", end)), reasons=CoinReason)
    parties = [Party(toy, SETUP, i, session_id=bytes(32)) for i in (1, 2, 3)]
    outcome = run(parties)[2]
    assert isinstance(outcome, Aborted)
    assert outcome.reason is CoinReason.COIN_FIXED
    assert outcome.culprits == {1}
    assert toy.knows_reason("COIN_FIXED")
    assert not TOY.knows_reason("COIN_FIXED")


def test_a_tag_of_the_package_is_not_taken_by_others() -> None:
    with pytest.raises(ValueError, match="are mpcsim's own"):
        HashTag("Taken", {"ECHO": "mpcsim/session/echo/v1"})  # type: ignore[call-overload]


def test_an_inbox_lists_messages_in_order_of_sender() -> None:
    inbox = Inbox(
        payloads={Message: {3: b"c", 1: b"a"}},
        values={Message: {3: "c", 1: "a"}},  # type: ignore[dict-item]
        own={Message: (2, SimpleNamespace(encode=lambda wire: b"b"))},  # type: ignore[dict-item]
    )
    assert list(inbox.received(Message).items()) == [(1, "a"), (3, "c")]
    assert list(inbox.everyone(Message)) == [1, 2, 3]
    assert list(inbox.encoded(Message, None).items()) == [  # type: ignore[arg-type]
        (1, b"a"),
        (2, b"b"),
        (3, b"c"),
    ]

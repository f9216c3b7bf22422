"""A protocol without cryptography, to time the simulator itself.

Party 1 asks everyone with a blob of chosen size, and everyone answers with another.
"""

from typing import Annotated, Any

from mpcsim.crypto.encoding import U16, U32, Bytes, Message, Seq, WireContext, wire
from mpcsim.crypto.groups.ed25519 import ED25519
from mpcsim.crypto.rng import SeededRng
from mpcsim.ids import PartyId
from mpcsim.protocols.engine import Definition, Delivery, Party, Round, RoundOutput, Sends
from mpcsim.protocols.engine.envelope import HEADER_BYTES

BLOB = Bytes(1 << 17)


@wire
class ToySetup(Message):
    """Sizes are of whole envelopes, in bytes."""

    parties: Annotated[tuple[int, ...], Seq(U16)]
    question: Annotated[int, U32]
    answer: Annotated[int, U32]


@wire
class Question(Message):
    content: Annotated[bytes, BLOB]


@wire
class Answer(Message):
    content: Annotated[bytes, BLOB]


def blob(size: int) -> bytes:
    """Content that makes an envelope of ``size`` bytes (header and length prefix included)."""
    return bytes(size - HEADER_BYTES - 4)


def ask(view: Any, keep: Any, inbox: Any) -> RoundOutput:
    return RoundOutput(broadcast=Question(blob(view.setup.question)) if view.me == 1 else None)


def answer(view: Any, keep: Any, inbox: Any) -> RoundOutput:
    return RoundOutput(broadcast=Answer(blob(view.setup.answer)) if view.me != 1 else None)


def end(view: Any, keep: Any, inbox: Any) -> RoundOutput:
    return RoundOutput(result="done")


ASKED = Sends(Question, Delivery.BROADCAST, "asker", "others", sealed=False)
ANSWERED = Sends(Answer, Delivery.BROADCAST, "others", "asker", sealed=False)
TOY: Definition = Definition(
    name="toy",
    number=99,
    rounds=(
        Round(1, "ask", ask, sends=(ASKED,)),
        Round(2, "answer", answer, needs=(Question,), sends=(ANSWERED,)),
        Round(3, "end", end, needs=(Answer,)),
    ),
    setup=ToySetup,
    roles=lambda setup: {
        "all": setup.parties,
        "asker": (PartyId(1),),
        "others": tuple(j for j in setup.parties if j != 1),
    },
    wire=lambda setup: WireContext(ED25519),
    pair_secrets=lambda setup: {},
    check=lambda setup, me: None,
)


def toy_parties(question: int, reply: int = 100, n: int = 2) -> list[Party]:
    """Parties 1..n whose envelopes have the given sizes in bytes."""
    agreed = ToySetup(tuple(range(1, n + 1)), question, reply)
    return [
        Party(TOY, agreed, i, session_id=bytes(32), rng=SeededRng(f"toy {i}"))
        for i in agreed.parties
    ]

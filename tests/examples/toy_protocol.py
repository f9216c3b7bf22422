"""A protocol from outside the package: parties toss a coin that none of them can choose.

Everyone commits to 32 random bytes, everyone opens, and the XOR of all is the result: random if one
party is honest, and the same for everyone. Whoever opens to anything else is named; whoever tells
two parties different things stops the run, by the echo of the commitments. Whoever opens last sees
the result first and may still refuse to go on: that much every protocol of this kind leaves open.

A template for a protocol of your own. ``Party(TOSS, Toss((1, 2, 3)), 1, session_id=...)`` is party
1 of three. Messages are classes whose annotations say how they are encoded; a round is a function
of what the party may see (``view``), what it kept (``keep``) and what it received (``inbox``); a
``Definition`` ties them together. Everything else comes with it: acceptance of messages, aborts,
snapshots, simulation, traces, attacks.

These messages are not sealed: the parties share no secrets, and blame rests on the transport's word
for who sent what. A protocol among holders of a key share names their secrets in ``pair_secrets``,
as ``mpcsim.protocols.frost`` does, and leaves ``sealed`` as it is.
"""

from dataclasses import dataclass, field
from functools import reduce
from operator import xor
from typing import Annotated

from mpcsim.crypto import BYTES32, NO_CONTEXT, U16, Message, Seq, commit, opens, wire
from mpcsim.errors import Reason, UsageError, check
from mpcsim.ids import PartyId, party_ids
from mpcsim.protocols.engine import (
    ECHO,
    Definition,
    Delivery,
    Inbox,
    Round,
    RoundOutput,
    Sends,
    View,
    check_echo,
    echo,
)


@wire
class Toss(Message):
    """What the parties agree on beforehand."""

    parties: Annotated[tuple[PartyId, ...], Seq(U16)]


@wire
class Commit(Message):
    """Round 1, broadcast."""

    commitment: Annotated[bytes, BYTES32]


@wire
class Reveal(Message):
    """Round 2, broadcast."""

    echo: Annotated[dict[PartyId, bytes], ECHO]
    coin: Annotated[bytes, BYTES32]
    blinding: Annotated[bytes, BYTES32]


@dataclass(frozen=True)
class Drawn:
    """Kept from round 1."""

    coin: bytes = field(repr=False)
    blinding: bytes = field(repr=False)


def round_1_commit(view: View[Toss], keep: None, inbox: Inbox) -> RoundOutput:
    """Draw a coin and commit to it."""
    drawn = Drawn(view.rng.bytes(32), view.rng.bytes(32))
    commitment = commit(view.session_id, view.me, drawn.blinding, drawn.coin)
    return RoundOutput(keep=drawn, broadcast=Commit(commitment))


def round_2_reveal(view: View[Toss], keep: Drawn, inbox: Inbox) -> RoundOutput:
    """Open the commitment, now that everyone is committed, and say what one has seen."""
    return RoundOutput(broadcast=Reveal(echo(view, inbox, Commit), keep.coin, keep.blinding))


def round_3_result(view: View[Toss], keep: None, inbox: Inbox) -> RoundOutput:
    """Check what was opened, and add it up."""
    commits, reveals = inbox.everyone(Commit), inbox.everyone(Reveal)
    seen = echo(view, inbox, Commit)
    for j in view.others():
        V, opened = commits[j].commitment, reveals[j]
        check_echo(seen, opened.echo, j, view.me)
        fits = opens(V, view.session_id, j, opened.blinding, opened.coin)
        check(fits, Reason.COMMITMENT_OPENING, j)
    coins = [reveal.coin for reveal in reveals.values()]
    return RoundOutput(result=bytes(reduce(xor, column) for column in zip(*coins, strict=True)))


def check_setup(agreed: Toss, me: PartyId) -> None:
    """Everything that can be wrong before a session begins; ``Party`` sees to the rest."""
    if len(party_ids(agreed.parties)) < 2:
        raise UsageError("it takes two to toss a coin")


def openly(kind: type[Message]) -> Sends:
    return Sends(kind, Delivery.BROADCAST, sealed=False)


TOSS: Definition[Toss, bytes] = Definition(
    name="coin toss",
    number=200,  # mpcsim's own count from 1
    rounds=(
        Round(1, "commit", round_1_commit, sends=(openly(Commit),)),
        Round(2, "reveal", round_2_reveal, needs=(Commit,), sends=(openly(Reveal),)),
        Round(3, "result", round_3_result, needs=(Reveal,)),
    ),
    setup=Toss,
    roles=lambda agreed: {"all": agreed.parties},
    wire=lambda agreed: NO_CONTEXT,  # no message holds a point or a scalar
    pair_secrets=lambda agreed: {},
    check=check_setup,
)

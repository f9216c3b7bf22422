"""Rounds of signing with a presignature: open, answer, finish.

One signer finishes and sends nothing; the others answer it. With two signers nothing is opened
beforehand: the answer is the only message, and its sender is done at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from mpcsim.crypto.bip32 import PATH, Path
from mpcsim.crypto.encoding import BYTES32, U16, Message, wire
from mpcsim.crypto.groups.group import Point, Scalar
from mpcsim.crypto.groups.secp256k1 import Secp256k1Point
from mpcsim.errors import Reason, check
from mpcsim.ids import PartyId
from mpcsim.protocols.ecdsa.steps import EcdsaSignature, assemble, message_scalar
from mpcsim.protocols.engine.contract import Delivery, Inbox, Round, RoundOutput, Sends, View
from mpcsim.protocols.key_share import SHARE, KeyShare, SelfContained
from mpcsim.protocols.presign import Presignature
from mpcsim.protocols.presign.steps import check_later
from mpcsim.protocols.presigned import steps
from mpcsim.protocols.presigned.messages import Answer, Open

ANSWERING, FINISHING = "answering", "finishing"


@wire
class PresignedSetup(Message):
    """Set-up of one signer."""

    share: Annotated[KeyShare, SHARE]
    presignature: Annotated[Presignature, SelfContained(Presignature)]
    finisher: Annotated[PartyId, U16]
    message_hash: Annotated[bytes, BYTES32]
    rho: Annotated[bytes, BYTES32]
    """Random bytes of the signer that finishes."""
    path: Annotated[Path, PATH] = ()
    """Path of the child key to sign with; empty: the key itself."""

    @property
    def public_key(self) -> Point:
        """Public key that the signature is to be valid under: pk + tau * G."""
        return self.share.record.derive(self.path)[0]

    @property
    def tau(self) -> Scalar:
        """tau: difference between that key and pk."""
        return self.share.record.derive(self.path)[1]

    def request(self) -> bytes:
        """Digest of everything the signers must agree on beforehand."""
        return steps.request(
            self.presignature,
            self.finisher,
            self.path,
            self.public_key,
            self.message_hash,
            self.rho,
        )

    def roles(self) -> dict[str, tuple[PartyId, ...]]:
        everyone = self.presignature.signers
        return {
            "all": everyone,
            ANSWERING: tuple(j for j in everyone if j != self.finisher),
            FINISHING: (self.finisher,),
        }


@dataclass(frozen=True)
class Finished:
    """State kept from round 2 by signers that answer, from round 3 by the one that finishes."""

    R: Secp256k1Point
    """R'."""
    r_x: Scalar
    """r'_x."""
    signature: EcdsaSignature | None = None


def round_1_open(view: View[PresignedSetup], keep: None, inbox: Inbox) -> RoundOutput:
    """Use the presignature up; open rho_i to the other signers that answer."""
    setup = view.setup
    presignature = setup.presignature
    if view.recall is None:  # a stored session goes on with what it has taken
        presignature.check_unused()
    presignature.use.spend()
    if view.me == setup.finisher:
        return RoundOutput()
    # SEND
    return RoundOutput(broadcast=Open(setup.request(), presignature.rho_i, presignature.blinding))


def round_2_answer(view: View[PresignedSetup], keep: None, inbox: Inbox) -> RoundOutput:
    """Compute w_i and u'_i for this request only, as a signer that answers."""
    setup = view.setup
    if view.me == setup.finisher:
        return RoundOutput()
    presignature = setup.presignature
    opened = inbox.everyone(Open)
    # CHECK
    _check_opened(setup, inbox.received(Open))
    # COMPUTE
    with view.step("delta, R', w_i, u'_i"):
        moved = _rerandomise(setup, {j: message.rho_i for j, message in opened.items()})
        w_i, u_i = moved.share
    # KEEP, SEND
    answer = Answer(setup.request(), w_i, u_i, presignature.rho_i, presignature.blinding)
    return RoundOutput(keep=Finished(moved.R, moved.r_x), broadcast=answer)


def round_3_finish(view: View[PresignedSetup], keep: Finished | None, inbox: Inbox) -> RoundOutput:
    """Assemble the signature and verify it before anyone sees it, as the signer that finishes."""
    setup = view.setup
    if view.me != setup.finisher:
        return RoundOutput(keep=keep, result=None)
    answers = inbox.received(Answer)
    # CHECK
    _check_opened(setup, answers)
    # COMPUTE
    with view.step("delta, R', w_i, u'_i"):
        moved = _rerandomise(setup, {j: message.rho_i for j, message in answers.items()})
    # CHECK, COMPUTE
    with view.step("assemble and verify"):
        signature = assemble(
            setup.message_hash,
            setup.public_key,
            moved.R,
            moved.r_x,
            [moved.share, *((m.w_i, m.u_i) for m in answers.values())],
            view.others(),
        )
    return RoundOutput(keep=Finished(moved.R, moved.r_x, signature), result=signature)


@dataclass(frozen=True)
class _Rerandomised:
    """The nonce after re-randomisation, and this signer's share of the signature."""

    R: Secp256k1Point
    r_x: Scalar
    share: tuple[Scalar, Scalar]
    """w_i, u'_i."""


def _rerandomise(setup: PresignedSetup, opened: Mapping[PartyId, bytes]) -> _Rerandomised:
    """Compute the nonce and this signer's share of s from the request and all rho_j.

    Raises:
        CheckFailed: DEGENERATE_NONCE.
    """
    presignature = setup.presignature
    delta = steps.shift(setup.request(), opened)
    R, r_x = steps.rerandomise(presignature.R, delta)
    m = message_scalar(setup.message_hash)
    return _Rerandomised(R, r_x, steps.signature_share(presignature, m, r_x, delta, setup.tau))


def _check_opened(setup: PresignedSetup, messages: Mapping[PartyId, Open | Answer]) -> None:
    """Check that messages are about our request, and open the commitments made in presigning.

    Raises:
        CheckFailed: SESSION_MISMATCH, which blames nobody; COMMITMENT_OPENING, naming the sender.
    """
    presignature = setup.presignature
    for j, message in messages.items():
        check(
            message.context == setup.request(),
            Reason.SESSION_MISMATCH,
            about={j},
            detail=f"party {j} signs something else, or with another presignature",
        )
    for j, message in messages.items():
        commitment = presignature.commitments[j]
        check_later(presignature.name, j, commitment, message.blinding, message.rho_i)


ROUNDS = (
    Round(
        1,
        "open",
        round_1_open,
        sends=(Sends(Open, Delivery.BROADCAST, senders=ANSWERING, receivers=ANSWERING),),
    ),
    Round(
        2,
        "answer",
        round_2_answer,
        needs=(Open,),
        sends=(Sends(Answer, Delivery.BROADCAST, senders=ANSWERING, receivers=FINISHING),),
    ),
    Round(3, "finish", round_3_finish, needs=(Answer,)),
)

"""Checks that a receiver makes of each message, and their outcomes in a run.

A failed check ends a run, and the party's ``Aborted`` names it (place, reason, culprits); so the
outcome of every check follows from how far its party came and why it stopped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mpcsim.errors import Aborted, InRound, OnReceipt, Reason
from mpcsim.ids import PartyId
from mpcsim.protocols.engine import Done
from mpcsim.protocols.engine.envelope import AbortNotice
from mpcsim.protocols.engine.events import Ignored

PASSED, FAILED, OPEN, IGNORED = "passed", "failed", "open", "ignored"

ON_RECEIPT: Final = 0
"""Number, in place of a round's, for checks on receipt of the message."""


@dataclass(frozen=True)
class Check:
    """Check that receivers of a message make."""

    text: str
    reason: Reason | None
    """Reason of the abort if it fails; None: the message is ignored."""
    round: int = ON_RECEIPT
    """Round in which the receiver makes it."""


@dataclass(frozen=True)
class Checked:
    """Check with its outcome in a run."""

    text: str
    reason: str
    """Name of the reason; empty: the message is ignored."""
    round: int
    outcome: str
    """Outcome: ``passed``, ``failed``, ``ignored`` or ``open`` (the receiver did not reach it)."""
    detail: str = ""


_R = Reason

ENVELOPE: Final = (
    Check("the envelope names this session, these two parties and a kind that may come", None),
)
SEALED: Final = (Check("opens under the secret the two parties share (AES-256-GCM)", None),)
EVERY: Final = (
    Check("no other message came for the same slot", _R.CONFLICTING_MESSAGE),
    Check(
        "decodes: canonical scalars, points of the group but the identity, no byte too many",
        _R.MALFORMED_MESSAGE,
    ),
)

_DEALING: Final = {
    "Commit": (
        Check("sender means the same session: key, parties, threshold", _R.SESSION_MISMATCH, 2),
        Check("everyone received the same commitment (echo)", _R.ECHO_MISMATCH, 3),
        Check("what Reveal shows opens the commitment", _R.COMMITMENT_OPENING, 3),
    ),
    "Reveal": (
        Check("echo: sender saw the commitments that we saw", _R.ECHO_MISMATCH, 3),
        Check("opens the commitment of round 1", _R.COMMITMENT_OPENING, 3),
        Check("a part in the chain code, if one is made", _R.MALFORMED_MESSAGE, 3),
        Check("the polynomial has t coefficients (a dealer's), or none", _R.THRESHOLD_MISMATCH, 3),
        Check("proof of knowledge of the constant term", _R.PROOF_OF_KNOWLEDGE, 3),
        Check("channel key is not of low order", _R.CHANNEL_KEY_INVALID, 3),
        Check("public key and public shares are not the identity", _R.DEGENERATE_KEY, 4),
    ),
    "MultiplicationOffer": (
        Check("as many base OTs as there must be", _R.MALFORMED_MESSAGE, 3),
        Check("no base OT leads to the identity", _R.BASE_OT_DEGENERATE, 3),
        Check("sender finds its offer arrived unaltered", _R.ECHO_MISMATCH, 4),
    ),
    "Deal": (
        Check("sender saw the multiplication offer that we sent", _R.ECHO_MISMATCH, 4),
        Check("share and reply are there if they must be", _R.MALFORMED_MESSAGE, 4),
        Check("share lies on the committed polynomial", _R.SHARE_INCONSISTENT, 4),
        Check("all-but-one OT: the leaves are those committed to", _R.ALL_BUT_ONE_OT_CHECK, 4),
    ),
}

_RESHARING: Final = {
    **_DEALING,
    "Reveal": (
        *_DEALING["Reveal"][:5],
        Check(
            "constant term is the dealer's Lagrange-weighted old share", _R.WRONG_CONSTANT_TERM, 3
        ),
        *_DEALING["Reveal"][5:],
        Check("the public key stays the same", _R.PUBLIC_KEY_MISMATCH, 4),
    ),
    "Confirm": (Check("sender confirms the key record that we have", _R.CONFIRMATION_MISMATCH, 5),),
}

_OFFER: Final = (
    Check("multiplication state with the sender is still in use", _R.SETUP_DISCARDED, 3),
    Check("OT extension: the correlation check holds", _R.OT_EXTENSION_CHECK, 3),
)
_RESPOND: Final = (
    Check("R_j opens the commitment of round 1", _R.COMMITMENT_OPENING, 4),
    Check("multiplication state with the sender is still in use", _R.SETUP_DISCARDED, 4),
    Check("multiplication: the corrections are consistent (mu)", _R.MULTIPLICATION_CHECK, 4),
    Check("Gamma_u: the nonce multiplied is the committed one", _R.GAMMA_U_MISMATCH, 4),
    Check("Gamma_v: the key share multiplied is the published one", _R.GAMMA_V_MISMATCH, 4),
    Check("the pk_j add up to the public key", _R.PUBLIC_KEY_MISMATCH, 4),
    Check("the nonce R is not the identity, r is not 0", _R.DEGENERATE_NONCE, 4),
)


def _opening_checks(round_: int) -> tuple[Check, ...]:
    """Return the checks of an opening that re-randomises the nonce, made in a round."""
    return (
        Check("sender signs the same hash with the same presignature", _R.SESSION_MISMATCH, round_),
        Check("rho_j opens its commitment from presigning", _R.COMMITMENT_OPENING, round_),
        Check("the nonce R' is not the identity, r' is not 0", _R.DEGENERATE_NONCE, round_),
    )


CHECKS: Final[Mapping[str, Mapping[str, tuple[Check, ...]]]] = {
    "dkg": _DEALING,
    "reshare": _RESHARING,
    "ecdsa": {
        "Commit": (
            Check(
                "sender signs the same hash with the same key, path and signers",
                _R.SESSION_MISMATCH,
                2,
            ),
            Check("everyone received the same commitment (echo)", _R.ECHO_MISMATCH, 3),
            Check("R_j in Respond opens the commitment", _R.COMMITMENT_OPENING, 4),
        ),
        "Offer": (
            Check("echo: sender saw the commitments that we saw", _R.ECHO_MISMATCH, 3),
            Check("sender has come to the same key to sign with", _R.SESSION_MISMATCH, 3),
            *_OFFER,
        ),
        "Respond": _RESPOND,
        "SignatureShare": (
            Check("the denominator is not 0", _R.ZERO_DENOMINATOR, 5),
            Check("libsecp256k1 accepts the assembled signature", _R.SIGNATURE_INVALID, 5),
        ),
    },
    "presign": {
        "Commit": (
            Check("sender makes as many with the same key and signers", _R.SESSION_MISMATCH, 2),
            Check("one commitment of each kind for each", _R.MALFORMED_MESSAGE, 2),
            Check("everyone received the same commitments (echo)", _R.ECHO_MISMATCH, 3),
            Check("each R_j in Respond opens its commitment", _R.COMMITMENT_OPENING, 4),
        ),
        "Offer": (
            Check("echo: sender saw the commitments that we saw", _R.ECHO_MISMATCH, 3),
            Check("sender makes them for the key that we have", _R.SESSION_MISMATCH, 3),
            Check("one offer for each", _R.MALFORMED_MESSAGE, 3),
            *_OFFER,
        ),
        "Respond": (Check("one answer for each", _R.MALFORMED_MESSAGE, 4), *_RESPOND),
    },
    "presigned": {
        "Open": _opening_checks(2),
        "Answer": (
            *_opening_checks(3),
            Check("the denominator is not 0", _R.ZERO_DENOMINATOR, 3),
            Check("libsecp256k1 accepts the assembled signature", _R.SIGNATURE_INVALID, 3),
        ),
    },
    "frost": {
        "Commitments": (
            Check("sender signs the same message with the same signers", _R.SESSION_MISMATCH, 2),
            Check("the group commitment is not the identity", _R.DEGENERATE_NONCE, 2),
        ),
        "SignatureShare": (
            Check("sender saw the commitments, and the key, that we saw", _R.ECHO_MISMATCH, 3),
            Check(
                "if the signature fails: the share fits its commitments",
                _R.SIGNATURE_SHARE_INVALID,
                3,
            ),
            Check("libsodium accepts the aggregated signature", _R.SIGNATURE_INVALID, 3),
        ),
    },
}
"""Checks by protocol and kind of message, in the order in which receivers make them. Kind, round
and reason identify the check of the protocol that a line describes."""


@dataclass(frozen=True)
class Progress:
    """Progress of one party in a run."""

    state: object
    """State: ``Done``, ``Aborted``, ``Waiting`` or None."""
    last_round_begun: int
    """Last round that it began."""

    @property
    def aborted_in(self) -> int | None:
        """Round in which it found a reason of its own to abort; ``ON_RECEIPT``: in none; None: it
        found none."""
        match self.state:
            case Aborted(reported_by=None, where=InRound(round=round_)):
                return round_
            case Aborted(reported_by=None):
                return ON_RECEIPT
        return None

    def has_passed(self, round_: int) -> bool:
        """Return whether the party completed a round."""
        if isinstance(self.state, Done):
            return True
        if self.aborted_in:
            return round_ < self.aborted_in
        return round_ <= self.last_round_begun


def checks_of(
    protocol: str,
    kind: str,
    sender: PartyId,
    progress: Progress,
    *,
    sealed: bool,
    received: bool,
    ignored: Ignored | None = None,
) -> tuple[Checked, ...]:
    """Return the checks of one message, with their outcomes.

    Args:
        progress: of the receiver.
        received: whether it arrived before the receiver had ended.
        ignored: why the receiver ignored it.
    """
    own = () if kind == AbortNotice.__name__ else CHECKS.get(protocol, {}).get(kind, ())
    every = [*ENVELOPE, *(SEALED if sealed else ()), *EVERY, *own]
    if not received:
        return tuple(_checked(c, OPEN) for c in every)
    if ignored:
        shut = sealed and ignored is Ignored.DOES_NOT_OPEN
        rest = len(every) - 1 - shut
        outcomes = [PASSED] * shut + [IGNORED] + [OPEN] * rest
        return tuple(
            _checked(c, o, ignored.value if o == IGNORED else "")
            for c, o in zip(every, outcomes, strict=True)
        )
    failed = _failed(every, kind, sender, progress)
    return tuple(
        _checked(
            check,
            FAILED if at == failed else _outcome(check, at, failed, progress),
            str(getattr(progress.state, "detail", "")) if at == failed else "",
        )
        for at, check in enumerate(every)
    )


def _checked(check: Check, outcome: str, detail: str = "") -> Checked:
    reason = check.reason.name if check.reason else ""
    return Checked(check.text, reason, check.round, outcome, detail)


def _failed(every: list[Check], kind: str, sender: PartyId, progress: Progress) -> int | None:
    """Return the index of the check that ended the receiver's run; None: none of them did."""
    aborted, round_ = progress.state, progress.aborted_in
    if not isinstance(aborted, Aborted) or round_ is None or sender not in aborted.about:
        return None
    if round_ == ON_RECEIPT and aborted.where != OnReceipt(sender, kind):
        return None
    for at, check in enumerate(every):
        if check.round == round_ and check.reason is aborted.reason:
            return at
    return None


def _outcome(check: Check, at: int, failed: int | None, progress: Progress) -> str:
    if check.round == ON_RECEIPT:
        return PASSED if failed is None or at < failed else OPEN
    if check.round == progress.aborted_in:
        return PASSED if failed is not None and at < failed else OPEN
    # Checks of rounds that the receiver completed have passed.
    return PASSED if progress.has_passed(check.round) else OPEN

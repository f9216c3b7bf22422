"""Errors that the gateway and the MPC nodes answer with, one constructor for each."""

from __future__ import annotations

from typing import Final

from mpcsim.errors import MpcError, UsageError
from mpcsim.ids import ROLES, PartyId
from mpcsim.service.error_codes import Code, code_of_status

BAD_REQUEST: Final = 400
UNAUTHORIZED: Final = 401
FORBIDDEN: Final = 403
NOT_FOUND: Final = 404
CONFLICT: Final = 409
GONE: Final = 410
STALE_BOOT: Final = 412
"""Precondition Failed: the request is for what the MPC node was before its last start."""
TOO_LARGE: Final = 413
UNPROCESSABLE: Final = 422
"""At the end of the path is no key."""
FAILED_DEPENDENCY: Final = 424
"""Status for a statement of the other MPC node that must come first, and is missing or too old."""
TOO_MANY: Final = 429
INTERNAL_ERROR: Final = 500
BAD_GATEWAY: Final = 502
UNAVAILABLE: Final = 503
TIMED_OUT: Final = 504


GUESSES: Final = "passwords are tried"
RECOVERIES: Final = "keys are recovered"
SIGNATURES: Final = "signatures are made"
"""Names of the operations whose rate may be limited for each user."""
SIGNING: Final = "signing session"
GENERATION: Final = "generation"
RECOVERY: Final = "recovery"
"""Names of the operations that exclude each other for a key (a generation: for a user and
curve)."""


CHALLENGE: Final = {"WWW-Authenticate": "Bearer"}
"""Header of every 401 (RFC 9110, 15.5.2)."""


class Refused(MpcError):
    """A request was not carried out. The text may be shown to anyone who may make the request.

    It changed nothing that is in force; where an MPC node has not answered (``LinkFailed``), what
    that node did is not known.
    """

    def __init__(
        self,
        status: int,
        text: str,
        retry_after_s: int | None = None,
        *,
        code: Code | None = None,
    ) -> None:
        """
        Args:
            code: by default what the status says of itself.
        """
        super().__init__(text)
        self.status = status
        """HTTP status of the answer."""
        self.code = code or code_of_status(status)
        self.retry_after_s = retry_after_s
        """Seconds after which the same request may succeed; None: as ``code`` advises."""

    def headers(self) -> dict[str, str]:
        """Return the headers of an answer with this error."""
        headers = self.code.headers(self.retry_after_s)
        return headers | CHALLENGE if self.status == UNAUTHORIZED else headers


class Undecided(Refused):
    """An MPC node that may have voted for a new key has not answered, or the registry could not be
    written. What is in force will be seen when they can be asked again."""


class NodeFailed(Refused):
    """An MPC node cannot do its part, which is no fault of the caller's."""

    def __init__(
        self,
        status: int,
        text: str,
        party: PartyId,
        retry_after_s: int | None = None,
        *,
        code: Code | None = None,
    ) -> None:
        super().__init__(status, text, retry_after_s, code=code)
        self.party = party


class Unmerged(NodeFailed):
    """An MPC node's store was put back from a backup, and what the other node knows of this key has
    not reached it since, or does not do."""


class LinkFailed(NodeFailed):
    """An MPC node did not answer. What it did before is not known."""


def node_unreachable(party: PartyId) -> LinkFailed:
    return LinkFailed(UNAVAILABLE, f"the {ROLES[party]}'s MPC node cannot be reached", party)


def node_timed_out(party: PartyId) -> LinkFailed:
    return LinkFailed(TIMED_OUT, f"the {ROLES[party]}'s MPC node did not answer in time", party)


def store_failed(text: str, party: PartyId, code: Code = Code.STORE_FAILED) -> NodeFailed:
    return NodeFailed(UNAVAILABLE, text, party, code=code)


def may_owe_suspension(failed: NodeFailed) -> bool:
    """Return whether an MPC node that signs may have aborted, and suspended the key, without being
    able to store that: it stores nothing else then."""
    return failed.code in (Code.DISK_FULL, Code.STORE_FAILED)


def identity_mismatch(party: PartyId) -> NodeFailed:
    text = f"the gateway and the {ROLES[party]}'s MPC node are at odds about what may be asked"
    return NodeFailed(INTERNAL_ERROR, text, party, code=Code.NOT_CONFIGURED)


def stores_inconsistent() -> Refused:
    return Refused(
        UNAVAILABLE,
        "the stores of the gateway and the MPC nodes do not fit together for this key; nothing is "
        "dropped, and mpcsim doctor says what to do",
        code=Code.STORES_APART,
    )


def no_such_key() -> Refused:
    """Return the error for an unknown or another user's key, or a share retired long ago.

    One text for all three: they cannot be told apart.
    """
    return Refused(NOT_FOUND, "no such key")


def key_replaced() -> Refused:
    """Return the error for a share of the caller's own key that the last recovery replaced."""
    text = "no such key: replaced by a recovery; use the strings that it returned, or recover again"
    return Refused(NOT_FOUND, text)


def gateway_starting() -> Refused:
    text = "the gateway is being started and has not heard from both MPC nodes which keys there are"
    return Refused(UNAVAILABLE, text, 1, code=Code.BUSY)


def stale_boot(party: PartyId) -> Refused:
    return Refused(STALE_BOOT, f"the {ROLES[party]}'s MPC node has another boot than this is for")


def not_authentic(party: PartyId) -> Refused:
    return Refused(
        BAD_REQUEST,
        f"the {ROLES[party]} takes this for no request of whoever holds the client's share",
    )


def not_attested(me: PartyId, other: PartyId) -> NodeFailed:
    text = (
        f"the {ROLES[me]} has not heard from the {ROLES[other]} within an hour which keys are "
        "suspended"
    )
    return NodeFailed(FAILED_DEPENDENCY, text, other)


def vote_unresolved(me: PartyId) -> Refused:
    text = (
        f"the {ROLES[me]} has voted for newer shares of this key over an hour ago, and has not "
        "heard since what came of that; recover the key"
    )
    return Refused(CONFLICT, text, code=Code.STORES_APART)


def key_not_merged(me: PartyId, other: PartyId) -> Unmerged:
    return store_not_merged(me, f"has not heard from the {ROLES[other]} about this key yet")


def store_not_merged(me: PartyId, why: str) -> Unmerged:
    """
    Args:
        why: what has not happened, after "has been restored and".
    """
    text = f"the {ROLES[me]}'s store has been restored and {why}"
    return Unmerged(FAILED_DEPENDENCY, text, me, code=Code.RESTORED)


def key_suspended(
    text: str = "this key is suspended: an MPC node was caught cheating with it; recover it",
) -> Refused:
    return Refused(CONFLICT, text, code=Code.SUSPENDED)


def seal_key_lost(party: PartyId) -> Refused:
    return Refused(
        CONFLICT,
        f"the {ROLES[party]} has lost what this secret_store is sealed to; recover the key",
        code=Code.SEAL_KEY_LOST,
    )


def no_such_child(why: UsageError) -> Refused:
    return Refused(UNPROCESSABLE, f"Invalid path: {why}")


def no_such_user() -> Refused:
    return Refused(NOT_FOUND, "no such user")


def outcome_undecided(why: Refused) -> Undecided:
    return Undecided(why.status, str(why), code=Code.OUTCOME_UNKNOWN)


def node_failed(party: PartyId) -> LinkFailed:
    """Return the error for an exception that the MPC node did not foresee."""
    return LinkFailed(INTERNAL_ERROR, f"the {ROLES[party]}'s MPC node has failed", party)


def unintelligible_reply(party: PartyId) -> LinkFailed:
    text = f"the {ROLES[party]}'s MPC node answers something else than it was asked"
    return LinkFailed(BAD_GATEWAY, text, party, code=Code.INTERNAL)


def unexpected_status(party: PartyId, status: int) -> LinkFailed:
    """Return the error for a status such as 204 where a reply with a body is due."""
    text = f"the {ROLES[party]}'s MPC node answered {status} where 200 is due"
    return LinkFailed(BAD_GATEWAY, text, party, code=Code.INTERNAL)


def no_such_session() -> Refused:
    return Refused(GONE, "no such session, or it has expired")


def no_such_presignature() -> Refused:
    """Return the error for an unknown, used or dropped presignature.

    One text for all three: they cannot be told apart.
    """
    return Refused(GONE, "no such presignature, or it has been used")


def key_exists(curve: str) -> Refused:
    return Refused(CONFLICT, f"{curve} key already exists for this user", code=Code.KEY_EXISTS)


def key_recovered_meanwhile() -> Refused:
    return Refused(CONFLICT, "the key has been recovered meanwhile", code=Code.KEY_CHANGED)


def disagreement(text: str) -> Refused:
    """Return the error for stores, or signed statements, that contradict what is asked for."""
    return Refused(CONFLICT, text, code=Code.STORES_APART)


def key_already_active() -> Refused:
    """To a node alone: the caller gets the share of a recovery."""
    text = "the key that this Idempotency-Key was given for is in force; recover it"
    return Refused(CONFLICT, text, code=Code.IN_FORCE)


def idempotency_key_reused() -> Refused:
    """Return the error for an ``Idempotency-Key`` that was given to another verb, curve or user.

    One text for all three: they cannot be told apart.
    """
    text = "This Idempotency-Key has been used for another call"
    return Refused(BAD_REQUEST, text, code=Code.IDEMPOTENCY_KEY_USED)


def too_many_idempotency_keys(retry_after_s: int) -> Refused:
    text = "too many Idempotency-Keys of this user within a day; try again later, or without one"
    return Refused(TOO_MANY, text, retry_after_s)


def first_call_undecided(why: LinkFailed) -> Refused:
    """Return the error for a repeated call whose first run is not decided; it may be repeated
    again."""
    text = f"what came of the first call with this Idempotency-Key is not decided yet: {why}"
    return Refused(CONFLICT, text, why.code.wait_s, code=Code.BUSY)


def too_many_key_creations(retry_after_s: int) -> Refused:
    """The gateway makes no more keys at a time, and enough wait already."""
    return Refused(TOO_MANY, "too many keys are being made; try again later", retry_after_s)


def too_many_requests() -> Refused:
    """The gateway answers so many requests of this user already."""
    return Refused(TOO_MANY, "too many requests of this user at a time; try again later", 1)


def rate_exceeded(what: str, retry_after_s: int) -> Refused:
    """The user has done this as often as it may for now."""
    return Refused(TOO_MANY, f"too many {what} for this user; try again later", retry_after_s)


def key_busy(what: str, retry_after_s: int | None = None, *, has_queue: bool = True) -> Refused:
    """Return the error for a key that another session is using; that session goes on undisturbed.

    Args:
        has_queue: False where the call would have waited, had the gateway been given a queue.
    """
    text = f"a {what} for this key is in progress"
    if not has_queue:
        text += "; with the gateway's --queue, calls wait"
    return Refused(CONFLICT, text, retry_after_s, code=Code.BUSY)

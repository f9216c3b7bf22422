"""Idempotency keys of calls that make a key (``Idempotency-Key``): outcomes, for repeated calls.

An idempotency key names a call; it belongs to one user, and is bound to the verb and curve of the
first call under which a key was voted for. The registry stores it with the new epoch before the MPC
nodes are asked to vote, and marks it in the transaction that stores that epoch as the one in force.
So whatever was interrupted, once an activation is resolved it is known which call it was of. A call
that failed binds the name, too, and has no other effect.

A repeated ``generate`` whose key has come into force is told to recover it: only its first caller
received the client's share. That holds when the key has been recovered since by another call, too:
a caller who repeats has no share that works, and asks for one.
"""

from __future__ import annotations

from mpcsim.service.errors import (
    LinkFailed,
    Refused,
    first_call_undecided,
    idempotency_key_reused,
    too_many_idempotency_keys,
)
from mpcsim.service.gateway.registry import NamedCall, NameReused, Registry, TooManyNamedCalls
from mpcsim.service.gateway.sessions.sessions import Sessions
from mpcsim.service.web.threads import in_thread


class IdempotencyKeys:
    """Checks and records idempotency keys. A named call of None is a call without one."""

    def __init__(self, registry: Registry, sessions: Sessions) -> None:
        self._registry = registry
        self._sessions = sessions

    def check(self, named_call: NamedCall | None, what: str) -> None:
        """Check, before anything is done, that a call's name is free and no such call still runs.

        Args:
            what: kind of session that is about to begin, for error texts.

        Raises:
            Refused: the name is another call's of this user; a call for this key still runs, the
                first one for example; or the user has used too many names.
        """
        if named_call is None:
            return
        try:
            self._registry.check_named_call(named_call)
        except (NameReused, TooManyNamedCalls) as error:
            raise _refused(error) from None
        self._sessions.check_no_other_call(named_call)
        self._sessions.check_key_is_free(named_call.user_id, named_call.curve, what)

    def in_force(self, named_call: NamedCall | None) -> bool:
        """Return whether a key has come into force under this name."""
        return named_call is not None and self._registry.is_named_call_in_force(named_call) is True

    def failure_to_report(self, named_call: NamedCall | None, failure: LinkFailed) -> Refused:
        """Return the error to report when an MPC node cannot be asked which key is in force."""
        if named_call is not None and self._registry.is_named_call_in_force(named_call) is False:
            return first_call_undecided(failure)
        return failure

    async def remember(self, named_call: NamedCall | None, key_id: bytes) -> None:
        """Store under which name the MPC nodes are about to be asked to vote for a key.

        Raises:
            Refused: as from ``check``.
            StoreFailed: it cannot be stored.
        """
        if named_call is None:
            return
        try:
            await in_thread(self._registry.put_named_call, named_call, key_id.hex())
        except (NameReused, TooManyNamedCalls) as error:
            raise _refused(error) from None


def _refused(error: NameReused | TooManyNamedCalls) -> Refused:
    return (
        idempotency_key_reused()
        if isinstance(error, NameReused)
        else too_many_idempotency_keys(error.wait_s)
    )

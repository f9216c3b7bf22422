"""Calls that make a key and have a name (``Idempotency-Key``): what came of them, for repetitions.

A name is the user's own: it is bound to verb and curve of the user's first call under which a key
was voted for, and says nothing about another user's calls of that name.
The registry remembers the name before the MPC nodes are asked to vote, with the key; and, in the
same transaction in which it remembers that key as the one in force, that it came into force under
this name. So whatever was interrupted, once it is decided what is in force it is known whose doing
that was. What came to nothing binds the name, too, and is otherwise as if it had never been.

A repeated ``generate`` whose key has come into force is told to recover it: nobody but its first
caller ever had the share that came with it. It is so, too, when the key has been recovered since by
a call of another name, or none: whoever repeats has no share that works, and asks for one.
"""

from __future__ import annotations

from mpcsim.service.errors import (
    LinkFailed,
    Refused,
    named_otherwise,
    too_many_names,
    undecided_yet,
)
from mpcsim.service.gateway.registry import NamedCall, NameReused, Registry, TooManyNamedCalls
from mpcsim.service.gateway.sessions.sessions import Sessions
from mpcsim.service.web.threads import in_thread


class IdempotencyKeys:
    """The named calls. None stands for a call without a name, for which all of this is nothing."""

    def __init__(self, registry: Registry, sessions: Sessions) -> None:
        self._registry = registry
        self._sessions = sessions

    def check(self, named_call: NamedCall | None, what: str) -> None:
        """Before anything is done for a call: may its name be used, and is it over?

        Args:
            what: it is about to begin.

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
        """Whether a key has come into force under this name."""
        return named_call is not None and self._registry.is_named_call_in_force(named_call) is True

    def failure_to_report(self, named_call: NamedCall | None, failure: LinkFailed) -> Refused:
        """What to answer when an MPC node cannot be asked which key is in force."""
        if named_call is not None and self._registry.is_named_call_in_force(named_call) is False:
            return undecided_yet(failure)
        return failure

    async def remember(self, named_call: NamedCall | None, key_id: bytes) -> None:
        """Before the MPC nodes are asked to vote for a key: under which name.

        Raises:
            Refused: as from ``check``.
            StoreFailed: it cannot be remembered.
        """
        if named_call is None:
            return
        try:
            await in_thread(self._registry.put_named_call, named_call, key_id.hex())
        except (NameReused, TooManyNamedCalls) as error:
            raise _refused(error) from None


def _refused(error: NameReused | TooManyNamedCalls) -> Refused:
    return named_otherwise() if isinstance(error, NameReused) else too_many_names(error.wait_s)

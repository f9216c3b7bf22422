"""First message of a signer that does not have its key share yet.

What a signer says first (nonce commitments, its part in making the session fresh) needs no share.
So a client that has to fetch its share from a vault can say it in the very request that opens the
vault, and saves a round trip. Such a message is sealed like every other, with a secret that does
not come from the share: an authentication key, which is kept beside it.

A party is a deterministic function of its set-up, its seed and what it received. So nothing is
carried over but the seed: once the share is there, ``PrestartedParty.party`` runs the first round
again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from mpcsim.crypto.encoding import Message, WireContext
from mpcsim.crypto.hashing import u32
from mpcsim.crypto.rng import SEED_BYTES, Drbg, Rng, SystemRng
from mpcsim.errors import UsageError, check_type
from mpcsim.ids import PartyId
from mpcsim.protocols.engine.channel import seal
from mpcsim.protocols.engine.contract import Definition
from mpcsim.protocols.engine.envelope import Envelope
from mpcsim.protocols.engine.events import Listener, silent
from mpcsim.protocols.engine.party import Party
from mpcsim.protocols.engine.randomness import NOTHING_RECEIVED, hedged_seed, round_rng
from mpcsim.protocols.key_share import KeyShare

S = TypeVar("S", bound=Message)
R = TypeVar("R")

FIRST_KIND = 1
"""Number on the wire of the first kind of the first round."""


def prestart_hedge(auth_keys: Mapping[PartyId, bytes]) -> tuple[bytes, ...]:
    """Return the secrets that a signer has without its share: its authentication keys with all
    other holders, of which each of these knows one."""
    return tuple(part for j in sorted(auth_keys) for part in (u32(j), auth_keys[j]))


class PrestartedParty(Generic[S, R]):
    """A party that has sent its first message, and gets its key share afterwards."""

    def __init__(
        self,
        definition: Definition[S, R],
        say: Callable[[Drbg], Message],
        setup: Callable[[KeyShare], S],
        *,
        me: PartyId,
        secrets: Mapping[PartyId, bytes],
        wire: WireContext,
        session_id: bytes,
        hedge: tuple[bytes, ...],
        rng: Rng | None = None,
    ) -> None:
        """
        Args:
            say: makes the first round's broadcast, as the round will make it again.
            setup: makes the set-up, once the share is there.
            secrets: each receiver, and what it opens early messages with
                (``Definition.early_secrets``).
            hedge: secrets that are there without the share, and what the session is about: in the
                place of ``Definition.hedge``.
        """
        check_type("me", me, int)
        check_type("session_id", session_id, bytes)
        rng = rng or SystemRng()
        self.definition = definition
        self.session_id = session_id
        self._setup = setup
        self._me = me
        self._reproducible = rng.reproducible
        seed = hedged_seed(rng.bytes(SEED_BYTES), definition, me, session_id, *hedge)
        self._seed: bytes | None = seed
        root = Drbg(seed)
        first = definition.rounds[0]
        self._payload = say(round_rng(root, first, NOTHING_RECEIVED)).encode(wire)
        # Of what is said, too: should the generator repeat, no two messages share a key and nonce.
        salts = root.fork(f"early {hashlib.sha256(self._payload).hexdigest()}")
        self.messages: tuple[bytes, ...] = tuple(
            seal(
                secret,
                Envelope(definition.number, FIRST_KIND, True, me, j, session_id, self._payload),
                self._payload,
                salts,
            ).encode()
            for j, secret in secrets.items()
        )
        """Envelopes, one for each receiver."""

    def party(self, share: KeyShare, *, listener: Listener = silent) -> Party[S, R]:
        """Return the started party that has sent the first message, with its share.

        Raises:
            UsageError: the share cannot be used for this, or is not the one that the first message
                was about; or it has been called before: its randomness serves once.
        """
        seed, self._seed = self._seed, None
        if seed is None:
            raise UsageError("the party of this first message has been made")
        party = Party(
            self.definition,
            self._setup(share),
            self._me,
            session_id=self.session_id,
            listener=listener,
            _seed=seed,
        )
        party.reproducible = self._reproducible
        party.start()
        ((_, message),) = party.inbox.own.values()
        if message.encode(party.wire) != self._payload:
            raise UsageError("the first message was about something else")
        return party

    def __repr__(self) -> str:
        return f"PrestartedParty<{self.definition.name}, {self._me}>"

"""End-to-end secrets of a party, and how each peer has shown that it holds them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from mpcsim.ids import PartyId
from mpcsim.protocols.engine.channel import unseal
from mpcsim.protocols.engine.envelope import Envelope


class PeerSecrets:
    """Secrets that a party shares with its peers, by peer, and what messages of theirs have shown.

    Three generations of secrets, oldest first: those of ``early``, with which a signer may have
    sealed its first message before it had its key share; the initial ones, there from the start;
    and the ones in force, which key generation replaces as it goes on.
    """

    def __init__(
        self,
        initial: Mapping[PartyId, bytes],
        early: Callable[[], Mapping[PartyId, bytes]],
        identified: Iterable[PartyId],
    ) -> None:
        """
        Args:
            initial: secrets from the start.
            early: gives the secrets of first messages, when one has to be opened with them.
            identified: peers that prove in the session who they are (``Definition.identified``).
        """
        self.initial = initial
        self.in_force: dict[PartyId, bytes] = dict(initial)
        self._early = early
        self._identified = {*initial, *identified}

        self.sealing: set[PartyId] = set(initial)
        """Peers that seal everything: from the start, or once one of their messages has opened."""
        self.unproven: set[PartyId] = set()
        """Peers of whom a message opened with an early secret, which others may have, and none yet
        with a secret that the pair alone shares. No check names them."""
        self.unopened: set[PartyId] = set()
        """Peers in whose name a message came that does not open (``Waiting.unopened``)."""

    @property
    def authenticated(self) -> set[PartyId]:
        """Peers that seal everything, and have proved who they are."""
        return self.sealing & self._identified

    def open(self, envelope: Envelope, *, current: bool, initial: bool) -> bytes | None:
        """Return the payload if a secret opens the envelope, and note that its sender has it.

        Args:
            current: try the secret in force.
            initial: try the secret from the start.
        """
        sender = envelope.sender
        for secrets in (self.in_force,) * current + (self.initial,) * initial:
            if sender in secrets and (opened := unseal(secrets[sender], envelope)) is not None:
                self.unproven.discard(sender)
                self.sealing.add(sender)
                return opened
        return None

    def open_early(self, envelope: Envelope) -> bytes | None:
        """Return the payload of a first message that was sealed before its sender had its share."""
        secret = self._early().get(envelope.sender)
        return None if secret is None else unseal(secret, envelope)

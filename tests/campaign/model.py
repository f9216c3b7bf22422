"""What must be true of a key, from nothing but what the service has answered.

It knows no code of the service's: signatures are verified by OpenSSL and libsecp256k1.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidSignature

from tests.node.wallets import check_signature

Share = Mapping[str, str]
"""As generate and recover return it."""


class Violation(AssertionError):
    """The service has broken a promise."""


@dataclass(frozen=True)
class Making:
    """A generation or recovery under way, and what was known when it began."""

    known: frozenset[str]
    """Shares received by then."""
    doubts: frozenset[int]
    """Makings that had ended by then, nobody knows how."""


@dataclass
class Key:
    """One user's key on one curve.

    Every making is told to the model twice: when it begins, and how it ended.
    """

    user: str
    curve: str
    public_key: str | None = None
    """None while there may be no key."""
    shares: dict[str, Share] = field(default_factory=dict)
    """Everything received, by key_id."""
    retired: set[str] = field(default_factory=set)
    """The key_ids of shares that must never sign again."""
    doubts: set[int] = field(default_factory=set)
    """Makings that may have replaced the key, or may be about to."""
    _count: int = 0

    def begin(self) -> Making:
        """A generation or recovery is asked for."""
        return Making(frozenset(self.shares), frozenset(self.doubts))

    def received(self, making: Making, share: Share) -> None:
        """It has returned a share: whatever was there before it began is no more."""
        key_id = share["key_id"]
        if share["curve"] != self.curve or key_id in self.shares or key_id in self.retired:
            raise self._violation(f"a making returned a share of {share['curve']} key {key_id}")
        self._same_key(share["public_key"])
        self.shares[key_id] = share
        self.retired |= making.known
        self.doubts -= making.doubts

    def unknown(self) -> None:
        """It has failed, or its answer was lost."""
        self._count += 1
        self.doubts.add(self._count)

    def registered(self, entry: Share | None) -> Share | None:
        """What ``GET /v3/wallet/key`` says while no making of ours is under way.

        Returns:
            The share that must sign now; None if there is no such key, or nobody has its share.
        """
        if entry is None:
            if self.public_key is not None:
                raise self._violation("the key is lost")
            return None
        if self.public_key is None and not self.doubts:
            raise self._violation("there is a key that nobody has made")
        self._same_key(entry["public_key"])
        key_id = entry["key_id"]
        if key_id in self.retired:
            raise self._violation(f"a retired share is in force again: {key_id}")
        if key_id not in self.shares and not self.doubts:
            raise self._violation(f"the key has changed by itself, to {key_id}")
        self.retired |= self.shares.keys() - {key_id}
        return self.shares.get(key_id)

    def signed(self, key_id: str, retired: bool, message: bytes, signature: str) -> None:
        """A share has signed.

        Args:
            retired: whether it was when the signature was asked for.
        """
        if retired:
            raise self._violation(f"a retired share has signed: {key_id}")
        self._same_key(self.shares[key_id]["public_key"])
        try:
            check_signature(self.public_key or "", message, signature)
        except (InvalidSignature, AssertionError, ValueError, IndexError):
            raise self._violation(f"a wrong signature, with {key_id}") from None

    def _same_key(self, public_key: str) -> None:
        if self.public_key is None:
            self.public_key = public_key
        if public_key != self.public_key:
            raise self._violation(f"another public key: {public_key}")

    def _violation(self, what: str) -> Violation:
        return Violation(f"{self.curve} key {self.public_key} of {self.user}: {what}")

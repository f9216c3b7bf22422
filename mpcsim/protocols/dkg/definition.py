"""Distributed key generation without a dealer.

Ideal functionality: n parties end with a (t, n) Shamir sharing of a key that is random as long as
one of them is honest; any t can use it, fewer learn nothing; nobody ever holds it. On secp256k1
every pair also ends with the state its multiplications need, zero-share seeds and a channel
secret, and all with a chain code (BIP 32), random as long as one of them is honest.

Protocol: Feldman sharing by every party (FROST KeyGen, eprint 2020/852, Figure 1), with the
commitments themselves committed first, proofs of knowledge bound to session and party, and an echo
check of the first broadcast, which determines everything that is broadcast later, each party's part
in the chain code included. Three messages deep: commit, reveal, deal. The multiplication set-up
(endemic base OT) travels along in rounds 2 and 3.

Assumptions: discrete logarithm and, for the pairwise part, Diffie-Hellman; random oracles. The
transport vouches for the sender of the first two rounds' messages; from round 3 on that sender is
authenticated by the secrets that came of them. A culprit is therefore named on the transport's
word, in every round, and banned by nobody.

Not here: agreement on the end (a party that got a bad share aborts while others may be done, so no
key counts as generated before every party has reported its result); complaint rounds (a bad share
aborts and names the dealer); guaranteed output (the last party to reveal cannot steer the key, to
which it is committed; it can reject one by stopping, and all see that it has stopped).
"""

from __future__ import annotations

from typing import Annotated, Any

from mpcsim.crypto.encoding import U16, Seq, Text, WireContext, wire
from mpcsim.crypto.groups.curves import curve
from mpcsim.crypto.groups.group import Group, Point, Scalar
from mpcsim.crypto.groups.secp256k1 import SECP256K1
from mpcsim.crypto.hashing import Tag, tagged_hash, u32
from mpcsim.crypto.mta.base import Mta
from mpcsim.crypto.mta.schemes import scheme_name
from mpcsim.crypto.rng import Rng
from mpcsim.errors import UsageError, check_type
from mpcsim.ids import PartyId, party_ids
from mpcsim.protocols.dkg.rounds import COMMIT, DEAL, FINISH, REVEAL, DealingSetup, epoch_of
from mpcsim.protocols.engine import Definition, Party, View
from mpcsim.protocols.engine.events import Listener, silent
from mpcsim.protocols.key_share import KeyShare

DEFAULT_MTA = "ot/80"


@wire
class DkgSetup(DealingSetup):
    """Set-up that the parties agree on before key generation."""

    curve_name: Annotated[str, Text(16)]
    threshold: Annotated[int, U16]
    parties: Annotated[tuple[PartyId, ...], Seq(U16)]
    scheme: Annotated[str, Text(32)] = ""
    """Multiplication scheme; empty on curves that need none."""

    @property
    def group(self) -> Group:
        return curve(self.curve_name)

    @property
    def dealers(self) -> tuple[PartyId, ...]:
        return self.parties

    @property
    def receivers(self) -> tuple[PartyId, ...]:
        return self.parties

    @property
    def makes_chain_code(self) -> bool:
        return self.group is SECP256K1

    def context(self) -> bytes:
        return tagged_hash(
            Tag.CONTEXT,
            b"dkg",
            self.curve_name.encode(),
            u32(self.threshold),
            b"".join(u32(i) for i in self.parties),
            self.scheme.encode(),
        )

    def constant_term(self, view: View[Any]) -> Scalar:
        return self.group.random_scalar(view.rng)

    def check_constant_term(self, dealer: PartyId, C_0: Point) -> None:
        """Accept any constant term: it is the dealer's own random part of the key."""


def check_setup(agreed: DkgSetup, me: PartyId) -> None:
    """Check a set-up for everything that can be wrong before a session begins.

    Raises:
        UsageError: unknown curve or scheme, bad threshold, bad, unsorted or duplicate identifiers.
    """
    if party_ids(agreed.parties) != agreed.parties:
        raise UsageError(f"parties {list(agreed.parties)} are not in ascending order")
    check_threshold(agreed.threshold, agreed.parties)
    check_scheme(agreed.curve_name, agreed.scheme)


DKG: Definition[DkgSetup, KeyShare] = Definition(
    name="dkg",
    number=1,
    rounds=(COMMIT, REVEAL, DEAL, FINISH),
    setup=DkgSetup,
    roles=lambda setup: setup.roles(),
    wire=lambda setup: WireContext(setup.group, setup.mta),
    pair_secrets=lambda setup: {},
    check=check_setup,
)


def check_threshold(threshold: int, parties: tuple[PartyId, ...]) -> None:
    """Check that a threshold makes sense for so many parties.

    Raises:
        UsageError: below 2 (one party alone could sign) or above n.
    """
    check_type("threshold", threshold, int)
    if not 2 <= threshold <= len(parties):
        raise UsageError(
            f"threshold {threshold} of {len(parties)} parties; it must be between 2 and n"
        )


def check_scheme(curve_name: str, scheme: str) -> None:
    """Check that there is a scheme on secp256k1, and none on a curve that needs none.

    Raises:
        UsageError: otherwise, or unknown curve or scheme.
    """
    if multiplication_scheme(curve_name, scheme or None) != scheme:
        raise UsageError(f"{scheme!r} is no multiplication scheme for {curve_name}")


def multiplication_scheme(curve_name: str, scheme: str | Mta | None) -> str:
    """Return the name of the scheme to set up: ``scheme``'s or the default on secp256k1, none on
    ed25519.

    Raises:
        UsageError: no scheme or an unknown one, or one asked for on a curve that needs none.
    """
    given: object = scheme
    if given is not None and not isinstance(given, str | Mta):
        raise UsageError(
            "scheme: expected a multiplication scheme or the name of one, such as 'ot/80', "
            f"not a {type(given).__name__}"
        )
    if curve(curve_name).name != "secp256k1":
        if scheme:
            raise UsageError(f"{curve_name} signatures need no multiplication scheme")
        return ""
    return scheme_name(scheme or DEFAULT_MTA)


def setup(
    curve_name: str, threshold: int, parties: tuple[int, ...], scheme: str | Mta | None = None
) -> DkgSetup:
    """Return a checked set-up.

    Args:
        curve_name: ``secp256k1`` or ``ed25519``.
        threshold: t, holders needed to sign.
        parties: identifiers of all n holders.
        scheme: multiplication scheme, ``ot/80`` by default on secp256k1: a name, or one of your
            own that is registered (``mpcsim.crypto.mta.schemes``).

    Raises:
        UsageError: unknown curve or scheme, bad threshold, bad or duplicate identifiers.
    """
    ids = party_ids(parties)
    name = multiplication_scheme(curve_name, scheme)
    check_threshold(threshold, ids)
    return DkgSetup(curve_name, threshold, ids, name)


def epoch(party: Party[Any, Any]) -> bytes | None:
    """Return the epoch of the shares that a generation or recovery makes; None before it is known.

    Nobody has a share of it unless all parties knew it before they revealed anything.
    """
    transcript = getattr(party.keep, "transcript", None)
    return None if transcript is None else epoch_of(transcript)


def party(
    agreed: DkgSetup,
    me: int,
    *,
    session_id: bytes,
    rng: Rng | None = None,
    listener: Listener = silent,
) -> Party[DkgSetup, KeyShare]:
    """Return one party of a key generation; its result is a ``KeyShare``.

    Raises:
        UsageError: ``me`` is not among the parties, or the session id has the wrong length.
    """
    return Party(DKG, agreed, me, session_id=session_id, rng=rng, listener=listener)

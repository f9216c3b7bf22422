"""Knowledge of each party after each round, and what it must never learn: a table for each
protocol.

The tables name values as the papers do. Where a session was recorded live, ``path`` finds the value
itself in what the party kept, so that an outdated table is noticed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mpcsim.crypto.groups.group import Point, Scalar
from mpcsim.errors import MpcError

OWN: Final = "own secret"
PUBLIC: Final = "public"
RECEIVED: Final = "received"
GATEWAY: Final = "the network"

BEFORE: Final = 0
"""Number, in place of a round's: known before the session began."""


@dataclass(frozen=True)
class Item:
    """Value that a party knows."""

    name: str
    meaning: str
    kind: str
    """Kind: ``own secret``, ``public`` or ``received``."""
    path: str = ""
    """Path in what the party kept after the round (in its set-up, if known before)."""


@dataclass(frozen=True)
class ForbiddenKnowledge:
    """Value of another party that a party must never learn."""

    name: str
    """Name; ``{j}`` stands for the other party."""
    meaning: str
    round: int = BEFORE
    path: str = ""
    """Path at the other party; empty: nobody has it."""


@dataclass(frozen=True)
class Knowledge:
    """Knowledge that one protocol gives to its parties."""

    by_round: Mapping[int, tuple[Item, ...]]
    by_message: Mapping[str, tuple[Item, ...]]
    """Items from a message of that kind; ``{j}`` stands for its sender."""
    never: tuple[ForbiddenKnowledge, ...]


_PRIVATE_KEY: Final = ForbiddenKnowledge(
    "the private key", "nobody has it, at no time: it is never put together"
)

_DEALING: Final = Knowledge(
    {
        1: (
            Item(
                "f_i",
                "its secret polynomial, if it deals; f_i(0) is its part of the key",
                OWN,
                "polynomial",
            ),
            Item("C_i", "commitments a_k · G to the coefficients of f_i", PUBLIC, "coefficients"),
            Item("e_i", "X25519 secret, for end-to-end sealing", OWN, "channel_secret"),
        ),
        2: (
            Item(
                "transcript",
                "hash of everyone's first messages: fresh if one party is honest",
                PUBLIC,
                "transcript",
            ),
            Item("OT choices", "what its base-OT offers hide (secp256k1)", OWN, "offered"),
        ),
        3: (
            Item("pair secrets", "one shared with every other party", OWN, "pair_secrets"),
            Item("OT keys", "both keys of every base OT it answered (secp256k1)", OWN, "answered"),
            Item("c", "chain code: what child keys follow from (secp256k1)", PUBLIC),
        ),
        4: (
            Item("x_i", "its share of the key: the sum of what it was dealt", OWN),
            Item("X_j, Y", "every public share, and the public key", PUBLIC),
        ),
    },
    {
        "Commit": (Item("V_{j}", "commitment of party {j}: binds it, says nothing yet", RECEIVED),),
        "Reveal": (
            Item(
                "C_{j}", "commitments to the polynomial of party {j}, proven and opened", RECEIVED
            ),
            Item("c_{j}", "its part in the chain code (of a new secp256k1 key)", RECEIVED),
            Item("E_{j}", "channel key of party {j}", RECEIVED),
        ),
        "MultiplicationOffer": (
            Item(
                "OT offer of {j}", "two points a base OT; which one it chose stays hidden", RECEIVED
            ),
        ),
        "Deal": (Item("f_{j}(i)", "its share of the polynomial of party {j}", RECEIVED),),
    },
    (
        ForbiddenKnowledge(
            "f_{j}", "the polynomial of party {j}: only its own point on it", 1, "polynomial"
        ),
        ForbiddenKnowledge("e_{j}", "the X25519 secret of party {j}", 1, "channel_secret"),
        ForbiddenKnowledge("x_{j}", "the share of party {j}"),
        _PRIVATE_KEY,
    ),
)

_MULTIPLIED: Final = (
    Item("R_{j}", "part of the nonce point, opened", RECEIVED),
    Item("pk_{j}", "sk_{j} · G", RECEIVED),
    Item("d from {j}", "the other additive parts of the products", RECEIVED),
    Item("psi_{j}", "phi_{j} less chi: party {j}'s mask stays hidden", RECEIVED),
)

KNOWLEDGE: Final[Mapping[str, Knowledge]] = {
    "dkg": _DEALING,
    "reshare": Knowledge(
        {
            BEFORE: (Item("X_j, Y", "the public record of the key", PUBLIC, "record.public_key"),),
            **{n: items for n, items in _DEALING.by_round.items() if n != 4},
            4: (
                Item(
                    "new x_i",
                    "its new share, if it gets one: prepared, not yet in use",
                    OWN,
                    "share.secret_share",
                ),
                Item(
                    "new X_j, Y",
                    "new public shares, the same public key",
                    PUBLIC,
                    "record.public_key",
                ),
            ),
            5: (Item("all are prepared", "the old shares may go", PUBLIC),),
        },
        {
            **_DEALING.by_message,
            "Confirm": (Item("party {j} is prepared", "it holds its new share", RECEIVED),),
        },
        (
            *_DEALING.never[:2],
            ForbiddenKnowledge("new x_{j}", "the new share of party {j}", 4, "share.secret_share"),
            _PRIVATE_KEY,
        ),
    ),
    "ecdsa": Knowledge(
        {
            BEFORE: (
                Item("x_i", "its share of the key", OWN, "share.secret_share"),
                Item("Y", "the public key", PUBLIC, "share.record.public_key"),
                Item("H(m)", "the hash to be signed", PUBLIC, "message_hash"),
            ),
            1: (
                Item("r_i", "its part of the nonce", OWN, "r_i"),
                Item("phi_i", "its mask for the inversion", OWN, "phi_i"),
                Item("R_i", "r_i · G, committed to, not yet shown", OWN, "R_i"),
            ),
            2: (
                Item("transcript", "hash of everyone's first message", PUBLIC, "transcript"),
                Item("chi_ij", "what it multiplies the peer's values with", OWN, "chi"),
            ),
            3: (
                Item(
                    "sk_i",
                    "lambda_i · x_i + zeta_i: its key share, for this session only",
                    OWN,
                    "sk_i",
                ),
                Item("c_ij", "its additive parts of r_i · chi_ji and sk_i · chi_ji", OWN, "c"),
            ),
            4: (
                Item("R", "the nonce point, the sum of the R_j", PUBLIC, "R"),
                Item("r", "x coordinate of R: half of the signature", PUBLIC, "r_x"),
            ),
            5: (Item("(r, s)", "the signature, verified", PUBLIC),),
        },
        {
            "Commit": (Item("commitment to R_{j}", "binds party {j}, says nothing yet", RECEIVED),),
            "Offer": (Item("OT corrections of {j}", "hide chi of party {j}", RECEIVED),),
            "Respond": _MULTIPLIED,
            "SignatureShare": (
                Item("w_{j}, u_{j}", "masked parts of numerator and denominator", RECEIVED),
            ),
        },
        (
            ForbiddenKnowledge("x_{j}", "the key share of party {j}", BEFORE, "share.secret_share"),
            ForbiddenKnowledge("r_{j}", "the nonce share of party {j}", 1, "r_i"),
            ForbiddenKnowledge("phi_{j}", "the mask of party {j}", 1, "phi_i"),
            ForbiddenKnowledge("chi of {j}", "what party {j} multiplies with", 2, "chi"),
            ForbiddenKnowledge("sk_{j}", "the session's key share of party {j}", 3, "sk_i"),
            _PRIVATE_KEY,
        ),
    ),
    "presign": Knowledge(
        {
            BEFORE: (
                Item("x_i", "its share of the key", OWN, "share.secret_share"),
                Item("Y", "the public key", PUBLIC, "share.record.public_key"),
            ),
            1: (
                Item("r_i", "its part of each nonce", OWN, "nonces.r_i"),
                Item("phi_i", "its mask for each inversion", OWN, "nonces.phi_i"),
                Item("rho_i", "what will re-randomise each nonce", OWN, "later.rho_i"),
                Item("R_i", "r_i · G, committed to, not yet shown", OWN, "nonces.R_i"),
            ),
            2: (
                Item("transcripts", "one for each, fresh", PUBLIC, "nonces.transcript"),
                Item("chi_ij", "what it multiplies the peer's values with", OWN, "nonces.chi"),
            ),
            3: (
                Item(
                    "sk_i",
                    "lambda_i · x_i + zeta_i: its key share, for this nonce only",
                    OWN,
                    "nonces.sk_i",
                ),
                Item(
                    "c_ij", "its additive parts of r_i · chi_ji and sk_i · chi_ji", OWN, "nonces.c"
                ),
            ),
            4: (
                Item("R", "the nonce points, not yet re-randomised", PUBLIC),
                Item("u_i, v_i", "its additive parts of r · phi and sk · phi", OWN),
            ),
        },
        {
            "Commit": (
                Item("commitments to R_{j}", "bind party {j}, say nothing yet", RECEIVED),
                Item("commitments to rho_{j}", "not opened in this session", RECEIVED),
            ),
            "Offer": (Item("OT corrections of {j}", "hide chi of party {j}", RECEIVED),),
            "Respond": _MULTIPLIED,
        },
        (
            ForbiddenKnowledge("x_{j}", "the key share of party {j}", BEFORE, "share.secret_share"),
            ForbiddenKnowledge("r_{j}", "the nonce shares of party {j}", 1, "nonces.r_i"),
            ForbiddenKnowledge("phi_{j}", "the masks of party {j}", 1, "nonces.phi_i"),
            ForbiddenKnowledge(
                "rho_{j}", "what party {j} opens when there is a message", 1, "later.rho_i"
            ),
            ForbiddenKnowledge("chi of {j}", "what party {j} multiplies with", 2, "nonces.chi"),
            ForbiddenKnowledge(
                "sk_{j}", "the key shares of party {j}, one a nonce", 3, "nonces.sk_i"
            ),
            _PRIVATE_KEY,
        ),
    ),
    "presigned": Knowledge(
        {
            BEFORE: (
                Item("Y", "the public key", PUBLIC, "share.record.public_key"),
                Item("H(m)", "the hash to be signed", PUBLIC, "message_hash"),
                Item("rho", "of the one who finishes, fresh", PUBLIC, "rho"),
                Item("R", "the nonce point of the presignature", PUBLIC, "presignature.R"),
                Item("phi_i", "its mask for the inversion", OWN, "presignature.phi_i"),
                Item("u_i", "its part of r · phi", OWN, "presignature.u_i"),
                Item("v_i", "its part of sk · phi", OWN, "presignature.v_i"),
            ),
            1: (Item("used", "the presignature is gone, whatever follows", PUBLIC),),
            2: (Item("delta", "what R is moved by: a hash of everything", PUBLIC),),
            3: (
                Item("R'", "R + delta · G", PUBLIC, "R"),
                Item("r'", "its x coordinate: half of the signature", PUBLIC, "r_x"),
                Item(
                    "(r', s)", "the signature, verified: who finishes has it", PUBLIC, "signature"
                ),
            ),
        },
        {
            "Open": (Item("rho_{j}", "what party {j} was bound to, opened", RECEIVED),),
            "Answer": (
                Item("rho_{j}", "what party {j} was bound to, opened", RECEIVED),
                Item("w_{j}, u'_{j}", "masked parts of numerator and denominator", RECEIVED),
            ),
        },
        (
            ForbiddenKnowledge("x_{j}", "the key share of party {j}", BEFORE, "share.secret_share"),
            ForbiddenKnowledge("phi_{j}", "the mask of party {j}", BEFORE, "presignature.phi_i"),
            ForbiddenKnowledge(
                "u_{j}", "its part of r · phi, for the nonce as it was", BEFORE, "presignature.u_i"
            ),
            ForbiddenKnowledge("v_{j}", "its part of sk · phi", BEFORE, "presignature.v_i"),
            _PRIVATE_KEY,
        ),
    ),
    "frost": Knowledge(
        {
            BEFORE: (
                Item("sk_i", "its share of the key", OWN, "share.secret_share"),
                Item("PK", "the group public key", PUBLIC, "share.record.public_key"),
                Item("m", "the message to be signed", PUBLIC, "message"),
            ),
            1: (Item("d_i, e_i", "hiding and binding nonce, used once", OWN, "nonces"),),
            2: (
                Item("R", "the group commitment", PUBLIC, "bound.group_commitment"),
                Item("c", "the challenge H(R, PK, m)", PUBLIC, "bound.challenge"),
            ),
            3: (Item("(R, z)", "the signature, verified", PUBLIC),),
        },
        {
            "Commitments": (
                Item("D_{j}, E_{j}", "commitments to the nonces of party {j}", RECEIVED),
            ),
            "SignatureShare": (Item("z_{j}", "party {j}'s part of the signature", RECEIVED),),
        },
        (
            ForbiddenKnowledge(
                "sk_{j}", "the key share of party {j}", BEFORE, "share.secret_share"
            ),
            ForbiddenKnowledge(
                "d_{j}, e_{j}",
                "the nonces of party {j}: with z_{j} they give its share away",
                1,
                "nonces",
            ),
            _PRIVATE_KEY,
        ),
    ),
}
"""Knowledge by protocol."""

NETWORK_SEES: Final = (
    Item("who talks to whom, when", "senders, receivers, kinds, sizes and times", PUBLIC),
)
"""Knowledge of the network, which carries the messages, sealed or not."""
NETWORK_FORBIDDEN: Final = (
    ForbiddenKnowledge(
        "what is sealed", "it can drop or delay sealed messages, neither read nor alter them"
    ),
)


def find(kept: Any, path: str) -> Any:
    """Return the value at a path in what a party kept; None: there is none. Of several alike, a
    tuple."""
    for name in path.split("."):
        if kept is None:
            return None
        if isinstance(kept, tuple):
            kept = tuple(getattr(each, name) for each in kept)
        else:
            kept = getattr(kept, name)
    return kept


def secrets_in(value: Any) -> Iterator[bytes]:
    """Yield the byte strings that would reveal a value."""
    match value:
        case Scalar():
            if value:
                yield value.n.to_bytes(32, "big")
                yield value.n.to_bytes(32, "little")
        case bytes():
            if len(value) >= 16:
                yield value
        case Mapping():
            for each in value.values():
                yield from secrets_in(each)
        case tuple():
            for each in value:
                yield from secrets_in(each)
        case Point() | None:
            return
        case _:
            for name in getattr(value, "__dataclass_fields__", {}):
                yield from secrets_in(getattr(value, name))


def text(value: Any) -> str | None:
    """Return a value in hexadecimal, if it can be shown in a line."""
    match value:
        case Scalar() | Point():
            try:
                return value.encode().hex()
            except MpcError:
                return "the identity"
        case bytes():
            return value.hex() if len(value) <= 36 else f"{value[:32].hex()} …"
        case Mapping():
            found = {j: text(each) for j, each in value.items()}
            return ", ".join(f"{j}: {each}" for j, each in found.items() if each) or None
        case tuple():
            return ", ".join(each for each in map(text, value) if each) or None
        case _:
            return None

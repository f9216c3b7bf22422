"""Catalogue of the gallery: its entries, the table of known attacks, and rows that do not apply.

The rows: P for Paillier-based signing, O for oblivious transfer and DKLs signing, D for key
generation, secret sharing and resharing, S for signing, FROST, output and operations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mpcsim.attacks.gallery import (
    dkg,
    encoding,
    frost,
    ot,
    presigning,
    resharing,
    signing,
    state,
    transport,
)
from mpcsim.attacks.model import Attack

FAMILIES = {
    "oblivious transfer": ot.ATTACKS,
    "threshold ECDSA": signing.ATTACKS,
    "presignatures": presigning.ATTACKS,
    "key generation": dkg.ATTACKS,
    "resharing": resharing.ATTACKS,
    "threshold Ed25519": frost.ATTACKS,
    "state": state.ATTACKS,
    "transport": transport.ATTACKS,
    "encodings": encoding.ATTACKS,
}
"""Entries by protocol or topic."""


def _order(attack: Attack) -> tuple[int, int, str]:
    row = attack.rows[0]
    return "ODSP".index(row[0]), int(row[1:]), attack.id


ATTACKS: tuple[Attack, ...] = tuple(
    sorted((attack for family in FAMILIES.values() for attack in family), key=_order)
)
"""All entries, in the order of the table."""

ROWS: tuple[str, ...] = tuple(
    f"{letter}{n}"
    for letter, last in (("O", 14), ("D", 15), ("S", 14), ("P", 10))
    for n in range(1, last + 1)
)
"""Every row of the table."""

_PAILLIER = "Paillier-based multiplication is not implemented"

NOT_APPLICABLE: Mapping[str, str] = {
    "D11": "needs refresh messages whose failure depends on the receiver's secrets (Paillier "
    "moduli, range proofs); here a dealt share is compared with public commitments, OT state is "
    "made anew, and resharing makes every check of key generation (D12, D14)",
    "S14": "out of scope: Python offers no constant time, and the documentation says so",
    "P1": f"{_PAILLIER}: no modulus to prove well-formed",
    "P2": f"{_PAILLIER}; in DKLs23 a failed signature says nothing about the key, and the failure "
    "that does leak ends the set-up (O2)",
    "P3": f"{_PAILLIER}: no ring-Pedersen parameters",
    "P5": f"{_PAILLIER}: no proof with repeated small challenges",
    "P6": f"{_PAILLIER}: no proof in a group of unknown order; both groups here have prime order",
    "P7": f"{_PAILLIER}: no range proofs; what a sender multiplies is checked in O3 and O4",
}
"""Rows without an entry, and why."""


REMARKS: Mapping[str, str] = {
    "O10": "a choice of construction, not an attack of its own: the check that O1 meets is "
    "SoftSpoken's, over full-rank rows and with masks",
    "D14": "no repairable threshold scheme: a lost share comes back by resharing",
    "S1": "beside presignatures, the nonces of a signature under way",
    "S11": "the hash of an ERC-4337 operation, which must bind EntryPoint and chain, is made by "
    "whoever asks for the signature; the signers get 32 bytes",
    "P9": "no ciphertexts: the points and scalars that are left are in S10 and D9",
    "P10": "no Delta of Paillier-based presigning: the corresponding checks are in O4, O5 and S7",
}
"""Differences of covered rows from this implementation."""


def uncovered(attacks: Iterable[Attack] = ATTACKS) -> list[str]:
    """Return the rows of the table that have neither an entry nor a reason to have none."""
    covered = {row for attack in attacks for row in attack.rows}
    return [row for row in ROWS if row not in covered and row not in NOT_APPLICABLE]

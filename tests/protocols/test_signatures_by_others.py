"""What our verification takes and refuses, by Wycheproof and by CCTV."""

import hashlib
from collections import Counter

import pytest

from mpcsim.attacks.gallery.edwards import verify_with_cofactor
from mpcsim.crypto.groups.ed25519 import ED25519, Ed25519Point
from mpcsim.crypto.groups.secp256k1 import ORDER, SECP256K1
from mpcsim.errors import InvalidEncoding
from mpcsim.protocols import frost
from mpcsim.protocols.key_share import PublicKeyRecord
from mpcsim.protocols.signing import verifies
from tests.helpers.vectors import load


def record(public_key):
    return PublicKeyRecord(public_key.group.name, 2, bytes(32), public_key, {})


def both_verify(public_key, message, signature):
    """Whether the node and FROST take a signature of 64 bytes; they agree."""
    split = frost.Ed25519Signature(signature[:32], signature[32:])
    found = frost.steps.verify_signature(split, public_key, message)
    assert verifies(record(public_key), message, signature) == found
    return found


# ------------------------------------------------------------------ Ed25519, Wycheproof


def test_ed25519_wycheproof():
    document = load("wycheproof/ed25519_test.json.gz")
    checked = Counter()
    for group in document["testGroups"]:
        public_key = ED25519.decode_point(bytes.fromhex(group["publicKey"]["pk"]))
        for case in group["tests"]:
            message, signature = bytes.fromhex(case["msg"]), bytes.fromhex(case["sig"])
            if len(signature) == 64:
                found = both_verify(public_key, message, signature)
            else:  # FROST's have two halves of 32 bytes
                found = verifies(record(public_key), message, signature)
            assert found == (case["result"] == "valid"), case["tcId"]
            checked[case["result"], len(signature) == 64] += 1
    assert checked == {("valid", True): 88, ("invalid", True): 51, ("invalid", False): 12}
    assert checked.total() == document["numberOfTests"]


# ------------------------------------------------------------------ Ed25519, CCTV

CCTV = load("cctv/ed25519vectors.json.gz")

REFUSED = {
    "low_order_A",
    "low_order_R",
    "non_canonical_A",
    "non_canonical_R",
    "low_order_residue",
    "reencoded_k",
}
"""A signature with one of these flags is none, even if its key were let in."""


def parts(vector):
    """Key, message, signature and flags."""
    key, signature = bytes.fromhex(vector["key"]), bytes.fromhex(vector["sig"])
    return key, vector["msg"].encode(), signature, frozenset(vector["flags"] or ())


def decoded(key):
    try:
        return ED25519.decode_point(key)
    except InvalidEncoding:
        return None


def test_ed25519_cctv_by_flag():
    taken, refused, alone = Counter(), Counter(), Counter()
    for vector in CCTV:
        key, message, signature, flags = parts(vector)
        # The key as it is, past our decoder: this is libsodium's own judgement.
        found = both_verify(Ed25519Point(key), message, signature)
        assert found == (not flags & REFUSED), vector["number"]
        (taken if found else refused).update(flags or {"none"})
        if len(flags & REFUSED) == 1:
            alone.update(flags & REFUSED)
    # Components of small order in A and R that cancel out are not noticed.
    assert taken == {"low_order_component_A": 42, "low_order_component_R": 35, "none": 1}
    assert refused == {
        "low_order_A": 526,
        "low_order_R": 586,
        "low_order_component_A": 732,
        "low_order_component_R": 630,
        "low_order_residue": 583,
        "non_canonical_A": 226,
        "non_canonical_R": 316,
        "reencoded_k": 146,
    }
    # Each of these is enough; the others come along with one of them.
    assert set(alone) == {"low_order_A", "low_order_R", "low_order_residue"}
    assert len(CCTV) == 914


def test_ed25519_cctv_with_decoded_keys():
    # A key is decoded before anything is verified with it. One of the vectors is left.
    known = {"low_order_A", "low_order_component_A", "non_canonical_A"}
    outcomes = Counter()
    for vector in CCTV:
        key, message, signature, flags = parts(vector)
        public_key = decoded(key)
        assert (public_key is None) == bool(flags & known), vector["number"]
        if public_key is None:
            outcomes["no key"] += 1
        else:
            found = both_verify(public_key, message, signature)
            assert found == (not flags), vector["number"]
            outcomes["taken" if found else "refused"] += 1
    assert outcomes == {"no key": 886, "refused": 27, "taken": 1}


def test_the_attackers_verification_has_the_cofactor():
    # With points decoded as they come it takes all that has a challenge of its own bytes (ZIP 215).
    # Every 41st vector: it is slow.
    chosen, taken = CCTV[::41], 0
    for vector in chosen:
        key, message, signature, flags = parts(vector)
        found = verify_with_cofactor(signature, key, message)
        # The cofactor does away with a key of small order, whatever it is multiplied by.
        assert found == ("reencoded_k" not in flags or "low_order_A" in flags), vector["number"]
        taken += found
    assert (len(chosen), taken) == (23, 20)


# ------------------------------------------------------------------ ECDSA, Wycheproof


def cases():
    """Key, hash, signature and the whole case."""
    for group in load("wycheproof/ecdsa_secp256k1_sha256_p1363_test.json.gz")["testGroups"]:
        uncompressed = bytes.fromhex(group["publicKey"]["uncompressed"])
        with pytest.raises(InvalidEncoding):
            SECP256K1.decode_point(uncompressed)
        compressed = bytes([2 + (uncompressed[-1] & 1)]) + uncompressed[1:33]
        public_key = SECP256K1.decode_point(compressed)
        for case in group["tests"]:
            digest = hashlib.sha256(bytes.fromhex(case["msg"])).digest()
            yield public_key, digest, bytes.fromhex(case["sig"]), case


def matching(public_key, digest, signature):
    """Every v with which the node takes r and s."""
    held = record(public_key)
    return [v for v in range(24, 36) if verifies(held, digest, signature + bytes([v]))]


def test_ecdsa_wycheproof():
    # Theirs have no v, and any s; ours have low s, and v = 27 or 28.
    checked = Counter()
    for public_key, digest, signature, case in cases():
        found = matching(public_key, digest, signature)
        assert not verifies(record(public_key), digest, signature), "v is missing"
        if case["result"] == "invalid":
            assert not found, case["tcId"]
            checked["invalid"] += 1
            continue
        s = int.from_bytes(signature[32:], "big")
        if s <= ORDER // 2:
            assert found in ([27], [28]), case["tcId"]
            checked["low s"] += 1
            continue
        assert not found, case["tcId"]
        low = signature[:32] + (ORDER - s).to_bytes(32, "big")
        found = matching(public_key, digest, low)
        assert found in ([27], [28], []), case["tcId"]
        checked["high s, taken as low s" if found else "high s, v above 28"] += 1
    assert checked == {
        "invalid": 85,
        "low s": 95,
        "high s, taken as low s": 70,
        "high s, v above 28": 2,
    }

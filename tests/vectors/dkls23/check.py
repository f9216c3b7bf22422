"""Check the transcripts in this folder with nothing of the package: a reading of README.md.

    python check.py

It takes the inputs and the draws of each case, computes everything else, and compares it with what
is in the file. Written for those who port it: it needs AES, SHA-2, SHAKE, HMAC and the group
secp256k1 (here of the packages cryptography and coincurve), and no more. Nothing is constant-time.
"""

import hashlib
import hmac
import json
from collections.abc import Sequence
from functools import cache, reduce
from operator import xor
from pathlib import Path
from typing import Any, Final

from coincurve import PrivateKey, PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

HERE: Final = Path(__file__).parent
Q: Final = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
"""Order of the group."""
OTS: Final = 128
"""Base OTs; also the bits of Delta, of a block, and of the mask."""
XI: Final = 416
"""Extended OTs of a multiplication."""
ECDSA: Final = 2
"""Number of the protocol in envelopes."""


class Different(Exception):
    """Something in a file is not what it should be."""


def expect(where: str, found: object, computed: object) -> None:
    if found != computed:
        raise Different(f"{where}: {str(found)[:80]} should be {str(computed)[:80]}")


def same(case: dict[str, Any], name: str, computed: object) -> None:
    """The field of a case is what was computed; bytes are compared as hex."""
    expect(name, case[name], computed.hex() if isinstance(computed, bytes) else computed)


def raw(case: Any, name: Any) -> bytes:
    return bytes.fromhex(case[name])


# ------------------------------------------------------------------ hashes


def u32(n: int) -> bytes:
    return n.to_bytes(4, "big")


def framed(tag: str, parts: Sequence[bytes]) -> bytes:
    """The tag and every part, each behind its length in eight bytes."""
    return b"".join(len(p).to_bytes(8, "big") + p for p in (tag.encode(), *parts))


def tagged_hash(tag: str, *parts: bytes) -> bytes:
    return hashlib.sha256(framed(tag, parts)).digest()


def tagged_xof(tag: str, length: int, *parts: bytes) -> bytes:
    return hashlib.shake_128(framed(tag, parts)).digest(length)


def hash_to_scalar(tag: str, *parts: bytes) -> int:
    return int.from_bytes(tagged_xof(tag, 48, *parts), "big") % Q


def hash_to_point(tag: str, *parts: bytes) -> PublicKey:
    """The first of the tries 0, 1, ... that is the x coordinate of a point."""
    for counter in range(256):
        digest = tagged_xof(tag, 33, *parts, u32(counter))
        try:
            return PublicKey(bytes([2 + (digest[0] & 1)]) + digest[1:])
        except ValueError:
            continue
    raise Different("no point in 256 tries")


def crhash(key: bytes, blocks: Sequence[bytes], width: int, group: int = 1) -> list[bytes]:
    """pi(pi(x) ^ tweak) ^ pi(x) with pi = AES-256 under the key: ``width`` blocks for each."""
    pi = Cipher(algorithms.AES256(key), modes.ECB()).encryptor().update
    out = []
    for j, x in enumerate(blocks):
        pi_x = int.from_bytes(pi(x), "little")
        tweaks = (j // group * width + b for b in range(width))
        inner = pi(b"".join((pi_x ^ tweak).to_bytes(16, "little") for tweak in tweaks))
        out.append(xor_bytes(inner, pi(x) * width))
    return out


# ------------------------------------------------------------------ small things


def xor_bytes(*parts: bytes) -> bytes:
    total = reduce(xor, (int.from_bytes(part, "little") for part in parts))
    return total.to_bytes(len(parts[0]), "little")


def bit(bits: bytes, j: int) -> int:
    """Bit j of a string of bits, of whose bytes the lowest bit comes first."""
    return bits[j // 8] >> j % 8 & 1


def pack(bits: Sequence[int]) -> bytes:
    return sum(b << j for j, b in enumerate(bits)).to_bytes(len(bits) // 8, "little")


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def drawn(of: dict[str, Any], *names: str) -> list[bytes]:
    """The draws of a step, in their order; they are the bytes of SHAKE-256 of what is named."""
    draws = of["draws"]
    if names:
        expect("names of the draws", tuple(draws), names)
        draws = draws.values()
    found = [bytes.fromhex(draw) for draw in draws]
    stream = hashlib.shake_256(of["drawn_from"].encode()).digest(sum(map(len, found)))
    expect("draws", b"".join(found), stream)
    return found


def drawn_scalar(draw: bytes) -> int:
    """1 to Q - 1, of 48 bytes."""
    return 1 + int.from_bytes(draw, "big") % (Q - 1)


def big(n: int) -> bytes:
    return (n % Q).to_bytes(32, "big")


def base(n: int) -> PublicKey:
    return PrivateKey(big(n)).public_key


def times(n: int, P: PublicKey) -> PublicKey:
    return P.multiply(big(n))


def plus(*points: PublicKey) -> PublicKey:
    return PublicKey.combine_keys(list(points))


def minus(P: PublicKey) -> PublicKey:
    encoded = P.format()
    return PublicKey(bytes([encoded[0] ^ 1]) + encoded[1:])


# ------------------------------------------------------------------ base OT


def hashed(sid: bytes, j: int, branch: int, other: PublicKey) -> PublicKey:
    tag = "mpcsim/ot-base/hash-to-point/v1"
    return hash_to_point(tag, sid, u32(j), u32(branch), other.format())


def base_key(sid: bytes, j: int, branch: int, A: PublicKey, shared: PublicKey) -> bytes:
    tag = "mpcsim/ot-base/key/v1"
    return tagged_hash(tag, sid, u32(j), u32(branch), A.format(), shared.format())[:16]


def points(sequence: Sequence[PublicKey]) -> bytes:
    return len(sequence).to_bytes(2, "big") + b"".join(P.format() for P in sequence)


def check_base_ot(case: dict[str, Any]) -> None:
    sid, receiver, sender = raw(case, "session"), case["receiver"], case["sender"]
    delta, *draws = drawn(receiver)
    expect("number of draws", (len(draws), len(sender["draws"])), (2 * OTS, OTS))
    same(receiver, "choices", delta)
    # The receiver: what it cannot open at random, and what it can: b G - H(other).
    r: list[list[PublicKey]] = [[], []]
    b = []
    for j in range(OTS):
        c = bit(delta, j)
        other = base(drawn_scalar(draws[2 * j]))
        b.append(drawn_scalar(draws[2 * j + 1]))
        r[1 - c].append(other)
        r[c].append(plus(base(b[j]), minus(hashed(sid, j, c, other))))
    same(receiver, "message", points(r[0]) + points(r[1]))
    # The sender: a key for each branch.
    a = [drawn_scalar(draw) for draw in drawn(sender)]
    A = [base(a_j) for a_j in a]
    for branch in (0, 1):
        H = [hashed(sid, j, branch, r[1 - branch][j]) for j in range(OTS)]
        same(sender, f"hashed_{branch}", b"".join(P.format() for P in H))
        combined = [plus(P, H_j) for P, H_j in zip(r[branch], H, strict=True)]
        keys = [base_key(sid, j, branch, A[j], times(a[j], combined[j])) for j in range(OTS)]
        same(sender, f"keys_{branch}", b"".join(keys))
    same(sender, "message", points(A))
    # The receiver: the key that it chose.
    chosen = [base_key(sid, j, bit(delta, j), A[j], times(b[j], A[j])) for j in range(OTS)]
    same(receiver, "keys", b"".join(chosen))
    for j, key in enumerate(chosen):
        expect(f"key {j}", key, cut(raw(sender, f"keys_{bit(delta, j)}"), 16)[j])


# ------------------------------------------------------------------ all-but-one OT


def digits(delta: bytes, k: int) -> list[int]:
    """Of each tree the leaf that the receiver lacks: k bits of Delta, the first the highest."""
    return [sum(bit(delta, i * k + d) << (k - 1 - d) for d in range(k)) for i in range(OTS // k)]


def children(sid: bytes, i: int, depth: int, y: int, node: bytes) -> tuple[bytes, bytes]:
    """Nodes 2y and 2y + 1 of the next level of tree i."""
    tag = "mpcsim/ot-all-but-one/level/v1"
    wide = tagged_xof(tag, 32, sid, u32(i), u32(depth), u32(y), node)
    return wide[:16], wide[16:]


def leaf(sid: bytes, i: int, y: int, node: bytes) -> tuple[bytes, bytes]:
    """A leaf and its proof."""
    wide = tagged_xof("mpcsim/ot-all-but-one/leaf/v1", 48, sid, u32(i), u32(y), node)
    return wide[:16], wide[16:]


def digest(sid: bytes, i: int, proofs: Sequence[bytes]) -> bytes:
    return tagged_hash("mpcsim/ot-all-but-one/leaves/v1", sid, u32(i), *proofs)


def check_all_but_one_ot(case: dict[str, Any]) -> None:
    sid, k, choices = raw(case, "session"), case["k"], raw(case, "choices")
    keys = [cut(raw(case, f"keys_{branch}"), 16) for branch in (0, 1)]
    leaves, sums, totals, digests = [], [], [], []
    for i in range(OTS // k):
        nodes = [keys[1][i * k], keys[0][i * k]]
        levels = [b"".join(nodes)]
        for depth in range(1, k):
            nodes = [x for y, node in enumerate(nodes) for x in children(sid, i, depth, y, node)]
            levels.append(b"".join(nodes))
            at = i * k + depth
            sums += [xor_bytes(*nodes[0::2], keys[1][at]), xor_bytes(*nodes[1::2], keys[0][at])]
        proofs: list[bytes] = []
        if k > 1:
            pairs = [leaf(sid, i, y, node) for y, node in enumerate(nodes)]
            nodes, proofs = [s for s, _ in pairs], [proof for _, proof in pairs]
            totals.append(xor_bytes(*proofs))
            digests.append(digest(sid, i, proofs))
        leaves.append(nodes)
        if i == 0:
            expect("tree_0", case["tree_0"]["levels"], [level.hex() for level in levels])
            same(case["tree_0"], "proofs", b"".join(proofs))
    same(case, "leaves", b"".join(map(b"".join, leaves)))
    same(case, "message", b"".join([*sums, *totals, *digests]))
    same(case, "unknown", digits(choices, k))
    # The receiver, from the keys that it chose and the message: all leaves but one of each tree.
    chosen = [keys[bit(choices, j)][j] for j in range(OTS)]
    for i, unknown in enumerate(case["unknown"]):
        lacking = bit(choices, i * k)
        known = {1 - lacking: chosen[i * k]}
        for depth in range(1, k):
            known = {
                2 * y + side: x
                for y, node in known.items()
                for side, x in enumerate(children(sid, i, depth, y, node))
            }
            c = bit(choices, i * k + depth)
            lacking = 2 * lacking + c
            alike = [x for y, x in known.items() if y % 2 != c]
            masked = sums[2 * (i * (k - 1) + depth - 1) + 1 - c]
            known[lacking ^ 1] = xor_bytes(*alike, masked, chosen[i * k + depth])
        expect(f"unknown leaf of tree {i}", unknown, lacking)
        expect(f"number of leaves of tree {i}", len(known), (1 << k) - 1)
        if k > 1:
            opened = {y: leaf(sid, i, y, node) for y, node in known.items()}
            known = {y: s for y, (s, _) in opened.items()}
            missing = xor_bytes(totals[i], *(proof for _, proof in opened.values()))
            proofs = [opened[y][1] if y in opened else missing for y in range(1 << k)]
            expect(f"digest of tree {i}", digests[i], digest(sid, i, proofs))
        for y, s in known.items():
            expect(f"leaf {y} of tree {i}", leaves[i][y], s)


# ------------------------------------------------------------------ OT extension


def stretched(sid: bytes, leaves: Sequence[bytes], per_tree: int) -> list[bytes]:
    """Of each leaf a row: 52 bytes for the OTs, 16 for the mask. Tweaks count trees."""
    key = tagged_hash("mpcsim/ot-extension/prg/v1", sid)
    size = (XI + OTS) // 8
    return [row[:size] for row in crhash(key, leaves, -(-size // 16), per_tree)]


@cache
def matrix(sid: bytes, u: bytes) -> bytes:
    return tagged_xof("mpcsim/ot-extension/challenge/v1", OTS * XI // 8, sid, u)


@cache
def hashed_row(sid: bytes, u: bytes, row: bytes) -> bytes:
    """R(row) = M * (its first 416 bits) ^ (its last 128)."""
    x = int.from_bytes(row[: XI // 8], "little")
    M = (int.from_bytes(m, "little") for m in cut(matrix(sid, u), XI // 8))
    return xor_bytes(pack([(m & x).bit_count() & 1 for m in M]), row[XI // 8 :])


def opening(sid: bytes, opened: bytes) -> bytes:
    return tagged_hash("mpcsim/ot-extension/opening/v1", sid, opened)


def columns(rows: Sequence[bytes]) -> list[bytes]:
    """Column j as a block: bit i is bit j of row i. Those of the mask are left out."""
    numbers = [int.from_bytes(row, "little") for row in rows]
    return [pack([row >> j & 1 for row in numbers]) for j in range(XI)]


def pads(sid: bytes, blocks: Sequence[bytes], width: int) -> bytes:
    key = tagged_hash("mpcsim/ot-extension/output/v1", sid)
    return b"".join(crhash(key, blocks, width))


def by_bit(rows: Sequence[bytes], k: int) -> list[bytes]:
    """Of rows 1 to 2^k - 1 those summed up whose number has a bit, for each bit, highest first."""
    return [
        xor_bytes(*(row for w, row in enumerate(rows, 1) if w >> at & 1))
        for at in reversed(range(k))
    ]


@cache
def extension_receiver(
    sid: bytes, leaves: bytes, k: int, beta: bytes, mask: bytes, width: int
) -> tuple[bytes, bytes, bytes, bytes]:
    """(t, t~, message, chosen pads)."""
    trees = [cut(tree, 16) for tree in cut(leaves, 16 << k)]
    every = (1 << k) - 1
    rest = stretched(sid, [leaf for tree in trees for leaf in tree[1:]], every)
    zeroth = stretched(sid, [tree[0] for tree in trees], 1)
    x = beta + mask
    t, u = [], b""
    for i, r_0 in enumerate(zeroth):
        rows = rest[every * i : every * (i + 1)]
        t += by_bit(rows, k)
        u += xor_bytes(r_0, *rows, x)
    opened = b"".join(hashed_row(sid, u, row) for row in t)
    message = u + hashed_row(sid, u, x) + opening(sid, opened)
    return b"".join(t), opened, message, pads(sid, columns(t), width)


@cache
def extension_sender(
    sid: bytes, leaves: bytes, k: int, delta: bytes, message: bytes, width: int
) -> tuple[bytes, bytes, bytes]:
    """(q, pads 0, pads 1); of each tree the leaf at its digit of Delta is not looked at."""
    n, size = OTS // k, (XI + OTS) // 8
    u, x, t = message[: n * size], message[n * size : -32], message[-32:]
    punctured = [
        cut(tree, 16)[digit ^ y]
        for tree, digit in zip(cut(leaves, 16 << k), digits(delta, k), strict=True)
        for y in range(1, 1 << k)
    ]
    every = (1 << k) - 1
    rows = stretched(sid, punctured, every)
    q = []
    for i, u_i in enumerate(cut(u, size)):
        for d, row in enumerate(by_bit(rows[every * i : every * (i + 1)], k)):
            q.append(xor_bytes(row, u_i) if bit(delta, i * k + d) else row)
    opened = b"".join(
        xor_bytes(hashed_row(sid, u, row), x) if bit(delta, i) else hashed_row(sid, u, row)
        for i, row in enumerate(q)
    )
    expect("opening", t, opening(sid, opened))
    zero = columns(q)
    one = [xor_bytes(column, delta) for column in zero]
    return b"".join(q), pads(sid, zero, width), pads(sid, one, width)


def check_ot_extension(case: dict[str, Any]) -> None:
    sid, k, width = raw(case, "session"), case["k"], case["width"]
    leaves, delta = raw(case, "leaves"), raw(case, "delta")
    beta, mask = drawn(case, "beta", "mask")
    t, opened, message, chosen = extension_receiver(sid, leaves, k, beta, mask, width)
    same(case, "t", t)
    size = (XI + OTS) // 8
    same(case, "matrix_sha256", sha256(matrix(sid, message[: OTS // k * size])))
    same(case, "opened", opened)
    same(case, "message", message)
    q, *both = extension_sender(sid, leaves, k, delta, raw(case, "message"), width)
    same(case, "q_sha256", sha256(q))
    same(case, "pads_0", both[0])
    same(case, "pads_1", both[1])
    for j, pad in enumerate(cut(chosen, 16 * width)):
        expect(f"pad {j}", pad, cut(both[bit(beta, j)], 16 * width)[j])


def sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


# ------------------------------------------------------------------ multiplication


WIDTH: Final = 6
"""Blocks of pad an OT: three scalars, for two inputs and the check."""

Columns = tuple[list[int], ...]


def scalars(data: bytes) -> list[int]:
    """Of a pad, or a vector: 32 bytes each, little-endian."""
    return [int.from_bytes(s, "little") % Q for s in cut(data, 32)]


def three(data: bytes) -> Columns:
    every = scalars(data)
    return every[0::3], every[1::3], every[2::3]


def little(vector: Sequence[int]) -> bytes:
    return b"".join((s % Q).to_bytes(32, "little") for s in vector)


@cache
def gadget(sid: bytes) -> list[int]:
    return scalars(tagged_xof("mpcsim/mta/ot/gadget/v1", 32 * XI, sid))


def challenge(sid: bytes, a: bytes) -> list[int]:
    corrections = tagged_hash("mpcsim/mta/ot/corrections/v1", sid, a)
    return [hash_to_scalar("mpcsim/mta/ot/theta/v1", sid, corrections, bytes([i])) for i in (0, 1)]


def mu(sid: bytes, checked: Sequence[int]) -> bytes:
    return tagged_hash("mpcsim/mta/ot/mu/v1", sid, little(checked))


def multiply_send(
    sid: bytes, both: tuple[bytes, bytes], a: tuple[int, int], a_hat: int
) -> tuple[list[int], list[int], bytes]:
    """(theta, c, reply)."""
    alpha0, alpha1 = map(three, both)
    corrections = [
        [zero - one + a_i for zero, one in zip(of_0, of_1, strict=True)]
        for of_0, of_1, a_i in zip(alpha0, alpha1, (*a, a_hat), strict=True)
    ]
    encoded = little([s for row in zip(*corrections, strict=True) for s in row])
    theta = challenge(sid, encoded)
    eta = a_hat + theta[0] * a[0] + theta[1] * a[1]
    checked = [theta[0] * u + theta[1] * v + hat for u, v, hat in zip(*alpha0, strict=True)]
    g = gadget(sid)
    c = [-sum(x * y for x, y in zip(g, alpha0[i], strict=True)) % Q for i in (0, 1)]
    return theta, c, encoded + big(eta) + mu(sid, checked)


def multiply_finish(sid: bytes, beta: bytes, chosen: bytes, reply: bytes) -> list[int]:
    """d, once the reply is found consistent."""
    encoded, eta, said = reply[:-64], int.from_bytes(reply[-64:-32], "big"), reply[-32:]
    d = [
        [(y + bit(beta, j) * x) % Q for j, (y, x) in enumerate(zip(gamma, a, strict=True))]
        for gamma, a in zip(three(chosen), three(encoded), strict=True)
    ]
    theta = challenge(sid, encoded)
    checked = [
        theta[0] * u + theta[1] * v + hat - bit(beta, j) * eta
        for j, (u, v, hat) in enumerate(zip(*d, strict=True))
    ]
    expect("mu", said, mu(sid, checked))
    return [sum(x * y for x, y in zip(gadget(sid), d[i], strict=True)) % Q for i in (0, 1)]


# ------------------------------------------------------------------ envelopes, derived keys


def envelope(
    pair_secret: bytes, kind: int, ends: tuple[int, int], session: bytes, salt: bytes, said: bytes
) -> bytes:
    """A sealed message, as it is carried."""
    sender, receiver = ends
    header = bytes([1, ECDSA, kind, 1]) + b"".join(i.to_bytes(2, "big") for i in ends) + session
    key = tagged_hash(
        "mpcsim/channel/key/v1", pair_secret, session, u32(sender), u32(receiver), u32(kind), salt
    )
    return header + salt + AESGCM(key).encrypt(bytes(12), said, header)


def derived(pk: bytes, chain_code: bytes, path: Sequence[int]) -> tuple[bytes, int]:
    """(child key, tau): BIP 32, without private keys."""
    tau = 0
    for number in path:
        found = hmac.digest(chain_code, pk + u32(number), "sha512")
        n, chain_code = int.from_bytes(found[:32], "big"), found[32:]
        pk, tau = plus(base(n), PublicKey(pk)).format(), (tau + n) % Q
    return pk, tau


# ------------------------------------------------------------------ signing


def direction(transcript: bytes, sender: int, receiver: int) -> bytes:
    return tagged_hash("mpcsim/mta/session/v1", transcript, u32(sender), u32(receiver))


def coefficient(i: int, j: int, at: int) -> int:
    """How much of party i's share is in the value there of the line through both shares."""
    return (j - at) * pow(j - i, -1, Q) % Q


def check_ecdsa(case: dict[str, Any]) -> None:
    key, pair, session = case["key"], case["pair"], raw(case, "session")
    me, peer = signers = tuple(case["signers"])
    other = {me: peer, peer: me}
    party = {i: case["parties"][str(i)] for i in signers}
    k = case["k"]
    X = {int(i): bytes.fromhex(X_i) for i, X_i in key["public_shares"].items()}
    x = {i: int(party[i]["secret_share"], 16) for i in signers}
    lagrange = {i: coefficient(i, other[i], 0) for i in signers}
    for at, name in [(0, "public key"), *((i, f"public share {i}") for i in X)]:
        parts = [coefficient(i, other[i], at) * x[i] % Q for i in signers]
        shares = plus(*(base(part) for part in parts if part))
        expect(name, X[at] if at else raw(key, "public_key"), shares.format())
    pk = raw(key, "public_key")
    signing_key, tau = derived(pk, bytes.fromhex(key["chain_code"] or ""), case["path"])
    same(case, "signing_key", signing_key)
    same(case, "tau", big(tau))

    def sent(i: int, number: int, kind: str, said: bytes, salt: bytes) -> None:
        of, secret = party[i][f"round_{number}"], raw(pair, "pair_secret")
        same(of, kind, said)
        whole = envelope(secret, number, (i, other[i]), session, salt, said)
        same(of, "envelope_sha256", sha256(whole))

    # Round 1: commit to the nonce shares.
    context = tagged_hash(
        "mpcsim/session/context/v1",
        b"ecdsa",
        raw(case, "message_hash"),
        raw(key, "epoch"),
        b"".join(map(u32, signers)),
        b"".join(map(u32, case["path"])),
    )
    r, R, phi, blinding, commits = {}, {}, {}, {}, {}
    for i in signers:
        of = party[i]["round_1"]
        first, second, nonce, blinding[i], salt = drawn(
            of, "r_i", "phi_i", "nonce", "blinding", "salt"
        )
        r[i], phi[i] = drawn_scalar(first), drawn_scalar(second)
        R[i] = base(r[i])
        same(of, "r_i", big(r[i]))
        same(of, "R_i", R[i].format())
        same(of, "phi_i", big(phi[i]))
        commitment = tagged_hash(
            "mpcsim/commitment/v1", session, u32(i), blinding[i], nonce, R[i].format()
        )
        commits[i] = context + nonce + commitment
        sent(i, 1, "Commit", commits[i], salt)

    # Round 2: as receiver of a multiplication, offer chi.
    transcript = tagged_hash(
        "mpcsim/session/id/v1",
        session,
        b"secp256k1",
        *(part for i in signers for part in (u32(i), commits[i])),
    )
    same(case, "transcript", transcript)
    echo = len(signers).to_bytes(2, "big") + b"".join(
        i.to_bytes(2, "big")
        + tagged_hash("mpcsim/session/echo/v1", session, b"Commit", u32(i), commits[i])
        for i in signers
    )
    # Of the multiplication that party i is sender of.
    sids = {i: direction(transcript, i, other[i]) for i in signers}
    beta, chi, chosen, offers = {}, {}, {}, {}
    for i in signers:
        of, sid = party[i]["round_2"], sids[other[i]]
        beta[i], mask, salt = drawn(of, "beta", "mask", "salt")
        leaves = raw(case["ots"][str(other[i])], "leaves")
        *_, offers[i], chosen[i] = extension_receiver(sid, leaves, k, beta[i], mask, WIDTH)
        g = gadget(sid)
        chi[i] = sum(g_j for j, g_j in enumerate(g) if bit(beta[i], j)) % Q
        same(of, "multiplication_session", sid)
        same(of, "pads_sha256", sha256(chosen[i]))
        same(of, "gadget_sha256", sha256(little(g)))
        same(of, "chi", big(chi[i]))
        sent(i, 2, "Offer", echo + signing_key + offers[i], salt)

    # Round 3: as sender, put in r_i and sk_i.
    seed, low = raw(pair, "zero_seed"), min(signers)
    share = hash_to_scalar("mpcsim/zero-share/v1", seed, transcript)
    sk, pk_i, c, replies = {}, {}, {}, {}
    for i in signers:
        of, sid = party[i]["round_3"], sids[i]
        last_input, salt = drawn(of, "a_hat", "salt")
        zeta = share if i == low else -share
        sk[i] = (lagrange[i] * x[i] + zeta) % Q
        pk_i[i] = base(sk[i])
        same(of, "lambda_i", big(lagrange[i]))
        same(of, "zeta_i", big(zeta))
        same(of, "sk_i", big(sk[i]))
        ots = case["ots"][str(i)]
        offer = offers[other[i]]
        _, *both = extension_sender(sid, raw(ots, "leaves"), k, raw(ots, "delta"), offer, WIDTH)
        same(of, "multiplication_session", sid)
        same(of, "pads_0_sha256", sha256(both[0]))
        same(of, "pads_1_sha256", sha256(both[1]))
        a_hat = drawn_scalar(last_input)
        theta, c[i], replies[i] = multiply_send(sid, (both[0], both[1]), (r[i], sk[i]), a_hat)
        same(of, "a_hat", big(a_hat))
        same(of, "theta", [big(theta_j).hex() for theta_j in theta])
        same(of, "c", [big(c_j).hex() for c_j in c[i]])
        Gamma = base(c[i][0]).format() + base(c[i][1]).format()
        opened = R[i].format() + blinding[i] + pk_i[i].format()
        sent(i, 3, "Respond", replies[i] + opened + Gamma + big(phi[i] - chi[i]), salt)

    # Round 4: check, and compute the shares of the signature.
    whole = plus(*R.values())
    r_x = int.from_bytes(whole.format()[1:], "big") % Q
    m = int.from_bytes(raw(case, "message_hash"), "big")
    w, u = {}, {}
    for i in signers:
        of, j = party[i]["round_4"], other[i]
        [salt] = drawn(of, "salt")
        d = multiply_finish(sids[j], beta[i], chosen[i], replies[j])
        same(of, "d", [big(d_j).hex() for d_j in d])
        for X_j, c_j, d_j in ((R[j], c[j][0], d[0]), (pk_i[j], c[j][1], d[1])):
            found = plus(base(d_j), base(c_j)).format()
            expect("multiplied", found, times(chi[i], X_j).format())
        same(of, "R", whole.format())
        same(of, "r_x", big(r_x))
        Phi = phi[i] + phi[j] - chi[j]
        u[i] = (r[i] * Phi + c[i][0] + d[0]) % Q
        v = (sk[i] * Phi + c[i][1] + d[1]) % Q
        w[i] = (m * phi[i] + r_x * (v + tau * phi[i])) % Q
        same(of, "v_i", big(v))
        sent(i, 4, "SignatureShare", big(w[i]) + big(u[i]), salt)
    expect("sum of pk_i", plus(*pk_i.values()).format(), pk)

    # Round 5: the signature, with low s, and who signed.
    s = sum(w.values()) * pow(sum(u.values()), -1, Q) % Q
    recovery = whole.format()[0] - 2 | (int.from_bytes(whole.format()[1:], "big") >= Q) << 1
    if s > Q // 2:
        s, recovery = Q - s, recovery ^ 1
    same(case, "signature", big(r_x) + big(s) + bytes([27 + recovery]))
    signature = big(r_x) + big(s) + bytes([recovery])
    signer = PublicKey.from_signature_and_message(signature, raw(case, "message_hash"), hasher=None)
    expect("who signed", signer.format(), signing_key)


# ------------------------------------------------------------------ hashes, alone


def check_hash(case: dict[str, Any]) -> None:
    what = case["what"]
    if what == "crhash":
        blocks = cut(raw(case, "blocks"), 16)
        out = crhash(raw(case, "key"), blocks, case["width"], case["group"])
        return same(case, "output", b"".join(out))
    if what == "envelope":
        ends, session = (case["sender"], case["receiver"]), raw(case, "session")
        secret, salt, payload = (raw(case, name) for name in ("pair_secret", "salt", "payload"))
        sealed = envelope(secret, case["kind"], ends, session, salt, payload)
        return same(case, "output", sealed)
    tag, parts = case["tag"], [bytes.fromhex(part) for part in case["parts"]]
    if what == "tagged_hash":
        return same(case, "output", tagged_hash(tag, *parts))
    if what == "tagged_xof":
        return same(case, "output", tagged_xof(tag, case["length"], *parts))
    if what == "hash_to_scalar":
        return same(case, "output", big(hash_to_scalar(tag, *parts)))
    if what == "hash_to_point":
        return same(case, "output", hash_to_point(tag, *parts).format())
    raise Different(f"unknown: {what}")


CHECKS: Final = {
    "hashes.json": check_hash,
    "base_ot.json": check_base_ot,
    "all_but_one_ot.json": check_all_but_one_ot,
    "ot_extension.json": check_ot_extension,
    "ecdsa_k1.json": check_ecdsa,
    "ecdsa_k4.json": check_ecdsa,
}


def main() -> None:
    for name, check in CHECKS.items():
        cases = json.loads((HERE / name).read_text())["cases"]
        for case in cases:
            check(case)
        print(f"{name}: {len(cases)} as they should be")


if __name__ == "__main__":
    main()

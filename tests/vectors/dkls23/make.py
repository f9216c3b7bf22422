"""Make the transcripts in this folder: the same ones every time, on every machine.

    python -m tests.vectors.dkls23.make

What is in them, and where each draw comes from, README.md says; ``check.py`` computes them again
without the package.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from mpcsim.crypto.encoding import WireContext
from mpcsim.crypto.groups.group import Point, Scalar
from mpcsim.crypto.groups.polynomial import evaluate, lagrange_coefficient
from mpcsim.crypto.groups.secp256k1 import SECP256K1
from mpcsim.crypto.hashing import Tag, tagged_hash, tagged_xof
from mpcsim.crypto.kernels import DEFAULT, Kernel
from mpcsim.crypto.mta.base import direction_sid
from mpcsim.crypto.mta.ot import PAD_BLOCKS, OtMta, OtPairSetup, challenge, gadget
from mpcsim.crypto.ot import all_but_one as ot_all_but_one
from mpcsim.crypto.ot import base as ot_base
from mpcsim.crypto.ot import extension as ot_extension
from mpcsim.crypto.ot.all_but_one import BLOCK_BYTES, place, trees
from mpcsim.crypto.ot.base import bit
from mpcsim.crypto.ot.extension import MASK_BITS, ReceiverSetup, SenderSetup
from mpcsim.crypto.params import STANDARD, OtParameters
from mpcsim.crypto.zero_share import zero_share
from mpcsim.ids import party_ids
from mpcsim.protocols import ecdsa
from mpcsim.protocols.ecdsa import steps
from mpcsim.protocols.ecdsa.messages import Commit, Offer, Respond, SignatureShare
from mpcsim.protocols.ecdsa.products import AfterCommit, AfterOffer, AfterRespond
from mpcsim.protocols.ecdsa.rounds import AfterShare
from mpcsim.protocols.engine.channel import seal, unseal
from mpcsim.protocols.engine.envelope import Envelope
from mpcsim.protocols.key_share import KeyShare, PeerState, PublicKeyRecord
from mpcsim.protocols.local_run import LocalRun, results
from tests.helpers.drawn import Drawn, RoundRoot, Stream

HERE: Final = Path(__file__).parent
XI: Final = STANDARD.xi
KS: Final = (1, 2, 4)
Q: Final = SECP256K1.order

Json = dict[str, Any]


def label(of: str) -> str:
    """What the bytes of a stream are SHAKE-256 of."""
    return f"mpcsim known answers: {of}"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def text(value: Any) -> Any:
    """A value as it stands in the files."""
    match value:
        case bytes():
            return value.hex()
        case Scalar() | Point():
            return value.encode().hex()
        case tuple() | list():
            return [text(v) for v in value]
        case Mapping():
            return {str(name): text(v) for name, v in value.items()}
    return value


def of(value: Any, *names: str) -> Json:
    """What a value has under these names."""
    return {name: getattr(value, name) for name in names}


# ------------------------------------------------------------------ hashes


def hashes(kernel: Kernel) -> list[Json]:
    drawn = Stream(label("hashes"))
    one, two = drawn.bytes(32), drawn.bytes(5)
    found: list[Json] = []
    for parts in [(), (b"",), (one,), (one, two), (one + two,), (one, b"", two)]:
        said = {"tag": Tag.COMMITMENT.value, "parts": parts}
        found.append({"what": "tagged_hash", **said, "output": tagged_hash(Tag.COMMITMENT, *parts)})
    for length in (1, 32, 200):
        output = tagged_xof(Tag.MTA_GADGET, length, one)
        said = {"tag": Tag.MTA_GADGET.value, "parts": [one], "length": length}
        found.append({"what": "tagged_xof", **said, "output": output})
    for parts in [(one, two), (two, one)]:
        scalar = SECP256K1.hash_to_scalar(Tag.ZERO_SHARE, *parts)
        said = {"tag": Tag.ZERO_SHARE.value, "parts": parts}
        found.append({"what": "hash_to_scalar", **said, "output": scalar})
    for parts in [(one, bytes([i])) for i in range(6)]:  # for some of them the first try is none
        point = SECP256K1.hash_to_point(Tag.OT_BASE_POINT, *parts)
        said = {"tag": Tag.OT_BASE_POINT.value, "parts": parts}
        found.append({"what": "hash_to_point", **said, "output": point})
    for width, group in [(1, 1), (5, 1), (5, 3)]:
        key, blocks = drawn.bytes(32), drawn.bytes(6 * BLOCK_BYTES)
        said = {"key": key, "blocks": blocks, "width": width, "group": group}
        output = kernel.crhash(key, blocks, width, group)
        found.append({"what": "crhash", **said, "output": output})
    secret, session, salt = drawn.bytes(32), drawn.bytes(32), drawn.bytes(16)
    sender, receiver = party_ids((1, 2))
    header = Envelope(ecdsa.ECDSA.number, 4, True, sender, receiver, session, b"")
    sealed = seal(secret, header, two, Drawn(16, [salt])).encode()
    said = {"pair_secret": secret, "kind": 4, "sender": 1, "receiver": 2, "session": session}
    found.append({"what": "envelope", **said, "salt": salt, "payload": two, "output": sealed})
    return found


# ------------------------------------------------------------------ oblivious transfer


def base_ot() -> list[Json]:
    sid = Stream(label("OT, session")).bytes(32)
    receiving, sending = Stream(label("base OT, receiver")), Stream(label("base OT, sender"))
    delta = receiving.bytes(BLOCK_BYTES)
    keep, first = ot_base.receiver_start(sid, delta, receiving)
    keys, second = ot_base.sender_answer(sid, first, sending)
    chosen = ot_base.receiver_finish(sid, keep, second)
    hashed = [
        [ot_base._hash_point(sid, j, branch, other[j]).encode() for j in range(len(other))]
        for branch, other in ((0, first.r1), (1, first.r0))
    ]
    context = WireContext(SECP256K1)
    return [
        {
            "session": sid,
            "receiver": {
                "drawn_from": receiving.label,
                "draws": receiving.draws,
                "choices": delta,
                "message": first.encode(context),
                "keys": chosen,
            },
            "sender": {
                "drawn_from": sending.label,
                "draws": sending.draws,
                "hashed_0": b"".join(hashed[0]),
                "hashed_1": b"".join(hashed[1]),
                "message": second.encode(context),
                "keys_0": keys[0],
                "keys_1": keys[1],
            },
        }
    ]


def all_but_one_ot() -> list[Json]:
    [base] = text(base_ot())
    sid, choices = bytes.fromhex(base["session"]), bytes.fromhex(base["receiver"]["choices"])
    zero, one = (bytes.fromhex(base["sender"][f"keys_{branch}"]) for branch in (0, 1))
    found: list[Json] = []
    for k in KS:
        leaves, message = ot_all_but_one.sender(sid, (zero, one), k)
        unknown = [place([bit(choices, i * k + d) for d in range(k)]) for i in range(trees(k))]
        nodes = [one[:BLOCK_BYTES], zero[:BLOCK_BYTES]]
        levels = [b"".join(nodes)]
        for depth in range(1, k):
            nodes = ot_all_but_one._children(sid, 0, depth, nodes)
            levels.append(b"".join(nodes))
        proofs = ot_all_but_one._leaves(sid, 0, nodes)[1] if k > 1 else []
        case = {"k": k, "session": sid, "keys_0": zero, "keys_1": one, "choices": choices}
        case |= {"tree_0": {"levels": levels, "proofs": b"".join(proofs)}}
        said = message.sums + message.totals + message.digests
        found.append(case | {"leaves": b"".join(leaves), "message": said, "unknown": unknown})
    return found


def of_trees(leaves: bytes, k: int) -> list[bytes]:
    """The leaves of each tree."""
    size = BLOCK_BYTES << k
    return [leaves[at : at + size] for at in range(0, len(leaves), size)]


def ot_extension_cases(kernel: Kernel) -> list[Json]:
    found: list[Json] = []
    for base in text(all_but_one_ot()):
        k, delta = base["k"], bytes.fromhex(base["choices"])
        leaves = of_trees(bytes.fromhex(base["leaves"]), k)
        drawn = Stream(label(f"OT extension, k = {k}, receiver"))
        beta, mask = drawn.bytes(XI // 8), drawn.bytes(MASK_BITS // 8)
        sid = Stream(label(f"OT extension, k = {k}, session")).bytes(32)
        receiving, sending = ReceiverSetup.of(leaves), SenderSetup.of(delta, leaves)
        _, message = ot_extension.receiver(kernel, receiving, sid, beta, mask, 1)
        zero, one = ot_extension.sender(kernel, sending, sid, message, XI, 1)
        # What is computed on the way.
        size = ot_extension.row_bytes(XI)
        rest = ot_extension._stretched(kernel, sid, receiving.rest, k, XI)
        t = kernel.fold_by_bit(rest, size, k)
        x = kernel.select_rows(delta, kernel.repeat_row(beta + mask, MASK_BITS), size, 1)
        matrix = tagged_xof(Tag.OT_EXT_CHALLENGE, MASK_BITS * XI // 8, sid, message.u)
        found.append(
            {
                "k": k,
                "width": 1,
                "session": sid,
                "delta": delta,
                "leaves": b"".join(leaves),
                "drawn_from": drawn.label,
                "draws": {"beta": beta, "mask": mask},
                "t": t,
                "matrix_sha256": sha256(matrix),
                "opened": ot_extension._hashed_rows(kernel, sid, message.u, t, XI),
                "message": message.u + message.x + message.t,
                "q_sha256": sha256(kernel.xor(t, x)),
                "pads_0": zero,
                "pads_1": one,
            }
        )
    return found


# ------------------------------------------------------------------ signing


def dealt(
    kernel: Kernel, k: int, signers: tuple[int, int], drawn: Stream, *, chain_code: bool
) -> tuple[dict[int, KeyShare], dict[int, tuple[bytes, list[bytes]]]]:
    """Shares of a 2-of-3 key as key generation leaves them behind, with what these two share; and
    for each of them (Delta, leaves) of the OTs that it is multiplication sender with."""
    polynomial = [SECP256K1.random_scalar(drawn) for _ in range(2)]
    x = {i: evaluate(polynomial, i) for i in (1, 2, 3)}
    record = PublicKeyRecord(
        SECP256K1.name,
        2,
        drawn.bytes(32),
        SECP256K1.base(polynomial[0]),
        {i: SECP256K1.base(x_i) for i, x_i in zip(party_ids(x), x.values(), strict=True)},
        chain_code=drawn.bytes(32) if chain_code else None,
    )
    pair_secret, zero_seed = drawn.bytes(32), drawn.bytes(32)
    ots = {
        i: (drawn.bytes(BLOCK_BYTES), of_trees(drawn.bytes(trees(k) * BLOCK_BYTES << k), k))
        for i in signers
    }
    shares = {}
    for i, j in zip(party_ids(signers), party_ids(signers)[::-1], strict=True):
        sending, receiving = SenderSetup.of(*ots[i]), ReceiverSetup.of(ots[j][1])
        state = OtPairSetup(sending.delta, sending.punctured, receiving.rest, receiving.zeroth)
        peers = {j: PeerState(pair_secret, zero_seed, state)}
        shares[i] = KeyShare(record, i, x[i], peers, OtMta(OtParameters(k=k), kernel))
    return shares, ots


def stream_of_round(of: str) -> Callable[[int], Stream]:
    return lambda number: Stream(label(f"{of}, round {number}"))


def ecdsa_case(kernel: Kernel, k: int, signers: tuple[int, int], path: tuple[int, ...]) -> Json:
    name = f"ECDSA, k = {k}"
    about = Stream(label(f"{name}, session"))
    key = Stream(label(f"{name}, key"))
    shares, ots = dealt(kernel, k, signers, key, chain_code=bool(path))
    session, message_hash = about.bytes(32), about.bytes(32)
    parties, roots = [], {}
    for i, share in shares.items():
        agreed = ecdsa.setup(share, signers, message_hash, path=path)
        party = ecdsa.party(agreed, session_id=session, rng=Stream("replaced"))
        party._root = roots[i] = RoundRoot(stream_of_round(f"{name}, party {i}"))
        parties.append(party)

    # One message after the other, so that nothing that is kept between rounds goes by unseen.
    local = LocalRun(parties)
    kept: dict[int, Json] = {i: {} for i in signers}
    sent: dict[int, Json] = {i: {} for i in signers}
    local.start()
    while True:
        for i, party in local.parties.items():
            kept[i][type(party.keep)] = party.keep
        for message in local.in_flight:
            sent[message.sender][message.send.kind] = message.send.data
        if not local.in_flight:
            break
        local.deliver()
    signature = results(local.outcomes())[signers[0]]

    record = shares[signers[0]].record
    pair = shares[signers[0]].peers[party_ids(signers)[1]]
    signing_key, tau = record.derive(path)
    transcript = kept[signers[0]][AfterOffer].transcript
    case = {
        "scheme": OtParameters(k=k).identifier,
        "k": k,
        "key": of(record, "threshold", "public_key", "public_shares", "epoch", "chain_code"),
        "pair": of(pair, "pair_secret", "zero_seed"),
        "ots": {i: {"delta": delta, "leaves": b"".join(each)} for i, (delta, each) in ots.items()},
        "signers": signers,
    }
    case |= {"session": session, "message_hash": message_hash, "path": path}
    case |= {"signing_key": signing_key, "tau": tau, "transcript": transcript}
    case |= {"parties": {}, "signature": signature.encode()}
    wire = parties[0].wire

    def opened(i: int, kind: type[Any]) -> tuple[Any, Json]:
        """(message, how it stands in the file)."""
        envelope = sent[i][kind.__name__]
        payload = unseal(pair.pair_secret, Envelope.decode(envelope))
        assert payload is not None
        said = {kind.__name__: payload, "envelope_sha256": sha256(envelope)}
        return kind.decode(payload, wire), said

    def drawn(i: int, number: int, *names: str) -> Json:
        stream = roots[i].rounds[number]
        return {"drawn_from": stream.label, "draws": dict(zip(names, stream.draws, strict=True))}

    for i, j in zip(signers, signers[::-1], strict=True):
        share, peer, mine = shares[i], party_ids([j])[0], kept[i]
        mta = share.mta
        assert isinstance(mta, OtMta)
        first, second, third, fourth = (
            mine[kind] for kind in (AfterCommit, AfterOffer, AfterRespond, AfterShare)
        )
        offered = second.offered[peer]
        offer, (response, said) = opened(j, Offer)[0].offer, opened(i, Respond)
        sid, sending = direction_sid(transcript, i, j), SenderSetup.of(*ots[i])
        both = ot_extension.sender(kernel, sending, sid, offer, XI, PAD_BLOCKS)
        answer = opened(j, Respond)[0]
        d = mta.receiver_finish(offered, answer.reply)
        cd_u, cd_v = ([c_n + d_n] for c_n, d_n in zip(third.c[peer], d, strict=True))
        inputs, psi = (first.r_i, third.sk_i, first.phi_i), [answer.psi]
        _, v_i = steps.products(*inputs, psi=psi, cd_u=cd_u, cd_v=cd_v)
        theta = challenge(sid, kernel.join(response.reply.a))
        third_draws = drawn(i, 3, "a_hat", "salt")
        case["parties"][i] = {
            "secret_share": share.secret_share,
            "round_1": {
                **drawn(i, 1, "r_i", "phi_i", "nonce", "blinding", "salt"),
                **of(first, "r_i", "R_i", "phi_i"),
                **opened(i, Commit)[1],
            },
            "round_2": {
                **drawn(i, 2, "beta", "mask", "salt"),
                "multiplication_session": offered.sid,
                "pads_sha256": sha256(offered.pads),
                "gadget_sha256": sha256(gadget(kernel, offered.sid, XI).encode()),
                "chi": second.chi[peer],
                **opened(i, Offer)[1],
            },
            "round_3": {
                **third_draws,
                "lambda_i": lagrange_coefficient(SECP256K1, i, signers),
                "zeta_i": zero_share(SECP256K1, i, {j: pair.zero_seed}, transcript),
                "sk_i": third.sk_i,
                "multiplication_session": sid,
                "pads_0_sha256": sha256(both[0]),
                "pads_1_sha256": sha256(both[1]),
                "a_hat": SECP256K1.random_scalar(Drawn(48, [third_draws["draws"]["a_hat"]])),
                "theta": [SECP256K1.scalar(theta_i) for theta_i in theta],
                "c": third.c[peer],
                **said,
            },
            "round_4": {
                **drawn(i, 4, "salt"),
                "d": d,
                **of(fourth, "R", "r_x"),
                "v_i": v_i,
                **opened(i, SignatureShare)[1],
            },
        }
    return case


FILES: Final[dict[str, Callable[[Kernel], list[Json]]]] = {
    "hashes.json": hashes,
    "base_ot.json": lambda kernel: base_ot(),
    "all_but_one_ot.json": lambda kernel: all_but_one_ot(),
    "ot_extension.json": ot_extension_cases,
    "ecdsa_k1.json": lambda kernel: [ecdsa_case(kernel, 1, (1, 2), ())],
    "ecdsa_k4.json": lambda kernel: [ecdsa_case(kernel, 4, (1, 3), (0, 7))],
}
"""Who makes the cases of which file."""


def made(name: str, kernel: Kernel = DEFAULT) -> str:
    """The text of a file."""
    return json.dumps({"cases": text(FILES[name](kernel))}, indent=1) + "\n"


def main() -> None:
    for name in FILES:
        (HERE / name).write_text(made(name), encoding="ascii")
        print(name)


if __name__ == "__main__":
    main()

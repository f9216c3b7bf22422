"""Our transcripts for others, ``tests/vectors/dkls23``: by both kernels, by a program that has
nothing of the package, and by parties that are told what is in them."""

import ast
import copy
import sys
from pathlib import Path
from zlib import crc32

import pytest
from coincurve import PublicKey
from coincurve.ecdsa import cdata_to_der, deserialize_compact

from mpcsim.crypto.groups.secp256k1 import SECP256K1
from mpcsim.crypto.kernels import PLAIN, VECTORISED
from mpcsim.crypto.mta.ot import OtMta, OtPairSetup
from mpcsim.crypto.ot import extension as ot_extension
from mpcsim.crypto.ot.extension import ExtensionMessage, ReceiverSetup, SenderSetup
from mpcsim.crypto.params import STANDARD, OtParameters
from mpcsim.errors import Aborted, CheckFailed, Reason
from mpcsim.protocols import ecdsa
from mpcsim.protocols.engine import Done
from mpcsim.protocols.key_share import KeyShare, PeerState, PublicKeyRecord
from tests.helpers.drawn import Given, RoundRoot, Stream
from tests.helpers.vectors import load
from tests.vectors.dkls23 import check, make

FOLDER = Path(make.__file__).parent
CASES = {name: load(f"dkls23/{name}")["cases"] for name in make.FILES}
SIGNED = [CASES["ecdsa_k1.json"][0], CASES["ecdsa_k4.json"][0]]
KINDS = ("Commit", "Offer", "Respond", "SignatureShare")
kernels = pytest.mark.parametrize("kernel", [PLAIN, VECTORISED], ids=["plain", "vectorised"])
signed = pytest.mark.parametrize("case", SIGNED, ids=["k=1", "k=4"])


def test_every_case_is_there():
    assert check.CHECKS.keys() == make.FILES.keys()
    assert {path.name for path in FOLDER.glob("*.json")} == make.FILES.keys()
    assert [len(CASES[name]) for name in make.FILES] == [21, 1, 3, 3, 1, 1]
    assert sum(path.stat().st_size for path in FOLDER.glob("*.json")) < 1_000_000


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        (name, kernel)
        for name in make.FILES
        for kernel in (PLAIN, VECTORISED)
        if kernel is VECTORISED or name not in ("base_ot.json", "all_but_one_ot.json")
    ],
)
def test_both_kernels_make_the_same_files(name, kernel):
    assert (FOLDER / name).read_text() == make.made(name, kernel)


# ------------------------------------------------------------------ without the package


def test_the_check_has_nothing_of_the_package():
    nodes = list(ast.walk(ast.parse(Path(check.__file__).read_text())))
    found = {
        alias.name.split(".")[0] for n in nodes if isinstance(n, ast.Import) for alias in n.names
    }
    found |= {str(n.module).split(".")[0] for n in nodes if isinstance(n, ast.ImportFrom)}
    assert found - set(sys.stdlib_module_names) == {"coincurve", "cryptography"}


@pytest.mark.parametrize("name", make.FILES)
def test_they_are_right(name):
    for case in CASES[name]:
        check.CHECKS[name](case)


def places(value, path=()):
    """Every text of hexadecimal digits in a case, but for empty ones."""
    if isinstance(value, dict):
        for name, v in value.items():
            if name not in ("tag", "what", "drawn_from", "scheme"):
                yield from places(v, (*path, name))
    elif isinstance(value, list):
        for i, v in enumerate(value):
            yield from places(v, (*path, i))
    elif isinstance(value, str) and value:
        yield path


def altered(case, path):
    """The case with one bit changed in that text, somewhere."""
    found = copy.deepcopy(case)
    *way, last = path
    at = found
    for step in way:
        at = at[step]
    data = bytearray.fromhex(at[last])
    where = crc32(repr(path).encode())
    data[where // 8 % len(data)] ^= 1 << where % 8
    at[last] = data.hex()
    return found


@pytest.mark.few(2)
@pytest.mark.parametrize("name", make.FILES)
def test_no_byte_can_be_changed(name):
    cases = CASES[name] if name == "hashes.json" else CASES[name][-1:]
    for case in cases:
        paths = list(places(case))
        if name == "base_ot.json":
            # Every draw is like the first few.
            paths = [path for path in paths if "draws" not in path or path[-1] < 4]
        assert paths
        for path in paths:
            with pytest.raises((check.Different, ValueError)):
                check.CHECKS[name](altered(case, path))


# ------------------------------------------------------------------ what parties make of them


@signed
def test_libsecp256k1_takes_the_signature(case):
    signature, message_hash = bytes.fromhex(case["signature"]), bytes.fromhex(case["message_hash"])
    der = cdata_to_der(deserialize_compact(signature[:64]))
    key = PublicKey(bytes.fromhex(case["signing_key"]))
    assert key.verify(der, message_hash, hasher=None)
    assert not key.verify(der, bytes(32), hasher=None)


def share(case, i, j, kernel):
    """Party i's share, made from what the file says of it."""
    key, pair, k = case["key"], case["pair"], case["k"]
    point = SECP256K1.decode_point
    of = {p: case["ots"][str(p)] for p in (i, j)}
    leaves = {p: make.of_trees(bytes.fromhex(ots["leaves"]), k) for p, ots in of.items()}
    sending = SenderSetup.of(bytes.fromhex(of[i]["delta"]), leaves[i])
    receiving = ReceiverSetup.of(leaves[j])
    state = OtPairSetup(sending.delta, sending.punctured, receiving.rest, receiving.zeroth)
    record = PublicKeyRecord(
        "secp256k1",
        key["threshold"],
        bytes.fromhex(key["epoch"]),
        point(bytes.fromhex(key["public_key"])),
        {int(p): point(bytes.fromhex(X)) for p, X in key["public_shares"].items()},
        chain_code=key["chain_code"] and bytes.fromhex(key["chain_code"]),
    )
    secrets = bytes.fromhex(pair["pair_secret"]), bytes.fromhex(pair["zero_seed"])
    x_i = SECP256K1.decode_scalar(bytes.fromhex(case["parties"][str(i)]["secret_share"]))
    mta = OtMta(OtParameters(k=k), kernel)
    return KeyShare(record, i, x_i, {j: PeerState(*secrets, state)}, mta)


def follow(case, i, kernel=VECTORISED, kind=None, position=0):
    """Party i draws what the file says and is told what the file says; how it ends.

    What it is told of ``kind`` has one bit changed.
    """
    session = bytes.fromhex(case["session"])
    [j] = set(case["signers"]) - {i}
    mine, theirs = (case["parties"][str(p)] for p in (i, j))
    agreed = ecdsa.setup(
        share(case, i, j, kernel),
        tuple(case["signers"]),
        bytes.fromhex(case["message_hash"]),
        path=tuple(case["path"]),
    )
    party = ecdsa.party(agreed, session_id=session, rng=Stream("replaced"))
    party._root = RoundRoot(
        lambda n: Given(map(bytes.fromhex, mine.get(f"round_{n}", {"draws": {}})["draws"].values()))
    )
    outputs = party.start()
    for number, name in enumerate(KINDS, 1):
        said = theirs[f"round_{number}"]
        payload = bytearray.fromhex(said[name])
        if name == kind:
            payload[position % len(payload)] ^= 1
        secret = bytes.fromhex(case["pair"]["pair_secret"])
        salt = bytes.fromhex(said["draws"]["salt"])
        outputs += party.receive(
            j, check.envelope(secret, number, (j, i), session, salt, bytes(payload))
        )
    sent = [output.data for output in outputs if hasattr(output, "data")]
    return party.outcome, [check.sha256(data).hex() for data in sent]


@kernels
@signed
def test_a_party_that_is_told_the_messages_says_and_signs_the_same(case, kernel):
    for i in case["signers"]:
        outcome, sent = follow(case, i, kernel)
        assert isinstance(outcome, Done)
        assert outcome.result.encode().hex() == case["signature"]
        of = case["parties"][str(i)]
        assert sent == [of[f"round_{number}"]["envelope_sha256"] for number in (1, 2, 3, 4)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_party_refuses_a_message_with_a_bit_changed(kind):
    case = SIGNED[1]
    for position in (0, 31, 101, 4_000, -97, -1):
        outcome, _ = follow(case, 1, kind=kind, position=position)
        assert isinstance(outcome, Aborted), (kind, position)


@kernels
def test_an_extension_refuses_a_message_with_a_bit_changed(kernel):
    case = CASES["ot_extension.json"][-1]
    sid, message = bytes.fromhex(case["session"]), bytes.fromhex(case["message"])
    leaves = make.of_trees(bytes.fromhex(case["leaves"]), case["k"])
    setup = SenderSetup.of(bytes.fromhex(case["delta"]), leaves)

    def send(data):
        parts = ExtensionMessage(data[:-48], data[-48:-32], data[-32:])
        return ot_extension.sender(kernel, setup, sid, parts, STANDARD.xi, case["width"])

    assert [pad.hex() for pad in send(message)] == [case["pads_0"], case["pads_1"]]
    for position in (0, 1_000, -48, -1):
        data = bytearray(message)
        data[position] ^= 0x10
        with pytest.raises(CheckFailed) as failed:
            send(bytes(data))
        assert failed.value.reason is Reason.OT_EXTENSION_CHECK

"""Invariants of a service beside a reviewed copy: what each says of right and wrong answers."""

import json
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import base58
from coincurve import PrivateKey
from nacl.signing import SigningKey

from mpcsim.crypto.bip32 import ExtendedKey, derive
from mpcsim.crypto.groups.secp256k1 import SECP256K1
from mpcsim.errors import UsageError
from mpcsim.testing import BrokenInvariant, Failure
from mpcsim.testing.api_sequence import Call, Step
from mpcsim.testing.backend import service_checks as checks
from mpcsim.testing.backend.service import Answer, Request
from mpcsim.testing.backend.target import HttpTarget, without_credentials
from mpcsim.testing.machine.api_steps.children import _only_key
from mpcsim.testing.runs.secrets import _Shown
from tests.helpers.reviewed import check_reviewed
from tests.testing.own_invariants import nobody_reads_errors, upside_down

COPY = Path(__file__).with_name("judged.txt")
HASH = bytes(range(32))
ED, EC = SigningKey(bytes(32)), PrivateKey(b"k" * 32)
ED_KEY, EC_KEY = bytes(ED.verify_key).hex(), f"0x{EC.public_key.format().hex()}"
ED_SIGNED, EC_SIGNED = ED.sign(HASH).signature.hex(), EC.sign_recoverable(HASH, hasher=None)
R, S, V = EC_SIGNED[:32], EC_SIGNED[32:64], EC_SIGNED[64]
HIGH = (SECP256K1.order - int.from_bytes(S, "big")).to_bytes(32, "big")
ROOT = ExtendedKey(SECP256K1.decode_point(EC.public_key.format()), HASH)
CHILD = {"xpub": derive(ROOT, (1,)).key.xpub(), "public_key": checks.child_of(ROOT.xpub(), (1,))}
NO_POINT = base58.b58encode_check(base58.b58decode_check(ROOT.xpub())[:45] + bytes(33)).decode()
RECORD = {"key_id": "0" * 64, "encrypted_share": "x", "secret_store": "y", "curve": "ed25519"}
RECORD |= {"public_key": f"0x{ED_KEY}"}
FAILED = "Authentication failed: "
WANTED = '{"code": 756, "message": "JWT_INVALID"}'
JUDGED: dict[Any, list[Any]] = {
    checks.error_is_as_specified: [
        (Answer(404, '{"error": "x"}', {"Content-Type": "Application/JSON; charset=utf-8"}),),
        *((Answer(404, text, {}),) for text in ('{"error": "x"}', '{"error": ""}', '["error"]')),
    ],
    checks.unauthenticated_is_refused: [
        ("sign", Answer(status, json.dumps({"error": error})), 756)
        for status, error in (
            (401, FAILED + WANTED), (400, FAILED + WANTED), (401, f"x{FAILED}{WANTED}"),
            (401, FAILED + "no JSON"), (401, FAILED + "[756]"),
            (401, FAILED + '{"code": 757}'), (401, FAILED + '{"code": 756}'),
        )
    ],
    checks.signature_is_right: [
        *(("ed25519", ED_KEY, HASH, found) for found in (ED_SIGNED, ED_SIGNED[1:], None)),
        ("ed25519", ED_KEY, b"", ED_SIGNED),
        *(
            ("secp256k1", key, HASH, b"".join((R, s, bytes([v]))).hex())
            for key, s, v in (
                (EC_KEY, S, 27 + V), (EC_KEY, HIGH, 28 - V), (EC_KEY, S, 28 - V), (EC_KEY, S, V),
                (EC_KEY, S, 29), (EC_KEY, bytes(32), 27), (f"0x02{ED_KEY}", S, 27 + V),
            )
        ),
    ],
    checks.presignatures_are_used_up: [
        (list(given), list(left))
        for given, left in (("abc", "ac"), ("", ""), ("a", "a"), ("ab", "c"), ("abc", "ba"))
    ],
    checks.presignatures_of: [
        (None, 2),
        *(
            ({"presignatures": found}, 2)
            for found in ("pq", [*"pq"], [*"pp"], [*"pqr"], ["p", 1], ["", "p"])
        ),
    ],
    checks.child_is_derived: [
        *((xpub, (1,), CHILD) for xpub in (ROOT.xpub(), "xpub", NO_POINT)),
        *((ROOT.xpub(), (1,), CHILD | {name: EC_KEY}) for name in CHILD),
        *((ROOT.xpub(), (1,), found) for found in ({"public_key": EC_KEY}, None)),
    ],
    nobody_reads_errors: [
        (Answer(200, text),) for text in ("{}", '{"error": ""}', '{"error": "x"}')
    ],
    upside_down: [("up",)],
    _only_key: [
        ({},), *(({"wallets": w},) for w in (None, [{}], [], [5], [{"key": "the only one"}])),
    ],
    checks.record_problem: [
        (None, "ed25519"),
        *(
            (RECORD | new, curve)
            for curve, new in (
                ("ed25519", {}), ("ed25519", {"public_key": f"0x02{'00' * 31}"}),
                ("ed25519", {"public_key": EC_KEY}), ("ed25519", {"key_id": "0" * 63}),
                ("ed25519", {"secret_store": ""}), ("ed25519", {"encrypted_share": 5}),
                ("secp256k1", {}), ("secp256k1", {"curve": "secp256k1", "public_key": EC_KEY}),
                ("secp256k1", {"curve": "secp256k1", "public_key": f"0x05{ED_KEY}"}),
            )
        ),
    ],
}  # fmt: skip
SECRETS = {
    'it\'s a "pass" word': "alice's password",
    'it\'s a "pass" word or two': "bob's password",
    "alice's password": "carol's password",
    "".join(f"{n:04}" for n in range(100)): "the share",
}
LONG = [*SECRETS][-1]
TEXTS = [
    "nothing",
    'it\'s a "pass" word or two, or it\'s a "pass" word',
    '{"x": "it\'s a \\"pass\\" word"}',
    "?p=it%27s%20a%20%22pass%22%20word",
    *(f"... {LONG[a:b]} ..." for a, b in ((0, 400), (100, 300), (0, 199), (201, 232), (368, 400))),
    f"{LONG[100:300]}: alice's password",
]
SHOWN = b"\x00\x01secret'\xfb\xff\xfe\xd7\x6d\xf8" + HASH[:5]
BASE64 = b64encode(SHOWN).decode()
CODE = "a\n\nb"
WRITTEN = [
    SHOWN.hex().upper(), SHOWN.hex()[:12], SHOWN.hex()[:11], f"{SHOWN.hex()}00",
    f"{int.from_bytes(SHOWN, 'little')}", f"{int.from_bytes(SHOWN, 'big')}"[:12],
    BASE64, BASE64.translate(str.maketrans("+/", "-_")), BASE64[4:20], BASE64[4:19],
    BASE64.upper(), f"{SHOWN!r}", f"{SHOWN + b'more'!r}", f"{SHOWN[:9]!r}", "nothing at all",
]  # fmt: skip


def told(check: Any, *arguments: Any) -> str:
    try:
        return f"{check(*arguments)}"
    except BrokenInvariant as broken:
        return f"{broken.name}: {broken.statement} {broken.problem}"
    except UsageError as error:
        return f"{error}"


def everything() -> Iterator[str]:
    for check, cases in JUDGED.items():
        for case in cases:
            name = getattr(check, "name", "") or check.__name__
            yield f"{name}({', '.join(map(str, case))})\n  {told(check, *case)}"
    secrets = checks.Secrets()
    yield secrets.masked("nothing is known")
    for secret, what in SECRETS.items():
        secrets.add(secret, what)
    for text in TEXTS:
        yield f"{text}\n  {secrets.found_in(text)}: {secrets.masked(text)}"
        for answer in (Answer(404, text), Answer(200, text), Answer(404, "", {"x": text})):
            yield f"  {told(checks.no_secret_in_errors, secrets, answer)}"
        yield f"  {told(checks.no_secret_in_logs, secrets, text)}"
    for text in WRITTEN:
        yield f"{text}: {bool(_Shown(text))}, {SHOWN in _Shown(text)}"
    half = '{"token": "abc\\"def", "encrypted_share":"' + "x" * 999
    for text in (half, "x" * 300, "x" * 301):
        yield f"{Answer(200, text)!r}"
    yield f"{Answer(0, 'late')!r}, {Request('POST', '/', {'body': 'body'}, 'token')!r}"
    yield f"{Request('POST', '/').headers()}, {Request('POST', '/', token='t').headers()}"
    for where in ("http://somebody:secret@127.0.0.1:1", "http://node"):
        with HttpTarget(where, str) as target:
            yield f"{target.recipe}; {without_credentials(f'--wallet-target={where}')}"
    broken = checks.service_answers.Broken("x" * 88)
    for steps in ([], [""], ["alice signed", ""], ["bob", "alice lost"], ["bob", "alice lost!"]):
        yield f"{Failure(broken, steps, '').headline}\n{Failure(broken, steps, '')}"
    for seed, budget in ((0, ""), (7, "2 runs")):
        yield f"{Failure(broken, [], CODE, seed=seed, budget=budget, notes=['again'])}"
    yield f"{nobody_reads_errors}, {nobody_reads_errors.recipe}"
    yield f"{Step(Call('sign', {'a': 1, 'b': ''}))}, {Call('health')}"


def test_answers_are_judged_as_written_down():
    check_reviewed(everything(), COPY)

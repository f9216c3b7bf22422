"""What comes from outside: a refusal costs no more than an acceptance of that size."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from mpcsim import strict_json
from mpcsim.crypto.bip32 import MAX_STEPS, parse_path
from mpcsim.crypto.rng import SeededRng
from mpcsim.errors import InvalidEncoding, MpcError
from mpcsim.protocols.engine.envelope import Envelope
from mpcsim.protocols.sample_keys import keys
from mpcsim.service.rpc import wire
from mpcsim.service.rpc.tokens import MAX_TOKEN_CHARS, TokenIssuer, TokenVerifier, make_signing_key
from mpcsim.service.smart_account.operation.fields import MAX_BYTES, UNPRICED, parse_fields

LARGEST = 256 * 1024


def calls(work):
    """Return how many calls of Python and C functions it takes, whether it raises or not."""
    count = 0

    def tell(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(tell)
    try:
        work()
    except MpcError:
        pass
    finally:
        sys.setprofile(None)
    return count


def members(names):
    body = ",".join(f'"{name}":0' for name in names)
    return f"{{{body}}}".encode()


NAMES = [f"{n:05x}" for n in range(LARGEST // 10)]
VALID = members(NAMES)


REFUSED = {
    "last twice": members([*NAMES[:-1], NAMES[-2]]),
    "first twice": members([*NAMES[:-1], NAMES[0]]),
    "twice at once": members([NAMES[0], *NAMES[:-1]]),
    "all many times": members(NAMES[:100] * (len(NAMES) // 100)),
    "no end": VALID[:-1],
    "NaN": VALID[:-2] + b"NaN}",
    "half a surrogate pair": VALID[:-3] + b'"\\ud800"}',
    "nested lists": b"[" * LARGEST,
    "nested objects": b'{"a":' * (LARGEST // 5),
    "a long number": b"1" * LARGEST,
    "no quote": b'"' + b"\\u0041" * (LARGEST // 6),
}


@pytest.mark.parametrize("document", REFUSED.values(), ids=REFUSED)
def test_json(document):
    with pytest.raises(InvalidEncoding):
        strict_json.parse(document)
    # The parser is C, and makes a member without a call that could be seen: one each.
    accepted = calls(lambda: strict_json.parse(VALID)) + len(NAMES)
    assert calls(lambda: strict_json.parse(document)) <= 2 * accepted


@dataclass(frozen=True)
class Parser:
    """What reads one thing from outside, the largest that it takes, and more that it refuses."""

    parse: Callable[[Any], object]
    valid: Any
    refused: tuple[Any, ...] = ()


def tokens():
    def now():
        return 1_800_000_000.0

    issuer = TokenIssuer(make_signing_key(SeededRng("tokens")), now)
    token = issuer.issue_access("u" * 2_700, "alice", 60)
    assert MAX_TOKEN_CHARS - 200 < len(token) <= MAX_TOKEN_CHARS
    refused = (
        "." * MAX_TOKEN_CHARS,
        token + "A" * (MAX_TOKEN_CHARS - len(token)),
        token[:-8] + 8 * "A",
    )
    # A verifier remembers what it has accepted: a fresh one each time.
    return Parser(
        lambda given: TokenVerifier(issuer.jwks(), "gateway", now).verify(given), token, refused
    )


def operation(data):
    address = "0x" + "11" * 20
    return dict(zip(UNPRICED, (address, "0x1", address + data, "0x"), strict=True))


PARSERS = {
    "messages": Parser(
        wire.Exchange.from_bytes,
        wire.Exchange(bytes(32), (bytes(wire.MAX_MESSAGE_BYTES - 200),) * 15).to_bytes(),
    ),
    "envelope": Parser(
        Envelope.decode,
        Envelope(1, 1, False, 1, 2, bytes(32), bytes(wire.MAX_MESSAGE_BYTES)).encode(),
    ),
    "key share": Parser(type(keys("secp256k1")[1]).from_bytes, keys("secp256k1")[1].to_bytes()),
    "path": Parser(
        parse_path,
        "m" + "/1" * MAX_STEPS,
        ("m" + "/1" * 30_000, "m/" + "1" * 60_000, "/" * 60_000, "m" + "/x" * 30_000),
    ),
    "token": tokens(),
    "operation": Parser(
        lambda body: parse_fields(body, UNPRICED),
        operation("00" * (MAX_BYTES - 20)),
        (
            operation("00" * MAX_BYTES),
            operation("0g" * (MAX_BYTES - 20)),
            operation("0" * 100_001),
            operation("") | {f"{n}": 0 for n in range(30_000)},
        ),
    ),
}
NOISE = 60
"""Calls of an error's own: its class, its text."""


def damaged(valid):
    """Cut off, and with one place changed, at places spread over all of it."""
    if isinstance(valid, dict):
        return
    for at in range(0, len(valid), max(1, len(valid) // 40)):
        yield valid[:at]
        other = "!" if isinstance(valid, str) else b"\xff"
        yield valid[:at] + other + valid[at + 1 :]


@pytest.mark.parametrize("name", PARSERS)
def test_other_parsers(name):
    parser = PARSERS[name]
    parser.parse(parser.valid)  # what is made once is not the refusal's
    accepted = calls(lambda: parser.parse(parser.valid))
    for data in (*parser.refused, *damaged(parser.valid)):
        assert calls(lambda data=data: parser.parse(data)) <= 2 * accepted + NOISE, str(data)[:80]
    for data in parser.refused:
        with pytest.raises(MpcError):
            parser.parse(data)

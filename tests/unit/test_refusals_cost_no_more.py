"""Parsers of what comes from outside: a refusal costs no more than an acceptance of that size."""

import sys
from collections.abc import Callable

import pytest

from mpcsim import strict_json
from mpcsim.errors import InvalidEncoding

LARGEST = 256 * 1024


def calls(work: Callable[[], object]) -> int:
    """Return how many calls of Python and C functions it takes, whether it raises or not."""
    count = 0

    def tell(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(tell)
    try:
        work()
    except InvalidEncoding:
        pass
    finally:
        sys.setprofile(None)
    return count


def members(names: list[str]) -> bytes:
    body = ",".join(f'"{name}":0' for name in names)
    return f"{{{body}}}".encode()


NAMES = [f"{n:05x}" for n in range(LARGEST // 10)]
VALID = members(NAMES)


@pytest.mark.parametrize(
    "document",
    [
        members([*NAMES[:-1], NAMES[-2]]),
        members([*NAMES[:-1], NAMES[0]]),
        members([NAMES[0], *NAMES[:-1]]),
        members(NAMES[:100] * (len(NAMES) // 100)),
        VALID[:-1],
        VALID[:-2] + b"NaN}",
        VALID[:-3] + b'"\\ud800"}',
        b"[" * LARGEST,
        b'{"a":' * (LARGEST // 5),
        b"1" * LARGEST,
        b'"' + b"\\u0041" * (LARGEST // 6),
    ],
    ids=[
        *("last twice", "first twice", "twice at once", "all many times", "no end", "NaN"),
        *("half a surrogate pair", "nested lists", "nested objects", "a long number", "no quote"),
    ],
)
def test_json(document):
    with pytest.raises(InvalidEncoding):
        strict_json.parse(document)
    # The parser is C, and makes a member without a call that could be seen: one each.
    accepted = calls(lambda: strict_json.parse(VALID)) + len(NAMES)
    assert calls(lambda: strict_json.parse(document)) <= 2 * accepted

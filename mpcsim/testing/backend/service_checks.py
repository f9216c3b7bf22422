"""Invariants of every answer of a service that speaks the node's API."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final
from urllib.parse import quote

import base58
from coincurve import PublicKey as Secp256k1Key
from nacl.bindings import crypto_core_ed25519_is_valid_point
from nacl.exceptions import BadSignatureError
from nacl.signing import VerifyKey

from mpcsim.crypto.bip32 import ExtendedKey, Path, derive, path_text
from mpcsim.crypto.groups.secp256k1 import SECP256K1
from mpcsim.errors import InvalidEncoding
from mpcsim.testing.backend.service import Answer
from mpcsim.testing.invariants import invariant

SECP256K1_ORDER: Final = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
"""Order of secp256k1 (SEC 2, section 2.4.1)."""
DOCUMENTED: Final = frozenset({200, 400, 401, 404, 405, 409, 413, 415, 429, 500, 502, 504})
"""Statuses of the specification's error table, those of the framework, and that of limits."""
MAX_PRESIGNATURES: Final = 64
"""Limit of presignatures in one request."""
WHOLE_SECRET: Final = 64
"""Length of the pieces by which a longer secret is searched for, in characters."""

_KEY_ID = re.compile(r"[0-9a-f]{64}")
_PUBLIC_KEY: Final = {
    "secp256k1": re.compile(r"0x[0-9a-f]{66}"),
    "ed25519": re.compile(r"0x[0-9a-f]{64}"),
}
_SIGNATURE: Final = {
    "secp256k1": re.compile(r"[0-9a-f]{130}"),
    "ed25519": re.compile(r"[0-9a-f]{128}"),
}
_TOKEN_FAULTS: Final = {755: "JWT_MISSING", 756: "JWT_INVALID", 757: "JWT_EXPIRED"}


# ---------------------------------------------------------------------- answers


@invariant
def service_answers(answer: Answer) -> str | None:
    """Every request gets an answer."""
    return None if answer.status else str(answer)


@invariant
def error_is_as_specified(answer: Answer) -> str | None:
    """Every error is {"error": "..."} and nothing else, as JSON, with a documented status."""
    if answer.status == 200:
        return None
    if answer.status not in DOCUMENTED:
        return f"answered {answer}, which is no documented status"
    document = answer.document
    if not isinstance(document, dict) or set(document) != {"error"} or not answer.error:
        return f'answered {answer}, expected {{"error": "..."}}'
    kind = {name.lower(): value for name, value in answer.headers.items()}.get("content-type", "")
    if kind.split(";")[0].strip().lower() != "application/json":
        return f"answered {answer} with the content type {kind!r}, expected application/json"
    return None


@invariant
def answer_is_as_specified(answer: Answer, expected: Collection[int], why: str = "") -> str | None:
    """Every request gets the status that the specification has for it."""
    if answer.status in expected:
        return None
    wanted = " or ".join(map(str, expected))
    return f"answered {answer}, expected {wanted}" + (f" ({why})" if why else "")


@invariant
def body_is_as_specified(problem: str | None) -> str | None:
    """Every successful answer has the specified members, of the specified form and value."""
    return problem


@invariant
def unauthenticated_is_refused(endpoint: str, answer: Answer, code: int) -> str | None:
    """Every protected request without a valid token is refused, in the specified words."""
    wanted = f'"code":{code},"message":"{_TOKEN_FAULTS[code]}"'
    if answer.status != 401:
        return f"{endpoint} answered {answer}, expected 401"
    prefix, _, detail = answer.error.partition("Authentication failed: ")
    try:
        found = json.loads(detail)
    except ValueError:
        found = None
    right = isinstance(found, dict) and found.get("code") == code
    if prefix or not right or found.get("message") != _TOKEN_FAULTS[code]:
        return f"{endpoint} answered {answer}, expected 401 Authentication failed: {{{wanted}}}"
    return None


# ---------------------------------------------------------------------- keys and signatures


@invariant
def signature_is_right(
    curve: str, public_key: str, message: bytes, signature: object
) -> str | None:
    """Every signature verifies under the registered key, by libsecp256k1 or libsodium; on secp256k1
    s is low, and v (27 or 28) recovers the key.
    """
    if not isinstance(signature, str) or not _SIGNATURE[curve].fullmatch(signature):
        return f"answered 200 with the signature {signature!r}, which is none on {curve}"
    key, data = bytes.fromhex(public_key.removeprefix("0x")), bytes.fromhex(signature)
    if curve == "ed25519":
        try:
            VerifyKey(key).verify(message, data)
        except BadSignatureError:
            return "answered 200 with a signature that libsodium refuses"
        return None
    s, v = int.from_bytes(data[32:64], "big"), data[64]
    if s > SECP256K1_ORDER // 2:
        return "answered 200 with a signature with high s, expected low s"
    if v not in (27, 28):
        return f"answered 200 with v = {v}, expected 27 or 28"
    try:
        found = Secp256k1Key.from_signature_and_message(
            data[:64] + bytes([v - 27]), message, hasher=None
        )
    except ValueError:
        return "answered 200 with a signature that libsecp256k1 refuses"
    if found.format() != key:
        return "answered 200 with a signature of another key, or with the wrong v"
    return None


@invariant
def public_key_never_changes(known: str, found: object) -> str | None:
    """A key's public key is the same in every answer, before and after every recovery."""
    return None if found == known else f"answered with the public key {found!r}, not {known!r}"


@invariant
def presignatures_are_used_up(given: list[str], left: list[str]) -> str | None:
    """A signature leaves fewer presignatures than it was given, in the same order."""
    rest = iter(given)
    if not all(each in rest for each in left):
        return "answered with presignatures that were not in the request, or in another order"
    if given and len(left) >= len(given):
        return f"answered with all of {len(given)} presignatures, expected fewer"
    return None


def presignatures_of(document: Any, most: int) -> list[str]:
    """Return the presignatures of an answer, checked.

    Raises:
        BrokenInvariant: the answer has no list of presignatures.
    """
    found = document.get("presignatures") if isinstance(document, dict) else None
    made = found if isinstance(found, list) else []
    fine = made is found and all(isinstance(each, str) and each for each in made)
    known = fine and len(set(made)) == len(made) <= most
    body_is_as_specified(None if known else "answered without a list of presignatures")
    return list(made)


@invariant
def child_is_derived(xpub: str, path: Path, found: object) -> str | None:
    """A child key, and its xpub, are those that follow from the xpub of the key itself (BIP 32)."""
    if not isinstance(found, dict) or not isinstance(found.get("xpub"), str):
        return f"answered {found!r}, without the xpub of the child key"
    try:
        child = derive(_extended(xpub), path).key
    except (ValueError, InvalidEncoding) as error:
        return f"answered with an xpub that is none: {error}"
    if (found["xpub"], found.get("public_key")) != (child.xpub(), _text(child)):
        return f"answered with another child key at {path_text(path)} than follows from the xpub"
    return None


def child_of(xpub: str, path: Path) -> str:
    """Return the public key at the end of a path from a key."""
    return _text(derive(_extended(xpub), path).key)


def _text(key: ExtendedKey) -> str:
    return "0x" + key.public_key.encode().hex()


def _extended(xpub: str) -> ExtendedKey:
    """Decode the xpub of a key at the root of its tree.

    Raises:
        ValueError: it is no such xpub; ``InvalidEncoding``: its key is no point.
    """
    data = base58.b58decode_check(xpub)
    if len(data) != 78 or data[4:13] != bytes(9):
        raise ValueError("not the xpub of a root")
    return ExtendedKey(SECP256K1.decode_point(data[45:]), data[13:45])


@invariant
def retired_share_never_signs(answer: Answer) -> str | None:
    """The earlier shares of a recovered key do not sign."""
    return None if answer.status != 200 else "answered 200, expected 404"


@invariant
def nobody_reaches_anothers_key(answer: Answer) -> str | None:
    """A user can neither use nor learn anything about a key of another user."""
    document = answer.document if answer.status == 200 else None
    if answer.status != 200 or document == {"result": False}:
        return None
    return f"answered {answer}"


@invariant
def damaged_share_never_signs(answer: Answer) -> str | None:
    """A share that was altered, or is mixed from several, does not sign."""
    return None if answer.status != 200 else "answered 200, expected 400"


@invariant
def failed_request_changes_nothing(problem: str | None) -> str | None:
    """A request that failed has changed nothing, unless it was one for a key and the answer 502 or
    504, which leave that open: what was registered before is registered now."""
    return problem


@invariant
def concurrent_requests_do_no_harm(problem: str | None) -> str | None:
    """At least one of concurrent requests for one key succeeds; those for other keys are
    unharmed."""
    return problem


def record_problem(document: Any, curve: str) -> str | None:
    """Return what is wrong with a key share record, or None."""
    if not isinstance(document, dict):
        return "answered with no JSON object"
    for name in ("key_id", "encrypted_share", "secret_store", "public_key", "curve"):
        if not isinstance(document.get(name), str) or not document[name]:
            return f"answered with a record whose {name} is missing or no text"
    if not _KEY_ID.fullmatch(document["key_id"]):
        return f"answered with the key_id {document['key_id']!r}, expected 64 hex digits"
    if document["curve"] != curve:
        return f"answered with a record of the curve {document['curve']!r}, expected {curve}"
    if not is_public_key(curve, document["public_key"]):
        return f"answered with {document['public_key']!r}, which is no {curve} public key"
    return None


def is_public_key(curve: str, text: str) -> bool:
    """Return whether a text is a point of the curve, in the specified form."""
    if not _PUBLIC_KEY[curve].fullmatch(text):
        return False
    data = bytes.fromhex(text[2:])
    if curve == "ed25519":
        return bool(crypto_core_ed25519_is_valid_point(data))
    try:
        Secp256k1Key(data)
    except ValueError:
        return False
    return True


# ---------------------------------------------------------------------- secrets


class Secrets:
    """Secrets of a run, which must not show up in errors and logs."""

    def __init__(self) -> None:
        self._pieces: dict[str, str] = {}
        """Name of the secret by the piece to search for."""
        self._whole: dict[str, str] = {}

    def add(self, secret: str, what: str) -> None:
        """Remember a secret.

        Args:
            what: e.g. ``alice's password``; never the secret itself.
        """
        self._whole |= dict.fromkeys(_forms(secret), what)
        for piece in _pieces(secret):
            self._pieces |= dict.fromkeys(_forms(piece), what)

    def found_in(self, text: str) -> str | None:
        """Return the name of a secret that a text gives away, or None."""
        return next((what for piece, what in self._pieces.items() if piece in text), None)

    def masked(self, text: str) -> str:
        """Return the text with secrets replaced by their names, e.g. ``<bob's token>``."""
        known = self._pieces | self._whole
        longest_first = sorted(known, key=len, reverse=True)
        if not known:
            return text
        # In one pass: a secret may be a word of another one's name.
        return re.sub("|".join(map(re.escape, longest_first)), lambda m: f"<{known[m[0]]}>", text)


def _forms(secret: str) -> tuple[str, ...]:
    """Return a secret in its forms: as it is, in JSON, in a URL."""
    return secret, json.dumps(secret)[1:-1], quote(secret)


def _pieces(secret: str) -> Iterable[str]:
    """Return the middle and the end of a long secret: its beginning may be a public format."""
    if len(secret) <= WHOLE_SECRET:
        return [secret]
    middle = len(secret) // 2
    return [secret[middle : middle + WHOLE_SECRET // 2], secret[-WHOLE_SECRET // 2 :]]


@invariant
def no_secret_in_errors(secrets: Secrets, answer: Answer) -> str | None:
    """No password, share, token or message of the run appears in an error."""
    if answer.status == 200:
        return None
    what = secrets.found_in(answer.text) or secrets.found_in(_joined(answer.headers))
    return f"the error ({answer.status}) contains {what}" if what else None


@invariant
def no_secret_in_logs(secrets: Secrets, logs: str) -> str | None:
    """No password, share, token or message of the run appears in the logs."""
    what = secrets.found_in(logs)
    return f"the log contains {what}" if what else None


def _joined(headers: Mapping[str, str]) -> str:
    return "\n".join(f"{name}: {value}" for name, value in headers.items())

"""Access tokens and key tokens: JSON Web Tokens (RFC 7519) signed with ES256 (RFC 7518).

The gateway issues them with a key that never leaves it; the REST node verifies them with the public
half, which the gateway publishes as a JSON Web Key Set (RFC 7517). An *access* token says who is
calling, to the REST node and the gateway. A *key* token names one key as well, and the gateway
takes it for what may be done with this key. MPC nodes take neither: see ``grants``.

The algorithm is fixed here, never read from a token: a verifier takes ES256 and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import lru_cache
from typing import Any, Final, Literal

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm
from jwt.exceptions import PyJWTError

from mpcsim.crypto.rng import Rng, SystemRng
from mpcsim.errors import InvalidEncoding, MpcError, UsageError

ALGORITHM: Final = "ES256"

KEY_AUDIENCE: Final = ("gateway",)
"""Audience of key tokens."""
ACCESS_AUDIENCE: Final = (*KEY_AUDIENCE, "node")
"""Audience of access tokens."""

MAX_TOKEN_CHARS: Final = 4096
"""Longest token looked at. One of the gateway's own has at most about 1500 characters."""
REMEMBERED_TOKENS: Final = 1024
"""Verified tokens whose signature is not checked again."""

_P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_KEY_ID = re.compile(r"[0-9a-f]{64}")
_BEARER = re.compile(r"bearer(?: +(?P<token>[A-Za-z0-9._~+/-]+=*))?", re.IGNORECASE)


class TokenFault(IntEnum):
    """Reason why a request is not authenticated; name and number go out in the 401."""

    JWT_MISSING = 755
    JWT_INVALID = 756
    JWT_EXPIRED = 757


class TokenError(MpcError):
    """No token, or none that counts. The text says more than ``detail`` and is safe to log."""

    def __init__(self, fault: TokenFault, why: str = "") -> None:
        super().__init__(f"{fault.name}: {why}" if why else fault.name)
        self.code = int(fault)
        self.message = fault.name
        self.why = why or None
        """Detail that the text has beyond ``message``, if any."""

    def detail(self) -> dict[str, int | str]:
        """Body of the 401."""
        return {"code": self.code, "message": self.message}


class UnknownSigningKey(TokenError):
    """The token names a key that is not in the key set; a newer key set may have it."""

    def __init__(self) -> None:
        super().__init__(
            TokenFault.JWT_INVALID,
            "signed by another gateway, or by this one with another data folder: its key is not in"
            " the key set; get a token from the gateway that runs now",
        )


@dataclass(frozen=True)
class Claims:
    """Claims of a verified token."""

    user_id: str
    username: str
    use: Literal["access", "key"]
    key_id: str | None
    """The key that a key token is for; None in an access token."""
    expires_at: int
    """Seconds since 1970 UTC; from then on the token is refused."""

    def require_access(self) -> Claims:
        """Return these claims, if the token is an access token.

        Raises:
            TokenError: it is a key token (756).
        """
        if self.use != "access":
            raise TokenError(TokenFault.JWT_INVALID, "a token for one key, at the MPC verbs only")
        return self


def make_signing_key(rng: Rng | None = None) -> str:
    """A new P-256 private key, as unencrypted PKCS #8 PEM. Secret."""
    # 48 bytes reduced: bias below 2^-127.
    seed = int.from_bytes((rng or SystemRng()).bytes(48), "big")
    key = ec.derive_private_key(1 + seed % (_P256_ORDER - 1), ec.SECP256R1())
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()


class TokenIssuer:
    """Signs tokens."""

    def __init__(self, private_key_pem: str, now: Callable[[], float] = time.time) -> None:
        """
        Args:
            now: seconds since 1970 UTC.

        Raises:
            UsageError: not an unencrypted P-256 private key in PEM.
        """
        self._key = _private_key(private_key_pem)
        self._now = now
        public = ECAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        self._jwk = {member: str(public[member]) for member in ("kty", "crv", "x", "y")}
        self._kid = _thumbprint(self._jwk)

    def issue_access(self, user_id: str, username: str, lifetime_s: float) -> str:
        """A token that authenticates the user.

        Args:
            lifetime_s: seconds that the token holds at least; it ends at a whole second.

        Raises:
            UsageError: the lifetime is not above 0, or not finite.
        """
        return self._issue(user_id, username, None, lifetime_s)

    def remaining_s(self, claims: Claims) -> float:
        """Seconds that a token holds from now on, above 0. Another one that holds as long ends with
        it."""
        # A sum that rounds up would be a whole second more.
        return max(claims.expires_at - self._now() - 1e-6, 1e-9)

    def issue_key(self, user_id: str, username: str, key_id: str, lifetime_s: float) -> str:
        """A token for the MPC verbs, about one key.

        Raises:
            UsageError: as for ``access``, or ``key_id`` is not 64 lower-case hex digits.
        """
        if not _KEY_ID.fullmatch(key_id):
            raise UsageError("key_id: not 64 lower-case hex digits")
        return self._issue(user_id, username, key_id, lifetime_s)

    def jwks(self) -> dict[str, Any]:
        """The key set that verifies these tokens (RFC 7517); public."""
        return {"keys": [{**self._jwk, "kid": self._kid, "use": "sig", "alg": ALGORITHM}]}

    def _issue(self, user_id: str, username: str, key_id: str | None, lifetime_s: float) -> str:
        if not 0 < lifetime_s < math.inf:
            raise UsageError(f"lifetime_s is {lifetime_s}: not above 0, or not finite")
        now = self._now()
        payload: dict[str, Any] = {
            "sub": user_id,
            "username": username,
            "use": "access" if key_id is None else "key",
            "aud": list(ACCESS_AUDIENCE if key_id is None else KEY_AUDIENCE),
            "iat": int(now),
            "exp": math.ceil(now + lifetime_s),
        }
        if key_id is not None:
            payload["key_id"] = key_id
        return jwt.encode(payload, self._key, ALGORITHM, {"kid": self._kid})


class TokenVerifier:
    """Checks tokens against a key set, on behalf of one audience.

    A token's signature is checked once and then remembered for a while; its times are checked
    at every use. A key with an end (``exp``, seconds since 1970 UTC, as OpenID Federation has it)
    verifies nothing from then on.
    """

    def __init__(
        self, jwks: Mapping[str, Any], audience: str, now: Callable[[], float] = time.time
    ) -> None:
        """
        Args:
            audience: who is asking: one of ``ACCESS_AUDIENCE``.
            now: seconds since 1970 UTC.

        Raises:
            InvalidEncoding: not a key set, or without any ES256 key.
        """
        self._keys = _verification_keys(jwks)
        self._audience = audience
        self._now = now
        # An error is not remembered: garbage cannot crowd the good tokens out.
        self._verify_signature = lru_cache(REMEMBERED_TOKENS)(self._check_signature)

    def verify(self, token: str | None) -> Claims:
        """Return the claims of a token that is genuine, for this audience, and valid now.

        Raises:
            UnknownSigningKey: its key is not in the key set.
            TokenError: it is missing (755), invalid (756) or expired (757).
        """
        if not token:
            raise TokenError(TokenFault.JWT_MISSING)
        if len(token) > MAX_TOKEN_CHARS:
            raise TokenError(TokenFault.JWT_INVALID, "longer than any token of the gateway")
        claims, not_before = self._verify_signature(token)
        now = self._now()
        if now >= claims.expires_at:
            raise TokenError(TokenFault.JWT_EXPIRED)
        if now < not_before:
            raise TokenError(TokenFault.JWT_INVALID, "not valid yet")
        return claims

    def verify_ignoring_times(self, token: str) -> Claims:
        """Return the claims of a genuine token for this audience, whether or not it is valid now.

        Raises:
            TokenError: it never did.
        """
        if len(token) > MAX_TOKEN_CHARS:
            raise TokenError(TokenFault.JWT_INVALID, "longer than any token of the gateway")
        return self._verify_signature(token)[0]

    def _check_signature(self, token: str) -> tuple[Claims, int]:
        """Check everything but the times; return the claims, and when they begin to hold."""
        try:
            kid = jwt.get_unverified_header(token).get("kid")
        except (PyJWTError, UnicodeEncodeError) as error:
            raise TokenError(TokenFault.JWT_INVALID, "not a JSON Web Token") from error
        if kid is None:
            raise TokenError(TokenFault.JWT_INVALID, "names no signing key")
        if kid not in self._keys:
            raise UnknownSigningKey
        key, ends_at = self._keys[kid]
        try:
            payload = jwt.decode(
                token,
                key,
                [ALGORITHM],
                # PyJWT would read the system's clock.
                {"verify_exp": False, "verify_nbf": False, "verify_iat": False, "require": ["aud"]},
                audience=self._audience,
            )
        except PyJWTError as error:
            raise TokenError(TokenFault.JWT_INVALID, type(error).__name__) from error
        claims, not_before = _claims(payload)
        if ends_at is not None and ends_at < claims.expires_at:
            claims = replace(claims, expires_at=ends_at)
        return claims, not_before


def bearer(header: str | None) -> str:
    """The token in an ``Authorization`` header (RFC 6750, section 2.1).

    Raises:
        TokenError: there is none (755), or the header is of another scheme or malformed (756).
    """
    if header is None or not (header := header.strip(" \t")):
        raise TokenError(TokenFault.JWT_MISSING)
    match = _BEARER.fullmatch(header)
    if match is None:
        raise TokenError(TokenFault.JWT_INVALID, "the Authorization header is not 'Bearer <token>'")
    if match["token"] is None:
        raise TokenError(TokenFault.JWT_MISSING)
    return match["token"]


def _claims(payload: Mapping[str, Any]) -> tuple[Claims, int]:
    """Claims of a genuine token, and when they begin to hold."""
    sub, username, use = (payload.get(name) for name in ("sub", "username", "use"))
    key_id, exp, not_before = payload.get("key_id"), payload.get("exp"), payload.get("nbf", 0)
    # JSON has NaN in Python, and True is an int: only true integers make a time.
    if type(exp) is not int or type(not_before) is not int:
        raise TokenError(TokenFault.JWT_INVALID, "claim exp or nbf: missing or not an integer")
    for name, value in (("sub", sub), ("username", username)):
        if not isinstance(value, str) or not value:
            raise TokenError(TokenFault.JWT_INVALID, f"claim {name}: missing or not a text")
    if use == "access" and key_id is None:
        return Claims(str(sub), str(username), "access", None, exp), not_before
    if use == "key" and isinstance(key_id, str) and _KEY_ID.fullmatch(key_id):
        return Claims(str(sub), str(username), "key", key_id, exp), not_before
    raise TokenError(TokenFault.JWT_INVALID, "claims use and key_id do not fit together")


def _private_key(pem: str) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(pem.encode(), None)
    except (ValueError, TypeError):  # TypeError: it is encrypted
        raise UsageError("signing key: not an unencrypted private key in PEM") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.curve.name != ec.SECP256R1.name:
        raise UsageError("signing key: not of the curve P-256")
    return key


def _verification_keys(jwks: Mapping[str, Any]) -> dict[str, tuple[jwt.PyJWK, int | None]]:
    """ES256 keys by name, and when they end. A set may hold others: they verify nothing here."""
    try:
        found = jwt.PyJWKSet.from_dict(dict(jwks))
    except (PyJWTError, TypeError, ValueError) as error:
        raise InvalidEncoding("not a JSON Web Key Set with usable keys") from error
    ends: dict[Any, Any] = {each.get("kid"): each.get("exp") for each in jwks["keys"]}
    keys = {
        key.key_id: (key, ends[key.key_id])
        for key in found
        if isinstance(key.key_id, str)
        and key.algorithm_name == ALGORITHM
        and isinstance(key.key, ec.EllipticCurvePublicKey)
        and key.key.curve.name == ec.SECP256R1.name
        and (ends[key.key_id] is None or type(ends[key.key_id]) is int)
    }
    if not keys:
        raise InvalidEncoding(f"the JSON Web Key Set has no {ALGORITHM} key")
    return keys


def _thumbprint(jwk: Mapping[str, str]) -> str:
    """Name of a key, computed from the key (RFC 7638)."""
    canonical = json.dumps(jwk, sort_keys=True, separators=(",", ":")).encode()
    digest = hashlib.sha256(canonical).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()

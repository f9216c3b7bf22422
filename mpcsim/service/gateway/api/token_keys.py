"""Signing keys of the gateway's tokens, always as the registry has them now.

``mpcsim rotate token-key`` may change the registry while the gateway runs. So every token is
verified with the keys that the registry has then; if nothing changed, that costs a ``stat`` of its
files.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from mpcsim.service.gateway.registry import Registry, SigningKeys
from mpcsim.service.rpc.tokens import Claims, TokenIssuer, TokenVerifier
from mpcsim.service.storage.database import StoreFailed
from mpcsim.service.web.threads import in_thread


class TokenKeys:
    """Signs tokens, and verifies those made out to the gateway; methods as of ``TokenIssuer`` and
    ``TokenVerifier``."""

    def __init__(self, registry: Registry, audience: str, now: Callable[[], float]) -> None:
        """
        Args:
            now: seconds since 1970 UTC.

        Raises:
            StoreFailed: the registry's keys are damaged.
        """
        self._registry = registry
        self._audience = audience
        self._now = now
        self._set_keys(registry.signing_keys())

    def _set_keys(self, keys: SigningKeys) -> None:
        self._keys = keys
        self._issuer = TokenIssuer(keys.pem, self._now)
        self._verifier = TokenVerifier(self._key_set(), self._audience, self._now)

    def _reload_if_changed(self) -> None:
        """Load the registry's keys if they have changed. If the registry cannot be read, the known
        keys stay: other operations report the error."""
        try:
            keys = self._registry.signing_keys()
        except StoreFailed:
            return
        if keys is not self._keys and keys != self._keys:
            self._set_keys(keys)

    def _key_set(self) -> dict[str, Any]:
        return {"keys": [*self._issuer.jwks()["keys"], *self._keys.earlier]}

    def jwks(self) -> dict[str, Any]:
        """Return the public keys that verify (RFC 7517), earlier ones with their end (``exp``)."""
        self._reload_if_changed()
        return self._key_set()

    async def delete_expired_keys(self) -> None:
        """Delete earlier keys that have expired, if the registry can be written now."""
        if any(key["exp"] <= self._now() for key in self._keys.earlier):
            with suppress(StoreFailed):
                await in_thread(self._registry.forget_signing_keys)

    def issue_access(self, user_id: str, username: str, lifetime_s: float) -> str:
        self._reload_if_changed()
        return self._issuer.issue_access(user_id, username, lifetime_s)

    def issue_key(self, user_id: str, username: str, key_id: str, lifetime_s: float) -> str:
        self._reload_if_changed()
        return self._issuer.issue_key(user_id, username, key_id, lifetime_s)

    def remaining_s(self, claims: Claims) -> float:
        return self._issuer.remaining_s(claims)

    def verify(self, token: str | None) -> Claims:
        self._reload_if_changed()
        return self._verifier.verify(token)

    def claims_of_expired(self, token: str) -> Claims:
        self._reload_if_changed()
        return self._verifier.verify_ignoring_times(token)

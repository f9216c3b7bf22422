"""Steps that must be refused: other users' keys, and invalid tokens."""

from __future__ import annotations

from typing import Any, Final, Literal, get_args

from mpcsim.errors import UsageError
from mpcsim.testing.api_sequence import Call, is_broken_invariant
from mpcsim.testing.backend import service_checks as checks
from mpcsim.testing.backend.service import Request
from mpcsim.testing.backend.target import ExpiresTokens
from mpcsim.testing.machine.api_steps.base import DURING_OUTAGES, HASH, BaseRun, Skipped, step
from mpcsim.testing.machine.api_steps.registered import key_token_problem
from mpcsim.testing.model import IssuedShare, Key, User

__tracebackhide__ = is_broken_invariant

TokenFault = Literal["missing", "garbage", "expired", "key token"]
FAULTS: Final[tuple[TokenFault, ...]] = get_args(TokenFault)
Operation = Literal["sign", "publickey", "validate/password", "validate/share", "token"]
OPERATIONS: Final[tuple[Operation, ...]] = get_args(Operation)
PROTECTED: Final = (
    ("POST", "generate"),
    ("POST", "recover"),
    ("POST", "sign"),
    ("POST", "publickey"),
    ("POST", "validate/password"),
    ("POST", "validate/share"),
    ("GET", "key"),
    ("GET", "token"),
    ("GET", "user"),
    ("GET", ""),
)
"""Endpoints under ``/v3/wallet`` that need a token."""
_FAULTS: Final[dict[str, tuple[str, int]]] = {
    "missing": ("without a token", 755),
    "garbage": ("with garbage for a token", 756),
    "expired": ("with an expired token", 757),
    "key token": ("with a key token", 756),
}
"""Fault of a token in words, and the code that the answer must have."""


class CrossUserSteps(BaseRun):
    """Steps with other users' keys and invalid tokens."""

    @step
    def access_other_users_key(
        self, user: str, owner: str, curve: str, operation: Operation
    ) -> None:
        """Use another user's present share, with one's own token."""
        if user == owner:
            raise Skipped
        _, _, used = self._share(owner, curve, -1)
        who = self._user(user)
        deed = {
            "sign": "signed with",
            "publickey": "asked for the public key of",
            "validate/password": "had the password validated of",
            "validate/share": "had validated",
            "token": "asked for a token for",
        }[operation]
        self._describe_step(f"{user} {deed} {owner}'s {curve} share")
        if operation == "token":
            answer = self._get(who, f"token?id={used.key_id}")
        else:
            answer = self._post(who, operation, self._body(who, used, operation))
        checks.nobody_reaches_anothers_key(answer)
        self._expect(answer, [200] if operation.startswith("validate") else [404])

    @step
    def access_other_users_key_under_own_id(self, user: str, owner: str, curve: str) -> None:
        """Sign with another user's share, under one's own key_id and with one's own token."""
        _, _, used = self._share(owner, curve, -1)
        who, _, mine = self._share(user, curve, -1)
        if user == owner:
            raise Skipped
        self._describe_step(f"{user} signed with {owner}'s {curve} share under the own key_id")
        answer = self._post(who, "sign", used.stored() | {"key_id": mine.key_id, "message": HASH})
        checks.nobody_reaches_anothers_key(answer)
        self._expect(answer, [400])

    @step
    def unauthenticated(self, user: str, curve: str, fault: TokenFault, endpoint: str = "") -> None:
        """Call every protected endpoint with a token that does not count, or one of them.

        Args:
            curve: the key whose share the requests carry, if there is one.
            endpoint: as in ``PROTECTED``, e.g. ``GET key``.

        Raises:
            UsageError: there is no such endpoint.
        """
        if endpoint not in ("", *map(" ".join, PROTECTED)):
            raise UsageError(f"no protected endpoint: {endpoint!r}")
        if fault == "expired" and not isinstance(self.target, ExpiresTokens):
            raise Skipped
        if fault == "key token" and (self._outages or not self.has_key(user, curve)):
            raise Skipped
        who = self._user(user)
        key = who.keys.get(curve)
        how, code = _FAULTS[fault]
        token: str | None = None
        if fault == "garbage":
            token = "not.a.token"
        elif fault == "expired" and isinstance(self.target, ExpiresTokens):
            token = self.target.expired_token(who.login)
            self._add_secret(token, f"{user}'s expired token")
        elif fault == "key token" and key is not None:
            token = self._key_token(who, key)
        called = endpoint.replace(" ", " /v3/wallet/").rstrip("/") or "every endpoint"
        self._describe_step(f"{user} called {called} {how}")
        parts: list[Call] = []
        for method, operation in PROTECTED:
            if endpoint not in ("", f"{method} {operation}"):
                continue
            if not endpoint:
                at = {"user": user, "curve": curve, "fault": fault}
                parts.append(Call("unauthenticated", at | {"endpoint": f"{method} {operation}"}))
                self._set_parts(*parts)
            body: Any = None
            if method == "POST":
                body = self._body(who, key.present, operation) if key else {}
            path = f"/v3/wallet/{operation}".rstrip("/")
            (answer,) = self._ask([Request(method, path, body, token)])
            if answer.status in DURING_OUTAGES and self._outages:
                continue
            checks.unauthenticated_is_refused(f"{method} {path}", answer, code)

    def _key_token(self, who: User, key: Key) -> str:
        answer = self._get(who, f"token?id={key.present.key_id}")
        self._expect(answer, [200])
        checks.body_is_as_specified(key_token_problem(answer, key.present.key_id))
        token = str(answer.document["token"])
        self._add_secret(token, f"{who.name}'s key token")
        return token

    def _body(self, who: User, share: IssuedShare, operation: str) -> dict[str, str]:
        """Return a request body that would be right from the share's owner."""
        match operation:
            case "generate" | "recover":
                return {"curve": share.curve, "password": share.password}
            case "sign":
                return share.stored() | {"message": HASH}
            case "publickey":
                return share.stored() | {"password": share.password}
            case "validate/password":
                return {"password": share.password, "secret_store": share.secret_store}
            case _:
                stored = share.stored()
                return {name: stored[name] for name in ("encrypted_share", "secret_store")}

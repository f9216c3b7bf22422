"""Steps with child keys (BIP 32): read them, and sign with them."""

from __future__ import annotations

from typing import Any, Final

from mpcsim.crypto.bip32 import parse_path
from mpcsim.testing.api_sequence import is_broken_invariant
from mpcsim.testing.backend import service_checks as checks
from mpcsim.testing.backend.service import Answer, Request
from mpcsim.testing.machine.api_steps.base import HASH, share_name, step
from mpcsim.testing.machine.api_steps.signing import SigningSteps
from mpcsim.testing.model import IssuedShare, Key, User

__tracebackhide__ = is_broken_invariant

BAD_PATHS: Final = ("m/0h", "m/2147483648", "m/0/x", "m//1", "", "m" + 11 * "/1")
"""Paths that lead to no key, or only with the private key."""


class ChildSteps(SigningSteps):
    """Steps of targets with child keys."""

    @step
    def child_key(self, user: str, curve: str, path: str, share: int = -1) -> None:
        """Ask a share, and the wallet, for the child key at a path."""
        who, key, used = self._share(user, curve, share)
        self._describe_step(f"{user} asked for the child {path} of {share_name(key, used)}")
        answer = self._child_of(who, used, path)
        if curve == "ed25519":
            self._expect(answer, [400], "no children on ed25519")
        elif used.retired:
            self._expect(answer, [404], "retired")
        elif self._expect(answer, [200]) and self._know_tree(who, key):
            checks.child_is_derived(key.xpub, parse_path(path), answer.document)
            wallet = self._ask([Request("GET", f"/v3/wallet?path={path}", None, who.token)])[0]
            if self._expect(wallet, [200]):
                checks.child_is_derived(key.xpub, parse_path(path), _only_key(wallet.document))

    @step
    def sign_with_child(
        self,
        user: str,
        curve: str,
        path: str,
        *,
        message: str = HASH,
        share: int = -1,
        signer: str = "",
    ) -> None:
        """Sign with the child key at a path; other arguments as for ``sign``."""
        who, key, used = self._share(user, curve, share)
        along = f" with the {signer}" if signer else ""
        self._describe_step(
            f"{user} signed with the child {path} of {share_name(key, used)}{along}"
        )
        body = self._signing(used, message, signer) | {"path": path}
        answer = self._post(who, "sign", body)
        if curve == "ed25519":
            self._expect(answer, [400], "no children on ed25519")
        elif used.retired:
            checks.retired_share_never_signs(answer)
            self._expect(answer, [404], "retired")
        elif self._expect(answer, [200]) and self._know_tree(who, key):
            child = checks.child_of(key.xpub, parse_path(path))
            self._check_signature(Key(curve, child, []), message, answer)

    @step
    def sign_with_bad_path(self, user: str, curve: str, path: str) -> None:
        """Sign with a path that leads to no key."""
        who, key, used = self._share(user, curve, -1)
        self._describe_step(f"{user} signed with {share_name(key, used)} and the path {path!r}")
        answer = self._post(who, "sign", self._signing(used, HASH) | {"path": path})
        self._expect(answer, [400])

    def _child_of(self, who: User, share: IssuedShare, path: str) -> Answer:
        body: dict[str, Any] = share.stored() | {"password": share.password, "path": path}
        return self._post(who, "publickey", body)

    def _know_tree(self, who: User, key: Key) -> bool:
        """Return whether the key's own xpub is known; it is asked for once, and never changes."""
        if not key.xpub:
            answer = self._child_of(who, key.present, "m")
            if not self._expect(answer, [200]):
                return False
            checks.child_is_derived(answer.document["xpub"], (), answer.document)
            checks.public_key_never_changes(key.public_key, answer.document["public_key"])
            key.xpub = answer.document["xpub"]
        return True


def _only_key(document: Any) -> Any:
    """Return the one key in a wallet; None: it has none, or several."""
    try:
        (entry,) = document["wallets"]
        return entry["key"]
    except (KeyError, TypeError, ValueError):
        return None

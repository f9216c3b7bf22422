"""Steps that read registered data: keys, wallet, user."""

from __future__ import annotations

import re
from typing import Any

from mpcsim.testing.api_sequence import is_broken_invariant
from mpcsim.testing.backend import service_checks as checks
from mpcsim.testing.backend.service import Answer, Request
from mpcsim.testing.machine.api_steps.base import BaseRun, Skipped, share_name, step
from mpcsim.testing.model import User

__tracebackhide__ = is_broken_invariant


class RegisteredSteps(BaseRun):
    """Look around."""

    @step
    def keys(self, user: str) -> None:
        """List the user's keys."""
        who = self._user(user)
        self._describe_step(f"{user} listed the keys")
        answer = self._get(who, "key")
        if self._expect(answer, [200]):
            checks.body_is_as_specified(self._keys_problem(who, answer.document))

    @step
    def wallet(self, user: str) -> None:
        """Look at the wallet; 404 without a key."""
        who = self._user(user)
        if any(name == user for name, _ in self._in_doubt):
            raise Skipped
        self._describe_step(f"{user} looked at the wallet")
        answer = self._get(who, "")
        if self._expect(answer, [200] if who.keys else [404]) and answer.status == 200:
            checks.body_is_as_specified(self._wallet_problem(who, answer.document))

    @step
    def information(self, user: str) -> None:
        """Look at the user information."""
        who = self._user(user)
        self._describe_step(f"{user} looked at the user information")
        answer = self._get(who, "user")
        if self._expect(answer, [200]):
            document = answer.document
            whole = isinstance(document, dict) and {"user_id", "username", "created_at"} <= set(
                document
            )
            problem = None if whole else f"answered {answer}"
            checks.body_is_as_specified(problem or self._user_id_problem(who, document))

    @step
    def key_token(self, user: str, curve: str, share: int = -1) -> None:
        """Ask for a token for the MPC nodes; 404 with a retired key_id."""
        who, key, used = self._share(user, curve, share)
        self._describe_step(f"{user} asked for a token for {share_name(key, used)}")
        answer = self._get(who, f"token?id={used.key_id}")
        if self._expect(answer, [404] if used.retired else [200]) and answer.status == 200:
            checks.body_is_as_specified(key_token_problem(answer, used.key_id))
            self._add_secret(answer.document["token"], f"{user}'s key token")

    @step
    def health(self) -> None:
        """Check the health, without a token."""
        self._describe_step("somebody checked the health")
        (answer,) = self._ask([Request("GET", "/")])
        checks.answer_is_as_specified(answer, [200])
        document = answer.document
        names = set(document) if isinstance(document, dict) else set()
        whole = {"name", "version", "build_type", "time"} <= names
        checks.body_is_as_specified(None if whole else f"answered {answer}")

    def _keys_problem(self, who: User, document: Any) -> str | None:
        if problem := self._user_id_problem(who, document):
            return problem
        listed = document.get("keys")
        if not isinstance(listed, list) or not all(isinstance(key, dict) for key in listed):
            return "answered without a list of keys"
        listed = [key for key in listed if (who.name, key.get("curve")) not in self._in_doubt]
        found = {(key.get("key_id"), key.get("curve"), key.get("public_key")) for key in listed}
        expected = {
            (key.present.key_id, key.curve, key.public_key)
            for key in who.keys.values()
            if (who.name, key.curve) not in self._in_doubt
        }
        if found != expected or len(listed) != len(expected):
            return f"answered with the keys {_shown(found)}, expected {_shown(expected)}"
        return None

    def _wallet_problem(self, who: User, document: Any) -> str | None:
        if problem := self._user_id_problem(who, document):
            return problem
        entries = document.get("wallets")
        try:
            found = {entry["key"]["curve"]: entry["key"]["public_key"] for entry in entries}
            addresses = {entry["key"]["curve"]: entry["address"] for entry in entries}
        except (TypeError, KeyError):
            return "answered without wallets as specified"
        expected = {key.curve: key.public_key for key in who.keys.values()}
        if found != expected or len(entries) != len(expected):
            return f"answered with the wallets {found}, expected {expected}"
        for curve, address in addresses.items():
            wanted = {"solana"} if curve == "ed25519" else {"evm", "btc", "aptos", "tron", "xrp"}
            if not isinstance(address, dict) or not wanted <= set(address):
                return f"answered with the {curve} addresses {address}, expected {sorted(wanted)}"
            if who.addresses.setdefault(curve, address) != address:
                return f"answered with other {curve} addresses than before"
        return None

    def _user_id_problem(self, who: User, document: Any) -> str | None:
        found = document.get("user_id") if isinstance(document, dict) else None
        if not isinstance(found, str) or not found:
            return "answered without a user_id"
        if who.user_id is None:
            who.user_id = found
        if any(found == user.user_id for user in self.model.users.values() if user is not who):
            return "answered with another user's user_id"
        return None if found == who.user_id else "answered with another user_id than before"


def _shown(keys: set[Any]) -> str:
    found = [f"{str(key_id)[:8]}... ({curve})" for key_id, curve, _ in sorted(keys, key=str)]
    return listed(found) if found else "none"


def listed(items: list[str]) -> str:
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)


def key_token_problem(answer: Answer, key_id: str) -> str | None:
    document = answer.document
    if not isinstance(document, dict):
        return f"answered {answer}"
    right = (
        isinstance(document.get("token"), str)
        and re.fullmatch(r"[\w-]+\.[\w-]+\.[\w-]+", document["token"])
        and document.get("token_type") == "Bearer"
        and type(document.get("expires_in")) is int
        and document.get("key_id") == key_id
    )
    return None if right else f"answered {answer}"

"""Steps that inspect a share: its public key, its password, whether it is whole."""

from __future__ import annotations

from typing import Literal

from mpcsim.testing.api_sequence import is_broken_invariant
from mpcsim.testing.backend import service_checks as checks
from mpcsim.testing.backend.service import Answer
from mpcsim.testing.machine.api_steps.base import BaseRun, share_name, step
from mpcsim.testing.machine.api_steps.signing import Damage, damaged
from mpcsim.testing.model import IssuedShare, User

__tracebackhide__ = is_broken_invariant


class ShareSteps(BaseRun):
    """Look at a share."""

    @step
    def public_key(self, user: str, curve: str, share: int = -1, guess: str | None = None) -> None:
        """Ask for the public key of a share.

        Args:
            guess: the password; None: the right one.
        """
        who, key, used = self._share(user, curve, share)
        right = guess is None or guess == used.password
        self._describe_step(
            f"{user} asked for the public key of {share_name(key, used)}"
            + ("" if right else " with a wrong password")
        )
        answer = self._post(who, "publickey", self._with_password(who, used, guess))
        expected = [404] if used.retired else [200] if right else [400]
        if self._expect(answer, expected) and answer.status == 200:
            document = answer.document
            found = document.get("public_key") if isinstance(document, dict) else None
            checks.public_key_never_changes(key.public_key, found)

    @step
    def validate_password(
        self, user: str, curve: str, share: int = -1, guess: str | None = None
    ) -> None:
        """Ask whether a password is right; ``guess`` as for ``public_key``."""
        who, key, used = self._share(user, curve, share)
        right = guess is None or guess == used.password
        which = "right" if right else "wrong"
        self._describe_step(f"{user} had the {which} password of {share_name(key, used)} validated")
        body = self._with_password(who, used, guess)
        del body["key_id"], body["encrypted_share"], body["curve"]
        answer = self._post(who, "validate/password", body)
        if self._expect(answer, [200]):
            # Of a retired share the specification does not say.
            self._check_result(answer, right, either=right and used.retired)

    @step
    def validate_share(
        self,
        user: str,
        curve: str,
        share: int = -1,
        damage: Literal["", "share", "store"] = "",
        where: Damage = "middle",
    ) -> None:
        """Ask whether a share is whole, or one that was damaged."""
        who, key, used = self._share(user, curve, share)
        body = used.stored()
        del body["key_id"], body["curve"]
        name = {"": "", "share": "encrypted_share", "store": "secret_store"}[damage]
        if name:
            body[name] = damaged(body[name], where)
        self._describe_step(
            f"{user} had {share_name(key, used)} validated"
            + (f", its {name} damaged at the {where}" if name else "")
        )
        answer = self._post(who, "validate/share", body)
        # Damage may also make it malformed: 400. In the middle of the share there is ciphertext.
        strict = not name or (damage == "share" and where == "middle")
        if self._expect(answer, [200] if strict else [200, 400]) and answer.status == 200:
            self._check_result(answer, not name, either=not name and used.retired)

    def _with_password(self, who: User, share: IssuedShare, guess: str | None) -> dict[str, str]:
        password = share.password if guess is None else guess
        self._add_secret(password, f"{who.name}'s password")
        return share.stored() | {"password": password}

    def _check_result(self, answer: Answer, expected: bool, *, either: bool) -> None:
        allowed = [{"result": expected}] + [{"result": False}] * either
        problem = None
        if answer.document not in allowed:
            problem = f"answered {answer}, expected {allowed[0]}"
        checks.body_is_as_specified(problem)

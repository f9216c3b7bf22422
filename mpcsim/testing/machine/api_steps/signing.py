"""Steps that sign with a user's own shares, rightly and wrongly."""

from __future__ import annotations

from typing import Any, Final, Literal, get_args

from mpcsim.testing.api_sequence import is_broken_invariant
from mpcsim.testing.backend import service_checks as checks
from mpcsim.testing.backend.service import Answer
from mpcsim.testing.machine.api_steps.base import HASH, BaseRun, Skipped, share_name, step
from mpcsim.testing.model import IssuedShare, Key, User

__tracebackhide__ = is_broken_invariant

Damage = Literal["middle", "start", "end"]
PLACES: Final[tuple[Damage, ...]] = get_args(Damage)
MESSAGES: Final[dict[str, Any]] = {
    "no message": None,
    "an empty message": "",
    "half a byte": "abc",
    "a message with 0x": "0x" + HASH,
    "a message that is not hex": "xy" * 32,
    "a number for a message": 7,
}
"""Messages that no key signs."""
NONSENSE: Final = (*MESSAGES, "a short hash", "another curve", "an unknown curve")
UNKNOWN_KEY: Final = "5eed" * 16


class SigningSteps(BaseRun):
    """Sign."""

    @step
    def sign(
        self, user: str, curve: str, message: str = HASH, share: int = -1, signer: str = ""
    ) -> None:
        """Sign with one of the key's shares: the present one (-1), or an earlier one, from 0.

        Args:
            message: in hex; on secp256k1 32 bytes.
            signer: which MPC node signs along, where the target lets choose; empty: the service
                decides.
        """
        who, key, used = self._share(user, curve, share)
        along = f" with the {signer}" if signer else ""
        self._describe_step(f"{user} signed with {share_name(key, used)}{along}")
        answer = self._sign(who, used, message, signer)
        if used.retired:
            checks.retired_share_never_signs(answer)
            self._expect(answer, [404], "retired")
        elif self._expect(answer, [200]):
            self._check_signature(key, message, answer)

    @step
    def sign_nonsense(self, user: str, curve: str, what: str) -> None:
        """Sign something that cannot be signed.

        Args:
            what: one of ``NONSENSE``.
        """
        who, key, used = self._share(user, curve, -1)
        body: dict[str, Any] = used.stored() | {"message": HASH}
        allowed = [400]
        if what in MESSAGES:
            body["message"] = MESSAGES[what]
            if body["message"] is None:
                del body["message"]
        elif what == "a short hash":
            body["message"] = HASH[2:]
            allowed = [400] if curve == "secp256k1" else [200]
        elif what == "another curve":
            body["curve"] = "ed25519" if curve == "secp256k1" else "secp256k1"
        else:
            body["curve"] = "secp256r1"
        self._describe_step(f"{user} signed with {share_name(key, used)}, giving {what}")
        answer = self._post(who, "sign", body)
        if self._expect(answer, allowed) and answer.status == 200:
            self._check_signature(key, body["message"], answer)

    @step
    def sign_with_damage(
        self, user: str, curve: str, what: Literal["share", "store"], where: Damage = "middle"
    ) -> None:
        """Sign with a record of which one character was changed."""
        who, key, used = self._share(user, curve, -1)
        name = "encrypted_share" if what == "share" else "secret_store"
        body = used.stored() | {"message": HASH}
        body[name] = damaged(body[name], where)
        self._describe_step(
            f"{user} signed with {share_name(key, used)}, its {name} damaged at the {where}"
        )
        answer = self._post(who, "sign", body)
        checks.damaged_share_never_signs(answer)
        self._expect(answer, [400])

    @step
    def sign_with_mixture(self, user: str, curve: str, key_id: int = -1, share: int = 0) -> None:
        """Sign with the key_id of one share, and the strings of another share of the key."""
        who, key, named = self._share(user, curve, key_id)
        used = key.shares[share % len(key.shares)]
        if named is used:
            raise Skipped
        under = f"under the key_id of {share_name(key, named)}"
        self._describe_step(f"{user} signed with {share_name(key, used)} {under}")
        body = used.stored() | {"key_id": named.key_id, "message": HASH}
        answer = self._post(who, "sign", body)
        if used.retired:
            checks.retired_share_never_signs(answer)
        checks.damaged_share_never_signs(answer)
        self._expect(answer, [404] if named.retired else [400])

    @step
    def sign_under_unknown_key(self, user: str, curve: str) -> None:
        """Sign with a key_id that nobody has."""
        who, key, used = self._share(user, curve, -1)
        self._describe_step(
            f"{user} signed with {share_name(key, used)} under a key_id that nobody has"
        )
        body = used.stored() | {"key_id": UNKNOWN_KEY, "message": HASH}
        answer = self._post(who, "sign", body)
        checks.damaged_share_never_signs(answer)
        self._expect(answer, [404])

    def _sign(self, who: User, share: IssuedShare, message: str, signer: str = "") -> Answer:
        return self._post(who, "sign", self._signing(share, message, signer))

    def _signing(self, share: IssuedShare, message: str, signer: str = "") -> dict[str, str]:
        self._add_secret(message, "a message")
        body = share.stored() | {"message": message}
        return body | {"signer": signer} if signer else body

    def _check_signature(self, key: Key, message: str, answer: Answer) -> None:
        document = answer.document
        signature = document.get("signature") if isinstance(document, dict) else None
        checks.signature_is_right(key.curve, key.public_key, bytes.fromhex(message), signature)


def damaged(text: str, where: Damage) -> str:
    """Return the same text with another character at one place; still URL-safe base64."""
    at = {"start": 0, "middle": len(text) // 2, "end": len(text) - 1}[where]
    return text[:at] + ("B" if text[at] != "B" else "C") + text[at + 1 :]

"""Steps that generate and recover keys."""

from __future__ import annotations

from typing import Any

from mpcsim.errors import with_article
from mpcsim.testing.api_sequence import is_broken_invariant
from mpcsim.testing.backend import service_checks as checks
from mpcsim.testing.backend.service import Answer
from mpcsim.testing.machine.api_steps.base import PASSWORD, BaseRun, step
from mpcsim.testing.model import IssuedShare, Key, User

__tracebackhide__ = is_broken_invariant


class KeySteps(BaseRun):
    """Steps that generate and recover keys."""

    @step
    def generate(self, user: str, curve: str, password: str = PASSWORD) -> None:
        """Generate a key; 409 if there is one."""
        self._skip_if_in_doubt(user, curve)
        who = self._user(user)
        exists = curve in who.keys
        self._describe_step(
            f"{user} generated {with_article(curve)} key" + (" once more" if exists else "")
        )
        self._add_secret(password, f"{user}'s password")
        answer = self._post(who, "generate", {"curve": curve, "password": password})
        if not self._expect(answer, [409] if exists else [200]):
            self._note_doubt(answer, user, curve)
            return
        if not exists:
            self._new_key(who, curve, answer, password)

    @step
    def recover(self, user: str, curve: str, password: str = PASSWORD) -> None:
        """Recover a key; 404 if there is none."""
        self._skip_if_in_doubt(user, curve)
        who = self._user(user)
        key = who.keys.get(curve)
        it = "it" if key and self._is_about(user, curve) else f"the {curve} key"
        self._describe_step(f"{user} recovered {it}")
        self._add_secret(password, f"{user}'s password")
        answer = self._post(who, "recover", {"curve": curve, "password": password})
        if not self._expect(answer, [200] if key else [404]) or key is None:
            self._note_doubt(answer, user, curve)
            return
        key.replace(self._recovered(who, key, answer, password))

    def _settle_doubts(self) -> None:
        """Find keys that were made or replaced without an answer, and recover them: the model has
        no share of them."""
        for user, curve in list(self._in_doubt):
            who = self.model.users[user]
            found, key = self._registered(who, curve), who.keys.get(curve)
            del self._in_doubt[user, curve]
            if found is None or (key and found == key.present.key_id):
                continue  # nothing has come of it, as the model has it
            answer = self._post(who, "recover", {"curve": curve, "password": PASSWORD})
            checks.answer_is_as_specified(answer, [200], "of a key that is listed")
            if key:
                key.replace(self._recovered(who, key, answer, PASSWORD))
            else:
                self._new_key(who, curve, answer, PASSWORD)

    def _registered(self, who: User, curve: str) -> str | None:
        """Return the present key_id as the service lists it; other steps check the list itself."""
        answer = self._get(who, "key")
        self._expect(answer, [200])
        listed = answer.document.get("keys") if isinstance(answer.document, dict) else None
        found: dict[str, str] = next((k for k in listed or () if k.get("curve") == curve), {})
        return found.get("key_id")

    def _new_key(self, who: User, curve: str, answer: Answer, password: str) -> None:
        document = self._record(answer, curve)
        share = IssuedShare.of(document, password)
        taken = {key.public_key for _, key in self.model.every_key()}
        problem = "answered with a public key that is in use" if share.public_key in taken else None
        checks.body_is_as_specified(problem)
        self._keep(who, share)
        who.keys[curve] = Key(curve, share.public_key, [share])

    def _recovered(self, who: User, key: Key, answer: Answer, password: str) -> IssuedShare:
        share = IssuedShare.of(self._record(answer, key.curve), password)
        checks.public_key_never_changes(key.public_key, share.public_key)
        self._keep(who, share)
        return share

    def _record(self, answer: Answer, curve: str) -> Any:
        document = answer.document
        checks.body_is_as_specified(checks.record_problem(document, curve))
        seen = document["key_id"] in self.model.key_ids()
        checks.body_is_as_specified("answered with a key_id that is not new" if seen else None)
        return document

    def _keep(self, who: User, share: IssuedShare) -> None:
        self._add_secret(share.encrypted_share, f"{who.name}'s encrypted_share")
        self._add_secret(share.secret_store, f"{who.name}'s secret_store")

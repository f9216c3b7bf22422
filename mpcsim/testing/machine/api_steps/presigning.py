"""Steps with presignatures: make them, use them, and use them again from a restored database."""

from __future__ import annotations

from mpcsim.testing.api_sequence import is_broken_invariant
from mpcsim.testing.backend import service_checks as checks
from mpcsim.testing.machine.api_steps.base import HASH, share_name, step
from mpcsim.testing.machine.api_steps.signing import SigningSteps

__tracebackhide__ = is_broken_invariant


class PresigningSteps(SigningSteps):
    """Steps of targets with presignatures."""

    @step
    def presign(self, user: str, curve: str, count: int, share: int = -1) -> None:
        """Request presignatures."""
        who, key, used = self._share(user, curve, share)
        self._describe_step(f"{user} had {count} presignatures made with {share_name(key, used)}")
        answer = self._post(who, "presign", used.stored() | {"count": count})
        if curve == "ed25519":
            self._expect(answer, [400], "no presignatures on ed25519")
        elif used.retired:
            self._expect(answer, [404], "retired")
        elif self._expect(answer, [200]):
            made = checks.presignatures_of(answer.document, count)
            key.presignatures += made
            key.backup += made

    @step
    def sign_presigned(
        self, user: str, curve: str, *, message: str = HASH, share: int = -1, restored: bool = False
    ) -> None:
        """Sign with the presignatures there are; other arguments as for ``sign``.

        Args:
            restored: from a database in which none has been used yet.
        """
        who, key, used = self._share(user, curve, share)
        given = list(key.backup if restored else key.presignatures)[-checks.MAX_PRESIGNATURES :]
        which = "restored presignatures" if restored else "presignatures"
        self._describe_step(f"{user} signed with {share_name(key, used)} and {len(given)} {which}")
        body = self._signing(used, message) | {"presignatures": given}
        answer = self._post(who, "sign", body)
        if used.retired:
            checks.retired_share_never_signs(answer)
            self._expect(answer, [404], "retired")
        elif self._expect(answer, [200]):
            self._check_signature(key, message, answer)
            left = checks.presignatures_of(answer.document, len(given))
            checks.presignatures_are_used_up(given, left)
            key.presignatures = left

"""Steps that send several requests at the same time."""

from __future__ import annotations

from mpcsim.errors import with_article
from mpcsim.testing.api_sequence import Call, is_broken_invariant
from mpcsim.testing.backend import service_checks as checks
from mpcsim.testing.backend.service import Answer, Request
from mpcsim.testing.machine.api_steps.base import HASH, PASSWORD, Skipped, share_name, step
from mpcsim.testing.machine.api_steps.keys import KeySteps
from mpcsim.testing.machine.api_steps.registered import listed
from mpcsim.testing.machine.api_steps.signing import SigningSteps
from mpcsim.testing.model import Key

__tracebackhide__ = is_broken_invariant


class ConcurrentSteps(KeySteps, SigningSteps):
    """Steps that send several requests at once."""

    @step
    def sign_twice_at_once(self, user: str, curve: str, times: int = 2) -> None:
        """Send several signing requests for one key at the same time.

        A second one may be refused; the first is unharmed.
        """
        who, key, used = self._share(user, curve, -1)
        self._describe_step(
            f"{user} sent {times} requests at once to sign with {share_name(key, used)}"
        )
        messages = [f"{number:02x}" * 32 for number in range(1, times + 1)]
        at = {"user": user, "curve": curve}
        self._set_parts(*(Call("sign", at | {"message": message}) for message in messages))
        answers = self._posts(who, [("sign", self._signing(used, m)) for m in messages])
        self._check_concurrent(key, answers, messages)

    @step
    def sign_while_recovering(self, user: str, curve: str, password: str = PASSWORD) -> None:
        """Send a signing request and a recovery of the same key at the same time."""
        who, key, used = self._share(user, curve, -1)
        self._describe_step(
            f"{user} signed with {share_name(key, used)} and recovered the key at once"
        )
        at = {"user": user, "curve": curve}
        self._set_parts(Call("sign", at), Call("recover", at | {"password": password}))
        self._add_secret(password, f"{user}'s password")
        signed, recovered = self._posts(
            who,
            [
                ("sign", self._signing(used, HASH)),
                ("recover", {"curve": curve, "password": password}),
            ],
        )
        if self._expect(recovered, [200, 500]) and recovered.status == 200:
            key.replace(self._recovered(who, key, recovered, password))
        self._note_doubt(recovered, user, curve)
        if self._expect(signed, [200, 400, 404, 500]) and signed.status == 200:
            self._check_signature(key, HASH, signed)
        self._one_succeeded([signed, recovered])

    @step
    def generate_twice_at_once(self, user: str, curve: str, password: str = PASSWORD) -> None:
        """Send two requests to generate the same key at the same time: exactly one succeeds."""
        self._skip_if_in_doubt(user, curve)
        if self.has_key(user, curve):
            raise Skipped
        who = self._user(user)
        self._describe_step(f"{user} sent 2 requests at once to generate {with_article(curve)} key")
        at = {"user": user, "curve": curve, "password": password}
        self._set_parts(*[Call("generate", at)] * 2)
        self._add_secret(password, f"{user}'s password")
        body = {"curve": curve, "password": password}
        answers = self._posts(who, [("generate", body), ("generate", body)])
        made = [answer for answer in answers if answer.status == 200]
        for answer in answers:
            self._expect(answer, [200, 409, 500])
            self._note_doubt(answer, user, curve)
        if len(made) > 1:
            checks.answer_is_as_specified(
                made[1], [409], "a user has one key a curve, and both succeeded"
            )
        self._one_succeeded(answers)
        if made:
            self._new_key(who, curve, made[0], password)
        elif self._outages:
            self._unsettled = True

    @step
    def recover_twice_at_once(self, user: str, curve: str, password: str = PASSWORD) -> None:
        """Send two recoveries of one key at the same time; one of the new shares is the present
        one."""
        who, key, _ = self._share(user, curve, -1)
        self._describe_step(f"{user} sent 2 requests at once to recover the {curve} key")
        at = {"user": user, "curve": curve, "password": password}
        self._set_parts(*[Call("recover", at)] * 2)
        self._add_secret(password, f"{user}'s password")
        body = {"curve": curve, "password": password}
        answers = self._posts(who, [("recover", body), ("recover", body)])
        for answer in answers:
            self._expect(answer, [200, 404, 409, 500])
            self._note_doubt(answer, user, curve)
        self._one_succeeded(answers)
        made = [a for a in answers if a.status == 200]
        shares = [self._recovered(who, key, answer, password) for answer in made]
        if len(shares) == 2:
            shares.sort(key=lambda share: share.key_id == self._registered(who, curve))
        for share in shares:
            key.replace(share)

    @step
    def all_sign_at_once(self) -> None:
        """Sign with every key of all users at the same time: keys do not disturb each other."""
        crowd = list(self.model.every_key())
        if len(crowd) < 2:
            raise Skipped
        self._describe_step(f"{listed([f'{u.name} ({k.curve})' for u, k in crowd])} signed at once")
        self._set_parts(*(Call("sign", {"user": u.name, "curve": k.curve}) for u, k in crowd))
        requests = [
            Request("POST", "/v3/wallet/sign", self._signing(key.present, HASH), user.token)
            for user, key in crowd
        ]
        for (_, key), answer in zip(crowd, self._ask(requests), strict=True):
            if self._outages:
                if self._expect(answer, [200]):
                    self._check_signature(key, HASH, answer)
                continue
            problem = None if answer.status == 200 else f"one was answered {answer}, expected 200"
            checks.concurrent_requests_do_no_harm(problem)
            self._check_signature(key, HASH, answer)

    def _check_concurrent(self, key: Key, answers: list[Answer], messages: list[str]) -> None:
        for answer, message in zip(answers, messages, strict=True):
            if self._expect(answer, [200, 500]) and answer.status == 200:
                self._check_signature(key, message, answer)
        self._one_succeeded(answers)

    def _one_succeeded(self, answers: list[Answer]) -> None:
        """Check that at least one succeeded, and that the others were refused because of it."""
        if self._outages:
            return
        said = "; ".join(map(str, answers))
        good = any(answer.status == 200 for answer in answers)
        checks.concurrent_requests_do_no_harm(None if good else f"none succeeded: {said}")
        for answer in answers:
            refused = answer.error.startswith("Upstream returned 4")
            if answer.status == 500 and not refused:
                checks.answer_is_as_specified(answer, [200], "or a refusal by the gateway")

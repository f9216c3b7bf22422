"""A backend that keeps its users' strings and gets through what a wallet service may do to it.

A template: what it remembers is a dictionary here, and belongs into a database; when it waits and
how long, is said by whoever makes it. What it does about a failure:

- 401: log in and ask again.
- No answer, 500, 502, 504 of what changes nothing: ask again later, or when ``Retry-After`` says.
- The same of ``generate`` and ``recover``: a key may have been made of which nobody has the share.
  Ask which key there is; if it is not the one whose strings are here, recover it.
- 404 of a signature, 409 of a generation that is not in progress: the strings are of an earlier
  share, or lost. Recover.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

ATTEMPTS = 30
"""Of one thing, before it is given up."""
PAUSE_S = 0.3
TIMEOUT_S = 5.0
"""After this an answer is not waited for any more; longer than the node takes by itself."""


class GivenUp(Exception):
    """The service has not done it, however often it was asked."""


@dataclass
class Backend:
    """Of some users, who have one key each."""

    node: str
    """Address of the node."""
    log_in: Callable[[str], str]
    """From a user's name to a new access token."""
    sleep: Callable[[float], None] = time.sleep
    strings: dict[str, dict[str, str]] = field(default_factory=dict)
    """What is kept of each user's key: ``key_id``, ``encrypted_share``, ``secret_store``, ..."""
    tokens: dict[str, str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    """What went wrong so far."""

    def make_key(self, user: str, password: str) -> str:
        """The user's public key, which is made if there is none."""
        new = {"curve": "ed25519", "password": password}
        making = "/generate"
        for _ in range(ATTEMPTS):
            answer = self.ask(user, "POST", making, new)
            if answer is not None and answer.is_success:
                self.strings[user] = answer.json()
                return self.strings[user]["public_key"]
            if answer is not None and answer.status_code == 409 and not waits(answer):
                making = "/recover"  # there is one
            elif self.unknown_key(user):
                making = "/recover"
            self.pause(answer)
        raise GivenUp(self.failures[-1])

    def sign(self, user: str, password: str, message: bytes) -> bytes:
        """A signature under the user's key."""
        for _ in range(ATTEMPTS):
            order = {**self.strings[user], "message": message.hex()}
            answer = self.ask(user, "POST", "/sign", order)
            if answer is not None and answer.is_success:
                return bytes.fromhex(answer.json()["signature"])
            if answer is not None and answer.status_code == 404:
                self.make_key(user, password)
            self.pause(answer)
        raise GivenUp(self.failures[-1])

    def unknown_key(self, user: str) -> bool:
        """Whether there is a key whose strings are not here."""
        answer = self.ask(user, "GET", "/key")
        if answer is None or not answer.is_success:
            return False  # that is seen next time
        mine = self.strings.get(user, {}).get("key_id")
        return any(key["key_id"] != mine for key in answer.json()["keys"])

    def ask(self, user: str, method: str, path: str, body: Any = None) -> httpx.Response | None:
        """One request, with a token that is good; None: no answer."""
        answer = None
        for _ in range(3):
            try:
                if user not in self.tokens:
                    self.tokens[user] = self.log_in(user)
                answer = httpx.request(
                    method,
                    f"{self.node}/v3/wallet{path}",
                    json=body,
                    headers={"Authorization": f"Bearer {self.tokens[user]}"},
                    timeout=TIMEOUT_S,
                    trust_env=False,
                )
            except Exception as error:  # of whatever kind: there is no answer
                self.failures.append(f"{path}: {error!r}")
                return None
            if answer.is_success:
                break
            self.failures.append(f"{path}: {answer.status_code} {answer.text}")
            if answer.status_code != 401:
                break
            del self.tokens[user]
        return answer

    def pause(self, answer: httpx.Response | None) -> None:
        """Wait before the next attempt."""
        self.sleep(PAUSE_S if answer is None else seconds(answer))


def seconds(answer: httpx.Response) -> float:
    """How long an answer asks to wait: the node says seconds; what stands before it, maybe when."""
    after = answer.headers.get("retry-after", "")
    if after.isdecimal():
        return float(after)
    try:
        until = parsedate_to_datetime(after).timestamp()
        return max(0.0, until - parsedate_to_datetime(answer.headers["date"]).timestamp())
    except (ValueError, KeyError):
        return PAUSE_S


def waits(answer: httpx.Response) -> bool:
    """Whether the same may succeed later."""
    return "retry-after" in answer.headers

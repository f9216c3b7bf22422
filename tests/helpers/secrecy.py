"""Watches the whole suite: whatever becomes a secret in a test must never be in a log.

Passwords, shares (open and sealed), tokens and sessions' keys are noted where they come into being,
every log record and every entry of a request is kept as text, and after each test the two are
compared. What processes of their own log is looked at by the tests that start them.
"""

import base64
import functools
import json
import logging
import traceback
from collections.abc import Callable
from typing import Any

FRAGMENT = 24
"""A secret counts as logged if this many of its characters in a row are."""
SHORTEST = 12
"""Shorter passwords are words that may be anywhere."""
FEWEST = 6
"""Whatever has fewer different characters may be anywhere, too."""

CALLERS = frozenset({"httpx", "httpcore"})
"""What the tests call with writes down their own requests."""

_ORDINARY = frozenset(vars(logging.makeLogRecord({}))) | {"message", "taskName"}


class Ledger:
    """What is secret, and what was logged."""

    def __init__(self) -> None:
        self._fragments: dict[str, str] = {}
        """Fragment of a secret to what it is of."""
        self._words: dict[str, str] = {}
        self._logged: list[str] = []

    def note(self, kind: str, secret: str) -> None:
        """Something that must not be logged."""
        if len(secret) < FRAGMENT:
            if len(secret) >= SHORTEST and _telling(secret):
                self._words[secret] = kind
            return
        for start in (0, len(secret) // 2, len(secret) - FRAGMENT):
            fragment = secret[start : start + FRAGMENT]
            if _telling(fragment):
                self._fragments[fragment] = kind

    def note_bytes(self, kind: str, secret: bytes) -> None:
        """The same for bytes, however they may be written."""
        self.note(kind, secret.hex())
        self.note(kind, base64.urlsafe_b64encode(secret).decode().rstrip("="))
        self.note(kind, repr(secret)[2:-1])

    def logged(self, record: logging.LogRecord) -> None:
        """A log record, with its extra members and its traceback."""
        if record.name.split(".")[0] in CALLERS:
            return
        extra = {k: v for k, v in vars(record).items() if k not in _ORDINARY}
        self._logged.append(f"{record.getMessage()} {extra}")
        if record.exc_info:
            self._logged.append("".join(traceback.format_exception(*record.exc_info)))

    def written(self, text: str) -> None:
        """Something in a file of logs."""
        self._logged.append(text)

    def leaks(self) -> list[str]:
        """What has been logged of secrets since the last call: kinds, and where."""
        found: list[str] = []
        for text in self._logged:
            for start in range(len(text) - FRAGMENT + 1):
                if kind := self._fragments.get(text[start : start + FRAGMENT]):
                    found.append(f"{kind} in a record that begins {text[:40]!r}")
                    break
            found += [f"{kind} in {text[:40]!r}" for w, kind in self._words.items() if w in text]
        self._logged.clear()
        return found


def _telling(text: str) -> bool:
    return len(set(text)) >= FEWEST


LEDGER = Ledger()


def watch() -> None:
    """Begin; before anything else imports the functions that are watched."""
    from mpcsim.service import vault

    def seen_password(arguments: tuple[Any, ...], result: Any) -> None:
        LEDGER.note("a password", arguments[0])

    def seen_share(arguments: tuple[Any, ...], result: Any) -> None:
        LEDGER.note_bytes("a share", bytes(arguments[0]))
        encrypted_share, secret_store = result
        LEDGER.note("an encrypted share", encrypted_share)
        LEDGER.note("a secret store", secret_store)

    def seen_token(arguments: tuple[Any, ...], result: str) -> None:
        LEDGER.note("a token", result.rpartition(".")[2])

    vault.password_key = _watched(vault.password_key, seen_password)
    vault.seal_share = _watched(vault.seal_share, seen_share)

    from mpcsim.service.rpc.tokens import TokenIssuer  # imports the above

    TokenIssuer._issue = _watched(TokenIssuer._issue, seen_token)  # type: ignore[method-assign]

    from mpcsim.service.rpc.session_keys import SessionKey

    make = SessionKey.__init__

    @functools.wraps(make)
    def seen_session(self: SessionKey, *arguments: Any) -> None:
        make(self, *arguments)
        LEDGER.note_bytes("a session's key", self._secret[:32])

    SessionKey.__init__ = seen_session  # type: ignore[method-assign]

    call_handlers = logging.Logger.callHandlers

    @functools.wraps(call_handlers)
    def watched(self: logging.Logger, record: logging.LogRecord) -> None:
        LEDGER.logged(record)
        call_handlers(self, record)

    logging.Logger.callHandlers = watched  # type: ignore[method-assign]

    from mpcsim.service.web.request_records import RequestRecord, RequestRecorder

    close = RequestRecorder.close

    @functools.wraps(close)
    def closed(self: RequestRecorder, entry: RequestRecord) -> None:
        close(self, entry)
        LEDGER.written(json.dumps(entry.to_line()))

    RequestRecorder.close = closed  # type: ignore[method-assign]


def _watched(function: Callable[..., Any], seen: Callable[[tuple[Any, ...], Any], None]) -> Any:
    @functools.wraps(function)
    def watched(*arguments: Any, **keywords: Any) -> Any:
        result = function(*arguments, **keywords)
        seen(arguments, result)
        return result

    return watched

"""Every check has its line in the explorer, and every line its check.

Known by reason, round and kind of message. The checks are found in the code itself, in an honest
run: those that are made, and those that only a failure would lead to.
"""

import sys
from collections.abc import Iterator
from types import CodeType, FunctionType

import pytest

from mpcsim import errors
from mpcsim.crypto.encoding import Message
from mpcsim.errors import Reason
from mpcsim.lab.explorer.model.checks import CHECKS, EVERY, ON_RECEIPT
from mpcsim.protocols.engine import Party
from mpcsim.protocols.signing import PROTOCOLS
from tests.helpers.sessions import Session, run_with, session

SESSIONS = ("dkg-secp256k1", "reshare-secp256k1", "ecdsa-3", "presign-3", "presigned-3", "frost-2")


def reasons(code: CodeType, namespace: dict[str, object]) -> Iterator[Reason]:
    """Reasons that a function names, or a function of its module that it names."""
    todo, seen = [code], set()
    while todo:
        code = todo.pop()
        if code in seen:
            continue
        seen.add(code)
        for name in code.co_names:
            known = namespace.get(name)
            if name in Reason.__members__:
                yield Reason[name]
            elif isinstance(known, FunctionType) and known.__module__ == namespace["__name__"]:
                todo.append(known.__code__)
        todo += [each for each in code.co_consts if isinstance(each, CodeType)]


def many_in(kind: type[Message]) -> Iterator[type[Message]]:
    """Messages of which a kind holds a sequence: what is read of one is read of the kind."""
    for _, codec in kind.CODECS:
        inner = getattr(getattr(codec, "element", None), "of", None)
        if isinstance(inner, type):
            yield inner


class Watcher:
    """What the rounds of a session name, read and check."""

    def __init__(self, watched: Session, patch: pytest.MonkeyPatch) -> None:
        self.named: set[tuple[int, Reason]] = set()
        self.checked: set[tuple[str, int, Reason]] = set()
        """With each kind read for the check: since the one before it, or else for that one."""
        self._rounds = {r.run.__code__: r.number for r in watched.definition.rounds}
        self._known: dict[int, tuple[int | None, bool, set[Reason]]] = {}
        """Of functions by identity, as a code object's own hash takes longer than the function."""
        self._round = 0
        self._read: set[str] = set()
        self._fresh = False
        for _, sends in watched.definition.kinds():
            for kind in (sends.message, *many_in(sends.message)):
                patch.setattr(kind, "__getattribute__", self._reader(sends.kind))
        sys.setprofile(self._watch)
        try:
            run_with(watched)
        finally:
            sys.setprofile(None)

    def _reader(self, kind: str):
        def read(message: object, name: str) -> object:
            if self._fresh:
                self._read, self._fresh = set(), False
            self._read.add(kind)
            return object.__getattribute__(message, name)

        return read

    def _watch(self, frame, event: str, _: object) -> None:
        if event not in ("call", "return"):
            return
        code = frame.f_code
        if id(code) not in self._known:
            names_some = any(name in Reason.__members__ for name in code.co_names)
            found = set(reasons(code, frame.f_globals))
            self._known[id(code)] = self._rounds.get(code), names_some, found
        round_, names_some, found = self._known[id(code)]
        if round_ is not None:
            self._round = round_ if event == "call" else 0
            self._read = set()
        if event == "return" and names_some:
            self._fresh = True  # what it checks only in a failure, it has checked
        if event != "call" or not self._round:
            return
        self.named |= {(self._round, reason) for reason in found}
        if code is errors.check.__code__:
            reason = frame.f_locals["reason"]
            self.checked |= {(kind, self._round, reason) for kind in self._read}
            self._fresh = True


@pytest.mark.few(6)
@pytest.mark.parametrize("name", SESSIONS)
def test_every_check_has_a_line_and_every_line_a_check(name, monkeypatch):
    watched = session(name)
    definition = watched.definition
    lines = [(k, c.round, c.reason) for k, cs in CHECKS[definition.name].items() for c in cs]
    assert len(set(lines)) == len(lines)
    there = {
        (kind.__name__, later.number)
        for now in definition.rounds
        for kind in now.needs
        for later in definition.rounds[now.number - 1 :]
    }
    assert {(kind, round_) for kind, round_, _ in lines} <= there
    found = Watcher(watched, monkeypatch)
    assert {(round_, reason) for _, round_, reason in lines} == found.named
    assert found.checked <= set(lines)
    assert len(found.checked) > len(lines) / 2


def test_what_is_checked_of_every_message_on_receipt():
    made = set(reasons(Party._accept.__code__, vars(sys.modules[Party.__module__])))
    assert made == {check.reason for check in EVERY}
    assert {check.round for check in EVERY} == {ON_RECEIPT}


def test_every_protocol_is_watched():
    assert {session(name).definition.name for name in SESSIONS} == set(PROTOCOLS)

"""Bodies that are looked at while they come: a byte goes on once what it belongs to is checked.

The last byte of a body's messages is kept until the body has ended, so that nobody has all of one
that turns out to be none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from dataclasses import dataclass

from mpcsim.errors import InvalidEncoding
from mpcsim.ids import SESSION_ID_BYTES
from mpcsim.protocols.engine.envelope import HEADER_BYTES, MAX_ENVELOPE_BYTES, Envelope
from mpcsim.service.rpc import wire

HeaderCheck = Callable[[Envelope], None]
"""Raises if the header of an envelope is not what it has to be; its body is not there yet."""


@dataclass(frozen=True)
class PassThrough:
    """So many bytes go on as they come."""

    size: int


ParserSteps = Generator[int | PassThrough, bytes, None]
"""What a sieve has to see next: so many bytes, which it then gets, or some that it need not see."""


class BodyValidator(ABC):
    """Is fed what has come of a body, and gives what of it may go on."""

    def __init__(self, check: HeaderCheck) -> None:
        self.done = False
        """The body is whole: nothing more may come."""
        self._check = check
        self._held = bytearray()
        self._passed = bytearray()
        self._last = b""
        self._steps = self._parse()
        self._want: int | PassThrough = next(self._steps)

    def feed(self, data: bytes) -> bytes:
        """What may go on, now that this has come.

        Raises:
            InvalidEncoding: it is no such body; or what the check raises.
        """
        self._held += data
        while not self.done:
            size = self._want.size if isinstance(self._want, PassThrough) else self._want
            if isinstance(self._want, PassThrough) and 0 < len(self._held) < size:
                self._want = PassThrough(size - len(self._held))
                self._passed += self._take(len(self._held))
            if len(self._held) < size or not self._held:
                break
            piece = self._take(size)
            if isinstance(self._want, PassThrough):
                self._passed += piece
            try:
                self._want = self._steps.send(piece)
            except StopIteration:
                self.done = True
        if self.done and self._held:
            raise InvalidEncoding(f"{len(self._held)} trailing bytes")
        passed = bytes(self._passed)
        self._passed.clear()
        return passed

    def finish(self) -> bytes:
        """What was kept, once the body has ended.

        Raises:
            InvalidEncoding: it is not whole.
        """
        if not self.done:
            raise InvalidEncoding("truncated")
        return self._last

    @abstractmethod
    def _parse(self) -> ParserSteps:
        """The parts of the body, in order."""

    def _parse_messages(self, most: int) -> ParserSteps:
        """Messages (``wire.MAIL``), which go on."""
        written = yield 2
        count = int.from_bytes(written, "big")
        if count > most:
            raise InvalidEncoding(f"sequence of {count}, at most {most} allowed")
        if not count:
            self._last = written
            return
        self._passed += written
        for left in reversed(range(count)):
            size = yield 4
            length = int.from_bytes(size, "big")
            if not HEADER_BYTES <= length <= MAX_ENVELOPE_BYTES:
                raise InvalidEncoding(f"envelope of {length} bytes")
            header = yield HEADER_BYTES
            self._check(Envelope.decode(header))
            rest = length - HEADER_BYTES
            if not left and not rest:
                header, self._last = header[:-1], header[-1:]
            self._passed += size + header
            if left and rest:
                yield PassThrough(rest)
            elif rest:
                if rest > 1:
                    yield PassThrough(rest - 1)
                self._last = yield 1

    def _take(self, size: int) -> bytes:
        piece = bytes(self._held[:size])
        del self._held[:size]
        return piece


class ExchangeValidator(BodyValidator):
    """For a ``wire.Exchange``, all of which goes on."""

    def _parse(self) -> ParserSteps:
        self._passed += yield SESSION_ID_BYTES
        yield from self._parse_messages(wire.MAX_MESSAGES)


class AnswerValidator(BodyValidator):
    """For a ``wire.Answer``, of which the messages go on: a ``wire.Mail``."""

    def __init__(self, check: HeaderCheck, most: int) -> None:
        """
        Args:
            most: messages that there may be.
        """
        self.open = True
        """What it says; until it has said so, nothing is over."""
        self._most = most
        super().__init__(check)

    def _parse(self) -> ParserSteps:
        self.open = (yield 1) != b"\0"
        yield from self._parse_optional(wire.MAX_RECORD_BYTES)
        yield from self._parse_messages(self._most)
        yield from self._parse_optional(None)
        yield from self._parse_optional(wire.MAX_HALF_BYTES)

    def _parse_optional(self, limit: int | None) -> ParserSteps:
        """A value that does not go on, or None: 32 bytes, or at most ``limit`` behind their
        number."""
        flag = (yield 1)[0]
        if flag > 1:
            raise InvalidEncoding(f"presence flag {flag}")
        if not flag:
            return
        length = 32
        if limit is not None:
            length = int.from_bytes((yield 4), "big")
            if length > limit:
                raise InvalidEncoding(f"field of {length} bytes, at most {limit} allowed")
        if length:
            yield length

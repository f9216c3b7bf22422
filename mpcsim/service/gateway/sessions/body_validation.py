"""Incremental validation of a body while it is forwarded: a byte passes once its field is checked.

The last byte of a body's messages is held back until the body has ended, so that the receiver never
has all of a body that turns out to be malformed. A validator's parser is a generator of
``ParserSteps``: it asks for bytes to look at, or lets bytes pass.
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
"""Check of an envelope's header, before its body has arrived; raises if it is wrong."""


@dataclass(frozen=True)
class PassThrough:
    """Parser step: the next ``size`` bytes pass as they arrive."""

    size: int


ParserSteps = Generator[int | PassThrough, bytes, None]
"""Steps of a parser: the number of bytes that it is sent next, or bytes that pass unread."""


class BodyValidator(ABC):
    """Validator of one body: takes bytes as they arrive, returns those that may be forwarded."""

    def __init__(self, check: HeaderCheck) -> None:
        self.done = False
        """Whether the body is complete: more bytes are an error."""
        self._check = check
        self._held = bytearray()
        self._passed = bytearray()
        self._last = b""
        self._steps = self._parse()
        self._want: int | PassThrough = next(self._steps)

    def feed(self, data: bytes) -> bytes:
        """Take bytes, and return those that may be forwarded now.

        Raises:
            InvalidEncoding: the body is malformed; also whatever the header check raises.
        """
        self._held += data
        while not self.done:
            size = self._want.size if isinstance(self._want, PassThrough) else self._want
            if isinstance(self._want, PassThrough) and len(self._held) < size:
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
        """Return the byte that was held back, once the body has ended.

        Raises:
            InvalidEncoding: the body is incomplete.
        """
        if not self.done:
            raise InvalidEncoding("truncated")
        return self._last

    @abstractmethod
    def _parse(self) -> ParserSteps:
        """Parse the fields of the body, in order."""

    def _parse_messages(self, most: int) -> ParserSteps:
        """Parse messages (``wire.MAIL``), which pass."""
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
    """Validator of a ``wire.Exchange``, all of which passes."""

    def _parse(self) -> ParserSteps:
        self._passed += yield SESSION_ID_BYTES
        yield from self._parse_messages(wire.MAX_MESSAGES)


class AnswerValidator(BodyValidator):
    """Validator of a ``wire.Answer``, of which the messages pass: a ``wire.MessageBatch``."""

    def __init__(self, check: HeaderCheck, most: int) -> None:
        """
        Args:
            most: largest number of messages.
        """
        self.open: bool
        """Field ``open`` of the answer, once it has arrived."""
        self._most = most
        super().__init__(check)

    def _parse(self) -> ParserSteps:
        self.open = (yield 1) != b"\0"
        yield from self._parse_optional(wire.MAX_RECORD_BYTES)
        yield from self._parse_messages(self._most)
        yield from self._parse_optional(None)
        yield from self._parse_optional(wire.MAX_HALF_BYTES)

    def _parse_optional(self, limit: int | None) -> ParserSteps:
        """Parse an optional value, which does not pass: 32 bytes, or with a limit at most so many
        after their length."""
        flag = int.from_bytes((yield 1), "big")
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

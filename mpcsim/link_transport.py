"""The port for whatever carries bytes between the ends of the service.

By itself nothing takes time here and nothing gets lost. The simulator fills the port with networks
and faults (``mpcsim.sim.simulated_network``).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Final, Protocol

from mpcsim.ids import PartyId
from mpcsim.protocols.engine.envelope import Envelope

GATEWAY: Final = None
"""The end of a link that is not a share holder."""
Endpoint = PartyId | None
Pieces = AsyncGenerator[bytes, None]
"""A body, as it comes."""


class Exchange(Protocol):
    """A request and its answer, on the same connection."""

    async def send_request(self, size: int) -> None:
        """Take as long as a request of ``size`` bytes needs."""
        ...

    async def receive_reply(self, size: int) -> None:
        """Take as long as an answer of ``size`` bytes needs."""
        ...

    async def receive_refusal(self, size: int) -> None:
        """The same for an answer that is none, where refusals do not come back at once."""
        ...

    def stream_request(self, pieces: Pieces) -> Pieces:
        """The bytes of a request as they arrive; each piece is put on its way when it comes."""
        ...

    def stream_reply(self, pieces: Pieces) -> Pieces:
        """The same of an answer."""
        ...

    def close(self) -> None:
        """Close the exchange, so that others may use its connection."""
        ...


class LinkTransport(Protocol):
    """Transport of bytes over the links of the service: delays, losses, outages."""

    @property
    def is_instant(self) -> bool:
        """Whether nothing takes time, for now."""
        ...

    @property
    def streams(self) -> bool:
        """Whether a gateway that has not been told is to forward as bytes arrive, for now."""
        ...

    @property
    def has_faults(self) -> bool:
        """Whether messages may be lost, doubled or held back (``apply_faults``), for now."""
        ...

    def exchange(self, asking: Endpoint, asked: Endpoint) -> Exchange:
        """A request from one end of a link to the other, and its answer."""
        ...

    async def apply_faults(self, messages: Sequence[tuple[Envelope, bytes]]) -> tuple[bytes, ...]:
        """Return the messages that arrive of those that travel together."""
        ...

    def is_down(self, party: PartyId, restart: Callable[[], None]) -> bool:
        """Return whether an MPC node is down at this moment.

        Args:
            restart: takes its sessions from it, once for each time it went down.
        """
        ...

    def on_handled(self, party: PartyId) -> None:
        """An MPC node has handled a request."""
        ...


class DirectTransport:
    """Link transport without delays or faults."""

    is_instant = True
    streams = False
    has_faults = False

    def exchange(self, asking: Endpoint, asked: Endpoint) -> Exchange:
        """Implement ``LinkTransport.exchange``."""
        return ImmediateExchange()

    async def apply_faults(self, messages: Sequence[tuple[Envelope, bytes]]) -> tuple[bytes, ...]:
        """Implement ``LinkTransport.apply_faults``: nothing is lost."""
        return tuple(data for _, data in messages)

    def is_down(self, party: PartyId, restart: Callable[[], None]) -> bool:
        """Implement ``LinkTransport.is_down``: no node ever is."""
        return False

    def on_handled(self, party: PartyId) -> None:
        """Implement ``LinkTransport.on_handled``."""


class ImmediateExchange:
    """An exchange that takes no time."""

    async def send_request(self, size: int) -> None:
        """Implement ``Exchange.send_request``: at once."""

    async def receive_reply(self, size: int) -> None:
        """Implement ``Exchange.receive_reply``: at once."""

    receive_refusal = receive_reply

    async def stream_request(self, pieces: Pieces) -> Pieces:
        """Implement ``Exchange.stream_request``: pieces pass as they are."""
        async with aclosing(pieces):
            async for piece in pieces:
                yield piece

    stream_reply = stream_request

    def close(self) -> None:
        """Implement ``Exchange.close``."""

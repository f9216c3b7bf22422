"""The port for whatever carries bytes between the ends of the service.

By itself nothing takes time here and nothing gets lost. The simulator fills the port with networks
and faults (``mpcsim.sim.simulated_network``).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Final, Protocol

from mpcsim.ids import PartyId
from mpcsim.protocol.envelope import Envelope

GATEWAY: Final = None
"""The end of a link that is not a share holder."""
End = PartyId | None
Pieces = AsyncGenerator[bytes, None]
"""A body, as it comes."""


class Carrier(Protocol):
    """What happens to bytes on their way."""

    @property
    def instant(self) -> bool:
        """Whether nothing takes time, for now."""
        ...

    @property
    def streams(self) -> bool:
        """Whether a gateway that has not been told is to forward as bytes arrive, for now."""
        ...

    @property
    def faulty(self) -> bool:
        """Whether messages may be lost, doubled or held back (``apply_faults``), for now."""
        ...

    async def delay(self, source: End, target: End, size: int) -> None:
        """Take as long as ``size`` bytes need from one end of a link to the other."""
        ...

    def stream(self, source: End, target: End, pieces: Pieces) -> Pieces:
        """The bytes of one message, as they arrive at the other end of a link; each piece is put
        on its way when it comes."""
        ...

    async def apply_faults(self, messages: Sequence[tuple[Envelope, bytes]]) -> tuple[bytes, ...]:
        """What is left of messages that travel together."""
        ...

    def down(self, party: PartyId, restart: Callable[[], None]) -> bool:
        """Whether an MPC node is down at this moment.

        Args:
            restart: takes its sessions from it, once for each time it went down.
        """
        ...

    def handled(self, party: PartyId) -> None:
        """An MPC node has handled a request."""
        ...


class Direct:
    """Everything arrives at once."""

    instant = True
    streams = False
    faulty = False

    async def delay(self, source: End, target: End, size: int) -> None:
        """See ``Carrier``."""

    async def stream(self, source: End, target: End, pieces: Pieces) -> Pieces:
        """See ``Carrier``."""
        async with aclosing(pieces):
            async for piece in pieces:
                yield piece

    async def apply_faults(self, messages: Sequence[tuple[Envelope, bytes]]) -> tuple[bytes, ...]:
        """See ``Carrier``."""
        return tuple(data for _, data in messages)

    def down(self, party: PartyId, restart: Callable[[], None]) -> bool:
        """See ``Carrier``."""
        return False

    def handled(self, party: PartyId) -> None:
        """See ``Carrier``."""

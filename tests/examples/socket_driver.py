"""Drives one party over TCP: what a transport of your own has to do.

The party is sans-IO: bytes go in, and what comes out says what to do next, at once. So whoever
reads from a socket hands each message over, and writes what the party answers; no queue, no lock.
Everyone dials everyone, sends on what it dialled, and receives on what it accepted. A connection
begins with its sender's identifier (2 bytes); then come frames: a length (4 bytes), an envelope.

What to add before anything of value goes over it:

- TLS with certificates on both sides. Here a peer is whoever says so, and parties take the
  transport's word for who sends what, above all in key generation, before they share secrets. Take
  the sender from its certificate, not from the connection's first bytes.
- Agreement beforehand: everyone needs the same set-up, and a session id that was never used.
- Storage. A process that may die stores ``party.snapshot()`` before anything goes out, and resumes
  from it: ``Party.resume`` says everything again, and receivers ignore what they have. What the
  outcome asks for (keep a share; ``KeyShare.after_abort``) is the caller's.
- Connections that come back. Here one that breaks while its sender is waited for ends the session.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from socket import socket
from typing import Any

from mpcsim.errors import Aborted, UsageError
from mpcsim.protocols import Participant
from mpcsim.protocols.engine import MAX_ENVELOPE_BYTES, Done, Output, Prepared, Send

ID_BYTES, LENGTH_BYTES = 2, 4
REDIAL_S = 0.05
LINGER_S = 1.0
"""For what is still to go out when the session is over."""


class PeerGone(ConnectionError):
    """Nothing more will come from a party that is waited for."""


def refuse(result: Any) -> None:
    """Stores nothing: most protocols have one phase, and prepare no result."""
    raise UsageError("a protocol of two phases needs a place to store what it prepares")


async def drive(
    party: Participant[Any],
    listening: socket,
    peers: Mapping[int, tuple[str, int]],
    *,
    deadline_s: float = 30.0,
    store: Callable[[Any], None] = refuse,
) -> Done[Any] | Aborted:
    """Run one party to its end, over a connection to and one from each peer.

    Args:
        party: has not started.
        listening: where the peers dial; closed at the end.
        peers: addresses of all the others, by identifier.
        store: stores the result of phase one durably, beside the old state.

    Returns:
        How it ended. If it aborted, the peers have been told.

    Raises:
        PeerGone: a peer closed its connection, or broke the framing, and is waited for.
        TimeoutError: the deadline is over; says for whom the party waits.
    """
    driver = _Driver(party, peers, store)
    server = await asyncio.start_server(driver.accept, sock=listening)
    try:
        async with asyncio.timeout(deadline_s):
            await asyncio.gather(*map(driver.dial, peers))
            driver.put_out(party.start())
            return await driver.ended
    except TimeoutError:
        raise TimeoutError(f"deadline of {deadline_s} s is over: {party!r}") from None
    finally:
        server.close()
        await driver.close()


class _Driver:
    def __init__(
        self,
        party: Participant[Any],
        peers: Mapping[int, tuple[str, int]],
        store: Callable[[Any], None],
    ) -> None:
        self._party, self._peers, self._store = party, peers, store
        self._dialled: dict[int, asyncio.StreamWriter] = {}
        self._accepted: dict[int, asyncio.StreamWriter] = {}
        self._gone: set[int] = set()
        self.ended: asyncio.Future[Done[Any] | Aborted] = asyncio.Future()

    async def dial(self, peer: int) -> None:
        """Connect to a peer, which may still be starting."""
        while peer not in self._dialled:
            try:
                _, self._dialled[peer] = await asyncio.open_connection(*self._peers[peer])
            except OSError:
                await asyncio.sleep(REDIAL_S)
        self._dialled[peer].write(self._party.me.to_bytes(ID_BYTES, "big"))

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Hand over what comes from a peer, until its connection ends."""
        with suppress(asyncio.IncompleteReadError, OSError):
            sender = await _number(reader, ID_BYTES)
            if sender in self._peers and sender not in self._accepted:
                self._accepted[sender] = writer
                await self._receive(sender, reader)
        writer.close()

    async def _receive(self, sender: int, reader: asyncio.StreamReader) -> None:
        try:
            while (length := await _number(reader, LENGTH_BYTES)) <= MAX_ENVELOPE_BYTES:
                self.put_out(self._party.receive(sender, await reader.readexactly(length)))
        except (asyncio.IncompleteReadError, OSError):
            pass
        except Exception as error:  # of the store, say: the session ends with it
            if not self.ended.done():
                self.ended.set_exception(error)
        self._gone.add(sender)
        self._look()

    def put_out(self, outputs: list[Output[Any]]) -> None:
        """Do what the party says, in its order. What a session sends is bounded: no draining."""
        for output in outputs:
            if isinstance(output, Prepared):
                self._store(output.result)
            elif isinstance(output, Send) and not self._dialled[output.to].is_closing():
                length = len(output.data).to_bytes(LENGTH_BYTES, "big")
                self._dialled[output.to].write(length + output.data)
        self._look()

    def _look(self) -> None:
        """End the session if it is over, or cannot get there any more."""
        waiting = self._party.waiting_state()
        if self.ended.done():
            return
        if self._party.outcome is not None:
            self.ended.set_result(self._party.outcome)
        elif waiting is not None and (missing := self._gone & waiting.parties):
            who = ", ".join(map(str, sorted(missing)))
            self.ended.set_exception(PeerGone(f"party {who} is gone: {self._party!r}"))

    async def close(self) -> None:
        """Close all connections; what was written still goes out."""
        for writer in (*self._accepted.values(), *self._dialled.values()):
            writer.close()
        with suppress(OSError):  # TimeoutError is one
            async with asyncio.timeout(LINGER_S):
                for writer in self._dialled.values():
                    await writer.wait_closed()


async def _number(reader: asyncio.StreamReader, width: int) -> int:
    return int.from_bytes(await reader.readexactly(width), "big")

"""Traffic: messages on the links of a network, simulated over TCP, by the caller's clock.

    >>> traffic = Traffic(Network.star(50))
    >>> number = traffic.send(direction, 0.0, 10_000, Draws(50.0, 50.0), pair=0)
    >>> arrival = traffic.advance(0.0, math.inf)

The kernel behind it (``mpcsim.sim.network.tcp``) simulates each segment, and time advances only as
far as the caller asks (``advance``), because later messages change arrivals: a connection that is
busy with one message makes the next one wait, and later segments show that an earlier one was lost.
Times are milliseconds of the caller's clock, which must not run backwards.
"""

from __future__ import annotations

import math
import mmap
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mpcsim.errors import needs_extra
from mpcsim.sim.network.losses import GilbertElliott, TimedGilbertElliott
from mpcsim.sim.network.tcp import state
from mpcsim.sim.network.topology import Direction, Network
from mpcsim.sim.network.transport import Connection, Draws, Transfer

__all__ = [
    "Arrival",
    "TrafficState",
    "Traffic",
    "connection_records",
    "idle_transfers",
    "link_records",
    "traffic_records",
]

HEADER_BYTES: Final = {"linux": 52, "ns3": 54}
"""Header bytes of a segment: IPv4 and TCP with time stamps; ns-3's links add two bytes."""
SYN_BYTES: Final = {"linux": 60, "ns3": 58}
MIN_RTO_MS: Final = 200.0
DELAYED_ACK_MS: Final = 40.0
FEW: Final = 16
COMPILING: Final = (
    "mpcsim: compiling the simulator, once for these sources: half a minute, and another minute "
    "for a service under load (python -m mpcsim.capacity.precompile does all of it)\n"
)
ANNOUNCED_S: Final = 300.0
"""Time for which one announcement serves for all processes: three times what compiling takes."""


@cache
def compiled_kernel() -> ModuleType:
    """Return the compiled module, imported on first use: loading numba takes half a second."""
    with needs_extra("", "a modelled network"):
        found = import_module("mpcsim.sim.network.tcp.traffic")
    _announce_compilation()
    return found


def _announce_compilation() -> None:
    """Arrange for a line on standard error before numba first compiles for us, in whichever of the
    processes that share a cache."""
    from numba.core import event

    class Announcer(event.Listener):
        is_due = True

        def on_start(self, compilation: Any) -> None:
            function = compilation.data["dispatcher"]
            if self.is_due and function.py_func.__module__.startswith("mpcsim."):
                self.is_due = False
                if _claim_announcement(function._cache.cache_path):
                    sys.stderr.write(COMPILING)
                    sys.stderr.flush()

        def on_end(self, compilation: Any) -> None:
            pass

    event.register("numba:compile", Announcer())  # type: ignore[no-untyped-call]


def _claim_announcement(cache: str | None) -> bool:
    """Return whether no process has announced compilation into this folder within
    ``ANNOUNCED_S``."""
    if cache is None:
        return True
    marker = Path(cache).with_name("announced")  # beside the folder of this source file
    with suppress(OSError):
        if time.time() - marker.stat().st_mtime > ANNOUNCED_S:  # that one was interrupted
            marker.unlink()
    try:
        marker.touch(exist_ok=False)
    except FileExistsError:
        return False
    except OSError:
        return True
    return True


class Arrival(NamedTuple):
    """Arrival of a message, or of more of its bytes, at the end of a link; or its failure."""

    number: int
    at_ms: float
    size: int
    """Number of bytes that have arrived so far."""
    whole: bool
    failed: bool = False
    """Whether TCP has aborted the connection, after a timeout (RFC 9293, section 3.8.3)."""


@dataclass
class TrafficState:
    """State of traffic: everything that time changes."""

    records: state.Records
    waiting: int = 0


class Traffic:
    """Connections over the links of a network, and the messages under way on them."""

    def __init__(self, network: Network, pool: int | None = None) -> None:
        """
        Args:
            pool: most connections of a session over each link; by default the network's.
        """
        self.network = network
        self._place_of = {
            (ends[side], ends[1 - side]): (k, side)
            for k, link in enumerate(network.links)
            for ends in [(link.a, link.b)]
            for side in (0, 1)
        }
        self._records = traffic_records(network, max(FEW, len(network.links)), idle_transfers(FEW))
        if pool is not None:
            self._records.links["pool"] = pool
        self._free = list(range(FEW))
        self._order = 0
        self._waiting = 0
        self.advance(0.0, 0.0)  # load the kernel now: a run in real time must not wait for it later

    def send(
        self,
        direction: Direction,
        now_ms: float,
        size: int,
        draws: Draws,
        *,
        pair: int,
        session: int = 0,
        exclusive: bool = False,
        available: int | None = None,
        stream: bool = False,
    ) -> int:
        """Send a message over a link.

        Args:
            pair: number of its pair of ends; a message prefers the connection of the pair's last.
            session: session whose connections may carry it.
            exclusive: whether the connection is the pair's alone until ``release``.
            available: number of its bytes that can be sent; all by default.
            stream: whether arrivals of parts of it are reported, too.

        Returns:
            Its number, which identifies it in ``Arrival``.
        """
        if not self._free:
            self._grow()
        number = self._free.pop()
        t = self._records.transfers[number]
        t["link"], t["side"] = self._place_of[direction.source, direction.target]
        t["pair"], t["session"], t["exclusive"] = pair, session, exclusive
        size = max(size, 1)  # a message without content takes a segment all the same
        t["size"], t["available"] = size, size if available is None else available
        t["stream"] = stream
        t["key"], t["forward"], t["backward"] = draws.key, draws.forward_ms, draws.backward_ms
        t["given"] = now_ms
        t["order"] = self._order
        self._order += 1
        found = compiled_kernel().place(self._records, number, float(now_ms))
        if found == -2:
            self._more_connections()
            found = compiled_kernel().place(self._records, number, float(now_ms))
        self._waiting += found < 0
        return number

    def extend(self, number: int, now_ms: float, size: int) -> None:
        """Make ``size`` more bytes of a message available for sending."""
        self._records.transfers[number]["given"] = now_ms
        compiled_kernel().extend(self._records, number, float(now_ms), size)

    def advance(self, now_ms: float, until_ms: float) -> Arrival | None:
        """Advance time to ``until_ms``, or to the next arrival if that is sooner; return that."""
        # A whole number is another type, for which everything would be compiled once more.
        found, at = compiled_kernel().advance(
            self._records, self._waiting > 0, float(now_ms), float(until_ms)
        )
        if found < 0:
            return None
        c = self._records.connections[found]
        size, total = int(c["arrival_bytes"]), int(c["arrival_size"])
        return Arrival(int(c["arrival_number"]), at, size, size == total, bool(c["arrival_failed"]))

    def take_transfer(self, number: int) -> Transfer:
        """Return the transfer of a message that has arrived or failed, and free its number."""
        t = self._records.transfers[number]
        self._free.append(number)
        return Transfer(
            *(
                float(t[part])
                for part in (
                    "given",
                    "arrived",
                    "queueing",
                    "handshake",
                    "window",
                    "transmission",
                    "forward",
                    "recovery",
                )
            )
        )

    def release(self, pair: int, now_ms: float) -> None:
        """Release the connection of an exchange that is over."""
        compiled_kernel().release(self._records, pair, float(now_ms))

    def close_session(self, session: int) -> None:
        """Close the connections of a session that is over."""
        compiled_kernel().close_session(self._records, session)

    def save(self, into: TrafficState | None = None) -> TrafficState:
        """Return a copy of the present state.

        Args:
            into: earlier state to overwrite.
        """
        shapes = [each.shape for each in self._records]
        if into is None or [each.shape for each in into.records] != shapes:
            into = TrafficState(state.Records(*(np.empty_like(each) for each in self._records)))
        _copy(self._records, into.records)
        into.waiting = self._waiting
        return into

    def restore(self, before: TrafficState) -> None:
        """Restore a saved state; no message may have been sent since."""
        _copy(before.records, self._records)
        self._waiting = before.waiting

    # ------------------------------------------------------------------ room

    def _grow(self) -> None:
        have = len(self._records.transfers)
        more = np.concatenate([self._records.transfers, idle_transfers(have)])
        self._records = self._records._replace(transfers=more)
        self._free = list(range(have, 2 * have))

    def _more_connections(self) -> None:
        count = 2 * len(self._records.connections)
        self._records = with_more_connections(self.network, self._records, count)


def with_more_connections(network: Network, have: state.Records, room: int) -> state.Records:
    """Return the records with room for ``room`` connections."""
    count = int(have.pool["used"][0])
    made = traffic_records(network, room, have.transfers)
    _bytes(made.connections)[:count] = _bytes(have.connections)[:count]
    made.heads[:count] = have.heads[:count]
    made.pool["used"], made.pool["spare"] = have.pool["used"], have.pool["spare"]
    made.links[:] = have.links
    made.times[-(len(made.times) // 2) :][:count] = have.times[-(len(have.times) // 2) :][:count]
    made.pool["top"] = 1
    for place in reversed(range(1, len(made.times) // 2)):
        made.times[place] = made.times[2 * place : 2 * place + 2].min()
    return made


def _copy(source: state.Records, target: state.Records) -> None:
    compiled_kernel().copy(
        source.connections,
        _bytes(source.connections),
        target.connections,
        _bytes(target.connections),
        int(source.pool["used"][0]),
    )
    for here, there in zip(source[1:], target[1:], strict=True):
        np.copyto(_bytes(there), _bytes(here))  # NumPy copies records field by field


def _bytes(records: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the records as bytes, a row for each."""
    return records.view(np.uint8).reshape(len(records), records.dtype.itemsize)


def traffic_records(network: Network, count: int, transfers: NDArray[Any]) -> state.Records:
    """Return the records of traffic, with room for ``count`` connections."""
    heads = np.zeros(count, state.HEAD)
    heads["link"] = -1
    times = np.full(2 << (count - 1).bit_length(), math.inf)
    pool = np.array([(0, -1, len(times) // 2, 0)], state.POOL)
    return state.Records(
        connection_records(network, count), heads, times, pool, link_records(network), transfers
    )


def idle_transfers(count: int) -> NDArray[Any]:
    """Return records of ``count`` transfers, none of them under way."""
    transfers = np.zeros(count, state.TRANSFER)
    transfers["connection"] = -2
    return transfers


def link_records(network: Network) -> NDArray[Any]:
    """Return the records of a network's links."""
    records = np.zeros(len(network.links), state.LINK)
    connection = network.connection
    for record, link in zip(records, network.links, strict=True):
        record["http2"] = connection.http == "2"
        record["pool"] = connection.pool
        record["first"] = -1
        there = link.direction(link.a)
        record["warm_rtt"] = there.forward.mean_ms + there.backward.mean_ms
        record["warm_deviation"] = math.hypot(there.forward.std_ms, there.backward.std_ms)
        for side, end in enumerate((link.a, link.b)):
            direction = link.direction(end)
            wire = record["wire"][side]
            wire["bits_per_ms"] = direction.mbit_per_s * 1000
            wire["free"] = -math.inf
            wire["queue"] = direction.queue_bytes
            wire["bad"] = -1
            loss = direction.loss
            if isinstance(loss, GilbertElliott):
                wire["loss"], wire["bad_loss"] = loss.good_loss, loss.bad_loss
                wire["to_bad"], wire["to_good"] = loss.to_bad, loss.to_good
            elif isinstance(loss, TimedGilbertElliott):
                wire["loss"], wire["bad_loss"] = loss.good_loss, loss.bad_loss
                wire["change_rate"] = 1 / loss.good_ms + 1 / loss.bad_ms
                wire["bad_share"] = loss.bad_share
            else:
                wire["loss"] = loss
    return records


def wire_bytes(connection: Connection, size: int) -> int:
    """Return the bytes on the wire of a message with HTTP, TLS, TCP and IP headers."""
    payload = size + connection.overhead_bytes
    return payload + max(1, -(-payload // state.SEGMENT_BYTES)) * HEADER_BYTES[connection.profile]


def connection_records(network: Network, count: int) -> NDArray[Any]:
    """Return records of ``count`` connections, none of them in use."""
    made = _sparse(count, state.CONNECTION)
    write_settings(made, network.connection)
    return made


def _sparse(count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return zeros whose memory is committed page by page, only where it is written."""
    size = max(1, count * dtype.itemsize)
    if not hasattr(mmap, "MADV_NOHUGEPAGE"):  # no Linux
        return np.zeros(count, dtype)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # a machine that has no huge pages
        memory.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(memory, dtype, count)


def write_settings(records: NDArray[Any], connection: Connection) -> None:
    """Write the settings of connections into their records."""
    linux = connection.profile == "linux"
    records["linux"] = linux
    records["cubic"] = connection.congestion == "cubic"
    records["unit"] = 1 if linux else state.SEGMENT_BYTES
    records["initial_window"] = connection.initial_window
    records["header"] = HEADER_BYTES[connection.profile]
    records["syn_bytes"] = SYN_BYTES[connection.profile]
    records["min_rto"] = MIN_RTO_MS
    records["delack_timeout"] = DELAYED_ACK_MS
    records["idle_restart"] = connection.slow_start_after_idle
    flights = connection.tls_flights
    records["flights"] = len(flights)
    records["flight"][:, : len(flights)] = flights
    records["early_data"] = connection.early_data
    records["warm"] = not connection.cold

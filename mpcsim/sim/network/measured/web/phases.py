"""Phases of calls, as browsers' HAR files and curl's timings have them.

Opening a TCP connection takes one round trip. A TLS handshake takes one (TLS 1.3) or two (TLS 1.2),
and some computing. The first byte of the answer follows the request after a round trip and the
server's time. Round trips are therefore those of the connects; the other phases give the
handshake's round trips and the server's time."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import Final

from mpcsim.sim.network.measured.series import Draft, Series
from mpcsim.sim.rich_display import counted

CLEAR_RTT_MS: Final = 8.0
"""Round trip below which computing may take as long as a round trip."""


@dataclass
class Phases:
    """Phases of calls to one server, in milliseconds."""

    draft: Draft
    """Draft of the series; its round trips are those of the connects."""
    tls_ms: list[float] = field(default_factory=list)
    first_byte_ms: list[float] = field(default_factory=list)
    """Times from the request to the first byte."""
    server_ms: list[float] = field(default_factory=list)
    """Servers' times by their ``Server-Timing`` headers."""
    reused: int = 0
    """Number of calls over an existing connection."""

    def series(self) -> Series:
        """Return the connects as round trips, with findings of the other phases.

        Raises:
            UsageError: no call opened a connection.
        """
        draft, tls_round_trips = self.draft, None
        if not draft.rtt_ms and self.reused:
            raise draft.error_at(
                1,
                f"{counted(self.reused, 'call')} over connections that were open before: only a "
                "call that opens one shows a round trip",
            )
        calls = counted(len(draft.rtt_ms), "connect")
        draft.understood.append(f"{calls}: one round trip each")
        if self.reused:
            draft.understood.append(
                f"{counted(self.reused, 'call')} over open connections: no round trip in them"
            )
        if draft.rtt_ms:
            rtt = median(draft.rtt_ms)
            if self.tls_ms:
                tls = median(self.tls_ms)
                tls_round_trips = _tls_round_trips(tls, rtt)
                version = f"TLS 1.{4 - tls_round_trips}" if tls_round_trips else "too short to tell"
                draft.understood.append(
                    f"TLS handshake: median {tls:.3g} ms, {tls / rtt:.2f} round trips: {version}"
                )
            self._note_server_time(rtt)
        return draft.series(tls_round_trips=tls_round_trips)

    def _note_server_time(self, rtt: float) -> None:
        if not self.first_byte_ms:
            return
        first = median(self.first_byte_ms)
        text = f"first byte after the request: median {first:.3g} ms"
        if self.server_ms:
            text += f", of which the server says it took {median(self.server_ms):.3g} ms"
        else:
            text += f": a round trip, and about {max(0.0, first - rtt):.3g} ms of the server's time"
        self.draft.understood.append(text + ", which is no part of the link")
        if first < 0.7 * rtt:
            self.draft.warnings.append(
                f"the first byte comes after {first:.3g} ms, before a round trip of {rtt:.3g} ms "
                "has passed: a proxy in between, or one that answers from a cache?"
            )


def _tls_round_trips(tls_ms: float, rtt_ms: float) -> int | None:
    """Return the round trips of a TLS handshake; None if computing may take as long as one."""
    if rtt_ms < CLEAR_RTT_MS:
        return None
    return 2 if tls_ms > 1.75 * rtt_ms else 1

"""Options of a gateway."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from mpcsim.crypto.rng import Rng
from mpcsim.errors import UsageError
from mpcsim.ids import PartyId
from mpcsim.link_transport import LinkTransport
from mpcsim.protocols.engine.events import Listener, silent
from mpcsim.service.gateway.api.smart_accounts import MakeService
from mpcsim.service.gateway.defaults import (
    LEASE_S,
    LINK_TIMEOUT_S,
    MAKING_QUEUE,
    MAKING_WAIT_S,
    TOKEN_LIFETIME_S,
)
from mpcsim.service.gateway.limits import Rate
from mpcsim.service.rpc.wire import MAKING_S, SIGNING_S
from mpcsim.service.web.request_records import RequestSink
from mpcsim.service.web.user_limits import MOST_OF_USER
from mpcsim.sim.network.topology import Network
from mpcsim.sim.network.transport import check_forwarding, is_whole_number
from mpcsim.sim.run.faults import Fault


@dataclass(frozen=True, kw_only=True)
class GatewayOptions:
    """Options of a gateway, and of the MPC nodes in its process."""

    mpc_nodes: Mapping[PartyId, str] | None = None
    """Addresses of MPC nodes in other processes; by default both are in this one."""
    network: Network | None = None
    """Network whose delays the links have; none by default."""
    faults: Iterable[Fault] = ()
    """Faults on the links."""
    seed: int = 0
    """Seed of latencies, losses and random faults."""
    carrier: LinkTransport | None = None
    """Carries messages over the links in place of network, faults and seed."""
    forwarding: str | None = None
    """Forwarding of a signature's messages: ``store`` forwards each once it is whole, ``stream``
    forwards the bytes as they arrive (``mpcsim.service.gateway.sessions.streaming``). None: as the
    network in force has it (``Connection.forwarding``), and without one ``store``."""
    queue: int = 0
    """Signing requests that may wait for one key; 0 refuses a second one at once."""
    making_limit: int = 0
    """Keys that may be made at a time, by generations and recoveries of all users together, from
    the request that begins one until it is activated or off; more wait in order. 0: as many as are
    asked for. That is the default because what a machine can bear depends on its cores, and a limit
    that is too low makes people wait, or sends them away, who harm nobody. With a limit, whoever
    has tokens for as many keys can keep all others waiting, each time for as long as a session may
    take (``making_s``). Signing never waits for any of this."""
    making_queue: int = MAKING_QUEUE
    """Number of callers that may wait to have a key made; more are refused at once (429)."""
    making_wait_s: float = MAKING_WAIT_S
    """Seconds that a caller waits at most before it is refused, too. A node must be more patient
    than that (``GATEWAY_TIMEOUT_S``), or it never hears why."""
    most_of_user: int = MOST_OF_USER
    """MPC verbs of one user that are answered at a time; more are refused (503)."""
    limit_guesses: Rate | None = None
    """Rate at which a user may try passwords (``gateway.limits``); None: no limit."""
    limit_recoveries: Rate | None = None
    """The same for recoveries of its keys."""
    limit_signatures: Rate | None = None
    """The same for signatures."""
    token_lifetime_s: float = TOKEN_LIFETIME_S
    """Lifetime of access and key tokens."""
    signing_s: float = SIGNING_S
    """Seconds that a signing session may take before it expires."""
    making_s: float = MAKING_S
    """The same for key generation and recovery."""
    lease_s: float = LEASE_S
    """Seconds that a session's caller may be silent before another caller takes its place."""
    link_timeout_s: float = LINK_TIMEOUT_S
    """Seconds that the gateway waits for an MPC node."""
    rng: Rng | None = None
    """Randomness of the MPC nodes and of new secrets; the operating system's by default."""
    listener: Listener = silent
    """Listener of the MPC nodes' parties; also called from other threads than the caller's."""
    clock: Callable[[], float] = time.monotonic
    """Monotonic seconds, for the expiry of sessions."""
    timer: Callable[[], float] = time.perf_counter
    """Seconds, for what ``Server-Timing`` says."""
    now: Callable[[], float] = time.time
    """Seconds since 1970 UTC, for tokens and timestamps."""
    log_now: Callable[[], float] | None = None
    """Seconds since 1970 UTC, for log files; by default as ``now``."""
    log: RequestSink | None = None
    """Sink for the request records of the gateway and of MPC nodes in its process; none by
    default."""
    smart_accounts: MakeService | None = None
    """Makes the service behind ``/core/evm/v2/erc4337``; by default one over a chain in this
    process."""

    def __post_init__(self) -> None:
        if self.forwarding is not None:
            check_forwarding("forwarding", self.forwarding)
        for name in ("making_limit", "making_queue"):
            if not is_whole_number(value := getattr(self, name), 0):
                raise UsageError(f"{name} is {value}: not a whole number from 0 on")
        if not 0 <= self.making_wait_s < math.inf:
            raise UsageError(f"making_wait_s is {self.making_wait_s}: no time in seconds")


DEFAULTS: Final = GatewayOptions()

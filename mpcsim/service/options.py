"""What can be chosen of a gateway."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from mpcsim.gateway.app import TOKEN_LIFETIME_S
from mpcsim.gateway.links import LINK_TIMEOUT_S
from mpcsim.gateway.sessions import LEASE_S
from mpcsim.gateway.smart_accounts import MakeService
from mpcsim.ids import PartyId
from mpcsim.party_events import Listener, silent
from mpcsim.rng import Rng
from mpcsim.rpc.lifetimes import MAKING_S, SIGNING_S
from mpcsim.sim.network.topology import Network
from mpcsim.sim.network.transport import check_forwarding
from mpcsim.sim.run.faults import Fault


@dataclass(frozen=True, kw_only=True)
class GatewayOptions:
    """How a gateway, and the MPC nodes in its process, are to be."""

    mpc_nodes: Mapping[PartyId, str] | None = None
    """Addresses of MPC nodes in other processes; by default both are in this one."""
    network: Network | None = None
    """What the links cost; nothing by default."""
    faults: Iterable[Fault] = ()
    """What goes wrong on them."""
    seed: int = 0
    """Of latencies, losses and random faults."""
    forwarding: str | None = None
    """What the gateway does with the messages of a signature: ``store`` them and forward them once
    they are whole, or ``stream``: forward what it has of one (``mpcsim.gateway.streaming``). None:
    as the network in force has it (``Connection.forwarding``), and without one ``store``."""
    queue: int = 0
    """Signing requests that may wait for one key; 0 refuses a second one at once."""
    token_lifetime_s: float = TOKEN_LIFETIME_S
    """Of access and key tokens."""
    signing_s: float = SIGNING_S
    """How long a signing session may take before it expires."""
    making_s: float = MAKING_S
    """The same for key generation and recovery."""
    lease_s: float = LEASE_S
    """How long a session's caller may be silent before another caller takes its place."""
    link_timeout_s: float = LINK_TIMEOUT_S
    """How long the gateway waits for an MPC node."""
    rng: Rng | None = None
    """Randomness of the MPC nodes and of new secrets; the operating system's by default."""
    listener: Listener = silent
    """Told what the MPC nodes' parties do; also from other threads than the caller's."""
    clock: Callable[[], float] = time.monotonic
    """Monotonic seconds, for the expiry of sessions."""
    timer: Callable[[], float] = time.perf_counter
    """Seconds, for what ``Server-Timing`` says."""
    now: Callable[[], float] = time.time
    """Seconds since 1970 UTC, for tokens and timestamps."""
    smart_accounts: MakeService | None = None
    """Makes the service behind ``/core/evm/v2/erc4337``; by default one over a chain in this
    process."""

    def __post_init__(self) -> None:
        if self.forwarding is not None:
            check_forwarding("forwarding", self.forwarding)


DEFAULTS: Final = GatewayOptions()

"""A kit for property-based tests of threshold wallets, for this project and for others.

Services that speak the node's API::

    from mpcsim.testing import HttpTarget, check_wallet_service

    def test_our_service():
        with HttpTarget("http://127.0.0.1:9091", token=our_tokens) as target:
            check_wallet_service(target)

``AsgiTarget`` takes an ASGI application instead of an address, and needs no sockets.

Protocols::

    from hypothesis import given, strategies as st
    from mpcsim.testing import strategies as wallets
    from mpcsim.testing.protocols import run_protocol

    @given(st.data())
    def test_any_order(data):
        scenario = data.draw(wallets.scenarios())
        run_protocol(scenario, order=data.draw(wallets.schedules()))

``api_steps`` has the steps, ``service_checks`` and ``protocol_checks`` the invariants,
``invariant`` makes more of them, ``waivers`` says what may be otherwise, ``strategies`` has
everything that can be drawn, ``plugin`` pytest's options, ``suite`` ready-made tests of a service
at an address. What fails is told as a short story, with the seed and code that does the same again
without Hypothesis.
"""

from typing import Final

from mpcsim.testing.backend import service_checks
from mpcsim.testing.backend.asgi import AsgiTarget
from mpcsim.testing.backend.service import (
    Answer,
    AsgiService,
    AsyncService,
    BlockingService,
    Request,
    Service,
)
from mpcsim.testing.backend.target import HttpTarget, Part, Target, TokenProvider, gateway_tokens
from mpcsim.testing.backend.waivers import Waivers
from mpcsim.testing.invariants import Invariant, invariant
from mpcsim.testing.machine.api_steps import ApiRun
from mpcsim.testing.machine.machine import WalletMachine, check_wallet_service, machine_for
from mpcsim.testing.profile import PROFILES, QUICK, SOAK, THOROUGH, Profile, Progress
from mpcsim.testing.runs import protocol_checks
from mpcsim.testing.runs.protocol_run import Order, Replay, run_over_network, run_protocol
from mpcsim.testing.story import BrokenInvariant, Call, Failure

__all__ = [
    "INVARIANTS",
    "PROFILES",
    "QUICK",
    "SOAK",
    "THOROUGH",
    "Answer",
    "ApiRun",
    "AsgiService",
    "AsgiTarget",
    "AsyncService",
    "BlockingService",
    "BrokenInvariant",
    "Call",
    "Failure",
    "HttpTarget",
    "Invariant",
    "Order",
    "Part",
    "Profile",
    "Progress",
    "Replay",
    "Request",
    "Service",
    "Target",
    "TokenProvider",
    "Waivers",
    "WalletMachine",
    "check_wallet_service",
    "gateway_tokens",
    "invariant",
    "machine_for",
    "run_over_network",
    "run_protocol",
]

INVARIANTS: Final[dict[str, Invariant[...]]] = {
    name: found
    for checks in (protocol_checks, service_checks)
    for name, found in vars(checks).items()
    if isinstance(found, Invariant)
}
"""Those that the kit checks by itself, by name."""

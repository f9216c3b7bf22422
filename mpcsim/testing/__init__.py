"""A kit for property-based tests of threshold wallets, for this project and for others.

    from mpcsim.testing import HttpTarget, check_wallet_service

    def test_our_service():
        with HttpTarget("http://127.0.0.1:9091", token=our_tokens) as target:
            check_wallet_service(target)

``AsgiTarget`` takes an ASGI application instead. Imports ``service`` and ``node``. ``backend`` has
the targets and invariants of a service, ``machine`` the random calls, ``runs`` (offered by
``protocols``) single runs of protocols, ``strategies`` everything that can be drawn, ``plugin``
pytest's options, ``suite`` ready-made tests of a service at an address, ``api_sequence`` the report
of a failure: its steps, the seed, and code that does the same again without Hypothesis.
"""

from typing import TYPE_CHECKING

from mpcsim.lazy_names import lazy_names

if TYPE_CHECKING:
    from mpcsim.testing.all_invariants import INVARIANTS
    from mpcsim.testing.api_sequence import BrokenInvariant, Call, Failure
    from mpcsim.testing.backend import known_deviations, service_checks
    from mpcsim.testing.backend.asgi import AsgiTarget
    from mpcsim.testing.backend.known_deviations import KnownDeviations
    from mpcsim.testing.backend.service import (
        Answer,
        AsgiService,
        AsyncService,
        BlockingService,
        Request,
        Service,
    )
    from mpcsim.testing.backend.target import (
        HttpTarget,
        Part,
        Target,
        TokenProvider,
        gateway_tokens,
    )
    from mpcsim.testing.invariants import Invariant, invariant
    from mpcsim.testing.machine.api_steps import ApiRun
    from mpcsim.testing.machine.machine import WalletMachine, check_wallet_service, machine_for
    from mpcsim.testing.profile import PROFILES, QUICK, SOAK, THOROUGH, Profile, Progress
    from mpcsim.testing.runs import protocol_checks
    from mpcsim.testing.runs.protocol_run import (
        MessageReplay,
        Order,
        run_over_network,
        run_protocol,
    )
else:  # runs of protocols do without a service
    __getattr__, __dir__ = lazy_names(__name__, "testing", "the test kit")

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
    "KnownDeviations",
    "Order",
    "Part",
    "Profile",
    "Progress",
    "MessageReplay",
    "Request",
    "Service",
    "Target",
    "TokenProvider",
    "WalletMachine",
    "check_wallet_service",
    "gateway_tokens",
    "invariant",
    "known_deviations",
    "machine_for",
    "protocol_checks",
    "run_over_network",
    "run_protocol",
    "service_checks",
]

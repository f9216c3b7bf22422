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

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from mpcsim.errors import needs_extra

if TYPE_CHECKING:
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

    INVARIANTS: dict[str, Invariant[...]]
    """Invariants that the kit checks by itself, by name."""

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

_HOMES: Final = {
    "mpcsim.testing.api_sequence": (
        "BrokenInvariant",
        "Call",
        "Failure",
    ),
    "mpcsim.testing.backend": (
        "known_deviations",
        "service_checks",
    ),
    "mpcsim.testing.backend.asgi": ("AsgiTarget",),
    "mpcsim.testing.backend.known_deviations": ("KnownDeviations",),
    "mpcsim.testing.backend.service": (
        "Answer",
        "AsgiService",
        "AsyncService",
        "BlockingService",
        "Request",
        "Service",
    ),
    "mpcsim.testing.backend.target": (
        "HttpTarget",
        "Part",
        "Target",
        "TokenProvider",
        "gateway_tokens",
    ),
    "mpcsim.testing.invariants": (
        "Invariant",
        "invariant",
    ),
    "mpcsim.testing.machine.api_steps": ("ApiRun",),
    "mpcsim.testing.machine.machine": (
        "WalletMachine",
        "check_wallet_service",
        "machine_for",
    ),
    "mpcsim.testing.profile": (
        "PROFILES",
        "QUICK",
        "SOAK",
        "THOROUGH",
        "Profile",
        "Progress",
    ),
    "mpcsim.testing.runs": ("protocol_checks",),
    "mpcsim.testing.runs.protocol_run": (
        "Order",
        "MessageReplay",
        "run_over_network",
        "run_protocol",
    ),
}
"""Names of each module. They are imported on first use: runs of protocols do without a service."""


def __getattr__(name: str) -> Any:
    if name == "INVARIANTS":
        return _all_invariants()
    for module, names in _HOMES.items():
        if name in names:
            with needs_extra("testing", "the test kit"):
                home = import_module(module)
            return getattr(home, name) if hasattr(home, name) else import_module(f"{module}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__


def _all_invariants() -> dict[str, Invariant[...]]:
    from mpcsim.testing.backend import service_checks
    from mpcsim.testing.invariants import Invariant
    from mpcsim.testing.runs import protocol_checks

    return {
        name: found
        for checks in (protocol_checks, service_checks)
        for name, found in vars(checks).items()
        if isinstance(found, Invariant)
    }

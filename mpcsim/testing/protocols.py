"""Names for runs of protocols in one place, as the snippets of failures import them."""

from mpcsim.sim.network.topology import Network
from mpcsim.sim.run.faults import Crash, Effect, MessageFault, Partition, delay, drop, duplicate
from mpcsim.testing.runs.deviation import Deviation, changes
from mpcsim.testing.runs.protocol_checks import agreement, blame_is_right, no_exception, no_hang
from mpcsim.testing.runs.protocol_run import (
    Order,
    ProtocolRun,
    Replay,
    record_session,
    run_over_network,
    run_protocol,
)
from mpcsim.testing.runs.scenarios import (
    Scenario,
    ecdsa_signing,
    frost_signing,
    key_generation,
    presigned_signing,
    presigning,
    resharing,
)

__all__ = [
    "Crash",
    "Deviation",
    "Effect",
    "MessageFault",
    "Network",
    "Order",
    "Partition",
    "ProtocolRun",
    "Replay",
    "Scenario",
    "agreement",
    "blame_is_right",
    "changes",
    "delay",
    "drop",
    "duplicate",
    "ecdsa_signing",
    "frost_signing",
    "key_generation",
    "no_exception",
    "no_hang",
    "presigned_signing",
    "presigning",
    "record_session",
    "resharing",
    "run_over_network",
    "run_protocol",
]

"""Names for runs of protocols in one place, as the snippets of failures import them."""

from mpcsim.sim.network.topology import Network
from mpcsim.sim.run.adversary import Adversary
from mpcsim.sim.run.faults import Crash, Effect, MessageFault, Partition, delay, drop, duplicate
from mpcsim.testing.runs.deviation import AbstractDeviation, Deviation, TwoFaced, changes
from mpcsim.testing.runs.protocol_checks import (
    agreement,
    blame_is_right,
    no_exception,
    no_hang,
    no_secrets_in_outcomes,
    somebody_is_named,
)
from mpcsim.testing.runs.protocol_run import (
    MessageReplay,
    Order,
    ProtocolRun,
    record_session,
    run_over_network,
    run_protocol,
)
from mpcsim.testing.runs.scenarios import (
    ProtocolScenario,
    ecdsa_signing,
    frost_signing,
    key_generation,
    presigned_signing,
    presigning,
    resharing,
)
from mpcsim.testing.runs.session_checks import (
    check_protocol,
    deterministic,
    every_field_counts,
    fresh,
    heard_while_withholding,
    protocol_examples,
    rushing,
)

__all__ = [
    "AbstractDeviation",
    "Adversary",
    "Crash",
    "Deviation",
    "Effect",
    "MessageFault",
    "Network",
    "Order",
    "Partition",
    "ProtocolRun",
    "MessageReplay",
    "ProtocolScenario",
    "TwoFaced",
    "agreement",
    "blame_is_right",
    "changes",
    "check_protocol",
    "delay",
    "deterministic",
    "drop",
    "duplicate",
    "ecdsa_signing",
    "every_field_counts",
    "fresh",
    "frost_signing",
    "heard_while_withholding",
    "key_generation",
    "no_exception",
    "no_hang",
    "no_secrets_in_outcomes",
    "presigned_signing",
    "presigning",
    "protocol_examples",
    "record_session",
    "resharing",
    "run_over_network",
    "run_protocol",
    "rushing",
    "somebody_is_named",
]

"""Sans-IO framework of the protocols: rounds as data, parties as state machines, sealed messages.

No protocol lives here. A protocol declares its rounds as data (``contract``); a ``Party`` runs
them: it starts, receives bytes, and returns messages or an outcome. It knows no clock, socket or
event loop.
"""

from mpcsim.protocols.engine.contract import (
    Definition,
    Delivery,
    Inbox,
    Round,
    RoundOutput,
    Sends,
    View,
)
from mpcsim.protocols.engine.echo import ECHO, check_echo, echo
from mpcsim.protocols.engine.envelope import MAX_ENVELOPE_BYTES, Envelope
from mpcsim.protocols.engine.outcome import Done, Output, Prepared, Send, Waiting
from mpcsim.protocols.engine.party import Party

__all__ = [
    "ECHO",
    "MAX_ENVELOPE_BYTES",
    "Definition",
    "Delivery",
    "Done",
    "Envelope",
    "Inbox",
    "Output",
    "Party",
    "Prepared",
    "Round",
    "RoundOutput",
    "Send",
    "Sends",
    "View",
    "Waiting",
    "check_echo",
    "echo",
]

"""Where the services listen: variables and what holds without them."""

from __future__ import annotations

import os
from typing import Final

from mpcsim.errors import UsageError
from mpcsim.ids import INSTITUTION, OPERATOR, ROLES, PartyId
from mpcsim.system import HOST

GATEWAY_PORT: Final = 9090
APP_PORT: Final = 9091
MPC_NODE_PORTS: Final = {OPERATOR: 9092, INSTITUTION: 9093}
LAB_PORT: Final = 8888
CONTROL_PORT: Final = 9094


def gateway_port() -> int:
    return port("GATEWAY_PORT", GATEWAY_PORT)


def mpc_node_port(party: PartyId) -> int:
    return port(mpc_node_variable(party, "PORT"), MPC_NODE_PORTS[party])


def mpc_node_address(party: PartyId) -> str:
    """Where the gateway looks for an MPC node: ``OPERATOR_URL``, or this machine."""
    given = os.environ.get(mpc_node_variable(party, "URL"))
    return given or f"http://{HOST}:{mpc_node_port(party)}"


def mpc_node_variable(party: PartyId, what: str) -> str:
    """An environment variable about an MPC node, ``OPERATOR_PORT`` for one."""
    return f"{ROLES[party].upper()}_{what}"


def port(variable: str, default: int) -> int:
    """A port from the environment.

    Raises:
        UsageError: the variable is not a port number.
    """
    return number(variable, os.environ.get(variable) or str(default))


def number(name: str, text: str) -> int:
    """A port that is given as text.

    Args:
        name: of what gives it.

    Raises:
        UsageError: it is none.
    """
    if not text.isdigit() or not 1 <= int(text) <= 65535:
        raise UsageError(f"{name} is {text!r}, not a port number")
    return int(text)

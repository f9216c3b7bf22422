"""A whole wallet service as processes that take switches.

Gateway, both MPC nodes and the node run on free ports. ``mpcsim.testing.wallet_plugin`` has it as a
fixture of pytest.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from mpcsim.control.client import Control
from mpcsim.control.switchboard import Switchboard, check_workers, controlled
from mpcsim.control.users import credentials
from mpcsim.errors import UsageError
from mpcsim.system import access_token, backend, free_port, node_program, running


@dataclass(frozen=True)
class Settings:
    """How a service is to be."""

    node: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of the node."""
    gateway: Sequence[str] = ()
    """Options, as for ``mpcsim gateway``."""


@dataclass(frozen=True)
class WalletService(Control):
    """A service that runs, with its switches (``mpcsim.control.client``) as methods."""

    address: str
    """Of the node."""
    gateway: str
    """Address of the gateway, where users sign up and log in."""
    api_key: str
    api_secret: str = field(repr=False)
    """What a backend logs in with."""
    data: Path
    """Where the services have their folders."""

    def token(self, user: str) -> str:
        """A new access token for a user, who is signed up first if need be.

        Raises:
            UsageError: the gateway cannot be reached.
        """
        return access_token(self.gateway, self.api_key, self.api_secret, user)


AS_USUAL: Final = Settings()


@contextmanager
def serving(data: Path | str, settings: Settings = AS_USUAL) -> Iterator[WalletService]:
    """A service in the block.

    Args:
        data: the data folder.

    Raises:
        UsageError: a process does not start.
    """
    check_workers({**os.environ, **settings.node})
    with running() as processes:
        board = Switchboard(processes, data)
        *mpc_nodes, gateway = map(controlled, backend(data, settings.gateway))
        node = controlled(node_program(free_port(), gateway, settings.node))
        board.start(*mpc_nodes, gateway, node)
        known = credentials(Path(data))
        try:
            yield WalletService(
                board.switch,
                node.address,
                gateway.address,
                known.api_key,
                known.api_secret,
                Path(data),
            )
        finally:
            with suppress(UsageError):
                board.let_go()

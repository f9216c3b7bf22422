"""A whole wallet service as processes with fault injection.

Gateway, both MPC nodes and the node run on free ports. ``mpcsim.testing.wallet_plugin`` has it as a
fixture of pytest.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from mpcsim.frozen_dict import freeze_fields
from mpcsim.service.fault_injection.client import Control
from mpcsim.service.fault_injection.controller import (
    FaultController,
    check_workers,
    with_fault_injection,
)
from mpcsim.service.fault_injection.users import read_credentials
from mpcsim.service.operations.data_folder import log_folder_of
from mpcsim.service.operations.supervisor import (
    Program,
    access_token,
    backend,
    free_port,
    node_program,
    process_group,
)
from mpcsim.service.process.log_settings import FOLDER_VARIABLE


@dataclass(frozen=True)
class ServiceSettings:
    """Settings of a wallet service for tests."""

    node: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of the node."""
    gateway: Sequence[str] = ()
    """Options of the gateway, as for ``mpcsim gateway``."""
    metrics: bool = False
    """Whether each process serves metrics (``mpcsim.service.metrics``)."""
    quiet: bool = False
    """Whether processes write to their log files alone."""

    def __post_init__(self) -> None:
        freeze_fields(self, "node")


@dataclass(frozen=True)
class WalletService(Control):
    """A service that runs; its switches (``mpcsim.service.fault_injection.client``) are methods."""

    address: str
    """Address of the node."""
    gateway: str
    """Address of the gateway, where users sign up and log in."""
    mpc_nodes: Mapping[str, str]
    """Addresses of the MPC nodes, by role, as ``mpcsim doctor`` wants them (``OPERATOR_URL``)."""
    api_key: str
    api_secret: str = field(repr=False)
    """Secret that a backend logs in with."""
    data: Path
    """Folder of the services' data and log files (``mpcsim logs``)."""
    metrics: Mapping[str, str]
    """Addresses of metrics by part, for parts that have them."""

    def token(self, user: str) -> str:
        """Return a new access token for a user, who is signed up first if need be.

        Raises:
            UsageError: the gateway cannot be reached.
        """
        return access_token(self.gateway, self.api_key, self.api_secret, user)


AS_USUAL: Final = ServiceSettings()


@contextmanager
def serving(data: Path | str, settings: ServiceSettings = AS_USUAL) -> Iterator[WalletService]:
    """Run a service in the block.

    Args:
        data: the data folder.

    Raises:
        UsageError: a process does not start.
    """
    check_workers({**os.environ, **settings.node})
    with process_group({FOLDER_VARIABLE: str(log_folder_of(Path(data)))}) as processes:
        board = FaultController(processes, data)

        def program(wanted: Program) -> Program:
            port = free_port() if settings.metrics else None
            return with_fault_injection(replace(wanted, metrics_port=port))

        *mpc_nodes, gateway = map(program, backend(data, settings.gateway))
        node = program(node_program(free_port(), gateway, settings.node))
        programs = [*mpc_nodes, gateway, node]
        board.start(*programs, quiet=settings.quiet)
        known = read_credentials(Path(data))
        try:
            yield WalletService(
                board.execute,
                node.address,
                gateway.address,
                {each.name: each.address for each in mpc_nodes},
                known.api_key,
                known.api_secret,
                Path(data),
                {each.name: each.metrics for each in programs if each.metrics},
            )
        finally:
            board.stop()

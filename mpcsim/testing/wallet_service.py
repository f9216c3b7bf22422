"""A whole wallet service for the tests of a backend: real processes, with switches to break it.

    # conftest.py
    pytest_plugins = ["mpcsim.testing.wallet_service"]  # mpcsim.testing.plugin brings it, too

    # test_our_backend.py
    def test_an_outage_is_survived(wallet_service):
        backend = OurBackend(wallet_service.address, wallet_service.token)
        with wallet_service.down("operator"):
            ...

Gateway, both MPC nodes and the node run on free ports, with their stores in a temporary folder.
They are started once in a session of pytest, and stopped at its end; after each test all switches
are undone. Users stay: a test takes names of its own, or ``reset_users``.

Settings of the node and options of the gateway are chosen by overriding a fixture, for one. With
these, nobody waits for long::

    @pytest.fixture(scope="session")
    def wallet_service_settings():
        return Settings(node={"GATEWAY_TIMEOUT_S": "4"}, gateway=["--link-timeout", "2"])
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

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


@pytest.fixture(scope="session")
def wallet_service_settings() -> Settings:
    """How the service is to be. Override it."""
    return AS_USUAL


@pytest.fixture(scope="session")
def wallet_service_processes(
    tmp_path_factory: pytest.TempPathFactory, wallet_service_settings: Settings
) -> Iterator[WalletService]:
    """The service of all tests."""
    data = tmp_path_factory.mktemp("wallet_service") / "data"
    with serving(data, wallet_service_settings) as service:
        yield service


@pytest.fixture
def wallet_service(wallet_service_processes: WalletService) -> Iterator[WalletService]:
    """The service, with nothing switched on."""
    yield wallet_service_processes
    wallet_service_processes.reset()

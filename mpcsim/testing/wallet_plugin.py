"""pytest plugin: a whole wallet service for the tests of a backend, with fault injection.

    # conftest.py
    pytest_plugins = ["mpcsim.testing.wallet_plugin"]  # mpcsim.testing.plugin brings it, too

    # test_our_backend.py
    def test_an_outage_is_survived(wallet_service):
        backend = OurBackend(wallet_service.address, wallet_service.token)
        with wallet_service.down("operator"):
            ...

It is started once in a session of pytest, and stopped at its end; after each test all faults are
undone. Users stay: a test takes names of its own, or ``reset_users``.

How the service is to be is chosen by overriding a fixture. With these, nobody waits for long::

    @pytest.fixture(scope="session")
    def wallet_service_settings():
        return ServiceSettings(node={"GATEWAY_TIMEOUT_S": "4"}, gateway=["--link-timeout", "2"])

In this process and in virtual time, for examples that Hypothesis draws (a fixture of a session is
shared by them, so each takes a user of its own)::

    @given(st.sampled_from([500, 502, 504]))
    def test_any_failure_is_survived(local_wallet_service, status):
        with local_wallet_service.example() as user:
            local_wallet_service.control.fail_next("sign", status)
            ...
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from mpcsim.testing.backend.wallet_service import AS_USUAL, ServiceSettings, WalletService, serving

if TYPE_CHECKING:
    from mpcsim.testing.backend.local_wallet_service import LocalWalletService


@pytest.fixture(scope="session")
def wallet_service_settings() -> ServiceSettings:
    """Settings of the service. Override it."""
    return AS_USUAL


@pytest.fixture(scope="session")
def wallet_service_processes(
    tmp_path_factory: pytest.TempPathFactory, wallet_service_settings: ServiceSettings
) -> Iterator[WalletService]:
    """The service of all tests."""
    data = tmp_path_factory.mktemp("wallet_service") / "data"
    with serving(data, wallet_service_settings) as service:
        yield service


@pytest.fixture
def wallet_service(wallet_service_processes: WalletService) -> Iterator[WalletService]:
    """The service, without any fault."""
    yield wallet_service_processes
    wallet_service_processes.reset()


@pytest.fixture(scope="session")
def local_wallet_service() -> Iterator[LocalWalletService]:
    """A service in this process, for all tests; also for those under ``@given``."""
    from mpcsim.testing.backend.local_wallet_service import LocalWalletService

    with LocalWalletService() as service:
        yield service

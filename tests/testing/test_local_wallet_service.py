"""The service in this process with its switches, and its fixture under Hypothesis."""

from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpcsim.errors import UsageError
from mpcsim.service.fault_injection.commands import ENDPOINTS
from mpcsim.sim.network.topology import Network
from mpcsim.testing.backend import LocalWalletService
from tests.helpers.tiers import examples

pytest_plugins = ["mpcsim.testing.wallet_plugin"]
NEW = {"curve": "ed25519", "password": "correct horse"}
KEY = "/v3/wallet/key"


@examples(6)
@given(endpoint=st.sampled_from(["user", "key"]), answer=st.sampled_from([401, 500, 502]))
def test_a_drawn_failure_is_the_nodes_own(
    local_wallet_service: LocalWalletService, endpoint: str, answer: int
) -> None:
    with local_wallet_service.example() as name:
        user = local_wallet_service.user(name)
        local_wallet_service.control.fail_next(endpoint, answer)
        path = ENDPOINTS[endpoint][1]
        assert [user.get(path).status_code for _ in range(2)] == [answer, 200]
        local_wallet_service.control.fail_next(endpoint, answer, 5)
    assert user.get(path).status_code == 200


def refused(status: int, text: str) -> Any:
    def check(user: httpx.Client) -> None:
        answer = user.post("/v3/wallet/generate", json=NEW)
        assert (answer.status_code, text in answer.text) == (status, True), answer.text

    return check


def unanswered(user: httpx.Client) -> None:
    with pytest.raises(httpx.ConnectError):
        user.get(KEY)


DOWN = {
    "operator": refused(500, "the operator's MPC node cannot be reached"),
    "institution": refused(500, "the institution's MPC node cannot be reached"),
    "gateway": refused(502, "outcome"),
    "node": unanswered,
}


@pytest.mark.parametrize("part", DOWN)
def test_a_part_that_is_down(local_wallet_service: LocalWalletService, part: Any) -> None:
    with local_wallet_service.example() as name:
        user = local_wallet_service.user(name)
        with local_wallet_service.control.down(part):
            DOWN[part](user)
            assert not local_wallet_service.control.status()["parts"][part]["runs"]
        assert user.post("/v3/wallet/generate", json=NEW).is_success


def test_the_other_switches(local_wallet_service: LocalWalletService) -> None:
    control = local_wallet_service.control
    with local_wallet_service.example() as name:
        with control.expire():
            expired, fresh = (local_wallet_service.user(name) for _ in range(2))
        assert (expired.get(KEY).status_code, fresh.get(KEY).status_code) == (401, 200)
        with control.expire():
            local_wallet_service.gateway_user(name)
            assert control.status()["expire"] == 0
        assert "JWT_EXPIRED" in expired.get(KEY).text
        with control.slow("node", 700):
            assert fresh.get(KEY).elapsed.total_seconds() == pytest.approx(0.7)
        with control.cut("node"), pytest.raises(httpx.ReadTimeout):
            fresh.get(KEY, timeout=3.0)
        control.kill("operator")
        control.fail_next("sign", 504, 3)
        assert control.status()["fail"]["sign"]["times"] == 3
        for wrong, text in (
            (lambda: control.clock(hours=1), "clock needs a service of processes"),
            (lambda: control.slow("gateway", 1), "slow: of a local service the node alone"),
            (lambda: control.fail_next("sgin", 500), "did you mean sign"),
        ):
            with pytest.raises(UsageError, match=text):
                wrong()
    assert control.status()["fail"] == {}


@pytest.mark.soak
def test_another_network(local_wallet_service: LocalWalletService) -> None:
    """In the deep tests, for the first network is compiled."""
    with local_wallet_service.example() as name:
        user = local_wallet_service.user(name)
        with local_wallet_service.control.network(Network.star(20.0, 5.0, 40.0)):
            assert user.post("/v3/wallet/generate", json=NEW).elapsed.total_seconds() > 0.05
        assert not user.get(KEY).elapsed

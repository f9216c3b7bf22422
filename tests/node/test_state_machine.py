"""Any steps of any users, against our own node with its gateway and both MPC nodes.

The steps, the model and the invariants are the kit's (``mpcsim.testing``); parts are stopped and
killed, messages get lost, tokens expire, requests meet at one key. In process and in virtual time.
"""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from mpcsim.testing import QUICK, SOAK, THOROUGH, ApiRun, check_wallet_service, machine_for
from tests.testing.own_node import OwnNode
from tests.testing.served_node import ServedNode

FEW = 3
"""Of the quick tests; the profile's own number takes three times as long."""
MANY = 25
"""Of the thorough one, with twice as many steps each."""
SOAK_S = float(os.environ.get("SOAK_S") or 45.0)
"""How long the longest test takes; more is better."""


def test_any_steps():
    with OwnNode() as target:
        assert check_wallet_service(target, QUICK.with_budget(FEW)) >= FEW


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_any_steps_thoroughly():
    with OwnNode() as target:
        assert check_wallet_service(target, THOROUGH.with_budget(MANY)) >= MANY


@pytest.mark.soak
@pytest.mark.timeout(2 * SOAK_S + 600)
def test_any_steps_for_a_long_time():
    with OwnNode() as target:
        check_wallet_service(target, replace(SOAK, seconds=SOAK_S))


@pytest.mark.soak
def test_any_steps_with_a_gateway_that_is_killed(tmp_path):
    """Over sockets, with the processes that are deployed, and SIGKILL."""
    with ServedNode(tmp_path / "data") as target:
        check_wallet_service(target, QUICK.with_budget(10))


@pytest.mark.soak
def test_a_key_outlives_every_kill(tmp_path):
    with ServedNode(tmp_path / "data") as target:
        api = ApiRun(target)
        for user, curve in (("alice", "ed25519"), ("bob", "secp256k1")):
            api.generate(user, curve)
            api.restart("gateway")
            api.sign(user, curve)
            api.recover(user, curve)
            api.restart("gateway")
            api.sign(user, curve)
            api.sign(user, curve, share=0)
            api.keys(user)


def test_as_an_ordinary_state_machine():
    """For those who bring their own Hypothesis settings and runner."""
    with OwnNode() as target:
        machine_for(target, QUICK.with_budget(1)).TestCase("runTest").runTest()


@pytest.mark.soak
def test_a_long_life_of_one_key():
    """What drawn runs reach rarely: many recoveries, with outages in between."""
    with OwnNode() as target:
        api = ApiRun(target)
        api.generate("alice", "ed25519")
        for part in ("gateway", "operator", "institution"):
            api.stop(part)
            api.recover("alice", "ed25519", password=f"while the {part} is down")
            api.sign("alice", "ed25519", signer="operator")
            api.start(part)
            api.sign("alice", "ed25519", signer="institution")
            api.recover("alice", "ed25519", password=f"after the {part} came back")
            api.restart(part)
            api.sign("alice", "ed25519")
        for nth in range(1, 13):
            api.lose(nth)
            api.recover("alice", "ed25519")
            api.generate("bob", "ed25519")
            api.lose_nothing()
            api.sign("alice", "ed25519")
        api.generate("bob", "ed25519")
        api.sign("bob", "ed25519")
        for share in range(3):
            api.sign("alice", "ed25519", share=share)
        api.end()

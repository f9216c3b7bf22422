"""Ready-made tests of a service at an address; ``mpcsim.testing.plugin`` says how to run them.

Independent parts are tests of their own: one bad answer is one failure among others.
"""

from __future__ import annotations

import pytest

from mpcsim.testing.backend.target import Target
from mpcsim.testing.model import CURVES
from mpcsim.testing.plugin import CheckService, Script

__all__ = [
    "test_a_wallet_from_beginning_to_end",
    "test_any_steps_of_any_users",
    "test_health",
    "test_what_is_registered",
]


def test_health(wallet_script: Script) -> None:
    """The health check, without a token."""
    with wallet_script() as api:
        api.health()


@pytest.mark.parametrize("curve", CURVES)
def test_a_wallet_from_beginning_to_end(curve: str, wallet_script: Script) -> None:
    """Generate, sign, lose the share, recover it and sign again."""
    with wallet_script() as api:
        api.generate("alice", curve)
        api.sign("alice", curve)
        api.recover("alice", curve)
        api.sign("alice", curve)
        api.sign("alice", curve, share=0)


def test_what_is_registered(wallet_script: Script) -> None:
    """The wallet, the keys and the user, before and after there is a key."""
    with wallet_script() as api:
        for _ in range(2):
            api.wallet("alice")
            api.keys("alice")
            api.information("alice")
            api.generate("alice", "ed25519")


def test_any_steps_of_any_users(wallet_target: Target, check_service: CheckService) -> None:
    """The specification holds for any steps of any users, in any order."""
    check_service(wallet_target)

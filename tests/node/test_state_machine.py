"""Any steps of any users, against our own node with its gateway and both MPC nodes.

The steps, the model and the invariants are the kit's (``mpcsim.testing``); parts are stopped and
killed, messages get lost, tokens expire, requests meet at one key. In process and in virtual time.
"""

import pytest

from mpcsim.testing import QUICK, THOROUGH, check_wallet_service
from tests.testing.own_node import OwnNode

FEW = 1
"""Of the quick tests; the profile's own number takes a minute."""
MANY = 25
"""Of the thorough one, with twice as many steps each."""


def test_any_steps():
    with OwnNode() as target:
        assert check_wallet_service(target, QUICK.with_budget(FEW)) >= FEW


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_any_steps_thoroughly():
    with OwnNode() as target:
        assert check_wallet_service(target, THOROUGH.with_budget(MANY)) >= MANY

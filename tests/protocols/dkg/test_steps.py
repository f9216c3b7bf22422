"""Steps on inputs that no honest run produces."""

import pytest

from mpcsim.crypto.groups.curves import CURVES
from mpcsim.crypto.groups.polynomial import commit
from mpcsim.errors import CheckFailed, Reason
from mpcsim.protocols.dkg import steps


@pytest.mark.parametrize("group", CURVES.values(), ids=str)
def test_a_share_or_a_key_that_is_the_identity_is_refused(group):
    a = group.scalar(5)
    f = (a * group.scalar(2), -a)  # f(2) = 0
    C = commit(f)
    with pytest.raises(CheckFailed) as failed:
        steps.public_shares(group, [C], (1, 2))
    assert failed.value.reason is Reason.DEGENERATE_KEY
    assert set(steps.public_shares(group, [C], (1, 3))) == {1, 3}
    with pytest.raises(CheckFailed) as failed:
        steps.public_key(group, [C, commit((-f[0], a))])
    assert failed.value.reason is Reason.DEGENERATE_KEY

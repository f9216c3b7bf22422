"""An echo names the senders that there are, or its own sender is suspect."""

from dataclasses import replace

from mpcsim.errors import Reason
from mpcsim.protocols import keys, run
from tests.helpers.adversary import Adversary, alter_kind
from tests.helpers.sessions import signing_parties


def test_an_echo_of_other_senders_is_refused():
    for change in (
        lambda m: replace(m, echo={**m.echo, 3: bytes(32)}),
        lambda m: replace(m, echo={1: m.echo[1]}),
        lambda m: replace(m, echo={}),
    ):
        one, two = signing_parties(keys("secp256k1"), (1, 2), bytes(32))
        outcome = run([one, Adversary(two, alter_kind("Offer", change))])[1]
        assert outcome.reason is Reason.ECHO_MISMATCH
        assert not outcome.culprits
        assert outcome.suspects == {2}

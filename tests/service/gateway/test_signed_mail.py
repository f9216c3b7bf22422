"""A gateway that meddles with what the MPC nodes say before there are secrets to seal it with."""

import pytest

from mpcsim.crypto.rng import SystemRng
from mpcsim.errors import InvalidEncoding
from mpcsim.ids import CLIENT, HOLDERS, INSTITUTION, MPC_NODES, OPERATOR
from mpcsim.protocols.engine.envelope import HEADER_BYTES, Envelope
from mpcsim.service.mpc_node.identity import Identity
from mpcsim.service.rpc import signed_messages
from mpcsim.service.rpc.wire import SIGNATURE_BYTES
from node.signing.client_party import SessionStuck
from tests.helpers.gateway import shares_of
from tests.node.wallets import House, settled

ANOTHER = Identity.generate(SystemRng())


def corrupt(house, victim):
    """Have the house's gateway put its own words, signed by somebody else, in the place of what the
    MPC nodes tell one party; return those."""
    forged = []

    async def apply_faults(messages):
        kept = []
        for envelope, data in messages:
            if envelope.receiver == victim and envelope.sender in MPC_NODES and not envelope.sealed:
                at = HEADER_BYTES + 3
                altered = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 : -SIGNATURE_BYTES]
                data = ANOTHER.sign_mail(altered)
                forged.append(data)
            kept.append(data)
        return tuple(kept)

    house.gateway.network.apply_faults = apply_faults
    return forged


@pytest.fixture
def house(gateway):
    return House(gateway)


@pytest.mark.parametrize("victim", HOLDERS)
async def test_who_gets_forged_messages_alone_waits_and_blames_nobody(victim, house):
    forged = corrupt(house, victim)
    with pytest.raises(SessionStuck, match=r"ended in round \d \(\w+\) without a message"):
        await house.generate("ed25519")
    assert forged
    await settled(house)
    assert not any(shares_of(house.gateway).values())
    del house.gateway.network.apply_faults
    await house.sign(await house.generate("ed25519"))


# ---------------------------------------------------------------------- MPC nodes of its own


# ---------------------------------------------------------------------- the signature itself


def test_what_is_signed():
    envelope = Envelope(1, 1, False, OPERATOR, CLIENT, bytes(32), b"content").encode()
    signed = ANOTHER.sign_mail(envelope)
    known = {OPERATOR: ANOTHER.public}
    assert signed_messages.authenticate(signed, known) == (OPERATOR, envelope)
    assert signed_messages.authenticate(envelope, known) is None
    assert signed_messages.authenticate(envelope, {}) == (OPERATOR, envelope)
    assert signed_messages.authenticate(signed, {INSTITUTION: ANOTHER.public}) == (OPERATOR, signed)
    for at in range(len(signed)):
        for bit in range(8):
            other = signed[:at] + bytes([signed[at] ^ 1 << bit]) + signed[at + 1 :]
            found = None
            try:
                found = signed_messages.authenticate(other, known)
            except InvalidEncoding:
                continue
            # A sealed message, or one of another sender, is for others to judge: it does not open.
            assert found is None or found[1] == other
    sealed = Envelope(1, 1, True, OPERATOR, CLIENT, bytes(32), b"content").encode()
    assert ANOTHER.sign_mail(sealed) == sealed
    assert signed_messages.authenticate(sealed, known) == (OPERATOR, sealed)

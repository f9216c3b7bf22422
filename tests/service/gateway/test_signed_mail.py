"""A gateway that meddles with what the MPC nodes say before there are secrets to seal it with."""

from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import product

import pytest

from mpcsim.crypto.rng import SystemRng
from mpcsim.errors import InvalidEncoding
from mpcsim.ids import CLIENT, HOLDERS, INSTITUTION, MPC_NODES, OPERATOR
from mpcsim.protocols.engine.envelope import HEADER_BYTES, Envelope
from mpcsim.service.mpc_node.identity import Identity
from mpcsim.service.operations import open_gateway
from mpcsim.service.rpc import signed_messages
from mpcsim.service.rpc.wire import SIGNATURE_BYTES
from node.errors import UntrustedNode
from node.signing.client_party import SessionStuck
from tests.helpers.gateway import hellos, shares_of
from tests.helpers.tiers import fast_few
from tests.node.wallets import House, settled

ANOTHER = Identity.generate(SystemRng())


@dataclass
class Corrupt:
    """What a gateway may do with messages that pass it."""

    forge: object
    victim: int
    instead: bool
    """In place of the genuine message, or before it."""
    seen: list[bytes] = field(default_factory=list)
    """Signed messages so far, of all sessions."""
    forged: int = 0

    async def apply_faults(self, messages):
        kept = []
        for envelope, data in messages:
            if envelope.sealed or envelope.sender not in MPC_NODES:
                kept.append(data)
                continue
            if envelope.receiver == self.victim and (made := self.forge(self, envelope, data)):
                self.forged += 1
                kept += [made] if self.instead else [made, data]
            else:
                kept.append(data)
            self.seen.append(data)
        return tuple(kept)


def altered(corrupt, envelope, data):
    """Another content under the signature."""
    at = HEADER_BYTES + 3
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def stripped(corrupt, envelope, data):
    return data[:-SIGNATURE_BYTES]


def cut_short(corrupt, envelope, data):
    return envelope.header()


def signed_by_another(corrupt, envelope, data):
    return ANOTHER.sign_mail(altered(corrupt, envelope, data[:-SIGNATURE_BYTES]))


def replayed(corrupt, envelope, data):
    """What was said in another session, as if in this one."""
    for earlier in map(Envelope.decode, corrupt.seen):
        if envelope.session_id != earlier.session_id and said(earlier) == said(envelope):
            return replace(earlier, session_id=envelope.session_id).encode()
    return None


def readdressed(corrupt, envelope, data):
    """What was said to another, as if to this one."""
    for earlier in map(Envelope.decode, corrupt.seen):
        elsewhere = replace(earlier, receiver=envelope.receiver)
        if elsewhere != earlier and elsewhere.header() == envelope.header():
            return elsewhere.encode()
    return None


def said(envelope):
    return envelope.protocol, envelope.kind, envelope.sender, envelope.receiver


FORGED = [altered, stripped, cut_short, signed_by_another, replayed, readdressed]


def corrupt(house, forge, victim, *, instead):
    """Have the house's gateway cheat."""
    cheat = Corrupt(forge, victim, instead)
    house.gateway.network.apply_faults = cheat.apply_faults
    return cheat


@pytest.fixture
def house(gateway):
    return House(gateway)


@pytest.mark.parametrize(("forge", "victim"), fast_few(product(FORGED, HOLDERS), 7))
async def test_forged_messages_are_noise(forge, victim, house):
    """The genuine ones come after them, and count."""

    cheat = corrupt(house, forge, victim, instead=False)
    record = await house.generate("ed25519", "somebody-else")  # something to replay
    for name in ("alice", "bob"):
        record = await house.generate("ed25519", name)
        await house.sign(record, name=name)
        await house.sign(await house.recover("ed25519", name), name=name)
    # What goes to the client passes last.
    assert cheat.forged or (forge is readdressed and victim != CLIENT)


FORGERIES = [
    *fast_few(product(["ed25519"], FORGED[:4], HOLDERS), 5),
    *fast_few(product(["secp256k1"], FORGED[:4], HOLDERS), 1),
]


@pytest.mark.parametrize(("curve", "forge", "victim"), FORGERIES)
async def test_who_gets_forged_messages_alone_waits_and_blames_nobody(forge, victim, curve, house):
    cheat = corrupt(house, forge, victim, instead=True)
    with pytest.raises(SessionStuck, match=r"ended in round \d \(\w+\) without a message"):
        await house.generate(curve)
    assert cheat.forged
    await settled(house)
    assert not any(shares_of(house.gateway).values())
    del house.gateway.network.apply_faults
    await house.sign(await house.generate(curve))


# ---------------------------------------------------------------------- MPC nodes of its own


async def test_a_gateway_that_plays_both_mpc_nodes_gets_nothing_where_they_are_known(house):
    known = {i: hello.identity for i, hello in hellos(house.gateway).items()}
    with closing(open_gateway()) as own:
        asked = House(own, identities=known)
        with pytest.raises(UntrustedNode):
            await asked.generate("ed25519")

        async def with_the_right_faces(name, go_on):
            if name != "nodes":
                return await go_on()
            return await house.transport.request("GET", "/mpc/v1/nodes", token=None)

        asked.transport.hook = with_the_right_faces
        with pytest.raises(SessionStuck):
            await asked.generate("ed25519")
        await settled(asked)
        assert not any(shares_of(own).values())
        assert "activate" not in asked.transport.seen


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

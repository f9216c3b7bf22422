"""Who the MPC nodes are: identities that stay, and that each keeps of the other."""

from contextlib import closing
from dataclasses import replace

import pytest
from nacl.signing import SigningKey, VerifyKey

from mpcsim.crypto.hashing import Tag, tagged_hash
from mpcsim.crypto.rng import SystemRng
from mpcsim.ids import BOOT_BYTES, INSTITUTION, MPC_NODES, OPERATOR
from mpcsim.service.errors import NodeFailed, Refused
from mpcsim.service.mpc_node.identity import Identity
from mpcsim.service.mpc_node.peer import Peer
from mpcsim.service.mpc_node.store import ShareStore
from mpcsim.service.rpc import wire
from mpcsim.service.rpc.statements import SealKeyStatement, is_hello_authentic
from tests.helpers.gateway import hellos


def hello_of(identity, party=INSTITUTION, seal_key=bytes(32)):
    signature = identity.sign(SealKeyStatement(party, seal_key, 0))
    return wire.Hello(party, identity.public, seal_key, signature, bytes(BOOT_BYTES), 0)


def test_the_identity_vouches_for_the_seal_key(gateway):
    """By libsodium's own interface; nothing else passes."""
    hello = hellos(gateway)[OPERATOR]
    statement = OPERATOR.to_bytes(2, "big") + hello.seal_key + bytes(4)
    VerifyKey(hello.identity).verify(tagged_hash(Tag.SEAL_KEY, statement), hello.signature)
    assert not is_hello_authentic(replace(hello, seal_key=bytes(32)))
    assert not is_hello_authentic(replace(hello, party=INSTITUTION))
    assert not is_hello_authentic(replace(hello, seal_number=1))
    assert not is_hello_authentic(replace(hello, identity=bytes(SigningKey.generate().verify_key)))
    assert not is_hello_authentic(replace(hello, signature=bytes(64)))


NOT_THE_OTHERS = [
    lambda right: replace(right, signature=bytes(64)),
    lambda right: replace(right, seal_key=bytes(32)),
    lambda right: hello_of(Identity.generate(SystemRng()), OPERATOR),
]


@pytest.mark.parametrize("forged", NOT_THE_OTHERS)
async def test_what_is_not_the_other_mpc_nodes_changes_nothing(forged, gateway, client):
    operator, institution = (gateway.links[party].node for party in MPC_NODES)
    with pytest.raises(Refused, match="this is not who the institution is"):
        operator.meet(forged(institution.hello()))
    await client.check_works(await client.generate("ed25519"))


def test_whom_it_has_not_met_an_mpc_node_does_not_know():
    with closing(ShareStore()) as store:
        peer = Peer(OPERATOR, store)
        with pytest.raises(NodeFailed, match="the operator has not met the institution yet"):
            peer.identity()
        peer.meet(hello_of(identity := Identity.generate(SystemRng())))
        assert peer.identity() == Peer(OPERATOR, store).identity() == identity.public


async def test_another_identity_is_refused_and_changes_nothing(gateway, client, share):
    operator, institution = (gateway.links[party].node for party in MPC_NODES)
    said = "^the institution has another identity than when the operator first met it: put the "
    with pytest.raises(NodeFailed, match=f"{said}right institution.sqlite back$") as refused:
        operator.meet(hello_of(Identity.generate(SystemRng())))
    assert (refused.value.status, refused.value.party) == (503, INSTITUTION)
    assert operator._context.peer.identity() == institution.hello().identity
    await client.check_consistent("ed25519", share.public_key.encode())

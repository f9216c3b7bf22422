"""An MPC node that says what is not so: that is its own failure, and gains it no turn."""

from dataclasses import replace

import pytest

from mpcsim.ids import CLIENT, OPERATOR, ROLES
from mpcsim.service.rpc import wire
from tests.helpers import gateway as service

BUSY = (
    409,
    "a signing session for this key is in progress; with the gateway's --queue, calls wait",
)


def lie(gateway, party, verb, change):
    """From now on, what an MPC node answers to a verb is changed."""
    node = gateway.links[party].node
    honest = node.handle
    node.handle = lambda asked, *rest: (
        change(honest(asked, *rest)) if asked == verb else honest(asked, *rest)
    )


def be_honest(gateway):
    for link in gateway.links.values():
        link.node.__dict__.pop("handle", None)


# ---------------------------------------------------------------------- whose turn it is


async def test_a_turn_is_not_over_before_the_client_has_come_back(gateway, client, ec_share):
    """The operator says that its part is over, and takes as many sessions as it can get."""
    node = gateway.links[OPERATOR].node

    def over(reply):
        node._sessions._exclusive.clear()
        return replace(wire.Answer.from_bytes(reply), open=0).to_bytes()

    lie(gateway, OPERATOR, "sign", over)
    party, messages = await client.begun(ec_share)
    for _ in range(3):
        assert await service.refusal(client.sign(ec_share)) == BUSY
    await client.finished(ec_share, party, messages)
    await client.sign(ec_share)  # at once
    assert not gateway.gateway.sessions._sessions


# ---------------------------------------------------------------------- what is no answer


async def asked(gateway, client, verb, party):
    """Have the gateway ask both MPC nodes for something; it is refused."""
    share = client.give_key("ed25519")
    halves = client.store(share).halves
    signing = client.give_key("secp256k1") if verb == "exchange" else share

    async def work():
        match verb:
            case "open":
                await client.ask("open", client.opening(share, halves))
            case "recover":
                await client.recover("ed25519")
            case "generate" | "standing":
                await service.Client.of(gateway, "bob").generate("ed25519")
            case _:
                await client.sign(signing, signer=party)

    return work


@pytest.mark.parametrize("verb", ["open", "generate", "recover", "sign", "exchange", "standing"])
async def test_what_is_no_answer_is_a_nodes_failure(verb, party, gateway, client):
    asking = await asked(gateway, client, verb, party)
    for garbage in (b"?", bytes(200)):
        lie(gateway, party, verb, lambda reply, garbage=garbage: garbage)
        with pytest.raises(service.Failed) as failed:
            await asking()
        assert (failed.value.status, failed.value.error) == no_answer_of(party)
        assert failed.value.response.json()["party"] == party
        be_honest(gateway)
    if verb != "standing":
        await asking()  # nothing is left behind


def no_answer_of(party):
    return 502, f"the {ROLES[party]}'s MPC node answers something else than it was asked"


def forged(**header):
    """Messages with another header; the sender is their receiver unless another one is given."""

    def change(reply):
        answer = wire.Answer.from_bytes(reply)
        mail = [
            replace(envelope, **(header or {"receiver": envelope.sender})).encode()
            for envelope in service.envelopes(answer.messages)
        ]
        return replace(answer, messages=tuple(mail)).to_bytes()

    return change


def flooding(reply):
    answer = wire.Answer.from_bytes(reply)
    return replace(answer, messages=answer.messages[:1] * 40).to_bytes()


def no_envelope(reply):
    return replace(wire.Answer.from_bytes(reply), messages=(b"?",)).to_bytes()


FOREIGN_MAIL = [
    forged(session_id=bytes(32)),
    forged(sender=CLIENT),
    forged(),
    forged(receiver=7),
    no_envelope,
    flooding,
]


@pytest.mark.parametrize("verb", ["generate", "recover", "sign", "exchange"])
async def test_mail_that_no_mpc_node_sends_is_its_failure(verb, party, gateway, client):
    asking = await asked(gateway, client, verb, party)
    for change in FOREIGN_MAIL:
        lie(gateway, party, verb, change)
        assert await service.refusal(asking()) == no_answer_of(party)
        be_honest(gateway)
    await asking()

"""A client of the gateway without a node: the client's party, driven by hand over HTTP."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import httpx

from mpcsim.gateway import OpenGateway, wire
from mpcsim.ids import CLIENT, MPC_NODES
from mpcsim.keyshare import KeyShare, PublicKeyRecord
from mpcsim.protocol import Done, Party, Send
from mpcsim.protocols import dkg, ecdsa, frost, reshare


@dataclass
class Client:
    """One user's client, with a socket-free connection to the gateway."""

    gateway: OpenGateway
    token: str
    requests: list[str] = field(default_factory=list)
    """Verbs asked for, in order."""

    @classmethod
    def of(cls, gateway: OpenGateway, username: str = "alice") -> Client:
        return cls(gateway, gateway.token(username))

    async def post(self, verb: str, body: wire.Body | bytes) -> httpx.Response:
        self.requests.append(verb)
        transport = httpx.ASGITransport(self.gateway.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as http:
            return await http.post(
                wire.PREFIX + verb,
                content=body if isinstance(body, bytes) else body.to_bytes(),
                headers={
                    "Authorization": f"Bearer {self.token}",
                    "Content-Type": wire.MEDIA_TYPE,
                },
            )

    async def ask(self, verb: str, body: wire.Body) -> bytes:
        response = await self.post(verb, body)
        assert response.is_success, (verb, response.status_code, response.text)
        return response.content

    async def finish(self, party: Party[Any, Any], outputs: list[Any]) -> Any:
        """Exchange messages until the party is done; its result."""
        while not isinstance(party.outcome, Done):
            messages = sends(outputs)
            assert messages, party
            reply = await self.ask("exchange", wire.Exchange(party.session_id, messages))
            outputs = feed(party, wire.Mail.from_bytes(reply).messages)
        if messages := sends(outputs):
            await self.ask("exchange", wire.Exchange(party.session_id, messages))
        return party.outcome.result

    async def begin_generate(self, curve: str) -> tuple[Party[Any, Any], KeyShare]:
        """Everything up to, and without, the activation."""
        agreed = dkg.setup(curve, 2, (CLIENT, *MPC_NODES))
        party = dkg.party(agreed, CLIENT, session_id=os.urandom(32))
        first = wire.Generate(party.session_id, curve, sends(party.start()))
        reply = await self.ask("generate", first)
        outputs = feed(party, wire.Mail.from_bytes(reply).messages)
        return party, await self.finish(party, outputs)

    async def begin_recover(self, curve: str) -> tuple[Party[Any, Any], KeyShare]:
        session_id = os.urandom(32)
        reply = await self.ask("recover", wire.Recover(session_id, curve))
        opened = wire.Recovering.from_bytes(reply)
        (record,) = {*opened.records.values()}
        agreed = reshare.setup(
            PublicKeyRecord.from_bytes(record), MPC_NODES, receivers=(CLIENT, *MPC_NODES)
        )
        party = reshare.party(agreed, CLIENT, session_id=session_id)
        outputs = party.start() + feed(party, opened.messages)
        return party, await self.finish(party, outputs)

    async def activate(self, party: Party[Any, Any], share: KeyShare) -> httpx.Response:
        return await self.post("activate", wire.Activate(party.session_id, share.record.epoch))

    async def generate(self, curve: str) -> KeyShare:
        party, share = await self.begin_generate(curve)
        assert (await self.activate(party, share)).status_code == 204
        return share

    async def recover(self, curve: str) -> KeyShare:
        party, share = await self.begin_recover(curve)
        assert (await self.activate(party, share)).status_code == 204
        return share

    def begin_sign(
        self, share: KeyShare, message: bytes, signer: int = 2
    ) -> tuple[Party[Any, Any], wire.Sign]:
        """The client's party and its first request, not yet sent."""
        party: Party[Any, Any]
        protocol: Any = ecdsa if share.record.curve_name == "secp256k1" else frost
        agreed = protocol.setup(share, (CLIENT, signer), message)
        party = protocol.party(agreed, session_id=os.urandom(32))
        messages = sends(party.start())
        epoch = share.record.epoch
        return party, wire.Sign(party.session_id, epoch, signer, message, messages)

    async def sign(self, share: KeyShare, message: bytes, signer: int = 2) -> Any:
        party, request = self.begin_sign(share, message, signer)
        reply = await self.ask("sign", request)
        outputs = feed(party, wire.Mail.from_bytes(reply).messages)
        while not isinstance(party.outcome, Done):
            reply = await self.ask("exchange", wire.Exchange(party.session_id, sends(outputs)))
            outputs = feed(party, wire.Mail.from_bytes(reply).messages)
        return party.outcome.result


def sends(outputs: list[Any]) -> tuple[bytes, ...]:
    return tuple(output.data for output in outputs if isinstance(output, Send))


def feed(party: Party[Any, Any], messages: tuple[bytes, ...]) -> list[Any]:
    outputs: list[Any] = []
    for message in messages:
        sender = int.from_bytes(message[4:6], "big")
        outputs += party.receive(sender, message)
    return outputs

"""Sessions without the gateway's rules: an attacker plays some parties, and asks MPC nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mpcsim.attacks.service import weak
from mpcsim.attacks.service.findings import Refusal
from mpcsim.attacks.service.stage import Ask, Stage
from mpcsim.ids import CLIENT, HOLDERS, MPC_NODES, THRESHOLD, PartyId
from mpcsim.protocols import dkg, reshare
from mpcsim.protocols.engine import Done, Party, Send
from mpcsim.protocols.engine.envelope import Envelope
from mpcsim.protocols.key_share import KeyShare, PublicKeyRecord
from mpcsim.service.rpc import wire
from mpcsim.service.rpc.session_keys import SessionKey

Asks = Mapping[PartyId, Ask]


def asking(stage: Stage, party: PartyId, credential: Any) -> Ask:
    """Asks an MPC node with something that was once shown to an MPC node."""

    return lambda verb, body: stage.handled(party, verb, credential, body)


@dataclass
class Made:
    """What a session has made: the attacker's shares of it; the MPC nodes keep theirs."""

    session_id: bytes
    shares: list[KeyShare]

    @property
    def key_id(self) -> str:
        return self.shares[0].record.epoch.hex()


def generated(stage: Stage, asks: Asks, curve: str) -> Made:
    """A key generation: the attacker is the client.

    Raises:
        Refusal: an MPC node refuses.
    """
    key = SessionKey()
    agreed = dkg.setup(curve, THRESHOLD, HOLDERS)
    parties = {CLIENT: dkg.party(agreed, CLIENT, session_id=key.session_id)}
    return _made(stage, parties, asks, "generate", wire.Generate(key.session_id, curve, ()), key)


def recovered(
    stage: Stage, record: PublicKeyRecord, asks: Asks, mine: KeyShare | None = None
) -> Made:
    """A recovery: the attacker is the client, and the corrupt MPC node too if it has its share.

    Raises:
        Refusal: an MPC node refuses.
    """
    key = SessionKey()
    session_id = key.session_id
    agreed = reshare.setup(record, MPC_NODES, receivers=HOLDERS)
    parties = {CLIENT: reshare.party(agreed, CLIENT, session_id=session_id)}
    if mine is not None:
        agreed = reshare.setup(record, MPC_NODES, share=mine, receivers=HOLDERS)
        party = reshare.party(agreed, mine.identifier, session_id=session_id)
        parties[mine.identifier] = party
    first = wire.Recover(session_id, record.curve_name)
    return _made(stage, parties, asks, "recover", first, key)


def _made(
    stage: Stage,
    parties: Mapping[PartyId, Party[Any, Any]],
    asks: Asks,
    verb: str,
    first: wire.Generate | wire.Recover,
    key: SessionKey,
) -> Made:
    def sent(party: Party[Any, Any], outputs: Sequence[Any]) -> tuple[bytes, ...]:
        """What a party says, signed where it is not sealed."""
        said = tuple(output.data for output in outputs if isinstance(output, Send))
        if party.me == CLIENT:
            return key.sign_messages(said)
        identity = stage.node(party.me)._context.identity
        return tuple(
            data if Envelope.decode(data).sealed else identity.sign_mail(data) for data in said
        )

    under_way = [data for party in parties.values() for data in sent(party, party.start())]
    for ask in asks.values():
        under_way += wire.Answer.from_bytes(ask(verb, first)).messages
    while under_way:
        mail, under_way = under_way, []
        boxes: dict[PartyId, list[bytes]] = {}
        for data in mail:
            envelope = Envelope.decode(data)
            to = parties.get(PartyId(envelope.receiver))
            if to is None:
                boxes.setdefault(PartyId(envelope.receiver), []).append(data)
            else:
                under_way += sent(to, to.receive(*weak.unsigned(data)))
        for party, box in boxes.items():
            answer = asks[party]("exchange", wire.Exchange(first.session_id, tuple(box)))
            under_way += wire.Answer.from_bytes(answer).messages
    ends = [party.outcome for party in parties.values()]
    if not all(isinstance(end, Done) for end in ends):
        raise Refusal(f"the session does not end: {ends}")
    return Made(first.session_id, [end.result for end in ends if isinstance(end, Done)])

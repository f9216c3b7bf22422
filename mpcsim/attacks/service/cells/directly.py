"""Requests and sessions without the gateway's rules: an attacker plays some parties, and asks MPC
nodes, or asks with what a corrupt MPC node has been shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mpcsim.attacks.service import weak
from mpcsim.attacks.service.findings import Refusal
from mpcsim.attacks.service.hostile import Asked, HostileNode
from mpcsim.attacks.service.stage import Ask, Stage, Strings
from mpcsim.ids import CLIENT, HOLDERS, MPC_NODES, THRESHOLD, PartyId
from mpcsim.protocols import dkg, reshare
from mpcsim.protocols.engine import Done, Party, Send
from mpcsim.protocols.engine.envelope import Envelope
from mpcsim.protocols.key_share import KeyShare, PublicKeyRecord
from mpcsim.service.rpc import wire
from mpcsim.service.rpc.session_keys import SessionKey
from mpcsim.service.vault import EncryptedShare, SecretStore, VaultKey, open_share

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


# ------------------------------------------------------------------ with what a node was shown


def sent_to(stage: Stage) -> tuple[HostileNode, str, Strings]:
    """A corrupt MPC node after an ordinary life of a user's key; her public key and strings."""
    hostile, alice = stage.corrupt_node(), stage.user()
    key = alice.generate()
    key = alice.recover()
    for party in MPC_NODES:
        alice.sign(key, signer=party)
    return hostile, key["public_key"], key


def first_that_works(credentials: Iterable[Any], use: Callable[[Any], Any]) -> Any:
    """What the first credential gets that is good for something.

    Raises:
        Refusal: none is; with the words of the first refusal.
    """
    refusals = []
    for credential in credentials:
        try:
            return use(credential)
        except Refusal as refusal:
            refusals.append(refusal)
    raise Refusal(f"{refusals[0]} (and {len(refusals) - 1} tries more)")


def client_share(stage: Stage, hostile: HostileNode, key: Strings) -> KeyShare:
    """The client's share out of the stolen strings."""
    secret = bytearray(vault_key(stage, hostile, key))
    user_id = stage.user().user_id
    store = SecretStore.from_text(key["secret_store"])
    sealed = EncryptedShare.from_text(key["encrypted_share"])
    return KeyShare.from_bytes(open_share(sealed, store, VaultKey(secret), user_id))


def vault_key(stage: Stage, hostile: HostileNode, key: Strings) -> bytes:
    """pw_key || pepper: own half, and the other with whatever opens it.

    Raises:
        Refusal: nothing does.
    """
    store = SecretStore.from_text(key["secret_store"])
    mine = stage.own_half(store)

    def at_gateway(asked: Asked) -> bytes:
        stage.look_up("/wallet/v1/user", asked.credential)
        return stage.thief(asked.credential).open_vault(key)

    def at_other(asked: Asked) -> bytes:
        ask = asking(stage, stage.other, asked.credential)
        theirs = stage.half_of(stage.other, store, ask)
        return bytes(a ^ b for a, b in zip(mine, theirs, strict=True))

    def use(asked: Asked) -> bytes:
        return at_gateway(asked) if isinstance(asked.credential, str) else at_other(asked)

    found: bytes = first_that_works(hostile.asked, use)
    return found

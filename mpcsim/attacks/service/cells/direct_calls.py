"""Direct calls to MPC nodes, without the gateway's rules: sessions in which the attacker plays some
parties, and requests with credentials that a corrupt MPC node has seen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mpcsim.attacks.service import weakened_builds
from mpcsim.attacks.service.attack_environment import Ask, AttackEnvironment, Strings
from mpcsim.attacks.service.findings import Refusal
from mpcsim.attacks.service.hostile import HostileNode, RecordedRequest
from mpcsim.ids import CLIENT, HOLDERS, MPC_NODES, THRESHOLD, PartyId
from mpcsim.protocols import dkg, reshare
from mpcsim.protocols.engine import Done, Party, Send
from mpcsim.protocols.engine.envelope import Envelope
from mpcsim.protocols.key_share import KeyShare, PublicKeyRecord
from mpcsim.service.rpc import wire
from mpcsim.service.rpc.session_keys import SessionKey
from mpcsim.service.vault import EncryptedShare, SecretStore, VaultKey, open_share

Asks = Mapping[PartyId, Ask]


def access_with(env: AttackEnvironment, party: PartyId, credential: Any) -> Ask:
    """Return a function that asks an MPC node with a credential that was once shown to one."""

    return lambda verb, body: env.send_to_node(party, verb, credential, body)


@dataclass
class SessionShares:
    """The attacker's shares from a session; the MPC nodes keep theirs."""

    session_id: bytes
    shares: list[KeyShare]

    @property
    def key_id(self) -> str:
        return self.shares[0].record.epoch.hex()


def run_generation(env: AttackEnvironment, asks: Asks, curve: str) -> SessionShares:
    """Run a key generation with the attacker as the client.

    Raises:
        Refusal: an MPC node refuses.
    """
    key = SessionKey()
    agreed = dkg.setup(curve, THRESHOLD, HOLDERS)
    parties = {CLIENT: dkg.party(agreed, CLIENT, session_id=key.session_id)}
    return _run_session(
        env, parties, asks, "generate", wire.Generate(key.session_id, curve, ()), key
    )


def run_recovery(
    env: AttackEnvironment, record: PublicKeyRecord, asks: Asks, mine: KeyShare | None = None
) -> SessionShares:
    """Run a recovery with the attacker as the client, and as the corrupt MPC node if it has its
    share.

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
    return _run_session(env, parties, asks, "recover", first, key)


def _run_session(
    env: AttackEnvironment,
    parties: Mapping[PartyId, Party[Any, Any]],
    asks: Asks,
    verb: str,
    first: wire.Generate | wire.Recover,
    key: SessionKey,
) -> SessionShares:
    def sent(party: Party[Any, Any], outputs: Sequence[Any]) -> tuple[bytes, ...]:
        """Return the messages of a party, signed where they are not sealed."""
        said = tuple(output.data for output in outputs if isinstance(output, Send))
        if party.me == CLIENT:
            return key.sign_messages(said)
        identity = env.node(party.me)._context.identity
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
                under_way += sent(to, to.receive(*weakened_builds.strip_signature(data)))
        for party, box in boxes.items():
            answer = asks[party]("exchange", wire.Exchange(first.session_id, tuple(box)))
            under_way += wire.Answer.from_bytes(answer).messages
    ends = [party.outcome for party in parties.values()]
    if not all(isinstance(end, Done) for end in ends):
        raise Refusal(f"the session does not end: {ends}")
    return SessionShares(first.session_id, [end.result for end in ends if isinstance(end, Done)])


# ------------------------------------------------------------------ with what a node was shown


def corrupt_node_after_use(env: AttackEnvironment) -> tuple[HostileNode, str, Strings]:
    """Return a corrupt MPC node that has served a user, with the user's public key and strings."""
    hostile, alice = env.corrupt_node(), env.user()
    key = alice.generate()
    key = alice.recover()
    for party in MPC_NODES:
        alice.sign(key, signer=party)
    return hostile, key["public_key"], key


def first_success(credentials: Iterable[Any], use: Callable[[Any], Any]) -> Any:
    """Return the result of the first credential that is accepted.

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


def client_share(env: AttackEnvironment, hostile: HostileNode, key: Strings) -> KeyShare:
    """Return the client's share out of the stolen strings."""
    secret = bytearray(vault_key(env, hostile, key))
    user_id = env.user().user_id
    store = SecretStore.from_text(key["secret_store"])
    sealed = EncryptedShare.from_text(key["encrypted_share"])
    return KeyShare.from_bytes(open_share(sealed, store, VaultKey(secret), user_id))


def vault_key(env: AttackEnvironment, hostile: HostileNode, key: Strings) -> bytes:
    """Return pw_key || pepper: the node's own half, and the other opened with any credential it
    saw.

    Raises:
        Refusal: no credential opens it.
    """
    store = SecretStore.from_text(key["secret_store"])
    mine = env.own_half(store)

    def at_gateway(asked: RecordedRequest) -> bytes:
        env.get_registered("/wallet/v1/user", asked.credential)
        return env.stolen_credentials(asked.credential).open_vault(key)

    def at_other(asked: RecordedRequest) -> bytes:
        ask = access_with(env, env.other, asked.credential)
        theirs = env.request_half(env.other, store, ask)
        return bytes(a ^ b for a, b in zip(mine, theirs, strict=True))

    def use(asked: RecordedRequest) -> bytes:
        return at_gateway(asked) if isinstance(asked.credential, str) else at_other(asked)

    found: bytes = first_success(hostile.requests, use)
    return found

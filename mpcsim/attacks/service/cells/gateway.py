"""Attacks by the gateway: with identities pinned and not, with an MPC node, with the database."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from mpcsim.attacks.service import weak
from mpcsim.attacks.service.builds import ResearchBuild
from mpcsim.attacks.service.cells import outside
from mpcsim.attacks.service.findings import Finding, Refusal, proven
from mpcsim.attacks.service.hostile import Call
from mpcsim.attacks.service.model import Entry
from mpcsim.attacks.service.shadow import Shadow
from mpcsim.attacks.service.stage import (
    CURVE,
    WANTED,
    Stage,
    Strings,
    forged,
    key_taken,
)
from mpcsim.attacks.service.table import Goal
from mpcsim.crypto.rng import SystemRng
from mpcsim.ids import CLIENT, MPC_NODES, PartyId
from mpcsim.protocols import frost
from mpcsim.protocols.engine import Send
from mpcsim.protocols.key_share import KeyShare
from mpcsim.service.rpc import wire
from mpcsim.service.rpc.statements import SignedRecord
from mpcsim.service.vault import HALF_BYTES, ReplyKey, SealKey, SecretStore
from mpcsim.service.vault.halves import seal_halves
from mpcsim.service.vault.strings import KEY_BYTES
from mpcsim.service.vault.use import hashes

# ------------------------------------------------------------------ the client's side


def silent_recovery(stage: Stage) -> Finding:
    """With a token of its own issue: a recovery, not activated; then the node is asked to sign."""
    alice = stage.user()
    key = alice.generate()
    thief = stage.thief(stage.service.gateway.token("alice"))
    share = thief.take_share()
    stage.vouch_for(share)  # what the gateway itself would ask is no obstacle to it
    signature = thief.sign_with(share, WANTED, stage.me)
    return forged(CURVE, key["public_key"], signature, "with shares that are not in force")


# ------------------------------------------------------------------ the vault


def reply_key_of_its_own(stage: Stage) -> Finding:
    """While a user signs: the request that opens the vault gets the gateway's reply key."""
    return _opened_with(stage)


def request_without_proof(stage: Stage) -> Finding:
    """The same, with the proof of who asks left out."""
    return _opened_with(stage, proven_use=False)


def _opened_with(stage: Stage, *, proven_use: bool = True) -> Finding:
    door, alice = stage.corrupt_door(), stage.user()
    key = alice.generate()
    mine = ReplyKey(SystemRng())
    boots = {party: stage.node(party).hello().boot for party in MPC_NODES}
    none = {party: wire.UseProof(boot, bytes(32)) for party, boot in boots.items()}

    def substitute(call: Call) -> None:
        if call.verb == "open":
            body = replace(wire.OpenVault.from_bytes(call.body), reply_key=mine.public)
            call.body = (body if proven_use else replace(body, proofs=none)).to_bytes()
        elif call.verb == "sign" and (asked := wire.Sign.from_bytes(call.body)).vault is not None:
            vault = replace(asked.vault, reply_key=mine.public)
            call.body = replace(asked, vault=vault).to_bytes()
            if not proven_use:
                call.path = wire.PREFIX + "open"
                body = wire.OpenVault(asked.key_id, mine.public, vault.halves, none)
                call.body = body.to_bytes()

    door.before = substitute
    with suppress(Refusal):
        alice.sign(key)
    answer = (door.of("open") or door.of("sign"))[0]
    if answer.status != 200:
        raise Refusal(f"{answer.status} {json.loads(answer.reply)['error']}")
    if answer.verb == "open":
        opened = wire.VaultOpened.from_bytes(answer.reply)
    else:
        opened = wire.Signing.from_bytes(answer.reply).vault or wire.VaultOpened({}, b"")
    secret = bytes(mine.combine(opened.halves, stage.seal_keys()).secret)
    store = SecretStore.from_text(key["secret_store"])
    return proven(weak.confirms(store, secret), "pw_key and pepper of the user's vault", "nothing")


def seal_keys_of_its_own(stage: Stage) -> Finding:
    """The user's new vault is sealed to keys of the gateway's own."""
    door, alice = stage.corrupt_door(), stage.user()
    mine = {party: SealKey.fresh(SystemRng()) for party in MPC_NODES}

    def substitute(call: Call) -> None:
        if call.path == "/mpc/v1/nodes":
            said = json.loads(call.reply)
            for entry in said.values():
                entry["seal_key"] = mine[entry["identifier"]].public.hex()
            call.reply = json.dumps(said).encode()

    door.after = substitute
    return _opened_by(stage, alice.generate(), mine)


def replaced_seal_keys(stage: Stage) -> Finding:
    """The MPC nodes' seal keys have leaked, and have been replaced. The gateway goes on showing the
    old ones, signed as they once were, to a REST node that has just been started."""
    door, alice = stage.corrupt_door(), stage.user()
    alice.generate()
    leaked, shown = dict[PartyId, SealKey](), dict[int, wire.Hello]()
    for party in MPC_NODES:
        node = stage.node(party)
        leaked[party], shown[party] = node._boot.seal_key, node.hello()
        with node.store.database.transaction() as cursor:
            cursor.execute("DELETE FROM secrets WHERE name = 'seal_key'")
        node.store.replace_seal_key(SystemRng())
        node._boot.seal_key = node.store.seal_key(SystemRng())
        node.restart()

    def substitute(call: Call) -> None:
        if call.path == "/mpc/v1/nodes":
            said = json.loads(call.reply)
            for entry in said.values():
                old = shown[entry["identifier"]]
                entry["seal_number"] = old.seal_number
                entry |= {"seal_key": old.seal_key.hex(), "signature": old.signature.hex()}
            call.reply = json.dumps(said).encode()

    door.after = substitute
    stage.restart_node()
    return _opened_by(stage, alice.recover(), leaked)


def _opened_by(stage: Stage, key: Strings, seal_keys: Mapping[PartyId, SealKey]) -> Finding:
    """What is sealed to these keys."""
    store = SecretStore.from_text(key["secret_store"])
    halves = [stage.opened_half(store, party, seal_keys[party]) for party in MPC_NODES]
    secret = bytes(a ^ b for a, b in zip(*halves, strict=True))
    return proven(weak.confirms(store, secret), "pw_key and pepper of the user's vault", "nothing")


def message_of_its_own(stage: Stage) -> Finding:
    """While a user signs: the request to the MPC node names another message."""
    door, alice = stage.corrupt_door(), stage.user()
    key = alice.generate()

    def substitute(call: Call) -> None:
        if call.verb == "sign":
            call.body = replace(wire.Sign.from_bytes(call.body), message=WANTED).to_bytes()

    door.before = substitute
    signature = b""
    with suppress(Refusal):
        signature = alice.sign(key)
    (asked,) = door.of("sign")
    if asked.status != 200:
        raise Refusal(f"{asked.status} {json.loads(asked.reply)['error']}")
    return forged(CURVE, key["public_key"], signature, "the user's share of the signature")


def path_of_its_own(stage: Stage) -> Finding:
    """While a user signs with a child key: the request to the MPC node names another child."""
    door, alice = stage.corrupt_door(), stage.user()
    key = alice.generate("secp256k1")

    def substitute(call: Call) -> None:
        if call.verb == "sign":
            call.body = replace(wire.Sign.from_bytes(call.body), path=(8,)).to_bytes()

    door.before = substitute
    with suppress(Refusal):
        alice.sign(key, path="m/7")
    (asked, *_) = door.of("sign")
    if asked.status != 200:
        raise Refusal(f"{asked.status} {json.loads(asked.reply)['error']}")
    answered = len(wire.Signing.from_bytes(asked.reply).messages)
    return proven(answered > 0, "the MPC node signs with a child that nobody asked for", "nothing")


def first_messages_of_its_own(stage: Stage) -> Finding:
    """While a user signs: the client's first messages are another client's, of another message.

    With a signature share of the MPC node for a message of its own, the gateway would lack the
    client's; it never comes to that.
    """
    door, alice = stage.corrupt_door(), stage.user()
    key = alice.generate()
    share = stage.shares(stage.me)[key["key_id"]]
    sent: list[wire.Sign] = []

    def substitute(call: Call) -> None:
        if call.verb == "sign":
            body = wire.Sign.from_bytes(call.body)
            party = stand_in(share, body.session_id, PartyId(body.signer))
            sent.append(replace(body, message=WANTED, messages=party, first=hashes(party)))
            call.body = sent[-1].to_bytes()

    door.before = substitute
    with suppress(Refusal):
        alice.sign(key)
    (asked,) = door.of("sign")
    if asked.status != 200:
        raise Refusal(f"{asked.status} {json.loads(asked.reply)['error']}")
    answered = len(wire.Signing.from_bytes(asked.reply).messages)
    return proven(answered > 0, "the MPC node signs with a client that is none", "nothing")


def strangers_halves(stage: Stage) -> Finding:
    """Halves that a stranger has sealed for the user are opened by whoever has a token."""
    alice = stage.user()
    key = alice.generate()
    secret = SystemRng().bytes(HALF_BYTES)
    thief = stage.thief(stage.service.gateway.token("alice"))
    store = SecretStore.from_text(key["secret_store"])
    halves = seal_halves(
        bytearray(secret), stage.seal_keys(), store.key_id, alice.user_id, SystemRng()
    )
    own = {party: SystemRng().bytes(KEY_BYTES) for party in MPC_NODES}
    forged_store = replace(store, halves=halves, auth_keys=own)
    opened = thief.open_vault({**key, "secret_store": forged_store.to_text()})
    return proven(opened == secret, "the MPC nodes open what a stranger has sealed", "")


def stand_in(share: KeyShare, session_id: bytes, signer: PartyId) -> tuple[bytes, ...]:
    """First messages of a client that is none: with a share of the key that nobody has dealt."""
    peers = {signer: next(iter(share.peers.values()))}
    made = replace(share, identifier=CLIENT, peers=peers)
    party = frost.party(frost.setup(made, (CLIENT, signer), WANTED), session_id=session_id)
    return tuple(output.data for output in party.start() if isinstance(output, Send))


# ------------------------------------------------------------------ MPC nodes of its own


def own_nodes_at_generate(stage: Stage) -> Finding:
    """The gateway plays both MPC nodes when the user generates a key."""
    door, alice = stage.corrupt_door(), stage.user()
    shadow = Shadow(stage, door, alice)
    alice.generate()
    return key_taken(shadow.shares(), alice.adopted(), "the real MPC nodes never hear of the user")


def first_messages_at_generate(stage: Stage) -> Finding:
    """The same, but the gateway says truly who the MPC nodes are: their first messages, which
    nothing seals yet, are those of others."""
    door, alice = stage.corrupt_door(), stage.user()
    shadow = Shadow(stage, door, alice, introduced=False)
    alice.generate()
    return key_taken(shadow.shares(), alice.adopted(), "the real MPC nodes never hear of the user")


def own_nodes_at_recover(stage: Stage) -> Finding:
    """The gateway plays both MPC nodes when the user recovers: a key of its own."""
    door, alice = stage.corrupt_door(), stage.user()
    alice.generate()
    shadow = Shadow(stage, door, alice)
    shadow.plant()
    stage.restart_node()
    new = alice.recover()
    return key_taken(shadow.shares(), new["public_key"], "in the place of the user's key")


def own_nodes_later(stage: Stage) -> Finding:
    """Honest when the key was made; plays both MPC nodes when the user uses it, and the REST node
    has been started anew meanwhile."""
    door, alice = stage.corrupt_door(), stage.user()
    key = alice.generate()
    stage.restart_node()
    shadow = Shadow(stage, door, alice)
    shadow.plant()
    signature = alice.sign(key)
    return proven(bool(signature), "the user signs with MPC nodes of the gateway's", "nothing")


def own_wallet_later(stage: Stage) -> Finding:
    """The same when the user looks at its wallet, which takes no strings: but it has stored its
    public key, and compares."""
    door, alice = stage.corrupt_door(), stage.user()
    key = alice.generate()
    stage.restart_node()
    shadow = Shadow(stage, door, alice)
    planted = shadow.plant()
    with suppress(Refusal):
        alice.public_key(key)
        return proven(True, "the strings open at MPC nodes of the gateway's", "")
    seen = alice.adopted()
    return proven(
        seen == planted["public_key"] == key["public_key"],
        "the user adopts another key",
        "the wallet shows another key than the user has stored",
    )


# ------------------------------------------------------------------ records


def another_public_key(stage: Stage) -> Finding:
    """The gateway answers with a public key of its own wherever the user's is asked for, and puts
    it into the record with both MPC nodes' signatures."""
    door, alice, mallory = stage.corrupt_door(), stage.user(), stage.user("mallory")
    key, other = alice.generate(), mallory.generate()
    mine, theirs = (bytes.fromhex(each["public_key"][2:]) for each in (other, key))

    def recorded(text: str) -> str:
        signed = SignedRecord.from_bytes(urlsafe_b64decode(text))
        if signed.record.public_key == theirs:
            signed = replace(signed, record=replace(signed.record, public_key=mine))
        return urlsafe_b64encode(signed.to_bytes()).decode()

    def substitute(call: Call) -> None:
        if call.path.startswith("/wallet/"):
            answer = json.loads(call.reply.replace(theirs.hex().encode(), mine.hex().encode()))
            wallets = [wallet["key"] for wallet in answer.get("wallets", [])]
            for each in answer.get("keys", wallets):
                each["record"] = recorded(each["record"])
            call.reply = json.dumps(answer).encode()

    door.after = substitute
    return proven(
        alice.adopted() == other["public_key"],
        "the user's wallet shows another key",
        "the user's wallet shows the user's key",
    )


def another_chain_code(stage: Stage) -> Finding:
    """The user asks for an address to be paid at, and gets one whose key nobody has shares of."""
    door, alice = stage.corrupt_door(), stage.user()
    key = alice.generate("secp256k1")
    true = alice.child(key, "m/7")

    def substitute(call: Call) -> None:
        if call.path.startswith("/wallet/v1/wallet"):
            answer = json.loads(call.reply)
            for wallet in answer["wallets"]:
                data = urlsafe_b64decode(wallet["key"]["record"])
                signed = SignedRecord.from_bytes(data)
                lie = replace(signed, record=replace(signed.record, chain_code=bytes(32)))
                wallet["key"]["record"] = urlsafe_b64encode(lie.to_bytes()).decode()
            call.reply = json.dumps(answer).encode()

    door.after = substitute
    (wallet,) = alice.ask("?path=m/7")["wallets"]
    return proven(
        wallet["key"]["public_key"] != true,
        "the user's wallet shows an address that nobody can sign for",
        "the user's wallet shows the user's child key",
    )


def older_epochs_record(stage: Stage) -> Finding:
    """After a recovery the gateway answers with the record from before it, so that the retired
    strings pass for the present ones."""
    door, alice = stage.corrupt_door(), stage.user()
    key = alice.generate()
    alice.ask("key")
    old = door.calls[-1].reply
    alice.recover()

    def older(call: Call) -> None:
        if call.path.startswith("/wallet/v1/keys"):
            call.reply = old

    door.after = older
    stage.vouch_for(stage.shares(stage.me).popitem()[1])
    return proven(bool(alice.public_key(key)), "retired strings pass for the present ones", "")


def another_users_record(stage: Stage) -> Finding:
    """The gateway answers with another user's key, record and all."""
    door, alice, mallory = stage.corrupt_door(), stage.user(), stage.user("mallory")
    alice.generate()
    other = mallory.generate()

    def divert(call: Call) -> None:
        if call.path.startswith("/wallet/"):
            call.headers = {**call.headers, "authorization": f"Bearer {mallory.token}"}

    def rename(call: Call) -> None:
        if call.path.startswith("/wallet/"):
            call.reply = call.reply.replace(mallory.user_id.encode(), alice.user_id.encode())

    door.before, door.after = divert, rename
    return proven(
        alice.adopted() == other["public_key"],
        "the user's wallet shows another user's key",
        "the user's wallet shows the user's key",
    )


# ------------------------------------------------------------------ with the database


def stored_public_key(stage: Stage) -> Finding:
    """The public key that the caller's backend has stored is replaced by the attacker's."""
    alice, mallory = stage.user(), stage.user("mallory")
    key, other = alice.generate(), mallory.generate()
    key["public_key"] = other["public_key"]
    signature = mallory.sign(other, WANTED.hex())
    return forged(CURVE, key["public_key"], signature, "the key that the user's backend has stored")


K, W, P, X = Goal.K, Goal.W, Goal.P, Goal.X
PINNED, UNPINNED, LATE = "gateway", "gateway, not pinned", "gateway, corrupt when made"

ENTRIES = (
    Entry(
        id="recovery with an issued token",
        cells=((PINNED, K), (UNPINNED, K)),
        name="recovers the key as the user, with a token of its own issue",
        play=outside.recovery,
        covers=("the client's side of a recovery, activated, by the gateway",),
    ),
    Entry(
        id="silent recovery by the gateway",
        cells=((PINNED, K), (UNPINNED, K)),
        name="a recovery without activation, then signs at an MPC node with its share",
        play=silent_recovery,
        check="MPC nodes sign with shares in force alone",
        says="no such key",
        research=lambda: ResearchBuild(weak.ANY_SHARE_SIGNS),
        each_node=True,
        covers=("the client's side of a recovery, not activated, by the gateway",),
    ),
    Entry(
        id="a reply key of its own",
        cells=((PINNED, K), (PINNED, P), (UNPINNED, K), (UNPINNED, P)),
        name="puts its own reply key into a user's request to open the vault",
        play=reply_key_of_its_own,
        both_ways=True,
        check="the request is authenticated with keys that the gateway does not have",
        says="no request of whoever holds",
        research=lambda: ResearchBuild(weak.NO_USE_CHECK),
        covers=("substituted reply keys",),
    ),
    Entry(
        id="a request without a proof",
        cells=((PINNED, K), (PINNED, P), (UNPINNED, K), (UNPINNED, P)),
        name="leaves out what authenticates the request",
        play=request_without_proof,
        both_ways=True,
        check="a request without a proof opens nothing",
        says="no request of whoever holds",
        research=lambda: ResearchBuild(weak.NO_USE_CHECK),
        covers=("substituted reply keys",),
    ),
    Entry(
        id="seal keys of its own",
        cells=((PINNED, K), (PINNED, P), (UNPINNED, K), (UNPINNED, P)),
        name="hands out seal keys of its own",
        play=seal_keys_of_its_own,
        check="seal keys are signed by the MPC nodes' identities",
        says="seal key",
        research=lambda: ResearchBuild(weak.ANY_SEAL_KEY),
        covers=("substituted seal keys",),
    ),
    Entry(
        id="seal keys that were replaced",
        cells=((PINNED, P), (UNPINNED, P)),
        name="hands out seal keys that have leaked and been replaced since",
        play=replaced_seal_keys,
        check="the MPC nodes' votes name their present seal keys",
        says="seal key is one that it has replaced",
        research=lambda: ResearchBuild(weak.SEALED_UNSEEN),
        covers=("replaced seal keys",),
    ),
    Entry(
        id="a message of its own",
        cells=((PINNED, K), (UNPINNED, K)),
        name="puts another message into a user's request to sign",
        play=message_of_its_own,
        both_ways=True,
        check="the request is authenticated with keys that the gateway does not have",
        says="no request of whoever holds",
        covers=("substituted messages to sign",),
    ),
    Entry(
        id="a path of its own",
        cells=((PINNED, K), (UNPINNED, K)),
        name="puts another path into a user's request to sign",
        play=path_of_its_own,
        both_ways=True,
        check="the request is authenticated with keys that the gateway does not have",
        says="no request of whoever holds",
        research=lambda: ResearchBuild(weak.NO_USE_CHECK),
        covers=("substituted paths",),
    ),
    Entry(
        id="first messages of its own",
        cells=((PINNED, K), (UNPINNED, K)),
        name="puts another client's first messages into a user's request to sign",
        play=first_messages_of_its_own,
        both_ways=True,
        check="the request is authenticated with keys that the gateway does not have",
        says="no request of whoever holds",
        research=lambda: ResearchBuild(weak.NO_USE_CHECK),
        covers=("substituted first messages",),
    ),
    Entry(
        id="halves sealed by a stranger",
        cells=(("token", P), ("mpc node + token", P), ("gateway + mpc node", P)),
        name="seals halves of its own for the user, and has them opened",
        play=strangers_halves,
        check="the request is authenticated with keys of the epoch",
        says="no request of whoever holds",
        research=lambda: ResearchBuild(weak.NO_USE_CHECK),
        covers=("halves sealed by a stranger",),
    ),
    Entry(
        id="MPC nodes of its own at generate",
        cells=((PINNED, K), (PINNED, W)),
        name="plays both MPC nodes while the user generates a key",
        play=own_nodes_at_generate,
        check="the REST node knows the MPC nodes' identities",
        says="identity",
        research=lambda: ResearchBuild(weak.NO_IDENTITIES),
        covers=("substituted identities", "substituted first messages"),
    ),
    Entry(
        id="MPC nodes of its own at generate, identities not known",
        cells=((LATE, K), (LATE, W)),
        name="plays both MPC nodes while the user generates a key",
        play=own_nodes_at_generate,
        pinned=False,
    ),
    Entry(
        id="first messages of others at generate",
        cells=((PINNED, K), (PINNED, W)),
        name="plays both MPC nodes with their true identities shown",
        play=first_messages_at_generate,
        check="first messages are signed by the MPC nodes' identities",
        says="without a message from",
        research=lambda: ResearchBuild(weak.UNSIGNED_MAIL, weak.ANY_RECORD),
        covers=("substituted first messages",),
    ),
    Entry(
        id="MPC nodes of its own at recover",
        cells=((PINNED, K), (PINNED, W)),
        name="plays both MPC nodes while the user recovers",
        play=own_nodes_at_recover,
        check="the REST node knows the MPC nodes' identities",
        says="identity",
        research=lambda: ResearchBuild(weak.NO_IDENTITIES),
        covers=("substituted identities",),
    ),
    Entry(
        id="MPC nodes of its own at recover, identities not known",
        cells=((LATE, W),),
        name="plays both MPC nodes while the user recovers",
        play=own_nodes_at_recover,
        pinned=False,
    ),
    Entry(
        id="MPC nodes of its own later",
        cells=((UNPINNED, K),),
        name="plays both MPC nodes when the user signs",
        play=own_nodes_later,
        both_ways=True,
        check="the identities stand in the secret store",
        says="it names another operator",
        pinned=False,
        covers=("substituted identities",),
    ),
    Entry(
        id="a wallet of its own later",
        cells=((UNPINNED, W),),
        name="plays both MPC nodes when the user looks at its wallet",
        play=own_wallet_later,
        check=(
            "strings name the identities; the wallet, which has none, is compared with the stored "
            "key"
        ),
        says="than the user has stored",
        pinned=False,
        covers=("substituted identities",),
    ),
    Entry(
        id="another public key",
        cells=((PINNED, W), (UNPINNED, W)),
        name="answers with another public key wherever the user's is asked for",
        play=another_public_key,
        check="the key's record is signed by both MPC nodes",
        says="has not signed this record",
        research=lambda: ResearchBuild(weak.ANY_RECORD),
        covers=("substituted records",),
    ),
    Entry(
        id="another chain code",
        cells=((PINNED, X), (UNPINNED, X)),
        name="answers with another chain code where a child key is asked for",
        play=another_chain_code,
        check="the key's record, with its chain code, is signed by both MPC nodes",
        says="has not signed this record",
        research=lambda: ResearchBuild(weak.ANY_RECORD),
        covers=("substituted chain codes",),
    ),
    Entry(
        id="another user's record",
        cells=((PINNED, W), (UNPINNED, W)),
        name="answers with the key and record of another user",
        play=another_users_record,
        check="a record names its user",
        says="another user",
        research=lambda: ResearchBuild(weak.ANY_RECORD),
        covers=("substituted records: another user's",),
    ),
    Entry(
        id="an older epoch's record",
        cells=((PINNED, X), (UNPINNED, X)),
        name="answers with the record from before a recovery",
        play=older_epochs_record,
        check="MPC nodes open vaults of the epoch in force alone",
        says="no such key",
        covers=("substituted records: an older epoch's",),
    ),
    Entry(
        id="what passes the gateway",
        cells=((LATE, P), ("gateway + mpc node", P)),
        name="searches everything it is sent for something to try passwords on",
        play=outside.password_recorded,
        check="salt and confirmation never leave the node",
        says="in nothing that passes",
        covers=("guessing passwords from each position",),
    ),
    Entry(
        id="issued token and stolen strings",
        cells=(("gateway + database", K),),
        name="signs as the user, with a token of its own issue",
        play=outside.open_with_token,
    ),
    Entry(
        id="the stored public key",
        cells=(("gateway + database", W),),
        name="replaces the public key that the backend has stored",
        play=stored_public_key,
    ),
    Entry(
        id="issued token and the vault",
        cells=(("gateway + database", P),),
        name="opens the vault, and tries passwords on what was in it",
        play=outside.password_of_vault,
        covers=("guessing passwords from each position",),
    ),
)

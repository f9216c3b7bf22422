"""Inputs of every hash, MAC, context and signed statement: each one alone changes the output.

One row for each use of a tag. Where an input enters several hashes, the row calls the single hash,
though it is private: at a face, the others would hide that it is missing from one.
"""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from functools import partial
from types import SimpleNamespace as Stub
from typing import Any

import pytest

from mpcsim.crypto import SeededRng, Tag, commit, opens, schnorr
from mpcsim.crypto.groups import ED25519, SECP256K1
from mpcsim.crypto.groups.curves import curve
from mpcsim.crypto.kernels import DEFAULT
from mpcsim.crypto.mta import direction_sid, ot
from mpcsim.crypto.ot import all_but_one as ot_all_but_one
from mpcsim.crypto.ot import base as ot_base
from mpcsim.crypto.ot import extension as ot_extension
from mpcsim.crypto.rng import Drbg
from mpcsim.crypto.zero_share import zero_share
from mpcsim.ids import INSTITUTION, OPERATOR
from mpcsim.protocols import dkg, keys, reshare, results, run
from mpcsim.protocols.dkg.rounds import _digests, new_record
from mpcsim.protocols.dkg.steps import chain_code
from mpcsim.protocols.ecdsa import rounds as ecdsa_rounds
from mpcsim.protocols.engine import Envelope, Inbox, Party, echo
from mpcsim.protocols.engine.channel import pair_secret, seal
from mpcsim.protocols.engine.randomness import hedged_seed, round_rng
from mpcsim.protocols.engine.transcript import transcript_hash
from mpcsim.protocols.frost import rounds as frost_rounds
from mpcsim.protocols.frost.messages import Commitments
from mpcsim.protocols.frost.steps import prestart_hedge
from mpcsim.protocols.key_share import CHECKSUM_BYTES, KeyShare, _stored
from mpcsim.protocols.presign import rounds as presign_rounds
from mpcsim.protocols.presign.steps import derive_name
from mpcsim.protocols.presigned.steps import request, shift
from mpcsim.protocols.reshare.rounds import _confirmation
from mpcsim.service.gateway.activation.suspensions import Suspensions
from mpcsim.service.mpc_node import Event
from mpcsim.service.rpc import signed_messages, statements, suspension_notices
from mpcsim.service.rpc.grants import GrantIssuer, Keyring, LinkKeys, Scope
from mpcsim.service.rpc.session_keys import _call_digest
from mpcsim.service.rpc.statements import Statement, shares_hash
from mpcsim.service.rpc.wire import AbortedSession, PresignedRequest
from mpcsim.service.vault import (
    Argon2Cost,
    PresignatureHeader,
    SecretStore,
    VaultUse,
    answer_tag,
    halves,
    presignatures,
    sealing,
)
from tests.helpers.sessions import dkg_session, session

A, B = b"A" * 32, b"B" * 32
P, Q, R = (SECP256K1.base(SECP256K1.scalar(n)) for n in (2, 3, 5))
BYTES, ID = (A, B), (2, 3)
KEY_ID = ("c1" * 32, "c2" * 32)
PAIR = {OPERATOR: A, INSTITUTION: A}
PAIRS = (PAIR, {**PAIR, INSTITUTION: B})
XI = 128


@dataclass(frozen=True)
class Use:
    """One use of a tag: the function, and of each input a value and another one."""

    tag: Tag
    function: Callable[..., Any]
    inputs: Mapping[str, tuple[Any, Any]]

    def output(self, **changes: Any) -> Any:
        return self.function(**{name: one for name, (one, _) in self.inputs.items()} | changes)


def each(pair: Any, *names: str) -> dict[str, Any]:
    """Inputs that take the same pair of values."""
    return dict.fromkeys(names, pair)


BOOT = A[:16], B[:16]
CURVE = ("ed25519", "secp256k1")
VALUES = {
    **each(ID, *("count", "culprit", "depth", "finisher", "i", "index", "j", "k", "kind", "me")),
    **each(ID, *("node", "number", "party", "presignatures", "protocol", "prover", "receiver")),
    **each(ID, *("sender", "signer", "to", "who")),
    **each((P, Q), "A", "R", "Y", "pk", "r", "shared"),
    **each(CURVE, "curve", "curve_name", "group"),
    "boot": BOOT,
    "branch": (0, 1),
    "nodes": ([A[:16]], [B[:16]]),
    "path": ((0,), ()),
    "sealed": (True, False),
    "signers": ((1, 2), (1, 3)),
    "user_id": ("u", "v"),
    "verb": ("open", "sign"),
}
"""Of inputs by name; all others are bytes."""


def uses(tag: Tag, function: Callable[..., Any], names: str = "", **inputs: Any) -> Use:
    """The inputs of these names, with the values of ``VALUES``, and others."""
    return Use(tag, function, {name: VALUES.get(name, BYTES) for name in names.split()} | inputs)


def of_fields(tag: Tag, value: Any, method: str, *without: str, **others: Any) -> Use:
    """A method that takes nothing but the fields of a dataclass, all of them."""
    assert {f.name for f in fields(value)} - set(without) == others.keys()
    found = {name: (getattr(value, name), other) for name, other in others.items()}
    return Use(tag, lambda **now: getattr(replace(value, **now), method)(), found)


# --- hashes that stand within something ---------------------------------------------------------


def received(before, kind, sender, payload):
    party = Stub(_received=before, inbox=Inbox(payloads={kind: {sender: payload}}))
    Party._digest_inputs(party, Stub(needs=(kind,)))
    return party._received


def view_of(session_id=A, **more):
    return Stub(session_id=session_id, step=lambda _: nullcontext(), **more)


def echoed(session_id, kind, sender, message):
    inbox = Inbox(payloads={kind: {sender: message}})
    return list(echo(view_of(session_id, wire=None), inbox, kind).values())


def transcript(session_id, group, sender, message):
    view = view_of(session_id, wire=Stub(group=curve(group)))
    return transcript_hash(view, Inbox(payloads={int: {sender: message}}), int)


def sealed(pair_secret, salt, payload=A, **header):
    return seal(pair_secret, Envelope(**header, body=b""), payload, Stub(bytes=lambda _: salt))


def message_key(**inputs):
    """The stream that covers a message: the header beside the key does not change it."""
    return sealed(**inputs).body[16:-16]


def new_epoch(transcript):
    setup = dkg.setup("ed25519", 2, (1, 2))
    point = ED25519.base(ED25519.scalar(2))
    coefficients = {1: [point, point], 2: [point, point]}
    keep = Stub(transcript=transcript, coefficients=coefficients, chain_code=None)
    return new_record(view_of(setup=setup), keep).epoch


def zero_seed(pair_secret):
    """From a whole run: its name makes the secret of the pair."""
    s = dkg_session("ed25519", 2, 2)
    return results(run(s.parties(pair_secret.decode())))[1].peers[2].zero_seed


def frost_view(session_id, context, hiding, key):
    party = session("frost-2").party(1)
    party.start()
    mine = Commitments(context, *[party.inbox.own[Commitments][1].hiding] * 2)
    theirs = Commitments(context, hiding, mine.binding)
    inbox = Inbox(values={Commitments: {2: theirs}}, own={Commitments: (1, mine)})
    share = party.setup.share
    named = replace(share, record=replace(share.record, public_key=key))
    setup = replace(party.setup, share=named)
    view = replace(party._view, session_id=session_id, setup=setup)
    keep = replace(party.keep, context=context)
    return party.definition.rounds[1].run(view, keep, inbox).keep.seen


def hashed_rows(sid, u, rows):
    return ot_extension._hashed_rows(DEFAULT, sid, u, rows, XI)


def theta(name, fixed, sid, a):
    """From one of its two hashes; the other one is replaced."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ot, name, fixed)
        return ot.challenge(sid, a)


def proof_sent(sid, pads):
    zero = SECP256K1.scalar(0)
    return ot.send(DEFAULT, sid, pads, (zero, zero), zero)[1].mu


PADS = bytes(32 * 3 * XI), b"\1" * 32 * 3 * XI


def vault_keys(secret, **changes):
    store = SecretStore(
        **{name: one for name, (one, _) in STORE.items()} | changes, halves=HALVES, confirmation=A
    )
    return sealing._derive(bytearray(secret), store)


HALVES = dict.fromkeys(PAIR, bytes(144))
STORE = {
    "key_id": KEY_ID,
    "curve": CURVE,
    "salt": BOOT,
    "cost": (Argon2Cost(1, 8), Argon2Cost(2, 8)),
    "auth_keys": PAIRS,
    "identities": PAIRS,
}


def presignature_binding(user_id, **header):
    return presignatures._associated_data(PresignatureHeader(**header), user_id)


def granted(key, party, boot, **scope):
    issuer = GrantIssuer(party, Keyring(LinkKeys(key)), SeededRng("numbers"), lambda: 1.0)
    return issuer.issue(Scope(**scope), boot)[:32]


def notice(pair_secret, to, culprit, **at):
    return suspension_notices.seal_notice(
        pair_secret, AbortedSession(**at), to, culprit, SeededRng("nonce")
    )[24:]


OCCURRED = AbortedSession("u", A, A)
RECORD = statements.KeyRecord("u", "ed25519", A, A, None, 0, A, PAIR)
HEAD = statements.LogHead(1, A)
HELD = statements.HeldShare(A, A, 0, statements.SignedRecord(RECORD, {}, {}, {}))
BOOT = A[:16], B[:16]
SECP, ED = keys("secp256k1"), keys("ed25519")


def requested(finisher, path, pk, message_hash, rho, **presignature):
    return request(Stub(**presignature), finisher, path, pk, message_hash, rho)


USES = [
    uses(Tag.RNG, lambda seed: Drbg(seed).bytes(32), "seed"),
    uses(
        Tag.RNG_FORK,
        lambda root, number, given: round_rng(Drbg(root), Stub(number=number), given).bytes(32),
        "root number given",
    ),
    uses(Tag.COMMITMENT, lambda **of: commit(*of.values()), "sid party blinding one two"),
    uses(Tag.SCHNORR, schnorr._challenge, "sid prover Y R"),
    of_fields(
        Tag.CONTEXT,
        dkg.setup("secp256k1", 2, (1, 2, 3)),
        "context",
        curve_name="ed25519",
        threshold=3,
        parties=(1, 2),
        scheme="ot/128",
    ),
    of_fields(
        Tag.CONTEXT,
        reshare.setup(SECP[1].record, (1, 2), share=SECP[1]),
        *("context", "share"),
        record=replace(SECP[1].record, epoch=A),
        dealer_ids=(1, 3),
        receiver_ids=(1, 2),
        threshold=3,
        scheme="ot/128",
    ),
    uses(Tag.CONTEXT, ecdsa_rounds.context, "epoch signers message_hash path"),
    uses(Tag.CONTEXT, frost_rounds.context, "epoch signers message"),
    uses(Tag.CONTEXT, presign_rounds.context, "epoch signers count"),
    uses(Tag.SESSION, transcript, "session_id group sender message"),
    uses(
        Tag.HEDGE,
        lambda seed, number, **of: hedged_seed(seed, Stub(number=number), *of.values()),
        "seed number me sid one other",
    ),
    uses(Tag.SESSION_CALL, _call_digest, "body_hash", verb=("exchange", "activate")),
    uses(Tag.RECEIVED, received, "before sender payload", kind=(int, str)),
    uses(Tag.ECHO, echoed, "session_id sender message", kind=(int, str)),
    uses(Tag.EPOCH, new_epoch, "transcript"),
    uses(Tag.CHAIN_CODE, lambda who, part: chain_code({who: part, 7: A}), "who part"),
    uses(
        Tag.PAIR_SECRET, lambda **of: pair_secret(*of.values()), "transcript i j dh old", i=(1, 4)
    ),
    uses(
        Tag.CHANNEL_KEY,
        lambda **inputs: message_key(protocol=1, sealed=True, **inputs),
        "pair_secret session_id sender receiver kind",
        salt=BOOT,
    ),
    # All of the header stands beside the key, too: AES-GCM authenticates it.
    uses(
        Tag.CHANNEL_KEY,
        lambda **inputs: sealed(pair_secret=A, salt=A[:16], **inputs).body[-16:],
        "payload sealed session_id protocol kind sender receiver",
    ),
    uses(Tag.ZERO_SEED, zero_seed, pair_secret=(b"one", b"two")),
    uses(
        Tag.ZERO_SHARE,
        lambda group, seed, sid: zero_share(curve(group), 1, {2: seed}, sid),
        "group seed sid",
    ),
    uses(Tag.OT_BASE_POINT, ot_base._hash_point, "sid k branch r"),
    uses(Tag.OT_BASE_KEY, ot_base._key, "sid k branch A shared"),
    uses(Tag.OT_TREE, ot_all_but_one._children, "sid i depth nodes"),
    uses(Tag.OT_LEAF, ot_all_but_one._leaves, "sid i nodes"),
    uses(Tag.OT_LEAVES, ot_all_but_one._digest, "sid i", proofs=([A, A], [A, B])),
    uses(
        Tag.OT_EXT_PRG,
        lambda sid, leaves: ot_extension._stretched(DEFAULT, sid, leaves, 1, XI),
        "sid",
        leaves=(A * 64, B + A * 63),
    ),
    uses(Tag.OT_EXT_CHALLENGE, hashed_rows, "sid u rows"),
    uses(Tag.OT_EXT_OPENING, ot_extension._opening, "sid t"),
    uses(
        Tag.OT_EXT_OUTPUT,
        lambda sid, columns: ot_extension._pads(DEFAULT, sid, columns, 1),
        "sid columns",
    ),
    uses(Tag.MTA_GADGET, lambda sid: ot.gadget(DEFAULT, sid, 4), "sid"),
    uses(Tag.MTA_SESSION, direction_sid, "sid sender receiver"),
    uses(
        Tag.MTA_CORRECTIONS,
        partial(theta, "SECP256K1", Stub(hash_to_scalar=lambda _, sid, digest, i: Stub(n=digest))),
        "sid a",
    ),
    uses(Tag.MTA_THETA, partial(theta, "tagged_hash", lambda _, sid, a: a), "sid a"),
    uses(Tag.MTA_MU, proof_sent, "sid", pads=((PADS[0], PADS[1]), (PADS[1], PADS[1]))),
    uses(
        Tag.OFFER,
        lambda offer: _digests(view_of(wire=None), {2: Stub(encode=lambda _: offer)}),
        "offer",
    ),
    uses(
        Tag.CONFIRM,
        lambda transcript, record: _confirmation(transcript, Stub(to_bytes=lambda: record)),
        "transcript record",
    ),
    uses(Tag.PRESIGN, derive_name, "of k"),
    uses(Tag.PRESIGNED, requested, "finisher path pk message_hash rho epoch id R signers"),
    uses(
        Tag.RERANDOMISE,
        lambda request, who, rho: shift(request, {who: rho, 7: A}),
        "request who rho",
    ),
    uses(Tag.FROST_HEDGE, prestart_hedge, "session_id signers message", auth_keys=PAIRS),
    uses(
        Tag.FROST_VIEW,
        frost_view,
        "session_id context",
        **each(tuple(ED[i].record.public_shares[i] for i in (1, 2)), "hiding", "key"),
    ),
    uses(
        Tag.STORED,
        lambda curve_name, body: _stored(curve_name, body)[-CHECKSUM_BYTES:],
        "curve_name body",
    ),
    uses(Tag.VAULT_KEYS, vault_keys, secret=(A + A, A + B), **STORE),
    uses(Tag.VAULT_SHARE, sealing._associated_data, "curve user_id", key_id=KEY_ID),
    *(
        uses(tag, partial(halves._binding, whole=whole), "node user_id", key_id=KEY_ID)
        for tag, whole in ((Tag.VAULT_HALF, False), (Tag.VAULT_WHOLE, True))
    ),
    uses(
        Tag.VAULT_AUTH,
        lambda epoch, pair_secret: KeyShare.auth_key(
            Stub(record=Stub(epoch=epoch), peers={2: Stub(pair_secret=pair_secret)}), 2
        ),
        "epoch pair_secret",
    ),
    uses(Tag.VAULT_ANSWER, answer_tag, "pair_secret sender session_id mac"),
    uses(
        Tag.VAULT_PRESIGNATURE,
        presignature_binding,
        "user_id id key_id signer index",
        allowance=BOOT,
        boots=({2: BOOT[0]}, {2: BOOT[1]}),
    ),
    uses(
        Tag.VAULT_USE,
        lambda key, **use: VaultUse(**use).mac(key),
        "key boot verb user_id path key_id reply_key session_id message using signer presignatures",
        first=((A,), (B,)),
    ),
    uses(Tag.GRANT, granted, "key party boot verb user_id path key_id session_id message"),
    uses(
        Tag.GRANTED_MESSAGE,
        lambda message, path: Scope("sign", message=message, path=path).pack(),
        "message path",
    ),
    uses(Tag.MAIL, signed_messages._digest, "data"),
    uses(Tag.SUSPENSION, notice, "pair_secret to culprit user_id key_id session_id"),
    uses(
        Tag.SUSPENSION,
        lambda pair_secret, key_id: suspension_notices._key(
            pair_secret, replace(OCCURRED, key_id=key_id)
        ),
        "pair_secret key_id",
    ),
    uses(Tag.SUSPENSION_NOTICE, suspension_notices.notice_digest, "notice"),
    uses(
        Tag.HIDDEN_USE,
        lambda **of: PresignedRequest(2, A, bytes(16), 0, **of).hide().hidden,
        "path message_hash rho",
    ),
    uses(
        Tag.SUSPENSION_TAG,
        lambda key, **at: Suspensions.session_tag(Stub(_tag_key=key, _day=7), AbortedSession(**at)),
        "key user_id key_id session_id",
    ),
    of_fields(
        Tag.VOTE,
        statements.Vote(RECORD, HEAD, 0),
        "digest",
        record=replace(RECORD, number=1),
        head=statements.LogHead(2, A),
        seal_number=1,
    ),
    of_fields(
        Tag.ABORT, statements.Abort("u", "a", A), "digest", user_id="v", curve_name="b", epoch=B
    ),
    of_fields(
        Tag.SEAL_KEY, statements.SealKeyStatement(2, A, 0), "digest", party=3, seal_key=B, number=1
    ),
    of_fields(
        Tag.SUSPENDED, statements.SuspensionReceipt(A, A, 0), "digest", epoch=B, notice=B, opened=1
    ),
    of_fields(
        Tag.ATTESTED,
        statements.SuspensionAttestation(2, 1, ()),
        "digest",
        party=3,
        at_ms=2,
        suspended=(A,),
    ),
    of_fields(
        Tag.TESTIMONY,
        statements.ReconciliationStatement(2, BOOT[0], "u", "a", None, None, (), 0),
        "digest",
        party=3,
        nonce=BOOT[1],
        user_id="v",
        curve_name="b",
        restored=1,
        **each(HELD, "active", "voted"),
        suspended=(A,),
    ),
    uses(Tag.PUBLIC_SHARES, shares_hash, "record"),
    uses(
        Tag.EVENT,
        lambda before, **event: Event(hash=b"", **event).digest(before),
        "before number",
        **{name: ("x", "y") for name in Event.__annotations__ if name not in ("number", "hash")},
    ),
]


@pytest.mark.parametrize("use", USES, ids=lambda use: use.tag.name)
def test_each_input_alone_changes_the_output(use):
    expected = use.output()
    assert use.output() == expected
    for name, (_, other) in use.inputs.items():
        assert use.output(**{name: other}) != expected, name


@pytest.mark.parametrize("use", USES, ids=lambda use: use.tag.name)
def test_the_tag_alone_changes_the_output(use, monkeypatch):
    expected = use.output()
    monkeypatch.setattr(use.tag, "prefix", b"another")
    assert use.output() != expected


def test_every_tag_has_a_row():
    assert {use.tag for use in USES} == set(Tag)
    assert len({tag.prefix for tag in Tag}) == len(Tag)
    signed = {use.tag for use in USES} & {kind.TAG for kind in Statement.__subclasses__()}
    assert signed == {Tag.VOTE, Tag.ABORT, Tag.SEAL_KEY, Tag.SUSPENDED, Tag.ATTESTED, Tag.TESTIMONY}


def test_parts_of_a_key_record_are_in_its_votes():
    changes = {"user_id": "v", "curve_name": "secp256k1", "number": 1, "identities": PAIRS[1]}
    changes |= dict.fromkeys(("public_key", "epoch", "predecessor", "shares"), B)
    changes |= {"chain_code": A}
    assert changes.keys() == {f.name for f in fields(statements.KeyRecord)}
    votes = [
        statements.Vote(replace(RECORD, **{name: value}), HEAD, 0)
        for name, value in changes.items()
    ]
    digests = {
        vote.digest()
        for vote in (
            *votes,
            statements.Vote(RECORD, HEAD, 0),
            statements.Vote(RECORD, statements.LogHead(1, B), 0),
        )
    }
    assert len(digests) == len(changes) + 2


def test_an_opening_is_compared_with_all_of_the_commitment():
    made = commit(A, 1, B, A)
    assert opens(made, A, 1, B, A)
    for i in range(32):
        assert not opens(made[:i] + bytes([made[i] ^ 1]) + made[i + 1 :], A, 1, B, A)
    assert not opens(made[:16], A, 1, B, A)


def test_no_statement_is_chosen_after_its_proof():
    """Weak Fiat-Shamir: R and z first, then the Y that fits a challenge without it."""
    z = SECP256K1.scalar(7)
    e = schnorr._challenge(A, 1, Q, R)
    Y = e.inverse() * (SECP256K1.base(z) - R)
    assert not schnorr.verify(A, 1, Y, schnorr.Proof(R, z))


def test_the_weights_of_a_check_differ():
    """Equal ones would let errors of two columns cancel out."""
    weights = ot.challenge(A, B)
    assert len(set(weights)) == len(weights) == ot.WIDTH >= 2


def test_leaves_of_one_node_differ():
    leaves, proofs = ot_all_but_one._leaves(A, 1, [B[:16]] * 2)
    assert leaves[0] != leaves[1]
    assert proofs[0] != proofs[1]
    children = ot_all_but_one._children(A, 1, 1, [B[:16]] * 2)
    assert len(set(children)) == 4

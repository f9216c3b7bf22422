"""The vault: what it seals opens again, and nothing else does."""

import base64
import hashlib
import hmac
import warnings
from collections import Counter
from contextlib import suppress
from dataclasses import replace

import nacl.bindings
import pytest
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id
from hypothesis import given
from hypothesis import strategies as st
from nacl.public import Box, PrivateKey, PublicKey, SealedBox

from mpcsim.crypto.rng import SeededRng, SystemRng
from mpcsim.errors import UsageError
from mpcsim.ids import INSTITUTION, MPC_NODES, OPERATOR
from mpcsim.service import vault
from mpcsim.service.vault import halves, sealing
from tests.helpers.tiers import examples

CHEAP = vault.Argon2Cost(operations=1, memory_kib=8)
SECRETS = {j: vault.SealKey.generate(SeededRng(f"seal key of node {j}")) for j in MPC_NODES}
NODE_KEYS = {j: secret.public for j, secret in SECRETS.items()}
AUTH_KEYS = {j: SeededRng(f"authentication key of node {j}").bytes(32) for j in MPC_NODES}
IDENTITIES = {j: SeededRng(f"identity of node {j}").bytes(32) for j in MPC_NODES}
KEY_ID, OTHER_KEY_ID = "c1" * 32, "c2" * 32
USER, PASSWORD, SALT, SHARE = "user-7", "correct horse", bytes(range(16)), bytes(range(60))


def sealed(seed=None, *, password=PASSWORD, share=SHARE, **changes):
    """The two strings of a vault."""
    arguments = {"salt": SALT, "cost": CHEAP, "key_id": KEY_ID, "curve": "ed25519", "user_id": USER}
    arguments |= {"node_keys": NODE_KEYS, "auth_keys": AUTH_KEYS, "identities": IDENTITIES}
    arguments |= {"rng": SystemRng() if seed is None else SeededRng(seed), **changes}
    salt, cost = arguments.pop("salt"), arguments.pop("cost")
    key = arguments.pop("pw_key", None) or vault.password_key(password, salt, cost)
    keys = (arguments.pop(name) for name in ("node_keys", "auth_keys", "identities"))
    made_under = vault.DerivedKey(key, salt, cost)
    return vault.seal_share(share, password=made_under, nodes=vault.NodeKeys(*keys), **arguments)


def made(*seed, **changes):
    """The encrypted share, and the secret store as it is read."""
    encrypted, packed = sealed(*seed, **changes)
    return encrypted, vault.SecretStore.from_text(packed)


def rewrap(half, me, *, key_id=KEY_ID, user_id=USER, reply_key=NODE_KEYS[OPERATOR]):
    """The half as MPC node ``me`` passes it on."""
    names = {"key_id": key_id, "user_id": user_id}
    return vault.rewrap_half(
        half, SECRETS[me], me=me, reply_key=reply_key, rng=SystemRng(), **names
    )


def rewrapped(store, reply, **names):
    names = {"key_id": store.key_id, **names}
    return {j: rewrap(store.halves[j], j, reply_key=reply.public, **names) for j in MPC_NODES}


def unlocked(store, **changes):
    """The store opened by way of both MPC nodes."""
    reply = vault.ReplyKey(SystemRng())
    return reply.combine(rewrapped(store, reply, **changes), NODE_KEYS)


def unsealed(encrypted, store, key, user_id):
    return vault.open_share(vault.EncryptedShare.from_text(encrypted), store, key, user_id)


def raw(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def text(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def bit_flips(data):
    """One bit of each byte: another one from byte to byte."""
    for i in range(len(data)):
        yield data[:i] + bytes([data[i] ^ (1 << i % 8)]) + data[i + 1 :]


def in_transit():
    """A store, and its halves on their way to whoever has the reply key."""
    store, reply = made()[1], vault.ReplyKey(SystemRng())
    return store, reply, rewrapped(store, reply)


# --- what is sealed opens -----------------------------------------------------------------------


@given(
    share=st.binary(min_size=1, max_size=300),
    password=st.text(alphabet=st.characters(), max_size=30),
    user_id=st.text(max_size=20),
    key_id=st.binary(min_size=32, max_size=32).map(bytes.hex),
    curve=st.sampled_from(["ed25519", "secp256k1"]),
)
@examples(16)
def test_round_trip(share, password, user_id, key_id, curve):
    encrypted, packed = sealed(
        share=share, password=password, user_id=user_id, key_id=key_id, curve=curve
    )
    store = vault.SecretStore.from_text(packed)
    assert store.to_text() == packed
    assert len(raw(packed)) == 524 + len(curve)  # says nothing of user or password
    assert (store.key_id, store.curve, store.cost) == (key_id, curve, CHEAP)
    with unlocked(store, user_id=user_id) as key:
        assert unsealed(encrypted, store, key, user_id) == share
        assert vault.password_matches(store, key, password)
        assert not vault.password_matches(store, key, password + "x")


SPELLINGS = [
    *(("caf\u00e9", "cafe\u0301", True), ("cafe\u0301", "caf\u00e9", True)),
    *(("\u2126", "\u03a9", True), ("\ufb01", "fi", False)),  # canonically the same; compatible
    *(("caf\u00e9", "cafe", False), ("a\0b", "a", False), ("a ", "a", False)),
]


@pytest.mark.parametrize(("word", "twin", "same"), SPELLINGS)
def test_a_password_is_one_however_its_letters_are_spelt_and_otherwise_as_it_is(word, twin, same):
    store = vault.SecretStore.from_text(sealed(password=word)[1])
    assert vault.password_matches(store, unlocked(store), twin) == same


def test_all_randomness_is_injected():
    assert sealed("same") == sealed("same")
    assert vault.new_salt(SeededRng("same")) == vault.new_salt(SeededRng("same"))
    one, two = (vault.SecretStore.from_text(sealed(seed)[1]) for seed in ("one", "two"))
    assert one.confirmation != two.confirmation
    boxes = [half for store in (one, two) for half in store.halves.values()]
    assert len({box[:32] for box in boxes}) == 4, "an ephemeral key was used twice"
    shares = [raw(sealed(seed)[0]) for seed in ("one", "two")]
    assert shares[0][1:25] != shares[1][1:25], "a nonce was used twice"
    replies = [rewrap(one.halves[OPERATOR], OPERATOR) for _ in range(2)]
    assert replies[0][:24] != replies[1][:24], "a nonce was used twice"


# --- against implementations that are not ours --------------------------------------------------


def framed(tag, *parts):
    return b"".join(len(p).to_bytes(8, "big") + p for p in (tag.encode(), *parts))


def hkdf(secret, info):
    """RFC 5869, 64 bytes, no salt."""
    prk = hmac.digest(bytes(32), secret, "sha256")
    first = hmac.digest(prk, info + b"\1", "sha256")
    return first + hmac.digest(prk, first + info + b"\2", "sha256")


@pytest.mark.parametrize("cost", [CHEAP, vault.INTERACTIVE], ids=["cheap", "interactive"])
def test_recomputed_from_the_strings_alone(cost):
    salt = vault.new_salt(SystemRng())
    encrypted, packed = sealed(
        salt=salt, cost=cost, pw_key=vault.password_key(PASSWORD, salt, cost)
    )
    data = raw(packed)

    # version, key id, curve, salt, operations, memory, confirmation, two numbered halves,
    # two numbered authentication keys, two numbered identities
    key_id, name = data[1:33], data[37:44]
    assert (data[0], data[33:37], name) == (2, b"\0\0\0\7", b"ed25519")
    assert data[44:60] == salt
    operations, memory = data[60], int.from_bytes(data[61:65], "big")
    assert data[97:101] == b"\0\2\0\2"
    assert data[245:247] == b"\0\3"
    boxes = {OPERATOR: data[101:245], INSTITUTION: data[247:391]}
    known = [AUTH_KEYS[OPERATOR], AUTH_KEYS[INSTITUTION]]
    known += [IDENTITIES[OPERATOR], IDENTITIES[INSTITUTION]]
    pairs = [b"\0\2" + known[0] + b"\0\3" + known[1], b"\0\2" + known[2] + b"\0\3" + known[3]]
    assert data[391:] == b"\0\2" + pairs[0] + b"\0\2" + pairs[1]

    halves = []
    for node, box in boxes.items():
        opened = SealedBox(PrivateKey(SECRETS[node].secret)).decrypt(box)
        binding = framed("mpcsim/vault/half/v1", node.to_bytes(4, "big"), key_id, USER.encode())
        assert opened[:32] == hashlib.sha256(binding).digest()
        halves.append(opened[32:])
    secret = bytes(a ^ b for a, b in zip(*halves, strict=True))

    argon2 = Argon2id(salt=salt, length=32, iterations=operations, lanes=1, memory_cost=memory)
    assert secret[:32] == argon2.derive(PASSWORD.encode())

    costs = operations.to_bytes(4, "big"), memory.to_bytes(4, "big")
    info = framed("mpcsim/vault/keys/v1", b"\2", key_id, name, salt, *costs, *known)
    okm = hkdf(secret, hashlib.sha256(info).digest())
    assert okm[32:] == data[65:97]
    associated = framed("mpcsim/vault/share/v1", b"\1", key_id, name, USER.encode())
    share = raw(encrypted)
    assert share[0] == 1
    opened = nacl.bindings.crypto_aead_xchacha20poly1305_ietf_decrypt(
        share[25:], hashlib.sha256(associated).digest(), share[1:25], okm[:32]
    )
    assert opened == SHARE


# --- nothing else opens -------------------------------------------------------------------------


def test_every_changed_byte_of_the_share():
    encrypted, store = made()
    key = unlocked(store)
    for changed in bit_flips(raw(encrypted)):
        with pytest.raises(vault.VaultError) as caught:
            unsealed(text(changed), store, key, USER)
        assert caught.type is (vault.WrongKey if changed[0] == 1 else vault.MalformedVault)


def test_every_changed_byte_of_the_store(monkeypatch):
    encrypted, packed = sealed()
    intact = vault.SecretStore.from_text(packed)
    key = unlocked(intact)
    monkeypatch.setattr(
        sealing, "password_key", lambda *_, **__: pytest.fail("Argon2id on an altered store")
    )
    outcomes = Counter()
    for changed in bit_flips(raw(packed)):
        try:
            store = vault.SecretStore.from_text(text(changed))
        except vault.MalformedVault:
            outcomes["malformed"] += 1
            continue
        if store.halves != intact.halves:
            outcomes["half"] += 1
            with pytest.raises(vault.WrongKey, match="does not open"):
                unlocked(store)
        else:
            outcomes["public part"] += 1
            with pytest.raises(vault.WrongKey, match="altered"):
                unsealed(encrypted, store, key, USER)
            with pytest.raises(vault.WrongKey, match="altered"):
                vault.password_matches(store, key, PASSWORD)
    assert outcomes["half"] == 2 * 144
    # all of key id, salt, confirmation, authentication keys and identities, and whatever leaves
    # the cost in range
    assert outcomes["public part"] >= 32 + 16 + 32 + 4 * 32


def test_a_store_has_one_spelling():
    """Whatever is put in anywhere, such as a written count of 0: it is refused, or written again
    as it was read."""
    packed = raw(sealed()[1])
    for at in range(len(packed) + 1):
        for more in (b"\0", b"\1", bytes(2), bytes(4)):
            with suppress(vault.MalformedVault):
                twin = text(packed[:at] + more + packed[at:])
                assert vault.SecretStore.from_text(twin).to_text() == twin
    for twin in (b"\1" + packed[1:391], b"\1" + packed[1:391] + bytes(2)):
        with pytest.raises(vault.MalformedVault):
            vault.SecretStore.from_text(text(twin))


ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


SPOILT_TEXTS = [
    (lambda s: "", "empty"),
    (lambda s: "A", "base64"),
    (lambda s: s + "=", "base64"),
    (lambda s: s + "\n", "base64"),
    (lambda s: s[:8] + "\r\n" + s[8:], "base64"),
    (lambda s: s[:8] + "====" + s[8:], "base64"),
    (lambda s: s + "\u0100", "base64"),
    (lambda s: s[:8] + "+" + s[9:], "base64"),
    (lambda s: s[:8] + "/" + s[9:], "base64"),
    (lambda s: text(b"\0" + raw(s)[1:]), "version 0, expected [12]"),
    (lambda s: text(b"\4" + raw(s)[1:]), "version 4, expected [12]"),
    (lambda s: text(raw(s)[:20]), "too short|truncated"),
    (lambda s: "A" * 10**7, "more than"),
]


@pytest.mark.parametrize("which", [0, 1], ids=["encrypted_share", "secret_store"])
@pytest.mark.parametrize(("spoil", "reason"), SPOILT_TEXTS)
def test_malformed_text(which, spoil, reason):
    name, read = [
        ("encrypted_share", vault.EncryptedShare.from_text),
        ("secret_store", vault.SecretStore.from_text),
    ][which]
    with (
        warnings.catch_warnings(action="error"),
        pytest.raises(vault.MalformedVault, match=rf"^{name}: .*({reason})"),
    ):
        read(spoil(sealed("malformed")[which]))


@pytest.mark.parametrize(("length", "spellings"), [(58, 1), (59, 16), (60, 4)])
def test_one_spelling_only(length, spellings):
    """The last character may have bits that decode to nothing: they must be zero."""
    encrypted, _ = sealed(share=bytes(length))
    twins = [encrypted[:-1] + c for c in ALPHABET if raw(encrypted[:-1] + c) == raw(encrypted)]
    assert len(twins) == spellings
    assert vault.EncryptedShare.from_text(encrypted).to_text() == encrypted
    for twin in set(twins) - {encrypted}:
        with pytest.raises(vault.MalformedVault, match="base64"):
            vault.EncryptedShare.from_text(twin)


def test_shortest_encrypted_share():
    shortest, _ = sealed(share=b"x")
    assert vault.EncryptedShare.from_text(shortest).to_text() == shortest
    with pytest.raises(vault.MalformedVault, match="too short"):
        vault.EncryptedShare.from_text(text(raw(shortest)[:-1]))


def spoilt_stores():
    data = raw(sealed("spoilt")[1])
    yield data[:37] + b"ed25518" + data[44:], "unknown curve"
    yield data[:37] + b"\xff" * 7 + data[44:], "UTF-8"
    yield data[:60] + b"\0" + data[61:], "operations are outside 1..4"
    yield data[:60] + b"\5" + data[61:], "operations are outside 1..4"
    yield data[:61] + (7).to_bytes(4, "big") + data[65:], "memory is outside 8..262144 KiB"
    yield data[:61] + (2**18 + 1).to_bytes(4, "big") + data[65:], "memory is outside"
    yield data[:61] + (2**28).to_bytes(4, "big") + data[65:], "memory is outside"
    yield data[:61] + b"\xff" * 4 + data[65:], "memory is outside"
    yield data[:98] + b"\1" + data[99:245] + data[391:], "one half for each MPC node"
    yield data[:98] + b"\0" + data[391:], "one half for each MPC node"
    yield data[:99] + b"\0\1" + data[101:], "one half for each MPC node"
    yield data[:245] + b"\0\2" + data[247:], "not strictly increasing"
    yield b"\1" + data[1:], "version 1, expected 2 or 3"
    yield data[:391], "truncated"
    yield data[:391] + bytes(4), "one authentication key for each MPC node"
    yield data[:461], "truncated"
    yield data[:461] + bytes(2), "one identity for each MPC node"
    yield data[:462] + b"\1" + data[463:497], "one identity for each MPC node"
    yield data[:391] + bytes(2) + data[461:], "one authentication key for each MPC node"
    yield data[:392] + b"\1" + data[393:427] + data[461:], "one authentication key for each"
    yield data + data[461:], "neither halves nor a whole"
    yield data + b"\0", "neither halves nor a whole"
    yield data + b"\1", "not what version 2 has in it"
    yield data + b"\1\1", "trailing"
    yield b"\3" + data[1:], "not what version 3 has in it"


@pytest.mark.parametrize(("data", "reason"), list(spoilt_stores()), ids=lambda v: str(v)[:30])
def test_malformed_stores(data, reason):
    with pytest.raises(vault.MalformedVault, match=reason):
        vault.SecretStore.from_text(text(data))


def test_cost_bounds():
    for operations, memory in [(0, 8), (5, 8), (-1, 8), (1, 7), (1, 2**18 + 1), (1, 0)]:
        with pytest.raises(UsageError):
            vault.Argon2Cost(operations, memory)
    assert {vault.Argon2Cost(*least_or_most) for least_or_most in [(1, 8), (4, 2**18)]}
    assert (vault.INTERACTIVE.operations, vault.INTERACTIVE.memory_kib) == (2, 65536)


# --- halves -------------------------------------------------------------------------------------


def test_another_user():
    encrypted, store = made()
    with pytest.raises(vault.WrongKey, match="belongs to another key, user or node"):
        unlocked(store, user_id="user-8")
    with pytest.raises(vault.WrongKey, match="does not open with this secret_store"):
        unsealed(encrypted, store, unlocked(store), "user-8")


# --- transit ------------------------------------------------------------------------------------


def test_a_reply_opens_for_its_request_only():
    store = made()[1]
    reply, other = vault.ReplyKey(SystemRng()), vault.ReplyKey(SystemRng())
    wrapped = rewrapped(store, reply)
    assert reply.combine(wrapped, NODE_KEYS).secret == unlocked(store).secret
    with pytest.raises(vault.WrongKey, match="operator's half"):
        other.combine(wrapped, NODE_KEYS)


def test_a_reply_is_authenticated_by_its_node():
    _, reply, wrapped = in_transit()
    forger = Box(PrivateKey.generate(), PublicKey(reply.public))
    forged = bytes(forger.encrypt(bytes(64)))
    assert len(forged) == len(wrapped[INSTITUTION])
    for bad in [
        {**wrapped, INSTITUTION: forged},
        {**wrapped, INSTITUTION: wrapped[OPERATOR]},
        {OPERATOR: wrapped[INSTITUTION], INSTITUTION: wrapped[OPERATOR]},
        {OPERATOR: wrapped[OPERATOR]},
        {},
    ]:
        with pytest.raises(vault.WrongKey, match="did not arrive intact"):
            reply.combine(bad, NODE_KEYS)
    for changed in bit_flips(wrapped[INSTITUTION]):
        with pytest.raises(vault.WrongKey, match="institution's half"):
            reply.combine({**wrapped, INSTITUTION: changed}, NODE_KEYS)
    for length in range(len(wrapped[INSTITUTION])):
        with pytest.raises(vault.WrongKey, match="institution's half"):
            reply.combine({**wrapped, INSTITUTION: wrapped[INSTITUTION][:length]}, NODE_KEYS)


def test_a_reply_of_another_length():
    """From the right node, for the right request."""
    reply = vault.ReplyKey(SystemRng())
    for length in (0, 63, 65, 96):
        wrapped = {
            j: bytes(
                Box(PrivateKey(SECRETS[j].secret), PublicKey(reply.public)).encrypt(bytes(length))
            )
            for j in MPC_NODES
        }
        with pytest.raises(vault.WrongKey, match="did not arrive intact"):
            reply.combine(wrapped, NODE_KEYS)


def test_a_reply_needs_the_keys_of_both_nodes():
    _, reply, wrapped = in_transit()
    with pytest.raises(UsageError):
        reply.combine(wrapped, {OPERATOR: NODE_KEYS[OPERATOR]})
    for bad in (bytes(32), b"", bytes(31)):
        with pytest.raises(vault.WrongKey):
            reply.combine(wrapped, {**NODE_KEYS, OPERATOR: bad})


# Points of small order: every shared secret with them is zero.
LOW_ORDER = [bytes(32), b"\1" + bytes(31), bytes.fromhex("ec" + "ff" * 30 + "7f")]


@pytest.mark.parametrize("reply_key", [*LOW_ORDER, b"", bytes(31), bytes(33)])
def test_unusable_reply_keys(reply_key):
    store = made()[1]
    with pytest.raises(vault.MalformedVault, match="reply key"):
        rewrap(store.halves[OPERATOR], OPERATOR, reply_key=reply_key)


@pytest.mark.parametrize("length", [0, 1, 47, 48, 143, 145, 1024])
def test_halves_of_another_length(length):
    with pytest.raises(vault.MalformedVault, match=f"half of {length} bytes"):
        rewrap(bytes(length), OPERATOR)


# --- usage --------------------------------------------------------------------------------------


UNSEALABLE = [
    ({"share": b""}, "share of 0 bytes"),
    ({"share": bytes((1 << 16) + 1)}, "share of 65537 bytes"),
    ({"pw_key": bytes(31)}, "pw_key of 31 bytes"),
    ({"salt": bytes(15)}, "salt of 15 bytes"),
    ({"salt": bytes(17), "pw_key": bytes(32)}, "salt of 17 bytes"),
    ({"curve": "p256"}, "unknown curve"),
    ({"key_id": "C1" * 32}, "lower-case hex"),
    ({"key_id": "c1" * 31}, "lower-case hex"),
    ({"key_id": "c1 " * 32}, "lower-case hex"),
    ({"key_id": "zz" * 32}, "lower-case hex"),
    ({"node_keys": {OPERATOR: NODE_KEYS[OPERATOR]}}, "one seal key for each"),
    ({"node_keys": {**NODE_KEYS, 1: bytes(32)}}, "one seal key for each"),
    ({"node_keys": {**NODE_KEYS, OPERATOR: bytes(31)}}, "seal key of 31 bytes"),
    ({"auth_keys": {}}, "one authentication key for each"),
    ({"auth_keys": {**AUTH_KEYS, INSTITUTION: bytes(33)}}, "authentication key of 33 bytes"),
    ({"identities": {OPERATOR: bytes(32)}}, "one identity for each"),
    ({"identities": {**IDENTITIES, OPERATOR: b""}}, "identity of 0 bytes"),
    *(({"node_keys": {**NODE_KEYS, INSTITUTION: p}}, "low order") for p in LOW_ORDER),
]


@pytest.mark.parametrize(("changes", "reason"), UNSEALABLE, ids=lambda v: str(v)[:40])
def test_sealing_refuses(changes, reason):
    with pytest.raises(UsageError, match=reason):
        sealed(**changes)


@pytest.mark.parametrize("length", [1, 1 << 16])
def test_the_shortest_and_the_longest_share_are_sealed(length):
    encrypted, store = made(share=bytes(length))
    assert unsealed(encrypted, store, unlocked(store), USER) == bytes(length)


def test_reprs_and_errors_show_no_secret():
    encrypted, store = made()
    reply = vault.ReplyKey(SystemRng())
    assert repr(unlocked(store)) == "VaultKey(<redacted>)"
    assert repr(store) == f"SecretStore<ed25519, key {KEY_ID}, sealed>"  # no authentication keys
    assert repr(reply) == f"ReplyKey(public={reply.public.hex()})"
    with pytest.raises(vault.WrongKey) as caught:
        unsealed(encrypted, store, vault.VaultKey(bytearray(64)), USER)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert str(caught.value) == "secret_store was altered, or its halves do not belong together"


# --- wiping -------------------------------------------------------------------------------------


def test_a_key_is_wiped_at_the_end_of_its_block():
    encrypted, store = made()
    with unlocked(store) as key:
        secret = key.secret
        assert any(secret)
    assert secret == bytes(64)
    with pytest.raises(vault.WrongKey):
        unsealed(encrypted, store, key, USER)
    with pytest.raises(vault.WrongKey):
        vault.password_matches(store, key, PASSWORD)
    with pytest.raises(LookupError), unlocked(store) as key:
        raise LookupError
    assert key.secret == bytes(64)


def recorded(monkeypatch, module, name):
    """The bytearrays that a function takes first or returns, from now on."""
    seen = []
    original = getattr(module, name)

    def spy(first, *rest, **named):
        if isinstance(first, bytearray):
            seen.append(first)
        result = original(first, *rest, **named)
        if isinstance(result, bytearray):
            seen.append(result)
        return result

    monkeypatch.setattr(module, name, spy)
    return seen


def test_a_candidate_is_wiped(monkeypatch):
    store = made()[1]
    key = unlocked(store)
    before = bytes(key.secret)
    candidates = recorded(monkeypatch, sealing, "password_key")
    assert vault.password_matches(store, key, PASSWORD)
    assert not vault.password_matches(store, key, "wrong")
    assert candidates == [bytes(32)] * 2
    assert key.secret == before


def test_sealing_wipes_its_copy_and_leaves_the_callers(monkeypatch):
    secrets = recorded(monkeypatch, sealing, "seal_halves")
    pw_key = vault.password_key(PASSWORD, SALT, CHEAP)
    sealed(pw_key=pw_key)
    with pytest.raises(UsageError):
        sealed(pw_key=pw_key, key_id="no hex")
    assert secrets == [bytes(64)] * 2
    assert pw_key == vault.password_key(PASSWORD, SALT, CHEAP)


def test_sealing_makes_no_copy_of_the_passwords_key_that_stays(monkeypatch):
    """A sum would: its first term is a copy, which nobody overwrites."""
    made = []
    monkeypatch.setattr(
        sealing, "bytearray", lambda size: made.append(size) or bytearray(size), raising=False
    )
    sealed(pw_key=bytearray(32))
    assert made == [64]


def test_a_failed_combine_is_wiped(monkeypatch):
    _, reply, wrapped = in_transit()
    targets = recorded(monkeypatch, halves, "_xor")
    with pytest.raises(vault.WrongKey):
        reply.combine({OPERATOR: wrapped[OPERATOR]}, NODE_KEYS)
    assert targets == [bytes(64)]


def test_a_reply_key_prepares_for_the_nodes_it_is_told_of():
    store = made()[1]
    reply = vault.ReplyKey(SystemRng())
    strangers = {j: vault.SealKey.generate(SystemRng()).public for j in MPC_NODES}
    reply.prepare(strangers)  # the nodes' keys have changed since, perhaps
    reply.prepare(NODE_KEYS)
    wrapped = rewrapped(store, reply)
    with pytest.raises(vault.WrongKey):
        reply.combine(wrapped, strangers)
    assert reply.combine(wrapped, NODE_KEYS).secret == unlocked(store).secret


def test_malformed_presignatures():
    header = vault.PresignatureHeader(bytes(32), bytes(32), 2, {}, bytes(16), 0)
    good = vault.seal_presignature(b"part", header, bytes(32), USER, SystemRng())
    for each in (good, replace(good, ciphertext=bytes(16)), replace(good, ciphertext=bytes(1024))):
        assert vault.SealedPresignature.from_text(each.to_text()) == each
    assert repr(good) == f"SealedPresignature<{bytes(32).hex()}, sealed>"
    data = raw(good.to_text())
    for bad, reason in (
        (data[:-1], "presignature: "),
        (data + b"x", "presignature: 1 trailing"),
        (b"\2" + data[1:], "presignature: version 2, expected 1"),
        (b"", "presignature: empty"),
        (bytes(4096), "presignature: more than 2048 bytes"),
        (raw(replace(good, ciphertext=bytes(15)).to_text()), "presignature: too short"),
    ):
        with pytest.raises(vault.MalformedVault, match=reason):
            vault.SealedPresignature.from_text(text(bad))
    assert vault.open_presignature(good, bytes(32), USER) == b"part"
    for changed in (
        replace(good, nonce=bytes(24)),
        replace(good, header=replace(header, index=1)),
        replace(good, ciphertext=good.ciphertext[:-1]),
    ):
        with pytest.raises(vault.WrongKey):
            vault.open_presignature(changed, bytes(32), USER)

"""Tokens: what another JOSE implementation says, every way to forge one, and time."""

import base64
import hashlib
import hmac
import json

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jwk as jose_jwk
from joserfc import jwt as jose_jwt

from mpcsim.crypto.rng import SeededRng
from mpcsim.errors import InvalidEncoding, UsageError
from mpcsim.service.rpc import tokens
from tests.helpers.gateway import Clock
from tests.helpers.tiers import examples

NOW = 1_800_000_000
KEY_ID = "5a" * 32
PEM = tokens.make_signing_key(SeededRng("tokens"))
OTHER_PEM = tokens.make_signing_key(SeededRng("other tokens"))


ISSUER = tokens.TokenIssuer(PEM, Clock(NOW))
OTHER = tokens.TokenIssuer(OTHER_PEM, Clock(NOW))
(JWK,) = ISSUER.jwks()["keys"]
KID = JWK["kid"]
PAYLOAD = {
    "sub": "u1",
    "username": "alice",
    "use": "access",
    "aud": list(tokens.ACCESS_AUDIENCE),
    "iat": NOW,
    "exp": NOW + 60,
}
TOKEN = ISSUER.issue_access("u1", "alice", 60)
UNNAMED = jwt.encode(PAYLOAD, PEM, "ES256")


def verifier(audience="gateway", clock=None, jwks=None):
    return tokens.TokenVerifier(jwks or ISSUER.jwks(), audience, clock or Clock(NOW))


def refused(token, audience="gateway", code=756, **options):
    with pytest.raises(tokens.TokenError) as caught:
        verifier(audience, **options).verify(token)
    assert caught.value.code == code
    if token and len(token) > 8:
        assert token not in str(caught.value)
    return caught.value


def signed(payload=None, *, pem=PEM, **header):
    """A token as the issuer signs it, with anything in it."""
    return jwt.encode(PAYLOAD if payload is None else payload, pem, "ES256", {"kid": KID, **header})


def b64(data):
    if not isinstance(data, bytes):
        data = json.dumps(data).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def assembled(header, payload=None, sign=lambda data: b""):
    """A token put together by hand."""
    text = f"{b64(header)}.{b64(PAYLOAD if payload is None else payload)}"
    return f"{text}.{b64(sign(text.encode()))}"


# --- good tokens --------------------------------------------------------------------------------


KEY_TOKEN = ISSUER.issue_key("u1", "alice", KEY_ID, 60)


@pytest.mark.parametrize("audience", ["gateway", "node", "operator", "institution", "", "gateways"])
def test_who_takes_which_token(audience):
    """Gateway and node an access token, the gateway alone a key token."""
    for token, kind, key_id, takers in (
        (TOKEN, "access", None, ("gateway", "node")),
        (KEY_TOKEN, "key", KEY_ID, ("gateway",)),
    ):
        if audience in takers:
            claims = verifier(audience).verify(token)
            assert claims == tokens.Claims("u1", "alice", kind, key_id, NOW + 60)
        else:
            refused(token, audience)


def test_a_key_token_is_refused_where_access_is_asked_for():
    claims = verifier("gateway").verify(TOKEN)
    assert claims.require_access() == claims
    with pytest.raises(tokens.TokenError, match="JWT_INVALID"):
        verifier("gateway").verify(KEY_TOKEN).require_access()


BOTH = {"keys": [*ISSUER.jwks()["keys"], *OTHER.jwks()["keys"]]}


# --- another implementation ---------------------------------------------------------------------


def test_another_implementation_takes_our_tokens_and_we_take_its():
    keys = jose_jwk.KeySet.import_key_set(json.loads(json.dumps(ISSUER.jwks())))
    token = jose_jwt.decode(TOKEN, keys, algorithms=["ES256"])
    assert token.header == {"alg": "ES256", "kid": KID, "typ": "JWT"}
    assert token.claims == PAYLOAD
    key = jose_jwk.ECKey.import_key(PEM)
    assert key.thumbprint() == KID != OTHER.jwks()["keys"][0]["kid"]
    token = jose_jwt.encode({"alg": "ES256", "kid": KID}, PAYLOAD, key)
    assert verifier().verify(token) == tokens.Claims("u1", "alice", "access", None, NOW + 60)


def test_the_key_set_is_public_only():
    assert set(JWK) == {"kty", "crv", "x", "y", "kid", "use", "alg"}
    assert (JWK["kty"], JWK["crv"], JWK["use"], JWK["alg"]) == ("EC", "P-256", "sig", "ES256")


# --- forgeries ----------------------------------------------------------------------------------


@pytest.mark.parametrize("alg", ["none", "None", "NONE", "nOnE", "", None, 0, "ES256K"])
@pytest.mark.parametrize("signature", [b"", bytes(64), b"\x01" * 64])
def test_unsigned_tokens_are_refused(alg, signature):
    refused(assembled({"alg": alg, "typ": "JWT", "kid": KID}, sign=lambda _: signature))


def public_forms():
    """Everything public that an HMAC key could be made of."""
    public = serialization.load_pem_private_key(PEM.encode(), None).public_key()
    formats = serialization.PublicFormat
    pem = public.public_bytes(serialization.Encoding.PEM, formats.SubjectPublicKeyInfo)
    der = public.public_bytes(serialization.Encoding.DER, formats.SubjectPublicKeyInfo)
    point = public.public_bytes(serialization.Encoding.X962, formats.UncompressedPoint)
    return [pem, pem.strip(), der, point, json.dumps(JWK).encode(), JWK["x"].encode(), b""]


@pytest.mark.parametrize("secret", public_forms())
@pytest.mark.parametrize("alg", ["HS256", "ES256"])
def test_a_mac_under_the_public_key_is_refused(secret, alg):
    def sign(data):
        return hmac.digest(secret, data, hashlib.sha256)

    refused(assembled({"alg": alg, "typ": "JWT", "kid": KID}, sign=sign))


@pytest.fixture(scope="module")
def rsa_key():
    return rsa.generate_private_key(65537, 2048)


@pytest.mark.parametrize("alg", ["RS256", "PS256", "ES384", "ES512"])
def test_tokens_of_other_algorithms_are_refused(rsa_key, alg):
    curve = {"ES384": ec.SECP384R1, "ES512": ec.SECP521R1}.get(alg)
    key = ec.generate_private_key(curve()) if curve else rsa_key
    refused(jwt.encode(PAYLOAD, key, alg, {"kid": KID}))


ANOTHER_KEYS = [
    {},  # another key of the same name
    {"jwk": OTHER.jwks()["keys"][0]},  # a key that travels in the token
    {"jku": "https://example.com/jwks.json", "x5u": "https://example.com"},
]


@pytest.mark.parametrize("header", ANOTHER_KEYS)
def test_what_another_key_has_signed_is_refused(header):
    refused(signed(pem=OTHER_PEM, **header))


def test_a_name_or_an_extension_that_is_not_this_tokens_is_refused():
    refused(signed(kid=OTHER.jwks()["keys"][0]["kid"]), jwks=BOTH)
    refused(signed(crit=["exp"], exp=1))


@pytest.mark.parametrize("kid", ["", "unknown", KID + "\x00", KID.swapcase(), "../key", "' OR 1=1"])
def test_an_unknown_key_name_says_so(kid):
    assert isinstance(refused(signed(kid=kid)), tokens.UnknownSigningKey)


@pytest.mark.parametrize("kid", [None, 0, [KID], {"kid": KID}, True])
def test_a_token_that_names_no_key_is_refused(kid):
    for token in (assembled({"alg": "ES256", "typ": "JWT", "kid": kid}), UNNAMED):
        assert not isinstance(refused(token), tokens.UnknownSigningKey)


@examples(50)
@given(data=st.data())
def test_any_altered_character_is_refused(data):
    i = data.draw(st.integers(0, len(TOKEN) - 1))
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=~"
    new = data.draw(st.sampled_from(alphabet).filter(lambda c: c != TOKEN[i]))
    refused(TOKEN[:i] + new + TOKEN[i + 1 :])


NO_TOKENS = [
    *(".", "..", "...", "a.b.c", "\ud800.\ud800.\ud800", "\x00" * 10),
    *(
        b64(header) + ".e30.AAAA"
        for header in (b"[" * 2900, b'{"a":' * 500, b"\xff\xfe", [], "text")
    ),
    assembled({"alg": "ES256", "kid": KID}, b"not json", lambda _: bytes(64)),
    *(TOKEN + ".", "." + TOKEN, TOKEN + "." + TOKEN, TOKEN + "\n", " " + TOKEN),
]


@pytest.mark.parametrize("token", NO_TOKENS)
def test_what_is_no_token_is_refused(token):
    refused(token)


def test_a_huge_token_is_refused_unread():
    def unread(*_):
        raise AssertionError("the token was read")

    checking = verifier()
    checking._check_signature = checking._verify_signature = unread
    for token in ("a" * (tokens.MAX_TOKEN_CHARS + 1), TOKEN + "A" * 10_000_000):
        with pytest.raises(tokens.TokenError, match="longer than any"):
            checking.verify(token)
    with pytest.raises(AssertionError, match="was read"):
        checking.verify("a" * tokens.MAX_TOKEN_CHARS)


SAID_IN_401 = [
    (None, 0, 755, "JWT_MISSING"),
    ("", 0, 755, "JWT_MISSING"),
    ("x", 0, 756, "JWT_INVALID"),
    (TOKEN, 60, 757, "JWT_EXPIRED"),
    (TOKEN[:-4] + "AAAA", 999, 756, "JWT_INVALID"),  # forged rather than expired
]


@pytest.mark.parametrize(("token", "late_s", "code", "message"), SAID_IN_401)
def test_what_goes_out_in_the_401(token, late_s, code, message):
    error = refused(token, clock=Clock(NOW + late_s), code=code)
    assert error.detail() == {"code": code, "message": message}
    assert error.message == message


# --- claims of tokens that are signed well ------------------------------------------------------


@pytest.mark.parametrize("claim", ["sub", "username", "use", "aud", "exp"])
def test_a_missing_claim_is_refused(claim):
    refused(signed({name: value for name, value in PAYLOAD.items() if name != claim}))


BAD_CLAIMS = {
    "sub": ["", 7, None],
    "username": ["", ["alice"]],
    "use": ["admin", None, "key"],
    "key_id": [KEY_ID],  # of an access token
    "aud": ["node", "gateways", [], None, {"gateway": True}, [["gateway"]]],
    "exp": [str(NOW + 60), NOW + 60.5, float("nan"), float("inf"), True, None, [NOW + 60]],
    "nbf": ["0", float("nan"), NOW + 1],
}
BAD_KEY_IDS = [KEY_ID.upper(), KEY_ID[:-1], KEY_ID + "\n", 5]


BAD_CHANGES = [
    *({claim: value} for claim, values in BAD_CLAIMS.items() for value in values),
    *({"use": "key", "key_id": key_id} for key_id in BAD_KEY_IDS),
]


@pytest.mark.parametrize("change", BAD_CHANGES)
def test_a_bad_claim_is_refused(change):
    refused(signed({**PAYLOAD, **change}))
    verifier().verify(signed({**PAYLOAD, "nbf": NOW}))


# --- time ---------------------------------------------------------------------------------------


def test_a_token_holds_up_to_its_last_second():
    assert verifier(clock=Clock(NOW + 59.999)).verify(TOKEN).expires_at == NOW + 60
    for late in (60, 60.001, 61, 1e9):
        refused(TOKEN, clock=Clock(NOW + late), code=757)


def test_a_remembered_token_still_expires_and_still_begins():
    clock = Clock(NOW)
    checking = verifier(clock=clock)
    checking.verify(TOKEN)
    clock.now = NOW + 60
    for _ in range(2):
        with pytest.raises(tokens.TokenError, match="JWT_EXPIRED"):
            checking.verify(TOKEN)
    clock.now = NOW
    assert checking.verify(TOKEN).user_id == "u1"


@pytest.mark.parametrize("lifetime_s", [0, -1, float("nan"), float("inf")])
def test_a_lifetime_that_is_none_is_refused(lifetime_s):
    with pytest.raises(UsageError, match="lifetime_s"):
        ISSUER.issue_access("u1", "alice", lifetime_s)


# --- remembering --------------------------------------------------------------------------------


@pytest.fixture
def checks(monkeypatch):
    """Every token whose signature was checked."""
    seen = []
    decode = jwt.decode

    def counting(token, *args, **options):
        seen.append(token)
        return decode(token, *args, **options)

    monkeypatch.setattr(tokens.jwt, "decode", counting)
    return seen


def test_a_signature_is_checked_once_and_a_failure_every_time(checks):
    checking, forged = verifier(), signed(pem=OTHER_PEM)
    for _ in range(3):
        checking.verify(TOKEN)
        with pytest.raises(tokens.TokenError):
            checking.verify(forged)
    assert checks == [TOKEN, forged, forged, forged]


def test_only_so_many_tokens_are_remembered(checks, monkeypatch):
    monkeypatch.setattr(tokens, "REMEMBERED_TOKENS", 4)
    checking = verifier()
    made = [ISSUER.issue_access(f"u{i}", "alice", 60) for i in range(6)]
    for token in made:
        checking.verify(token)
    assert [checking.verify(token).user_id for token in reversed(made)] == [
        f"u{i}" for i in reversed(range(6))
    ]
    assert len(checks) == 8


# --- keys and key sets --------------------------------------------------------------------------


def pem_of(key, password=None):
    protection = serialization.NoEncryption()
    if password:
        protection = serialization.BestAvailableEncryption(password)
    formats = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8)
    return key.private_bytes(*formats, protection).decode()


def test_what_is_no_signing_key_is_refused_without_showing_it(rsa_key):
    bad = [
        *("", "secret words", PEM[:-40], pem_of(rsa_key)),
        pem_of(ec.generate_private_key(ec.SECP256K1())),
        pem_of(ec.generate_private_key(ec.SECP256R1()), b"password"),
    ]
    for pem in bad:
        with pytest.raises(UsageError, match="signing key") as caught:
            tokens.TokenIssuer(pem)
        assert "secret" not in str(caught.value)
        assert caught.value.__cause__ is None


def koblitz_jwk():
    """A key of another curve that claims to be for ES256."""
    public = ec.generate_private_key(ec.SECP256K1()).public_key()
    return {**jwt.algorithms.ECAlgorithm.to_jwk(public, True), "kid": KID, "alg": "ES256"}


NO_KEY_SETS = [
    *({}, [], [1], "text"),
    *({"keys": keys} for keys in ([], None, "text", [1, None, "x"], [{}], [koblitz_jwk()])),
    {"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": KID, "alg": "HS256"}]},
    {"keys": [{name: value for name, value in JWK.items() if name != "kid"}]},
    *({"keys": [{**JWK, "x": x}]} for x in (JWK["x"][:-4], 5)),
    *({"keys": [{**JWK, "crv": "P-384"}]}, {"keys": [{**JWK, "y": JWK["x"]}]}),
    *({"keys": [{**JWK, "alg": alg}]} for alg in ("ES384", ["ES256"])),
    *({"keys": [{**JWK, "kid": 5}]}, {"keys": [{**JWK, "kty": ["EC"]}]}),
]


@pytest.mark.parametrize("jwks", NO_KEY_SETS)
def test_what_is_no_key_set_is_refused(jwks):
    with pytest.raises(InvalidEncoding, match="Key Set"):
        tokens.TokenVerifier(jwks, "gateway")


def test_other_keys_in_the_set_verify_nothing(rsa_key):
    secret = b"a secret of thirty-two bytes, ok"
    rsa_jwk = jwt.algorithms.RSAAlgorithm.to_jwk(rsa_key.public_key(), as_dict=True)
    others = [
        {"kty": "oct", "k": b64(secret), "kid": "mac", "alg": "HS256"},
        {"kty": "oct", "k": b64(secret), "kid": "mac as ec", "alg": "ES256"},
        {**rsa_jwk, "kid": "rsa", "alg": "RS256"},
    ]
    jwks = {"keys": [*others, *ISSUER.jwks()["keys"]]}
    assert verifier(jwks=jwks).verify(TOKEN).user_id == "u1"
    for kid in ("mac", "mac as ec"):
        refused(jwt.encode(PAYLOAD, secret, "HS256", {"kid": kid}), jwks=jwks)
    refused(jwt.encode(PAYLOAD, rsa_key, "RS256", {"kid": "rsa"}), jwks=jwks)


@pytest.mark.parametrize("key_id", ["", KEY_ID[:-1], KEY_ID + "a", KEY_ID.upper(), KEY_ID + "\n"])
def test_a_key_token_needs_a_key_id(key_id):
    with pytest.raises(UsageError, match="key_id"):
        ISSUER.issue_key("u1", "alice", key_id, 60)


# --- the Authorization header -------------------------------------------------------------------


@pytest.mark.parametrize("header", ["Bearer abc.def-_", "bearer abc.def-_", "BEARER   abc.def-_ "])
def test_bearer(header):
    assert tokens.bearer(header) == "abc.def-_"


NO_BEARERS = [
    *((header, 755) for header in (None, "", "  ", "Bearer", "Bearer  ")),
    *((header, 756) for header in ("Basic YTpi", "abc.def", "Bearerabc", "Bearer a b")),
    *((header, 756) for header in ("Bearer a,b", "Bearer \u00e4", "Token Bearer a")),
]


@pytest.mark.parametrize(("header", "code"), NO_BEARERS)
def test_not_a_bearer(header, code):
    with pytest.raises(
        tokens.TokenError, match="Bearer <token>" if code == 756 else "MISSING"
    ) as caught:
        tokens.bearer(header)
    assert caught.value.code == code


def test_genuine_looks_at_the_signature_and_not_at_the_time():
    old = verifier("gateway", lambda: NOW + 1e6)
    assert old.verify_ignoring_times(TOKEN).username == "alice"
    with pytest.raises(tokens.TokenError):
        old.verify_ignoring_times(TOKEN[:-4])
    with pytest.raises(tokens.TokenError, match="longer"):
        old.verify_ignoring_times("x" * (tokens.MAX_TOKEN_CHARS + 1))


def test_a_key_that_ends_verifies_nothing_from_then_on():
    clock = Clock(NOW)
    jwks = ISSUER.jwks()
    jwks["keys"][0]["exp"] = int(clock.now) + 100
    verifying = verifier(jwks=jwks, clock=clock)
    short, long = (ISSUER.issue_access("u1", "alice", lifetime_s) for lifetime_s in (50, 5000))
    assert verifying.verify(short).expires_at < verifying.verify(long).expires_at
    assert verifying.verify(long).expires_at == jwks["keys"][0]["exp"]
    clock.now += 99
    verifying.verify(long)
    clock.now += 1
    with pytest.raises(tokens.TokenError, match="JWT_EXPIRED"):
        verifying.verify(long)
    for end in ("soon", True, 1.5):
        jwks["keys"][0]["exp"] = end
        with pytest.raises(InvalidEncoding):
            verifier(jwks=jwks, clock=clock)

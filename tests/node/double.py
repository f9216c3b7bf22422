"""A wallet and a gateway client that answer from memory: for tests of the layer above them.

They know three kinds of user by name: ``alice`` has a secp256k1 key, ``bob`` has none, and for
``mallory`` the next error in ``errors`` is raised.
"""

import asyncio
from contextlib import contextmanager

from mpcsim.service.error_codes import Code
from mpcsim.service.rpc.tokens import TokenIssuer, make_signing_key
from node import models
from node.app import create_app
from node.errors import Conflict, NotFound
from tests.node.harness import SETTINGS, running

CREATED = "2026-11-21T09:30:00.123456+00:00"
PASSWORD = "correct horse"
RECORD = {
    "key_id": models.EXAMPLE_KEY_ID,
    "encrypted_share": models.EXAMPLE_SHARE,
    "secret_store": models.EXAMPLE_STORE,
    "curve": "secp256k1",
}
NEW_RECORD = RECORD | {"public_key": models.EXAMPLE_PUBLIC_KEY}
NEW = {"curve": "ed25519", "password": PASSWORD}
STRINGS = {name: RECORD[name] for name in ("encrypted_share", "secret_store")}
BODIES = {
    "/v3/wallet/generate": NEW,
    "/v3/wallet/recover": {**NEW, "curve": "secp256k1"},
    "/v3/wallet/sign": {**RECORD, "message": "ab" * 32},
    "/v3/wallet/presign": {**RECORD, "count": 1},
    "/v3/wallet/publickey": {**RECORD, "password": PASSWORD},
    "/v3/wallet/validate/password": {"password": PASSWORD, "secret_store": models.EXAMPLE_STORE},
    "/v3/wallet/validate/share": STRINGS,
}
"""Of every endpoint, such as ``WalletDouble`` takes from ``alice``."""


class GatewayDouble:
    """Publishes the keys of one issuer of tokens."""

    def __init__(self):
        self.issuer = TokenIssuer(make_signing_key())
        self.error = None
        self.asked = 0
        self.closed = False

    def token(self, username="alice", lifetime_s=600):
        return self.issuer.issue_access(f"id-of-{username}", username, lifetime_s)

    async def jwks(self):
        self.asked += 1
        await asyncio.sleep(0.01)
        if self.error is not None:
            raise self.error
        return self.issuer.jwks()

    async def close(self):
        self.closed = True


class WalletDouble:
    """Checks nothing but who is calling and which key is meant."""

    def __init__(self):
        self.errors = []
        self.signed = []
        self.paths = []
        """Asked about."""
        self.closed = False

    async def close(self):
        self.closed = True

    async def _enter(self, caller, key_id=None):
        """Whether the caller has a key: this one, if it is named."""
        if caller.claims.username == "mallory":
            raise self.errors.pop(0)
        is_known = caller.claims.username == "alice"
        if key_id is not None and not (is_known and key_id == models.EXAMPLE_KEY_ID):
            raise NotFound("No such key")
        return is_known

    async def generate(self, caller, curve, password, timing, name=None):
        if await self._enter(caller) and curve == "secp256k1":
            raise Conflict(f"{curve} key already exists for this user", Code.KEY_EXISTS)
        return models.KeyShareRecord(**NEW_RECORD | {"curve": curve})

    async def recover(self, caller, curve, password, timing, name=None):
        if not await self._enter(caller) or curve != "secp256k1":
            raise NotFound("No such key")
        return models.KeyShareRecord(**NEW_RECORD)

    async def sign(self, caller, stored, *, message, timing, **fields):
        await self._enter(caller, stored.key_id)
        self.signed.append({"message": message, **fields})
        for span in ("vault", "round1"):
            with timing.span(span):
                await asyncio.sleep(0)
        return models.EXAMPLE_SIGNATURE, []

    async def presign(self, caller, stored, *, count, **fields):
        await self._enter(caller)
        return [models.EXAMPLE_SHARE] * count

    async def public_key(self, caller, stored, *, path, **fields):
        await self._enter(caller, stored.key_id)
        self.paths.append(path)
        xpub = None if path is None else models.EXAMPLE_XPUB
        return models.PublicKey(public_key=models.EXAMPLE_PUBLIC_KEY, xpub=xpub)

    async def validate_password(self, caller, *, password, secret_store, timing):
        await self._enter(caller)
        return password == PASSWORD

    async def validate_share(self, caller, *, encrypted_share, secret_store, timing):
        await self._enter(caller)
        return encrypted_share == models.EXAMPLE_SHARE

    async def wallet_info(self, caller, path=None):
        if not await self._enter(caller):
            raise NotFound("This user has no wallet")
        self.paths.append(path)
        key = models.WalletKey(curve="secp256k1", public_key=models.EXAMPLE_PUBLIC_KEY)
        address = {"evm": "0x1a642f0E3c3aF545E7AcBD38b07251B3990914F1"}
        entry = models.WalletEntry(key=key, address=address)
        return models.WalletInformation(user_id=caller.claims.user_id, wallets=[entry])

    async def keys(self, caller):
        about = {name: NEW_RECORD[name] for name in ("key_id", "curve", "public_key")}
        key = models.RegisteredKey(**about, created_at=CREATED)
        keys = [key] if await self._enter(caller) else []
        return models.RegisteredKeys(user_id=caller.claims.user_id, keys=keys)

    async def user(self, caller):
        await self._enter(caller)
        about = {name: getattr(caller.claims, name) for name in ("user_id", "username")}
        return models.UserInformation(**about, created_at=CREATED)

    async def key_token(self, caller, key_id):
        await self._enter(caller, key_id)
        return models.KeyToken(token="a.b.c", token_type="Bearer", expires_in=300, key_id=key_id)


@contextmanager
def doubled():
    """A node between the two doubles."""
    gateway, wallet = GatewayDouble(), WalletDouble()
    app = create_app(SETTINGS, gateway, wallet)
    with running(app) as api:
        yield api, gateway, wallet

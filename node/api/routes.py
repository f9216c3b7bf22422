"""The operations of the interface: ask the wallet, answer."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final

from starlette.requests import Request

from mpcsim.crypto.bip32 import parse_path
from mpcsim.service.errors import too_many_key_creations
from mpcsim.service.web import idempotency
from mpcsim.service.web.api_page import Operation
from mpcsim.version import __version__
from node.api.auth import TOO_MANY
from node.api.protected import Call, Parameter, ProtectedOperation
from node.errors import OUTCOME_UNKNOWN, Unreachable, UpstreamTimeout
from node.models import (
    Error,
    Health,
    IdempotencyKey,
    KeyIdQuery,
    KeyShareRecord,
    KeyToken,
    NewKeyRequest,
    PathQuery,
    Presignatures,
    PresignRequest,
    PublicKey,
    PublicKeyRequest,
    RegisteredKeys,
    Signature,
    SignRequest,
    UserInformation,
    ValidatePasswordRequest,
    ValidateShareRequest,
    ValidationResult,
    WalletInformation,
)

SERVICE: Final = "mpc-node"

ERROR_EXAMPLES: Final[Mapping[int, str]] = {
    400: "Invalid curve",
    401: 'Authentication failed: {"code":757,"message":"JWT_EXPIRED"}',
    404: "no such key",
    409: "secp256k1 key already exists for this user",
    413: "The body has more than 262144 bytes",
    415: "The content type must be application/json",
    429: str(too_many_key_creations(1)),
    500: "Upstream returned 503 Service Unavailable: the operator's MPC node cannot be reached",
    502: Unreachable().message,
    503: TOO_MANY,
    504: UpstreamTimeout().message,
}
ERROR_MEANINGS: Final[Mapping[int, str]] = {
    400: "A parameter is missing, malformed or does not fit the others.",
    401: "The access token is missing (755), invalid (756) or expired (757): get a new one, retry.",
    404: "No such key of this user, or no such user.",
    409: "The user's keys do not allow this now; `Retry-After` says when they may.",
    413: "The body is too long.",
    415: "The body is not declared as JSON, or is compressed.",
    429: "Too many keys are being made or passwords checked, or the user has called too often "
    "where the gateway limits that; `Retry-After` says when to try again.",
    500: "Internal error, or the gateway or an MPC node answered with an error.",
    502: "The node cannot reach its gateway.",
    503: "Too many requests of this user are being answered, or too many wait for the gateway's "
    "keys; `Retry-After` says when to try again.",
    504: "The gateway did not answer in time.",
}
ALWAYS: Final = (401, 500, 502, 503, 504)
WITH_BODY: Final = (400, 413, 415)


def fails_with(*statuses: int, makes_key: bool = False) -> dict[int | str, dict[str, Any]]:
    """OpenAPI responses for these error statuses and those that every protected route has.

    Args:
        makes_key: without an answer of the gateway, nobody knows what has come of it.
    """
    doubtful = (502, 504) if makes_key else ()
    return {
        status: {
            "model": Error,
            "description": f"{HTTPStatus(status).phrase}. {ERROR_MEANINGS[status]}"
            + (f" {OUTCOME_UNKNOWN}." if status in doubtful else ""),
            "content": {
                "application/json": {
                    "example": {
                        "error": ERROR_EXAMPLES[status]
                        + (f". {OUTCOME_UNKNOWN}" if status in doubtful else "")
                    }
                }
            },
        }
        for status in sorted({*statuses, *ALWAYS})
    }


async def health(request: Request) -> Health:
    """The node runs; nothing is asked of the gateway. Needs no token."""
    return Health(
        name=SERVICE,
        version=__version__,
        build_type=request.app.state.settings.build_type,
        time=datetime.now(UTC).isoformat(timespec="microseconds"),
    )


async def generate(call: Call, body: NewKeyRequest, idempotency_key: str | None) -> KeyShareRecord:
    """Make a key together with both MPC nodes and return the caller's share, encrypted.

    Keep `key_id`, `encrypted_share` and `secret_store` encrypted: the node keeps nothing. A user
    has one key a curve; where there is one already the answer is 409, and `recover` is what to use.
    While one is being made, by this or another caller, it is 409 with `Retry-After`. A gateway may
    have callers wait while it makes keys for others, and answer 429 if there are too many of them.

    After a 502 or 504 the outcome is unknown: ask `GET /v3/wallet/key`; if there is a key now,
    `recover` it. Or give the call an `Idempotency-Key`, and after whatever error repeat it with the
    same one:

    - If the first call came to nothing, this one makes the key.
    - If its key came into force, the answer is 200 with the share of a fresh recovery of it. This
      is so, too, if another call has recovered it since: that one's share is then of no use.
    - While it still runs, or what came of it is not decided yet: 409 `busy` with `Retry-After`.
    - A name is its user's own. Given with another endpoint or curve, it is refused: 400
      `idempotency-key-used`.
    """
    return await call.wallet.generate(
        call.caller, body.curve, body.password, call.timing, idempotency_key
    )


async def recover(call: Call, body: NewKeyRequest, idempotency_key: str | None) -> KeyShareRecord:
    """Replace a lost share: same public key, new `key_id`, new shares for all holders.

    The old share no longer signs once this has succeeded. One recovery at a time: another one
    meanwhile is answered 409 with `Retry-After`. Waiting, and 429, are as for `generate`.

    After a 502 or 504 the outcome is unknown: ask `GET /v3/wallet/key`; if the key's `key_id` is
    not the one you hold a share of, `recover` again. With an `Idempotency-Key` it is as for
    `generate`; a repeated call is a fresh recovery, whatever came of the first.
    """
    return await call.wallet.recover(
        call.caller, body.curve, body.password, call.timing, idempotency_key
    )


async def sign(call: Call, body: SignRequest) -> Signature:
    """Sign a hash (secp256k1, DKLs23 ECDSA) or a message (ed25519, FROST) with a key share.

    With a `path`, it is a signature of the child key there, with the same key share.

    One request at a time for one `key_id`: a second one while the first runs is refused.
    """
    signature, left = await call.wallet.sign(
        call.caller,
        body,
        message=bytes.fromhex(body.message),
        signer=body.signer,
        path=body.child or (),
        presignatures=body.presignatures or (),
        timing=call.timing,
    )
    asked = body.presignatures is not None
    return Signature(signature=signature, presignatures=left if asked else None)


async def presign(call: Call, body: PresignRequest) -> Presignatures:
    """Compute all of an ECDSA signature that does not depend on the message, many times over.

    Hand the list to `sign` with each call, and keep what it returns of it: a signature then takes
    one round trip. Each is good for one signature; a restart of an MPC node, a recovery and a
    suspension void them all, and then `sign` goes the longer way. Fewer than asked for come back
    if something fails on the way.
    """
    made = await call.wallet.presign(
        call.caller, body, count=body.count, signer=body.signer, timing=call.timing
    )
    return Presignatures(presignatures=made)


async def public_key(call: Call, body: PublicKeyRequest) -> PublicKey:
    """The public key of a share, from which blockchain addresses are derived.

    With a `path`, that of the child key there, and its `xpub`; `m` stands for the share's own.
    """
    return await call.wallet.public_key(
        call.caller, body, password=body.password, path=body.child, timing=call.timing
    )


async def validate_password(call: Call, body: ValidatePasswordRequest) -> ValidationResult:
    """Whether the password is the one that the share was encrypted with.

    False, too, for a secret store that is damaged, another user's, or of a key recovered since.
    """
    result = await call.wallet.validate_password(
        call.caller,
        password=body.password,
        secret_store=body.secret_store,
        timing=call.timing,
    )
    return ValidationResult(result=result)


async def validate_share(call: Call, body: ValidateShareRequest) -> ValidationResult:
    """Whether the share is whole and opens with the secret store.

    False, too, for strings that are another user's, or of a key recovered since.
    """
    result = await call.wallet.validate_share(
        call.caller,
        encrypted_share=body.encrypted_share,
        secret_store=body.secret_store,
        timing=call.timing,
    )
    return ValidationResult(result=result)


async def wallet_information(call: Call, path: str | None) -> WalletInformation:
    """The user's keys with their blockchain addresses; 404 while there is no key.

    With a `path`, the child key there of the user's secp256k1 key, with its addresses and `xpub`;
    404 while there is none on this curve.
    """
    child = None if path is None else parse_path(path)
    return await call.wallet.wallet_info(call.caller, child)


async def registered_keys(call: Call) -> RegisteredKeys:
    """The user's keys as the gateway has registered them; an empty list if there are none."""
    return await call.wallet.keys(call.caller)


async def user_information(call: Call) -> UserInformation:
    """The user that the access token was issued for."""
    return await call.wallet.user(call.caller)


async def key_token(call: Call, key_id: str) -> KeyToken:
    """A token for calls to the MPC nodes about one key."""
    return await call.wallet.key_token(call.caller, key_id)


PATH: Final = Parameter("query", "path", PathQuery, "path")
KEY_ID: Final = Parameter("query", "id", KeyIdQuery, "key_id", required=True)
IDEMPOTENCY_KEY: Final = Parameter("header", idempotency.HEADER, IdempotencyKey, "idempotency_key")

PUBLIC: Final = (Operation("GET", "/", health, Health, "Health check", tag="health", security=[]),)
WALLET: Final = (
    ProtectedOperation(
        *("POST", "/v3/wallet/generate", generate, KeyShareRecord, "Generate key share"),
        body=NewKeyRequest,
        parameters=(IDEMPOTENCY_KEY,),
        failures=fails_with(409, 429, *WITH_BODY, makes_key=True),
    ),
    ProtectedOperation(
        *("POST", "/v3/wallet/recover", recover, KeyShareRecord, "Recover key share"),
        body=NewKeyRequest,
        parameters=(IDEMPOTENCY_KEY,),
        failures=fails_with(404, 409, 429, *WITH_BODY, makes_key=True),
    ),
    ProtectedOperation(
        *("POST", "/v3/wallet/sign", sign, Signature, "Sign"),
        body=SignRequest,
        failures=fails_with(404, 429, *WITH_BODY),
    ),
    ProtectedOperation(
        *("POST", "/v3/wallet/presign", presign, Presignatures, "Make presignatures"),
        body=PresignRequest,
        failures=fails_with(404, 429, *WITH_BODY),
    ),
    ProtectedOperation(
        *("POST", "/v3/wallet/publickey", public_key, PublicKey, "Get public key"),
        body=PublicKeyRequest,
        failures=fails_with(404, 429, *WITH_BODY),
    ),
    ProtectedOperation(
        *("POST", "/v3/wallet/validate/password", validate_password, ValidationResult),
        "Validate password",
        body=ValidatePasswordRequest,
        failures=fails_with(429, *WITH_BODY),
    ),
    ProtectedOperation(
        *("POST", "/v3/wallet/validate/share", validate_share, ValidationResult),
        "Validate key share",
        body=ValidateShareRequest,
        failures=fails_with(429, *WITH_BODY),
    ),
    ProtectedOperation(
        *("GET", "/v3/wallet", wallet_information, WalletInformation, "Get wallet information"),
        parameters=(PATH,),
        failures=fails_with(400, 404),
    ),
    ProtectedOperation(
        *("GET", "/v3/wallet/key", registered_keys, RegisteredKeys, "Get registered keys"),
        failures=fails_with(),
    ),
    ProtectedOperation(
        *("GET", "/v3/wallet/user", user_information, UserInformation, "Get user information"),
        failures=fails_with(404),
    ),
    ProtectedOperation(
        *("GET", "/v3/wallet/token", key_token, KeyToken, "Issue MPC token"),
        parameters=(KEY_ID,),
        failures=fails_with(400, 404),
    ),
)
"""All operations of the interface, in the document's order."""

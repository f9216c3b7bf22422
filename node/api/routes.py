"""The endpoints: parse, ask the wallet, answer."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from mpcsim.crypto.bip32 import parse_path
from mpcsim.service.errors import too_many_key_creations
from mpcsim.service.web.api_page import HeadRoute
from mpcsim.version import __version__
from node.api.protected import ProtectedRoute, json_answer, this_call
from node.errors import OUTCOME_UNKNOWN, Unreachable, UpstreamTimeout
from node.models import (
    KEY_ID_PATTERN,
    Error,
    Health,
    IdempotencyKey,
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
    504: UpstreamTimeout().message,
}
ERROR_MEANINGS: Final[Mapping[int, str]] = {
    400: "A parameter is missing, malformed or does not fit the others.",
    401: "The access token is missing (755), invalid (756) or expired (757): get a new one, retry.",
    404: "No such key of this user, or no such user.",
    409: "The user's keys do not allow this now; `Retry-After` says when they may.",
    413: "The body is too long.",
    415: "The body is not declared as JSON, or is compressed.",
    429: "Too many keys are being made, passwords checked or requests of this user answered, or it "
    "has called too often where the gateway limits that; `Retry-After` says when to try again.",
    500: "Internal error, or the gateway or an MPC node answered with an error.",
    502: "The node cannot reach its gateway.",
    504: "The gateway did not answer in time.",
}
ALWAYS: Final = (401, 500, 502, 504)
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


def _operation_id(route: APIRoute) -> str:
    return route.name


public = APIRouter(
    tags=["health"], route_class=HeadRoute, generate_unique_id_function=_operation_id
)
wallet = APIRouter(
    prefix="/v3/wallet",
    tags=["wallet"],
    route_class=ProtectedRoute,
    generate_unique_id_function=_operation_id,
)


@public.get(
    "/",
    response_model=Health,
    summary="Health check",
    openapi_extra={"security": []},
)
async def health(request: Request) -> Response:
    """The node runs; nothing is asked of the gateway. Needs no token."""
    return json_answer(
        Health(
            name=SERVICE,
            version=__version__,
            build_type=request.app.state.settings.build_type,
            time=datetime.now(UTC).isoformat(timespec="microseconds"),
        )
    )


@wallet.post(
    "/generate",
    response_model=KeyShareRecord,
    responses=fails_with(409, 429, *WITH_BODY, makes_key=True),
    summary="Generate key share",
)
async def generate(
    body: NewKeyRequest, request: Request, idempotency_key: IdempotencyKey = None
) -> Response:
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
    call = this_call(request)
    record = await call.wallet.generate(
        call.caller, body.curve, body.password, call.timing, idempotency_key
    )
    return json_answer(record)


@wallet.post(
    "/recover",
    response_model=KeyShareRecord,
    responses=fails_with(404, 409, 429, *WITH_BODY, makes_key=True),
    summary="Recover key share",
)
async def recover(
    body: NewKeyRequest, request: Request, idempotency_key: IdempotencyKey = None
) -> Response:
    """Replace a lost share: same public key, new `key_id`, new shares for all holders.

    The old share no longer signs once this has succeeded. One recovery at a time: another one
    meanwhile is answered 409 with `Retry-After`. Waiting, and 429, are as for `generate`.

    After a 502 or 504 the outcome is unknown: ask `GET /v3/wallet/key`; if the key's `key_id` is
    not the one you hold a share of, `recover` again. With an `Idempotency-Key` it is as for
    `generate`; a repeated call is a fresh recovery, whatever came of the first.
    """
    call = this_call(request)
    record = await call.wallet.recover(
        call.caller, body.curve, body.password, call.timing, idempotency_key
    )
    return json_answer(record)


@wallet.post(
    "/sign",
    response_model=Signature,
    responses=fails_with(404, 429, *WITH_BODY),
    summary="Sign",
)
async def sign(body: SignRequest, request: Request) -> Response:
    """Sign a hash (secp256k1, DKLs23 ECDSA) or a message (ed25519, FROST) with a key share.

    With a `path`, it is a signature of the child key there, with the same key share.

    One request at a time for one `key_id`: a second one while the first runs is refused.
    """
    call = this_call(request)
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
    return json_answer(Signature(signature=signature, presignatures=left if asked else None))


@wallet.post(
    "/presign",
    response_model=Presignatures,
    responses=fails_with(404, 429, *WITH_BODY),
    summary="Make presignatures",
)
async def presign(body: PresignRequest, request: Request) -> Response:
    """Compute all of an ECDSA signature that does not depend on the message, many times over.

    Hand the list to `sign` with each call, and keep what it returns of it: a signature then takes
    one round trip. Each is good for one signature; a restart of an MPC node, a recovery and a
    suspension void them all, and then `sign` goes the longer way. Fewer than asked for come back
    if something fails on the way.
    """
    call = this_call(request)
    made = await call.wallet.presign(
        call.caller, body, count=body.count, signer=body.signer, timing=call.timing
    )
    return json_answer(Presignatures(presignatures=made))


@wallet.post(
    "/publickey",
    response_model=PublicKey,
    responses=fails_with(404, 429, *WITH_BODY),
    summary="Get public key",
)
async def public_key(body: PublicKeyRequest, request: Request) -> Response:
    """The public key of a share, from which blockchain addresses are derived.

    With a `path`, that of the child key there, and its `xpub`; `m` stands for the share's own.
    """
    call = this_call(request)
    found = await call.wallet.public_key(
        call.caller, body, password=body.password, path=body.child, timing=call.timing
    )
    return json_answer(found)


@wallet.post(
    "/validate/password",
    response_model=ValidationResult,
    responses=fails_with(429, *WITH_BODY),
    summary="Validate password",
)
async def validate_password(body: ValidatePasswordRequest, request: Request) -> Response:
    """Whether the password is the one that the share was encrypted with.

    False, too, for a secret store that is damaged, another user's, or of a key recovered since.
    """
    call = this_call(request)
    result = await call.wallet.validate_password(
        call.caller,
        password=body.password,
        secret_store=body.secret_store,
        timing=call.timing,
    )
    return json_answer(ValidationResult(result=result))


@wallet.post(
    "/validate/share",
    response_model=ValidationResult,
    responses=fails_with(429, *WITH_BODY),
    summary="Validate key share",
)
async def validate_share(body: ValidateShareRequest, request: Request) -> Response:
    """Whether the share is whole and opens with the secret store.

    False, too, for strings that are another user's, or of a key recovered since.
    """
    call = this_call(request)
    result = await call.wallet.validate_share(
        call.caller,
        encrypted_share=body.encrypted_share,
        secret_store=body.secret_store,
        timing=call.timing,
    )
    return json_answer(ValidationResult(result=result))


@wallet.get(
    "",
    response_model=WalletInformation,
    responses=fails_with(400, 404),
    summary="Get wallet information",
)
async def wallet_information(request: Request, path: PathQuery = None) -> Response:
    """The user's keys with their blockchain addresses; 404 while there is no key.

    With a `path`, the child key there of the user's secp256k1 key, with its addresses and `xpub`;
    404 while there is none on this curve.
    """
    call = this_call(request)
    child = None if path is None else parse_path(path)
    return json_answer(await call.wallet.wallet_info(call.caller, child))


@wallet.get(
    "/key",
    response_model=RegisteredKeys,
    responses=fails_with(),
    summary="Get registered keys",
)
async def registered_keys(request: Request) -> Response:
    """The user's keys as the gateway has registered them; an empty list if there are none."""
    call = this_call(request)
    return json_answer(await call.wallet.keys(call.caller))


@wallet.get(
    "/user",
    response_model=UserInformation,
    responses=fails_with(404),
    summary="Get user information",
)
async def user_information(request: Request) -> Response:
    """The user that the access token was issued for."""
    call = this_call(request)
    return json_answer(await call.wallet.user(call.caller))


@wallet.get(
    "/token",
    response_model=KeyToken,
    responses=fails_with(400, 404),
    summary="Issue MPC token",
)
async def key_token(
    key_id: Annotated[
        str, Query(alias="id", pattern=KEY_ID_PATTERN, description="The key's `key_id`.")
    ],
    request: Request,
) -> Response:
    """A token for calls to the MPC nodes about one key."""
    call = this_call(request)
    return json_answer(await call.wallet.key_token(call.caller, key_id))

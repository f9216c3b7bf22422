"""The flow's endpoints as OpenAPI paths and schemas, derived from ``Endpoint`` and ``FIELDS``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, Final

from mpcsim.service.smart_account.api.http import MAX_BODY_BYTES, TooLarge
from mpcsim.service.smart_account.endpoints import Endpoint
from mpcsim.service.smart_account.errors import (
    BadRequest,
    BudgetSpent,
    ChainTimeout,
    ChainUnavailable,
    Inconsistent,
    Refused,
    SmartAccountError,
    TooManyRequests,
    UnknownOperation,
)
from mpcsim.service.smart_account.operation.fields import (
    FIELDS,
    GAS,
    MAX_BYTES,
    SIGNED,
    UNPRICED,
    Field,
    supplied_by,
)
from mpcsim.service.smart_account.operation.receipts import FAILED, INCLUDED, PENDING

Schema = dict[str, Any]

TAG: Final = "ERC-4337"

ABOUT: Final[Mapping[str, str]] = {
    "sender": "The account, whether or not it is deployed yet.",
    "nonce": "Of the account, at the EntryPoint.",
    "init_code": "The factory and its calldata, which deploy the account; `0x` once it is there.",
    "call_data": "What the account is to do: a call of its `execute`.",
    "call_gas_limit": "Gas for the call.",
    "verification_gas_limit": "Gas for validation, and for the deployment if there is one.",
    "pre_verification_gas": "Gas for what the EntryPoint cannot measure.",
    "max_fee_per_gas": "Wei a unit of gas, the tip included.",
    "max_priority_fee_per_gas": "Wei a unit of gas, for the block's proposer.",
    "paymaster_and_data": "The paymaster and what it signed; `0x`: the account pays itself.",
    "signature": "The owner's, 65 bytes: r, s, v of `personal_sign` over the digest.",
}
"""The fields of a UserOperation in words."""

_ADDRESS: Final[Schema] = {
    "type": "string",
    "pattern": "^0x[0-9a-fA-F]{40}$",
    "examples": ["0x000000000000000000000000000000000000bEEF"],
}
_HEX: Final[Schema] = {
    "type": "string",
    "pattern": "^0[xX]([0-9a-fA-F]{2})*$",
    "maxLength": 2 + 2 * MAX_BYTES,
    "examples": ["0x"],
}
_HASH: Final[Schema] = {
    "type": "string",
    "pattern": "^0x[0-9a-f]{64}$",
    "examples": ["0x" + "5f" * 32],
}
_NUMBER: Final[Schema] = {
    "anyOf": [
        {"type": "integer", "minimum": 0},
        {"type": "string", "pattern": "^([0-9]{1,78}|0[xX][0-9a-fA-F]{1,64})$"},
    ],
    "examples": ["0x5208"],
}
_QUANTITY: Final[Schema] = {"type": "string", "pattern": "^0x[0-9a-f]+$", "examples": ["0x5208"]}
_FORMS: Final[Mapping[str, Schema]] = {"address": _ADDRESS, "bytes": _HEX, "uint256": _NUMBER}

_SUMMARIES: Final[Mapping[Endpoint, tuple[str, str]]] = {
    Endpoint.ADDRESS: (
        "Address of an owner's account",
        "Step 1. An owner has one account; its address is known before it is deployed.",
    ),
    Endpoint.INFO: (
        "All that a UserOperation takes from the account",
        "Step 1. Address, nonce and init code in one answer.",
    ),
    Endpoint.NONCE: ("Nonce of an owner's account", "Step 1."),
    Endpoint.INIT: ("Init code of an owner's account", "Step 1. `0x` once it is deployed."),
    Endpoint.EXECUTE: ("Calldata of what the account is to do", "Step 2. A transfer or a call."),
    Endpoint.GAS: (
        "Gas limits and fees; the account pays",
        "Step 3. Simulates the operation. Values that the request has are kept. `result` names the "
        "operation from here on.",
    ),
    Endpoint.SPONSOR: (
        "Gas limits and fees; the paymaster pays",
        "Step 3, in place of `/gas/info`: the same, with the paymaster's signature.",
    ),
    Endpoint.DIGEST: (
        "The userOpHash to sign",
        "Step 4. The fields must be exactly those of step 3. Sign the answer as `personal_sign` "
        "does (EIP-191).",
    ),
    Endpoint.SEND: (
        "Send a signed operation",
        "Step 5. The fields must be exactly those of step 4. The EntryPoint is asked first; what "
        "it would refuse is not sent.",
    ),
    Endpoint.RECEIPT: ("What became of an operation", "Step 6. Ask again while it is `pending`."),
}

_ERRORS: Final[Mapping[Endpoint, tuple[type[SmartAccountError], ...]]] = {
    Endpoint.GAS: (Refused,),
    Endpoint.SPONSOR: (Refused, BudgetSpent),
    Endpoint.DIGEST: (UnknownOperation, Inconsistent),
    Endpoint.SEND: (UnknownOperation, Inconsistent, Refused),
    Endpoint.RECEIPT: (UnknownOperation,),
}
"""Errors of an endpoint beside those that every endpoint may answer."""


def paths() -> dict[str, Any]:
    """Return the OpenAPI paths; authentication and its errors are added by whoever mounts the
    routes."""
    return {endpoint.path: {endpoint.method.lower(): _operation(endpoint)} for endpoint in Endpoint}


def schemas() -> dict[str, Schema]:
    """Return the schemas that the paths refer to, but for ``Error``: ``{"error": ...}``."""
    found = {_reply_name(endpoint): _reply(endpoint) for endpoint in Endpoint}
    for endpoint in Endpoint:
        if endpoint.method == "POST":
            found[_request_name(endpoint)] = _request(endpoint)
    return found


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    summary, description = _SUMMARIES[endpoint]
    found: dict[str, Any] = {
        "tags": [TAG],
        "operationId": f"erc4337_{endpoint.name.lower()}",
        "summary": summary,
        "description": description,
        "responses": {
            "200": {
                "description": "As asked.",
                "content": _json({"$ref": f"#/components/schemas/{_reply_name(endpoint)}"}),
            }
        },
    }
    parameters = re.findall(r"\{(\w+)\}", endpoint.path)
    if parameters:
        found["parameters"] = [
            {"name": name, "in": "path", "required": True, **_PARAMETERS[name]}
            for name in parameters
        ]
    errors: list[type[SmartAccountError]] = [BadRequest, *_ERRORS.get(endpoint, ())]
    if endpoint.method == "POST":
        reference = {"$ref": f"#/components/schemas/{_request_name(endpoint)}"}
        found["requestBody"] = {"required": True, "content": _json(reference)}
        errors.append(TooLarge)
    errors += [TooManyRequests, ChainUnavailable, ChainTimeout]
    for status in dict.fromkeys(kind.status for kind in errors):
        reasons = " ".join(_in_words(kind) for kind in errors if kind.status == status)
        found["responses"][str(status)] = {
            "description": f"{HTTPStatus(status).phrase}. {reasons}",
            "content": _json({"$ref": "#/components/schemas/Error"}),
        }
    return found


_PARAMETERS: Final[Mapping[str, dict[str, Any]]] = {
    "address": {"description": "The owner's address (not the account's).", "schema": _ADDRESS},
    "result": {"description": "As step 3 answered it: the userOpHash.", "schema": _HASH},
}


def _in_words(kind: type[SmartAccountError]) -> str:
    if kind is TooLarge:
        return f"The body is longer than {MAX_BODY_BYTES} bytes."
    return (kind.__doc__ or "").partition("\n\n")[0]


def _request_name(endpoint: Endpoint) -> str:
    return f"{endpoint.name.capitalize()}Request"


def _reply_name(endpoint: Endpoint) -> str:
    return f"{endpoint.name.capitalize()}Reply"


def _request(endpoint: Endpoint) -> Schema:
    match endpoint:
        case Endpoint.INIT:
            return _object({"owner": {**_ADDRESS, "description": "Whose account it is."}})
        case Endpoint.EXECUTE:
            return _object(
                {
                    "to": {**_ADDRESS, "description": "Who is paid, or called."},
                    "value": {**_NUMBER, "description": "Wei."},
                    "data": {**_HEX, "description": "Calldata; by default none."},
                },
                optional=("data",),
            )
        case Endpoint.GAS:
            return _operation_fields(UNPRICED, ("paymaster_and_data", *GAS))
        case Endpoint.SPONSOR:
            return _operation_fields(UNPRICED, GAS)
        case Endpoint.DIGEST:
            return _operation_fields(SIGNED)
        case _:
            return _operation_fields((*SIGNED, "signature"))


def _operation_fields(required: Iterable[str], optional: Iterable[str] = ()) -> Schema:
    fields = [FIELDS[name] for name in (*required, *optional)]
    return _object(
        {field.name: {**_FORMS[field.abi_type], **_about(field)} for field in fields},
        optional=[*optional, *(field.name for field in fields if field.default is not None)],
    )


def _about(field: Field) -> Schema:
    default = {} if field.default is None else {"default": field.default}
    return {"description": ABOUT[field.name], **default}


def _reply(endpoint: Endpoint) -> Schema:
    """Replies write numbers in 0x hex."""
    match endpoint:
        case Endpoint.DIGEST:
            return _object({"digest": {**_HASH, "description": "The userOpHash."}}, more=True)
        case Endpoint.SEND:
            return _object({"user_op_hash": {**_HASH, "description": "Its name."}}, more=True)
        case Endpoint.RECEIPT:
            return _receipt()
    replies = {**_FORMS, "uint256": _QUANTITY}
    members = {
        field.key(endpoint): {**replies[field.abi_type], "description": ABOUT[field.name]}
        for field in supplied_by(endpoint)
    }
    if endpoint.camel:
        members["result"] = {**_HASH, "description": "What names the operation: its userOpHash."}
    return _object(members, more=True)


def _receipt() -> Schema:
    """The members of ``eth_getUserOperationReceipt``, in snake_case."""
    return _object(
        {
            "status": {
                "enum": [PENDING, INCLUDED, FAILED],
                "description": "In no block yet; in one, and done; in one, and the call failed.",
            },
            "result": _HASH,
            "user_op_hash": _HASH,
            "entry_point": _ADDRESS,
            "sender": _ADDRESS,
            "nonce": _QUANTITY,
            "paymaster": {**_ADDRESS, "description": "All zero: the account paid."},
            "actual_gas_cost": {**_or_null(_QUANTITY), "description": "Wei."},
            "actual_gas_used": _or_null(_QUANTITY),
            "success": {"type": ["boolean", "null"], "description": "null while it is pending."},
            "reason": {"type": ["string", "null"], "description": "Why the call failed."},
            "logs": {"type": "array", "items": {"type": "object"}},
            "receipt": {
                "type": ["object", "null"],
                "description": "Of the transaction that carried it.",
            },
        },
        more=True,
    )


def _or_null(schema: Schema) -> Schema:
    return {**schema, "type": [schema["type"], "null"]}


def _object(
    members: Mapping[str, Schema], optional: Iterable[str] = (), more: bool = False
) -> Schema:
    """
    Args:
        more: replies may get further members; of requests, unknown ones are refused.
    """
    left_out = set(optional)
    found: Schema = {
        "type": "object",
        "properties": dict(members),
        "required": [name for name in members if name not in left_out],
    }
    return found if more else {**found, "additionalProperties": False}


def _json(schema: Schema) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}

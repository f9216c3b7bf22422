"""Requests and responses of the REST interface.

A request may have all members of a stored key share record, so that a caller may send it back as it
is; any other member that is not listed is refused. Fields that hold secrets are left out of every
repr, and no validation error shows its input.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticCustomError

from mpcsim.crypto.bip32 import MAX_STEPS, Path, check_curve, parse_path
from mpcsim.errors import UsageError
from mpcsim.service.precis import MAX_PASSWORD_CHARS, MOST_SPELT, enforce_password
from mpcsim.service.rpc.wire import MAX_MESSAGE_BYTES
from mpcsim.service.web import idempotency

MAX_ENCRYPTED_SHARE: Final = 1 << 16
"""Characters; a secp256k1 share with its multiplication state takes about 17,000, or 43,000
with k = 4 in OT extension."""
MAX_SECRET_STORE: Final = 1 << 12
"""Characters."""
MAX_PRESIGNATURES: Final = 64
"""Highest number in one request."""
MAX_PRESIGNATURE: Final = 1 << 11
"""Characters."""
HASH_DIGITS: Final = 64
"""Hex digits of the hash that ECDSA signs."""

KEY_ID_PATTERN: Final = r"^[0-9a-f]{64}$"
BASE64URL_PATTERN: Final = r"^[A-Za-z0-9_-]+$"
HEX_PATTERN: Final = r"^([0-9A-Fa-f]{2})+$"
PATH_PATTERN: Final = r"^(m|(m/)?(0|[1-9][0-9]{0,9})(/(0|[1-9][0-9]{0,9})){0,9})$"
"""Pattern for readers of the document; ``parse_path`` says what is wrong with a path."""
XPUB_PATTERN: Final = r"^xpub[1-9A-HJ-NP-Za-km-z]{107}$"
PUBLIC_KEY_PATTERN: Final = r"^0x([0-9a-f]{64}|[0-9a-f]{66})$"

_IDENTIFIER = "64 lower-case hex digits"
_BASE64URL = "URL-safe base64 without padding, at most {} characters"
EXPECTED: Final[Mapping[str, str]] = {
    "password": f"1 to {MAX_PASSWORD_CHARS} characters that RFC 8265 (OpaqueString) allows",
    "key_id": _IDENTIFIER,
    "id": _IDENTIFIER,
    "encrypted_share": _BASE64URL.format(MAX_ENCRYPTED_SHARE),
    "secret_store": _BASE64URL.format(MAX_SECRET_STORE),
    "message": f"hex without 0x, 1 to {MAX_MESSAGE_BYTES} bytes",
    "signer": "operator or institution",
    "count": f"a number from 1 to {MAX_PRESIGNATURES}",
    "presignatures": f"a list of at most {MAX_PRESIGNATURES} strings that presign returned",
    "path": "text such as m/0/7",
    idempotency.HEADER: idempotency.EXPECTED,
}
"""Valid values of a request's field, for the message that refuses it."""

EXAMPLE_KEY_ID: Final = "e8bba4b719167bb50bbbdebda30268a11223454024073977b9ed0b9a4eb71fc6"
EXAMPLE_SHARE: Final = "AWR1c3R5LWV4YW1wbGUtc2hhcmUtbm90LWEtcmVhbC1vbmU"
EXAMPLE_STORE: Final = "AXNhbHQtYW5kLXR3by1zZWFsZWQtaGFsdmVz"
EXAMPLE_PUBLIC_KEY: Final = "0x031b84c5567b126440995d3ed5aaba0565d71e1834604819ff9c17f5e9d5dd078f"
EXAMPLE_PATH: Final = "m/0/7"
EXAMPLE_XPUB: Final = (
    "xpub661MyMwAqRbcFW31YEwpkMuc5THy2PSt5bDMsktWQcFF8syAmRUapSCGu8ED9W6oDMSgv6Zz8idoc4a6mr8BDzTJY"
    "47LJhkJ8UB7WEGuduB"
)
EXAMPLE_HASH: Final = "ab530a13e45914982b79f9b7e3fba994cfd1f3fb22f71cea1afbf02b460c6d1d"
EXAMPLE_SIGNATURE: Final = (
    "71360258436354d4f7cdc21fc907ee23007383c49785f1fb190e71858e22b15a"
    "0e77567d843672786109824c898e4a0d07f13fe1c429801f5199689ba0e456811c"
)


def _enforce_password(text: str) -> str:
    """Return the password in its one spelling; what is wrong with it, ``EXPECTED`` says."""
    try:
        return enforce_password(text)
    except UsageError as error:
        raise ValueError(str(error)) from None


Curve = Annotated[
    Literal["secp256k1", "ed25519"],
    Field(description="Curve of the key.", examples=["secp256k1"]),
]
Presignature = Annotated[
    str,
    Field(
        min_length=1,
        max_length=MAX_PRESIGNATURE,
        pattern=BASE64URL_PATTERN,
        description="A presignature, sealed; URL-safe base64 without padding.",
        examples=["AXByZXNpZ25hdHVyZQ"],
    ),
]
Password = Annotated[
    str,
    Field(
        min_length=1,
        max_length=MOST_SPELT * MAX_PASSWORD_CHARS,
        repr=False,
        description="The user's password, by RFC 8265, profile OpaqueString: in NFC, every space a "
        f"plain one, it has 1 to {MAX_PASSWORD_CHARS} characters, none of them a control character."
        " It encrypts the key share and is stored nowhere.",
        examples=["correct horse battery staple"],
    ),
    AfterValidator(_enforce_password),
]
KeyId = Annotated[
    str,
    Field(
        pattern=KEY_ID_PATTERN,
        description="Key identifier, as generate or recover returned it.",
        examples=[EXAMPLE_KEY_ID],
    ),
]
EncryptedShare = Annotated[
    str,
    Field(
        min_length=1,
        max_length=MAX_ENCRYPTED_SHARE,
        pattern=BASE64URL_PATTERN,
        repr=False,
        description="Encrypted key share, URL-safe base64 without padding.",
        examples=[EXAMPLE_SHARE],
    ),
]
SecretStore = Annotated[
    str,
    Field(
        min_length=1,
        max_length=MAX_SECRET_STORE,
        pattern=BASE64URL_PATTERN,
        repr=False,
        description="Secret data needed to decrypt the share, URL-safe base64 without padding.",
        examples=[EXAMPLE_STORE],
    ),
]
PublicKeyText = Annotated[
    str,
    Field(
        pattern=PUBLIC_KEY_PATTERN,
        description="Public key in hex with `0x`: 33 bytes compressed (secp256k1) or 32 (ed25519).",
        examples=[EXAMPLE_PUBLIC_KEY],
    ),
]


def _path(text: str | None) -> str | None:
    try:
        if text is not None:
            parse_path(text)
    except UsageError as error:
        raise PydanticCustomError("path", "{why}", {"why": str(error)}) from None
    return text


PATH: Final = (
    "A child key (BIP 32) of a secp256k1 key, in place of the key itself: up to "
    f"{MAX_STEPS} numbers below 2^31, none of them hardened. `m` is the key itself."
)
PATH_SCHEMA: Final = {"pattern": PATH_PATTERN}
PathText = Annotated[
    str | None,
    AfterValidator(_path),
    Field(description=PATH, examples=[EXAMPLE_PATH], json_schema_extra=PATH_SCHEMA),
]
PathQuery = Annotated[
    str | SkipJsonSchema[None],
    AfterValidator(_path),
    Field(description=PATH, examples=[EXAMPLE_PATH], json_schema_extra=PATH_SCHEMA),
]
KeyIdQuery = Annotated[str, Field(pattern=KEY_ID_PATTERN, description="The key's `key_id`.")]
IdempotencyKey = Annotated[
    str | SkipJsonSchema[None],
    Field(
        pattern=idempotency.PATTERN,
        description=(
            f"Names this call, so that it may be repeated: {idempotency.EXPECTED}, such as a fresh "
            "UUID. It is remembered for a day, for this user, endpoint and curve."
        ),
        examples=["5f1c0d2e-6f1b-4a39-8e0c-0a7f2b9d4c11"],
        json_schema_extra={"pattern": idempotency.PATTERN},
    ),
]
Xpub = Annotated[
    str,
    Field(
        pattern=XPUB_PATTERN,
        description=(
            "The key with its chain code, as BIP 32 serialises it: whoever has it can compute all "
            "public keys below, and can sign with none. Only where a `path` was given."
        ),
        examples=[EXAMPLE_XPUB],
    ),
]
UserId = Annotated[str, Field(description="User identifier.", examples=["3f0c9d8e5b7a4c21"])]
Moment = Annotated[
    str,
    Field(
        description="ISO 8601 timestamp.",
        examples=["2026-11-21T09:30:00.123456+00:00"],
        json_schema_extra={"format": "date-time"},
    ),
]


class Body(BaseModel):
    """Base of all requests and responses."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)


# --- requests -----------------------------------------------------------------------------------


class RequestBody(Body):
    """Base of all requests."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _without_rest_of_record(cls, members: object) -> object:
        """Drop the members of a key share record that this request does without."""
        if not isinstance(members, dict):
            return members
        unused = KeyShareRecord.model_fields.keys() - cls.model_fields.keys()
        return {name: value for name, value in members.items() if name not in unused}


class NewKeyRequest(RequestBody):
    """Request to generate or recover a key."""

    curve: Curve
    password: Password


class StoredShare(RequestBody):
    """Stored key share record, as a caller sends it back."""

    key_id: KeyId
    encrypted_share: EncryptedShare
    secret_store: SecretStore
    curve: Curve


class StoredKey(StoredShare):
    """A stored key share record, and which key of its tree is meant."""

    path: PathText = None

    @field_validator("path")
    @classmethod
    def _child_of_secp256k1(cls, path: str | None, info: ValidationInfo) -> str | None:
        try:
            if path is not None and "curve" in info.data:
                check_curve(info.data["curve"])
        except UsageError as error:
            raise PydanticCustomError("path", "{why}", {"why": str(error)}) from None
        return path

    @property
    def child(self) -> Path | None:
        """None: the key itself, and nothing was asked about its tree."""
        return None if self.path is None else parse_path(self.path)


class SignRequest(StoredKey):
    """A stored key share record, and what to sign with it."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "key_id": EXAMPLE_KEY_ID,
                    "encrypted_share": EXAMPLE_SHARE,
                    "secret_store": EXAMPLE_STORE,
                    "curve": "secp256k1",
                    "message": EXAMPLE_HASH,
                }
            ]
        }
    )

    message: Annotated[
        str,
        Field(
            min_length=2,
            max_length=2 * MAX_MESSAGE_BYTES,
            pattern=HEX_PATTERN,
            repr=False,
            description=(
                "Hash of the data to sign, in hex without `0x`. For secp256k1 exactly 32 bytes; "
                "for ed25519 1 byte to 64 KiB, signed as they are (RFC 8032)."
            ),
            examples=[EXAMPLE_HASH],
        ),
    ]
    signer: Annotated[
        Literal["operator", "institution"] | None,
        Field(
            description=(
                "Which MPC node signs along. Without it the operator's does, or the institution's "
                "if the operator's fails while signing. (Before that, opening the share takes both "
                "MPC nodes: while either cannot be reached, nothing signs.)"
            ),
        ),
    ] = None

    presignatures: Annotated[
        list[Presignature] | None,
        Field(
            max_length=MAX_PRESIGNATURES,
            repr=False,
            description=(
                "What `presign` has returned, as far as it is left (secp256k1). The first one that "
                "is of use is used up; the answer has what is left. Keep that instead."
            ),
        ),
    ] = None

    @field_validator("message")
    @classmethod
    def _hash_for_ecdsa(cls, message: str, info: ValidationInfo) -> str:
        if info.data.get("curve") == "secp256k1" and len(message) != HASH_DIGITS:
            raise PydanticCustomError(
                "hash_length", f"must have {HASH_DIGITS} hex digits for secp256k1"
            )
        return message


class PresignRequest(StoredShare):
    """A stored key share record, and how many presignatures to make for it."""

    count: Annotated[
        int, Field(ge=1, le=MAX_PRESIGNATURES, strict=True, description="How many.", examples=[16])
    ]
    signer: Annotated[
        Literal["operator", "institution"],
        Field(description="Which MPC node signs with them.", examples=["operator"]),
    ] = "operator"


class PublicKeyRequest(StoredKey):
    """A stored key share record and its password."""

    password: Password


class ValidatePasswordRequest(RequestBody):
    """Does this password open this secret store?"""

    password: Password
    secret_store: SecretStore


class ValidateShareRequest(RequestBody):
    """Share and secret store to be checked against each other."""

    encrypted_share: EncryptedShare
    secret_store: SecretStore


# --- responses ----------------------------------------------------------------------------------


class Health(Body):
    """Build that is running."""

    name: Annotated[str, Field(description="Service name.", examples=["mpc-node"])]
    version: Annotated[str, Field(description="Build version.", examples=["0.2.0"])]
    build_type: Annotated[str, Field(description="Kind of build.", examples=["release"])]
    time: Moment


class KeyShareRecord(Body):
    """A key share, for the caller to keep encrypted: the node keeps nothing."""

    key_id: KeyId
    encrypted_share: EncryptedShare
    secret_store: SecretStore
    public_key: PublicKeyText
    curve: Curve


class Presignatures(Body):
    """Presignatures, for the caller to keep encrypted: the node keeps nothing.

    Each is good for one signature. Who restores a database has used ones in it: they are refused.
    """

    presignatures: Annotated[list[Presignature], Field(description="As many as were made.")]


class Signature(Body):
    """A signature that the node has verified under the key."""

    signature: Annotated[
        str,
        Field(
            pattern=r"^([0-9a-f]{128}|[0-9a-f]{130})$",
            description=(
                "Hex without `0x`: 65 bytes, r, s (low) and v (1b or 1c), on secp256k1; 64 bytes "
                "on ed25519."
            ),
            examples=[EXAMPLE_SIGNATURE],
        ),
    ]
    presignatures: Annotated[
        list[Presignature] | None,
        Field(description="What is left of those in the request, if it had that member."),
    ] = None


class PublicKey(Body):
    """A key's public half."""

    public_key: PublicKeyText
    xpub: Xpub | SkipJsonSchema[None] = None


class ValidationResult(Body):
    """Whether it matched; a mismatch is not an error."""

    result: Annotated[bool, Field(description="True if it matches.", examples=[True])]


class WalletKey(Body):
    """A key of a wallet."""

    curve: Curve
    public_key: PublicKeyText
    path: Annotated[
        str | SkipJsonSchema[None],
        Field(description="Of a child key, where one was asked for.", examples=[EXAMPLE_PATH]),
    ] = None
    xpub: Xpub | SkipJsonSchema[None] = None


class WalletEntry(Body):
    """Key and its address on each chain."""

    key: WalletKey
    address: Annotated[
        dict[str, str],
        Field(
            description=(
                "Blockchain addresses: `evm`, `btc`, `aptos`, `tron`, `xrp` of a secp256k1 key, "
                "`solana` of an ed25519 key."
            ),
            examples=[{"evm": "0x1a642f0E3c3aF545E7AcBD38b07251B3990914F1"}],
        ),
    ]


class WalletInformation(Body):
    """All keys of the user, with their addresses."""

    user_id: UserId
    wallets: list[WalletEntry]


class RegisteredKey(Body):
    """A key as the gateway has registered it."""

    key_id: KeyId
    curve: Curve
    public_key: PublicKeyText
    created_at: Moment


class RegisteredKeys(Body):
    """All keys of the user; the list may be empty."""

    user_id: UserId
    keys: list[RegisteredKey]


class UserInformation(Body):
    """The user of the access token."""

    user_id: UserId
    username: Annotated[str, Field(description="Name given at sign-up.", examples=["alice"])]
    created_at: Moment


class KeyToken(Body):
    """A token for calls to the MPC nodes about one key."""

    token: Annotated[
        str, Field(repr=False, description="JSON Web Token.", examples=["eyJhbGciOi...hcQ"])
    ]
    token_type: Annotated[Literal["Bearer"], Field(description="How the token is to be sent.")]
    expires_in: Annotated[int, Field(description="Lifetime in seconds.", examples=[300])]
    key_id: KeyId


class Error(Body):
    """Every error of every status."""

    error: Annotated[str, Field(description="What went wrong.", examples=["Invalid curve"])]

"""Requests and answers of the gateway's JSON interface."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel
from pydantic.json_schema import SkipJsonSchema

from mpcsim.crypto.groups.curves import CURVES
from mpcsim.service.precis import MAX_USERNAME_CHARS, MOST_SPELT
from mpcsim.service.rpc.tokens import TokenFault

KEY_ID_PATTERN: Final = "^[0-9a-f]{64}$"
PUBLIC_KEY_PATTERN: Final = "^0x([0-9a-f]{66}|[0-9a-f]{64})$"

UserId = Annotated[str, Field(examples=["3f0c9d8e5b7a4c21a9d04be1f2c3a477"])]
Username = Annotated[str, Field(examples=["alice"])]
KeyId = Annotated[
    str,
    Field(
        description="Names the user's share of the key; a recovery changes it.",
        examples=["c4" * 32],
        json_schema_extra={"pattern": KEY_ID_PATTERN},
    ),
]
Curve = Annotated[
    str, Field(description="The key's curve.", json_schema_extra={"enum": [*sorted(CURVES)]})
]
PublicKey = Annotated[
    str,
    Field(
        description="Hex with `0x`: 33 bytes compressed (secp256k1) or 32 (ed25519).",
        examples=["0x031b84c5567b126440995d3ed5aaba0565d71e1834604819ff9c17f5e9d5dd078f"],
        json_schema_extra={"pattern": PUBLIC_KEY_PATTERN},
    ),
]
Moment = Annotated[
    str,
    Field(examples=["2026-11-21T09:30:00.123+00:00"], json_schema_extra={"format": "date-time"}),
]
Record = Annotated[
    str, Field(description="URL-safe base64 of what both MPC nodes have signed of the key.")
]
TokenText = Annotated[str, Field(description="A signed JSON Web Token (ES256).", repr=False)]
Seconds = Annotated[int, Field(description="Seconds.", examples=[3600])]
Address = str | SkipJsonSchema[None]


class Model(BaseModel):
    """Base of all requests and answers."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)


class Error(Model):
    """Every error but a 401 of a token."""

    error: Annotated[
        str,
        Field(
            description="What was wrong, in words that may be shown to the caller.",
            examples=["no such key"],
        ),
    ]
    party: Annotated[
        int | SkipJsonSchema[None], Field(description="The MPC node that could not do it.")
    ] = None
    undecided: Annotated[
        Literal[True] | SkipJsonSchema[None],
        Field(description="Whether the new key is in force is not known yet: ask for the key."),
    ] = None


class TokenRefused(Model):
    """A 401 of a token."""

    code: Annotated[
        Literal[755, 756, 757],
        Field(description=", ".join(f"{int(fault)}: {fault.name}" for fault in TokenFault)),
    ]
    message: Literal["JWT_MISSING", "JWT_INVALID", "JWT_EXPIRED"]


class NewUser(Model):
    """A user to sign up."""

    model_config = ConfigDict(extra="forbid")

    username: Annotated[
        str,
        Field(
            min_length=1,
            max_length=MOST_SPELT * MAX_USERNAME_CHARS,
            description=f"1 to {MAX_USERNAME_CHARS} characters by RFC 8265, profile "
            "UsernameCasePreserved: letters, digits and ASCII's signs, no spaces; upper and "
            "lower case are different. The answer has the spelling that is kept.",
            examples=["alice"],
        ),
    ]


class User(Model):
    """A user as signed up."""

    user_id: UserId
    username: Username
    created_at: Moment


class Login(Model):
    """A request for an access token (RFC 6749, section 4.4)."""

    grant_type: Literal["client_credentials"]
    username: Username


class AccessToken(Model):
    """A user's access token."""

    access_token: TokenText
    token_type: Literal["Bearer"]
    expires_in: Seconds


class KeyToken(Model):
    """A token for one key."""

    token: TokenText
    token_type: Literal["Bearer"]
    expires_in: Seconds
    key_id: KeyId


class SigningKeys(Model):
    """A JSON Web Key Set (RFC 7517)."""

    keys: list[dict[str, Any]]


class RegisteredKey(Model):
    """A key of a user."""

    key_id: KeyId
    curve: Curve
    public_key: PublicKey
    created_at: Moment
    record: Record


class RegisteredKeys(Model):
    """All keys of a user."""

    user_id: UserId
    keys: list[RegisteredKey]


class Addresses(Model):
    """Addresses by chain: `solana` of an ed25519 key, the others of a secp256k1 key."""

    model_config = ConfigDict(extra="forbid")

    evm: Address = None
    btc: Address = None
    aptos: Address = None
    tron: Address = None
    xrp: Address = None
    solana: Address = None


class WalletKey(Model):
    """The key of a wallet."""

    curve: Curve
    public_key: PublicKey
    record: Record


class Wallet(Model):
    """A key with its addresses."""

    key: WalletKey
    address: Addresses


class Wallets(Model):
    """All keys of a user, with their addresses."""

    user_id: UserId
    wallets: list[Wallet]


class MpcNode(Model):
    """Public keys of an MPC node."""

    identifier: int
    identity: Annotated[str, Field(description="Ed25519; never another one.")]
    seal_key: Annotated[str, Field(description="X25519; halves are sealed to it.")]
    signature: Annotated[str, Field(description="The identity's, of the seal key.")]
    boot: Annotated[
        str, Field(description="Another one after every start, and after many signatures.")
    ]
    seal_number: Annotated[
        int, Field(description="Number of earlier seal keys; signed together with the key.")
    ]
    answers: Annotated[
        bool,
        Field(
            description="Whether it could be reached just now; if not, the rest is its last answer."
        ),
    ]


class MpcNodes(RootModel[dict[str, MpcNode]]):
    """`operator` and `institution`; all bytes in hex."""

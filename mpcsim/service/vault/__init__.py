"""The vault: the two strings in which a caller keeps its key share, and how they open again.

``README.md`` beside this file has the format's reasons, who may ask an MPC node for what, and what
a thief gains by which part. Files, in reading order: ``strings`` (what both strings are),
``sealing`` (seal and open a share), ``halves`` (each MPC node's half of the ``secret_store``),
``use`` (the proof that whoever asks has the store), ``presignatures`` (sealed under the share).
"""

from mpcsim.service.vault.halves import ReplyKey, SealKey, VaultKey, rewrap_half, wipe
from mpcsim.service.vault.presignatures import (
    PresignatureHeader,
    SealedPresignature,
    open_presignature,
    seal_presignature,
)
from mpcsim.service.vault.sealing import (
    DerivedKey,
    NodeKeys,
    new_salt,
    open_share,
    password_key,
    password_matches,
    seal_share,
    share_key,
)
from mpcsim.service.vault.strings import (
    HALF_BYTES,
    INTERACTIVE,
    MAX_SHARE_BYTES,
    VERSION,
    Argon2Cost,
    EncryptedShare,
    MalformedVault,
    SecretStore,
    VaultError,
    WrongKey,
)
from mpcsim.service.vault.use import SigningRequest, VaultUse, answer_tag, sha256_each

__all__ = [
    "HALF_BYTES",
    "INTERACTIVE",
    "MAX_SHARE_BYTES",
    "VERSION",
    "Argon2Cost",
    "DerivedKey",
    "EncryptedShare",
    "MalformedVault",
    "NodeKeys",
    "PresignatureHeader",
    "ReplyKey",
    "SealKey",
    "SealedPresignature",
    "SecretStore",
    "SigningRequest",
    "VaultError",
    "VaultKey",
    "VaultUse",
    "WrongKey",
    "answer_tag",
    "sha256_each",
    "new_salt",
    "open_presignature",
    "open_share",
    "password_key",
    "password_matches",
    "rewrap_half",
    "seal_presignature",
    "seal_share",
    "share_key",
    "wipe",
]

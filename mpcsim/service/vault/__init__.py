"""The vault: the two strings in which a caller keeps its key share, and how they open again.

``encrypted_share`` is the serialized client share under XChaCha20-Poly1305. Its key is
HKDF-SHA256(pw_key || pepper), where pw_key = Argon2id(password, salt) and the pepper is 32 random
bytes. ``secret_store`` holds salt, Argon2id cost and pw_key || pepper. These 64 bytes are split by
XOR into two halves, each sealed to one of the two MPC nodes. To sign, the node that serves the
caller has both halves opened and re-encrypted to a key made for this one request, joins them and
decrypts the share. No password is needed for that; the password can still be checked, since the
opened store contains pw_key.

Binding: the sealed half names its MPC node, user and key, and the MPC node opens it for no other.
Key, curve, salt, cost, authentication keys and identities enter the key derivation, whose second
output, stored as confirmation, is compared before anything else is done: a store that was altered,
or put together from two, is recognised as such, and an altered cost is never spent. The share's
associated data are version, key, curve and user.

Who may ask (``use``): the ``secret_store`` has a key beside each half that authenticates requests
to its MPC node, which derives the same key from its own share of this epoch. An MPC node opens a
half, and begins to sign, only for a request with such a proof: over verb, key, user, reply key,
signer, session, message, path, the client's first messages, what presignatures are made or used,
and the node's present start. It is checked before anything is opened or begun; a wrong one is
refused, and nobody is blamed for it. One request may open the vault and begin to sign: then the
proof to the MPC node that signs covers both, and the client's first message, which is sealed with
the same key (``mpcsim.protocols.engine.early``). What comes back is sealed with what only the two
shares give, and says which request it answers: nobody is blamed for what stands in an answer to
another one.

By whom (the vault policy; a byte in the store says which): ``both`` is as said above. With
``signer`` there are no halves: the whole is sealed to each MPC node separately, and the one that
signs opens it alone, so that signing goes on while the other is away. Nobody then asks the other
whether the key is suspended. The one that signs demands its signed list of suspended keys instead,
an hour old at most (``mpcsim.service.mpc_node.agreement.attestations``): so signing goes on for an
hour, and so long a suspension that only the other knows of may be late.

Presignatures (``presignatures``) are sealed under the share's key, each with a header in the clear
that is its associated data: which one it is, of which epoch, with which signer, made under which
boots, and what the other MPC node keeps it under. That one takes it off its list before it opens
its half for a request to use it. So whoever repeats a request, restores a database or owns the MPC
node that signs gets no second signature with it; nor does the client open a vault for one, since
the proof is of a request to use this presignature, with this message, path and randomness.

With whom: the store names the identities of the MPC nodes that the key was made with. The node that
serves the caller asks no others.

What a thief gains:

The caller's database (both strings)
    Nothing to try passwords on: every guess lacks the pepper. Without the MPC nodes, neither share
    nor password. Nor does the thief get them asked: that takes a token, beside the keys in the
    store. The thief does learn key id, curve, salt, cost and the share's size.
One MPC node (its seal key and key share)
    Halves of stores it gets to see. A half is independent of the password and of the share's key.
    It could make proofs for itself alone: the other's key is another pair's.
The ``secret_store`` and a token, without the encrypted share
    pw_key and pepper, and with them passwords to try. The MPC nodes answer its requests to sign a
    message of its choice, one at a time for a key: sealed, and on ed25519 with a share of that
    signature, of use only together with the client's share of this epoch, recovered since or not.
The database and one MPC node
    Still one half: the other is missing, and with it the client share, so that the thief has one
    key share of the two it takes to sign. Nothing that an MPC node is ever shown gets the other
    one asked.
The database and one MPC node, with policy ``signer``
    The client's share without any password, something to try passwords on, and with the MPC node's
    own share the key.
The database and both seal keys
    The share, without any password, and something to try passwords on. (Whoever has the key shares
    of both MPC nodes can sign without the vault.)
The gateway's logs, or a recording of all its traffic
    Halves sealed to the MPC nodes or to keys that are gone; salt, share, password and
    authentication keys never pass there. The sealed halves stay sealed only as long as both seal
    keys stay secret: there is no forward secrecy. A bearer token in a log is a stolen token.
An active gateway
    No half, and no part in a signature: it has no key to make a proof with, and a proof that passes
    through it is good for that reply key, message and first message alone. It can refuse, and it
    can pass the same request on twice, to the same reply key. What else it can do is not the
    vault's to prevent. It issues the tokens, so it can have any key recovered under a password of
    its own, which shows: the user's share stops working. (With ``signer`` it goes on working at an
    MPC node that has voted for the new shares and is not told that they are in force; its log has
    the recovery begun.) And where the node that serves the caller has not been told the MPC nodes'
    identities, it takes them from the gateway: one that lies about them while a key is made or
    recovered is in the MPC nodes' place from then on. It cannot make a vault open to a wrong
    result.
An active gateway and the database
    The share: with the store it makes proofs for a reply key of its own. Then it can sign, and try
    passwords.
A stolen token
    Opens no vault and signs nothing without the ``secret_store``. With the database it opens the
    share, and pw_key then allows trying passwords. The vault does not limit what else a token
    permits: recovery in particular deals a new share to whoever holds a token, under a password of
    the thief's choice.
The node that serves the caller
    Sees password and share in the clear while it works for the caller.

Where one process runs the gateway and both MPC nodes, they are one thief. Whoever can write to the
database can put a vault of its own making in place of another: anyone can seal. It opens only with
the authentication keys of its epoch, and the share inside must still fit the MPC nodes' shares
before anything can be signed.

Secrets are kept in bytearrays and overwritten where this package can: Python and the bindings make
immutable copies of their own (of the share and the derived keys, for instance), which stay in
memory until that is used again.
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
from mpcsim.service.vault.use import SigningRequest, VaultUse, answer_tag, hashes

__all__ = [
    "HALF_BYTES",
    "INTERACTIVE",
    "MAX_SHARE_BYTES",
    "VERSION",
    "Argon2Cost",
    "EncryptedShare",
    "MalformedVault",
    "NodeKeys",
    "DerivedKey",
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
    "hashes",
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

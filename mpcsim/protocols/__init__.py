"""The wallet's protocols: messages, steps in the order of paper or RFC, and rounds as data.

Imports ``crypto``; no clock, socket, event loop or randomness. In reading order:

- ``engine``: what a round and a party are, sealing, echo broadcast
- ``key_share``: what key generation leaves behind
- ``dkg``, ``reshare``: distributed key generation, and new shares of a key
- ``ecdsa``, ``frost``: threshold signatures on secp256k1 and ed25519
- ``presign``, ``presigned``: ECDSA ahead of the message, and with it
- ``signing``: which protocol signs on which curve
- ``local_run``: parties in memory, stepped or to the end; ``sample_keys``: keys to try things with
"""

from mpcsim.protocols.local_run import LocalRun, Participant, results, run
from mpcsim.protocols.sample_keys import keys, session_id, with_fresh_guard

__all__ = [
    "LocalRun",
    "Participant",
    "with_fresh_guard",
    "keys",
    "results",
    "run",
    "session_id",
]

"""Values and locks that all parts of one MPC node share."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from mpcsim.crypto.rng import Rng
from mpcsim.ids import PartyId
from mpcsim.protocols.engine.events import Listener
from mpcsim.service.mpc_node.identity import Identity
from mpcsim.service.mpc_node.peer import Peer
from mpcsim.service.mpc_node.store import ShareStore
from mpcsim.service.rpc import wire
from mpcsim.service.rpc.grants import Grant

LOG: Final = logging.getLogger("mpcsim.service.mpc_node.node")
"""All parts of a node log under its name."""

Verb: TypeAlias = Callable[[Grant, bytes], wire.Body | None]
"""Answers one kind of request: grant and body in, the body of the answer out."""


@dataclass(frozen=True)
class NodeContext:
    """Store, keys and locks of one MPC node.

    Locks are taken in this order: a session's, ``share_changes``, ``lock``, the store's; in a
    transaction none of the others is waited for.
    """

    me: PartyId
    """OPERATOR or INSTITUTION."""
    store: ShareStore
    identity: Identity
    peer: Peer
    rng: Rng
    listener: Listener
    """Callback for what the parties do, from whichever thread drives them."""
    share_changes: threading.Lock = field(default_factory=threading.Lock)
    """Held while shares are prepared or dropped; taken before ``lock``."""
    lock: threading.RLock = field(default_factory=threading.RLock)
    """Guards sessions, decoded shares, presignatures and randomness; never held while the disk is
    waited for."""

"""The other MPC node, as this one knows it: its identity is kept at first sight, and for good."""

from __future__ import annotations

import threading

from mpcsim.ids import MPC_NODES, ROLES, PartyId
from mpcsim.service.error_codes import Code
from mpcsim.service.errors import BAD_REQUEST, UNAVAILABLE, NodeFailed, Refused
from mpcsim.service.mpc_node.store import ShareStore
from mpcsim.service.rpc.statements import is_hello_authentic
from mpcsim.service.rpc.wire import Hello
from mpcsim.service.storage.database import file_of


class Peer:
    """Who the other MPC node is. Any thread may ask.

    What it hears changes this once, at first sight. A stranger is refused, and leaves nothing
    behind: whoever carries what the other node says could bring one.
    """

    def __init__(self, me: PartyId, store: ShareStore) -> None:
        """
        Args:
            me: this MPC node.
            store: its own, where the identity is kept.
        """
        (party,) = set(MPC_NODES) - {me}
        self.party = party
        self._me = ROLES[me]
        self._store = store
        self._known = store.keys.peer_identity()
        self._lock = threading.Lock()

    def meet(self, hello: Hello) -> None:
        """Hear who it is.

        Raises:
            Refused: this is not the other MPC node's; ``NodeFailed``: it is another one than at
                first sight.
            StoreFailed: it cannot be kept.
        """
        it = ROLES[self.party]
        if hello.party != self.party or not is_hello_authentic(hello):
            raise Refused(BAD_REQUEST, f"this is not who the {it} is, says the {self._me}")
        with self._lock:
            if self._known is None:
                self._store.keys.pin(hello.identity)
                self._known = hello.identity
        if hello.identity != self._known:
            raise NodeFailed(
                UNAVAILABLE,
                f"the {it} has another identity than when the {self._me} first met it: put the "
                f"right {file_of(it)} back",
                self.party,
                code=Code.UNTRUSTED_NODE,
            )

    def identity(self) -> bytes:
        """The one that it had at first sight.

        Raises:
            NodeFailed: it has not been met.
        """
        if self._known is None:
            it = ROLES[self.party]
            raise NodeFailed(UNAVAILABLE, f"the {self._me} has not met the {it} yet", self.party)
        return self._known

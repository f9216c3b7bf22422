"""Peer of an MPC node, that is the other one: its identity is pinned at first sight, for good."""

from __future__ import annotations

import threading

from mpcsim.ids import MPC_NODES, ROLES, PartyId
from mpcsim.service.error_codes import Code
from mpcsim.service.errors import BAD_REQUEST, UNAVAILABLE, NodeFailed, Refused
from mpcsim.service.mpc_node.store import ShareStore
from mpcsim.service.rpc.statements import (
    ReconciliationStatement,
    SuspensionAttestation,
    is_hello_authentic,
    is_signed_by,
)
from mpcsim.service.rpc.wire import Hello
from mpcsim.service.storage.database import file_of


class Peer:
    """Pinned identity of the other MPC node. Any thread may ask.

    It is stored once, at first sight. Another identity is refused and changes nothing: the gateway,
    which carries the hello, could bring any.
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
        """Take a hello of the other node; pin its identity at first sight.

        Raises:
            Refused: the hello is not the other MPC node's; ``NodeFailed``: its identity is not the
                pinned one.
            StoreFailed: the identity cannot be stored.
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
        """Return the pinned identity.

        Raises:
            NodeFailed: there is none yet.
        """
        if self._known is None:
            it = ROLES[self.party]
            raise NodeFailed(UNAVAILABLE, f"the {self._me} has not met the {it} yet", self.party)
        return self._known

    def check_statement(
        self, statement: SuspensionAttestation | ReconciliationStatement, signature: bytes
    ) -> None:
        """Check that a statement is the other node's, whoever brings it.

        Raises:
            Refused: it is not.
        """
        if statement.party != self.party or not is_signed_by(self.identity(), statement, signature):
            raise Refused(BAD_REQUEST, f"this is no statement of the {ROLES[self.party]}")

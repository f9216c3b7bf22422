"""Verbs by which the gateway carries statements between the MPC nodes: ``meet``, ``attest``,
``hear``, ``testify``, ``merge``."""

from __future__ import annotations

from dataclasses import dataclass

from mpcsim.service.mpc_node.agreement.attestations import Attestations
from mpcsim.service.mpc_node.agreement.restore_reconciliation import RestoreReconciliation
from mpcsim.service.mpc_node.boot import Boot
from mpcsim.service.mpc_node.context import NodeContext
from mpcsim.service.mpc_node.verbs.suspension import Suspensions
from mpcsim.service.rpc import wire
from mpcsim.service.rpc.grants import Grant, Scope
from mpcsim.service.rpc.statements import (
    GetAttestation,
    GetReconciliationStatement,
    SignedAttestation,
    SignedReconciliationStatement,
)


@dataclass(eq=False, repr=False)
class PeerStatements:
    """Makes and accepts statements. Any thread may call."""

    context: NodeContext
    boot: Boot
    attestations: Attestations
    reconciliation: RestoreReconciliation
    suspensions: Suspensions

    def meet(self, grant: Grant, data: bytes) -> None:
        """Take the other MPC node's hello."""
        grant.check(Scope("meet"))
        self.context.peer.meet(wire.Hello.from_bytes(data))

    def attest(self, grant: Grant, data: bytes) -> wire.Body:
        """Sign which keys are suspended here (3')."""
        grant.check(Scope("attest"))
        GetAttestation.from_bytes(data)
        return self.attestations.make_statement()

    def hear(self, grant: Grant, data: bytes) -> None:
        """Accept which keys are suspended at the other node (5')."""
        grant.check(Scope("hear"))
        self.attestations.accept_statement(SignedAttestation.from_bytes(data))

    def testify(self, grant: Grant, data: bytes) -> wire.Body:
        """Sign what this node knows of a user's key (``restore_reconciliation``, 4)."""
        body = GetReconciliationStatement.from_bytes(data)
        grant.check(Scope("testify", body.user_id))
        return self.reconciliation.make_statement(body)

    def merge(self, grant: Grant, data: bytes) -> None:
        """Merge what the other MPC node knows of a restored key (``restore_reconciliation``, 6)."""
        body = SignedReconciliationStatement.from_bytes(data)
        at = body.statement.user_id, body.statement.curve_name
        grant.check(Scope("merge", at[0]))
        with self.context.share_changes:
            try:
                self.reconciliation.accept_statement(body, self.boot.hello.boot)
            finally:  # it may have been suspended, though it stays unmerged
                active = self.context.store.active_share(*at)
                if active is not None and active.suspended is not None:
                    self.suspensions.suspend_share(active, active.suspended)

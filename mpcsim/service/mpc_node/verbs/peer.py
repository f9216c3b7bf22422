"""Verbs by which the gateway carries statements between the MPC nodes: ``meet``, ``attest``,
``hear``, ``testify``, ``merge``."""

from __future__ import annotations

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


class PeerStatements:
    """Makes and accepts statements. Any thread may call."""

    def __init__(
        self,
        context: NodeContext,
        boot: Boot,
        attestations: Attestations,
        reconciliation: RestoreReconciliation,
        suspensions: Suspensions,
    ) -> None:
        self._context = context
        self._boot = boot
        self._attestations = attestations
        self._reconciliation = reconciliation
        self._suspensions = suspensions

    def meet(self, grant: Grant, data: bytes) -> None:
        """Take the other MPC node's hello."""
        grant.check(Scope("meet"))
        self._context.peer.meet(wire.Hello.from_bytes(data))

    def attest(self, grant: Grant, data: bytes) -> wire.Body:
        """Sign which keys are suspended here (3')."""
        grant.check(Scope("attest"))
        GetAttestation.from_bytes(data)
        return self._attestations.make_statement()

    def hear(self, grant: Grant, data: bytes) -> None:
        """Accept which keys are suspended at the other node (5')."""
        grant.check(Scope("hear"))
        self._attestations.accept_statement(SignedAttestation.from_bytes(data))

    def testify(self, grant: Grant, data: bytes) -> wire.Body:
        """Sign what this node knows of a user's key (``restore_reconciliation``, 4)."""
        body = GetReconciliationStatement.from_bytes(data)
        grant.check(Scope("testify", body.user_id))
        return self._reconciliation.make_statement(body)

    def merge(self, grant: Grant, data: bytes) -> None:
        """Merge what the other MPC node knows of a restored key (``restore_reconciliation``, 6)."""
        body = SignedReconciliationStatement.from_bytes(data)
        at = body.statement.user_id, body.statement.curve_name
        grant.check(Scope("merge", at[0]))
        with self._context.share_changes:
            try:
                self._reconciliation.accept_statement(body, self._boot.hello.boot)
            finally:  # it may have been suspended, though it stays unmerged
                active = self._context.store.active_share(*at)
                if active is not None and active.suspended is not None:
                    self._suspensions.suspend_share(active, active.suspended)

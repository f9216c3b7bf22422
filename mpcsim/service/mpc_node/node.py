"""MPC node: the server of the service operator or of the independent institution.

``MpcNode.handle`` takes a verb, the gateway's grant and a body, and returns a body: no socket, no
event loop, no clock of its own. ``verbs`` has the handlers; below them are ``sessions``,
``shares``, ``presignatures``, ``store`` (on disk) and ``agreement`` (with the other MPC node).

The node believes grants for the very thing it is asked to do, envelopes that open, signatures of
the other MPC node, and its own store. It takes three things from the gateway on trust: in whose
name a request is made, which messages of a key generation are the client's before client and node
share keys, and the other node's identity when it first hears of it (``meet``).

Rules of its sessions (their life cycle is described in ``gateway.sessions.sessions``):

* A half is opened, and a signing session begun, only for a request of a client that holds its
  share or secret store (``mpcsim.service.vault.use``), which is checked before anything else.
* At most one signing session and one recovery run for a key at a time.
* Shares are stored before any message that depends on them leaves, and what an abort demands is
  stored before anyone hears of it. A suspension that cannot be written counts in memory, and is
  written later (``ShareStore.write_pending``).
* Sessions are in memory: one that is lost to a crash is never resumed.
* When a session ends or expires, and at a start, its prepared shares are deleted, those that nobody
  has voted for (``sessions.expiry``).

Any thread may call. The locks and their order are in ``context``.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping

from mpcsim.crypto.rng import Rng, SystemRng
from mpcsim.errors import AbortReason, InvalidEncoding
from mpcsim.ids import ROLES, SESSION_ID_BYTES, PartyId
from mpcsim.protocols.engine.events import Listener, silent
from mpcsim.service.errors import BAD_REQUEST, NodeFailed, Refused, store_failed
from mpcsim.service.mpc_node.agreement.attestations import Attestations
from mpcsim.service.mpc_node.agreement.restore_reconciliation import RestoreReconciliation
from mpcsim.service.mpc_node.agreement.voting import Voting
from mpcsim.service.mpc_node.boot import Boot
from mpcsim.service.mpc_node.context import LOG, NodeContext, Verb
from mpcsim.service.mpc_node.peer import Peer
from mpcsim.service.mpc_node.presignatures import Presignatures
from mpcsim.service.mpc_node.sessions.expiry import SessionExpiry
from mpcsim.service.mpc_node.sessions.runner import SessionRunner
from mpcsim.service.mpc_node.sessions.table import SessionTable
from mpcsim.service.mpc_node.shares import KeyShares
from mpcsim.service.mpc_node.store import ShareStore
from mpcsim.service.mpc_node.verbs.activation import Activation
from mpcsim.service.mpc_node.verbs.key_creation import KeyCreation
from mpcsim.service.mpc_node.verbs.peer import PeerStatements
from mpcsim.service.mpc_node.verbs.sessions import OpenSessions
from mpcsim.service.mpc_node.verbs.signing import Signing
from mpcsim.service.mpc_node.verbs.suspension import Suspensions
from mpcsim.service.mpc_node.verbs.vault import VaultHalves
from mpcsim.service.rpc import wire
from mpcsim.service.rpc.grants import Keyring
from mpcsim.service.rpc.wire import MAKING_S, SIGNING_S
from mpcsim.service.storage.database import StoreFailed
from mpcsim.service.web.request_records import annotate_request


class MpcNode:
    """MPC node of the operator or of the institution."""

    def __init__(
        self,
        me: PartyId,
        store: ShareStore,
        link: Keyring,
        *,
        clock: Callable[[], float],
        now: Callable[[], float] = time.time,
        rng: Rng | None = None,
        listener: Listener = silent,
        signing_s: float = SIGNING_S,
        making_s: float = MAKING_S,
    ) -> None:
        """Start a node with its store.

        Args:
            me: OPERATOR or INSTITUTION.
            link: MAC keys of the gateway's grants for this node.
            clock: monotonic seconds, for the expiry of sessions.
            now: seconds since 1970 UTC, for the expiry of grants.
            listener: callback for what the parties do, from whichever thread drives them.
            signing_s: lifetime of a signing session; ``making_s``: of the others.
        """
        self.me = me
        rng = rng or SystemRng()
        seal_key, identity = store.keys.seal_key(rng), store.keys.identity(rng)
        context = NodeContext(me, store, identity, Peer(me, store), rng, listener)
        self._context = context
        self._sessions = SessionTable(clock, context.lock)
        self._expiry = SessionExpiry(context, self._sessions)
        self._expiry.drop_orphans()
        store.write_pending()
        self._shares = KeyShares(context)
        mine, peer = (me, store, identity), context.peer
        self._voting = Voting(*mine, peer.identity, self._shares.public_record)
        self._attestations = Attestations(*mine, peer, now)
        self._reconciliation = RestoreReconciliation(*mine, peer, self._voting, self._shares.decode)
        self._presignatures = Presignatures(context.lock)
        self._boot = Boot(context, seal_key, link, now)
        self._verbs = self._with_verbs(signing_s, making_s)

    def _with_verbs(self, signing_s: float, making_s: float) -> Mapping[str, Verb]:
        """Create the handlers of requests, and return them by verb."""
        context, boot, shares = self._context, self._boot, self._shares
        presignatures, sessions, expiry = self._presignatures, self._sessions, self._expiry
        self._suspensions = Suspensions(context, shares, presignatures, sessions)
        runner = SessionRunner(context, sessions, expiry, presignatures, self._suspensions.on_abort)
        self._vault = VaultHalves(
            context, boot, shares, presignatures.usage_tokens, self._attestations
        )
        self._signing = Signing(
            context,
            boot,
            shares,
            self._vault,
            presignature_shares=presignatures.shares,
            sessions=sessions,
            runner=runner,
            lifetime_s=signing_s,
        )
        creation = KeyCreation(context, shares, sessions, expiry, runner, making_s)
        opened = OpenSessions(context, sessions, expiry, runner)
        activation = Activation(context, self._voting, shares, presignatures, sessions, expiry)
        peer = PeerStatements(
            context, boot, self._attestations, self._reconciliation, self._suspensions
        )
        self._runner = runner
        return {
            "open": self._vault.open,
            "generate": creation.generate,
            "recover": creation.recover,
            "sign": self._signing.sign,
            "presigned": self._signing.presigned,
            "exchange": opened.exchange,
            "suspend": self._suspensions.suspend,
            "close": opened.close,
            "vote": activation.vote,
            "activate": activation.activate,
            "standing": activation.activation_state,
            "abort": activation.abort,
            "drop": activation.drop,
            "holdings": activation.share_inventory,
            "meet": peer.meet,
            "attest": peer.attest,
            "hear": peer.hear,
            "testify": peer.testify,
            "merge": peer.merge,
            "reset": opened.reset,
        }

    @property
    def verbs(self) -> frozenset[str]:
        """Verbs that the gateway may ask for."""
        return frozenset(self._verbs)

    @property
    def store(self) -> ShareStore:
        return self._context.store

    @property
    def sessions(self) -> int:
        """Number of open sessions."""
        return len(self._sessions)

    @property
    def aborts(self) -> Counter[AbortReason]:
        """Sessions that this node has aborted, by reason, since it was made."""
        return self._suspensions.aborts

    @property
    def peer_problem(self) -> str | None:
        """Reason why this node cannot make keys: it has not met the other one; None: it has."""
        try:
            self._context.peer.identity()
        except NodeFailed as failed:
            return str(failed)
        return None

    def is_quick(self, verb: str, body: bytes) -> bool:
        """Return whether a request computes for milliseconds and does not wait for the disk.

        Such a request is handled without a thread of its own. All of signing is quick, and so stays
        in one thread, as shares demand (``protocols.key_share.Guard``).
        """
        if verb == "exchange":
            return self._sessions.is_signing(body[:SESSION_ID_BYTES])
        return verb in ("open", "sign", "presigned")

    def hello(self) -> wire.Hello:
        """Return identity, seal key and boot of this node since its last start."""
        return self._boot.hello

    def meet(self, hello: wire.Hello) -> None:
        """Take the other MPC node's hello; its identity is pinned at first sight.

        Raises:
            Refused: it is not the other MPC node's, or has another identity; nothing has changed.
        """
        self._context.peer.meet(hello)

    def check_grant(self, grant: bytes) -> None:
        """Check that a request comes from the gateway, before its body is read.

        Raises:
            GrantRefused: it does not.
        """
        self._boot.check_grant(grant)

    def handle(self, verb: str, grant: bytes, body: bytes) -> bytes:
        """Answer one request.

        Args:
            grant: covers this verb and the body's subject; used up by this.

        Raises:
            Refused: with an HTTP status; this node's state is unchanged. ``NodeFailed``: the store
                failed or is damaged. ``GrantRefused``: the grant is not valid.
        """
        try:
            granted = self._boot.read_grant(grant)
            annotate_request(granted.user_id, granted.key_id, granted.session_id)
            reply = self._verbs[verb](granted, body)
        except InvalidEncoding as error:
            raise Refused(BAD_REQUEST, f"{verb}: {error}") from None
        except StoreFailed as error:
            LOG.error("%s %s: %s", ROLES[self.me], verb, error)
            raise store_failed(error.public_text, self.me, error.code) from None
        return b"" if reply is None else reply.to_bytes()

    def restart(self) -> None:
        """Restart as after a crash: with the store, and no sessions."""
        with self._context.lock:
            self._sessions.clear()
            self._shares.clear()
            self._attestations.forget()
            self._boot.start()
            self._presignatures.clear()
        self._expiry.drop_orphans()

    def sweep(self) -> None:
        """Delete prepared shares of sessions that have ended (``SessionExpiry.sweep``).

        Raises:
            StoreFailed: not all could be deleted.
        """
        self._expiry.sweep()

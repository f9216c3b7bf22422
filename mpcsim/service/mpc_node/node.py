"""An MPC node: the party that the service operator, or the independent institution, runs.

``MpcNode`` is composed of parts: what it has in common (``context``), its boot (``boot``), its
shares (``shares``, ``store``), its sessions (``sessions``), what the two nodes tell each other
(``agreement``), and what the gateway may ask for (``verbs``).

It takes a verb, the gateway's grant and a body, and gives a body back: no socket, no event loop, no
clock of its own. It believes nothing but grants for the very thing it is asked to do, envelopes
that open, and its own store. What it takes from the gateway on trust: in whose name it asks, which
messages of a key generation are the client's before the two have keys, and who the other MPC node
is when it first hears of it (``meet``). Which of its shares are in force is decided by both nodes'
signatures (``agreement.voting``).

What its sessions keep to:

* A half is opened, and a signing session begun, for whoever has the client's share or its secret
  store (``mpcsim.service.vault.use``). This is seen before anything is done.
* One signing session a key at a time (``verbs.signing``), and one recovery.
* Shares are stored before any message that depends on them leaves, and what an abort demands is
  stored before anyone hears of it; what cannot be is owed, and counts
  (``ShareStore.write_pending``). Sessions themselves live in memory: one that is lost to a crash is
  over, and is never resumed.
* A session that nobody continues expires, and what it has made and nobody has voted for goes
  (``sessions.expiry``). A node that starts has no session: all such shares go.

Any thread may call. Which locks there are, and their order, is in ``context``.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping

from mpcsim.crypto.rng import Rng, SystemRng
from mpcsim.errors import InvalidEncoding, Reason
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
from mpcsim.service.web.entries import note


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
            link: what the gateway's grants for this node are authenticated with.
            clock: monotonic seconds, for the expiry of sessions.
            now: seconds since 1970 UTC, for the expiry of grants.
            listener: told what the parties do; by whichever thread drives them.
            signing_s: after so long a signing session expires; ``making_s``: the others.
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
        """Make what answers the gateway, and return who answers which verb."""
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
    def aborts(self) -> Counter[Reason]:
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
        """Whether a request computes for a few milliseconds and does not wait for the disk, so that
        a thread is not worth its while. All of signing is, and keeps to one thread by that."""
        if verb == "exchange":
            return self._sessions.is_signing(body[:SESSION_ID_BYTES])
        return verb in ("open", "sign", "presigned")

    def hello(self) -> wire.Hello:
        """Return who this node is, since its last start."""
        return self._boot.hello

    def meet(self, hello: wire.Hello) -> None:
        """Hear who the other MPC node is: its identity is kept at first sight.

        Raises:
            Refused: it is not the other MPC node's, or another one than at first sight. Nothing
                comes of that.
        """
        self._context.peer.meet(hello)

    def check_grant(self, grant: bytes) -> None:
        """See that whoever asks is the gateway, before anything is taken from them.

        Raises:
            GrantRefused: it is not.
        """
        self._boot.check_grant(grant)

    def handle(self, verb: str, grant: bytes, body: bytes) -> bytes:
        """Answer one request.

        Args:
            grant: for this verb and what the body is about; used up by this.

        Raises:
            Refused: with an HTTP status; this node's part is as it was before. ``NodeFailed``:
                for want of what is in the store. ``GrantRefused``: for want of a grant.
        """
        try:
            granted = self._boot.read_grant(grant)
            note(granted.user_id, granted.key_id, granted.session_id)
            reply = self._verbs[verb](granted, body)
        except InvalidEncoding as error:
            raise Refused(BAD_REQUEST, f"{verb}: {error}") from None
        except StoreFailed as error:
            LOG.error("%s %s: %s", ROLES[self.me], verb, error)
            raise store_failed(error.told, self.me, error.code) from None
        return b"" if reply is None else reply.to_bytes()

    def restart(self) -> None:
        """Go on as after a crash: with the store, and no session."""
        with self._context.lock:
            self._sessions.clear()
            self._shares.clear()
            self._attestations.forget()
            self._boot.start()
            self._presignatures.clear()
        self._expiry.drop_orphans()

    def sweep(self) -> None:
        """Drop what sessions that are no more have made (``SessionExpiry.sweep``).

        Raises:
            StoreFailed: not everything could be dropped.
        """
        self._expiry.sweep()

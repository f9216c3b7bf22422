"""An MPC node: the party that the service operator, or the independent institution, runs.

It takes a verb, the gateway's grant and a body, and gives a body back: no socket, no event loop, no
clock of its own. It believes nothing but grants for the very thing it is asked to do, envelopes
that open, and its own store. What it takes from the gateway on trust: in whose name it asks, which
messages of a key generation are the client's before the two have keys, and who the other MPC node
is when it first hears of it (``meet``). Which of its shares are in force is decided by both nodes'
signatures (``voting``).

What its sessions keep to:

* A half is opened, and a signing session begun, for whoever has the client's share or its secret
  store (``mpcsim.service.vault.use``). This is seen before anything is done.
* One signing session a key at a time. A second one is refused and the first goes on; this also
  keeps a cheating peer from guessing at the same multiplication state in many sessions at once.
* One recovery a key at a time.
* Shares are stored before any message that depends on them leaves, and what an abort demands is
  stored before anyone hears of it; what cannot be is owed, and counts (``ShareStore.pay``).
  Sessions themselves live in memory: one that is lost to a crash is over, and is never resumed.
* A session that nobody continues expires, and what it has made and nobody has voted for goes
  (``sweep``). A node that starts has no session: all such shares go.

Any thread may call. Locks are taken in this order: a session's, ``_settling``, ``_lock``, the
store's; in a transaction none of the others is waited for. Signing keeps to one thread all the
same, the caller's event loop, because of what shares have in common in a process
(``keyshare.Guard``).
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

from mpcsim.crypto.bip32 import Path
from mpcsim.crypto.encoding import NO_CONTEXT
from mpcsim.crypto.mta.schemes import built_in_scheme, standard_scheme
from mpcsim.crypto.rng import Rng, SystemRng
from mpcsim.errors import Aborted, Consequence, InvalidEncoding, Reason, UsageError
from mpcsim.ids import (
    BOOT_BYTES,
    CLIENT,
    HOLDERS,
    MPC_NODES,
    ROLES,
    SESSION_ID_BYTES,
    START_BYTES,
    THRESHOLD,
    PartyId,
)
from mpcsim.protocols import dkg, presign, presigned, reshare
from mpcsim.protocols.engine import Done, Output, Party, Prepared, Send
from mpcsim.protocols.engine.events import Listener, silent
from mpcsim.protocols.key_share import KeyShare, PublicKeyRecord
from mpcsim.protocols.signing import signer
from mpcsim.service.error_codes import Code
from mpcsim.service.errors import (
    BAD_REQUEST,
    CONFLICT,
    GONE,
    RECOVERY,
    SIGNING,
    NodeFailed,
    Refused,
    another_boot,
    busy,
    key_exists,
    no_such_child,
    no_such_key,
    no_such_session,
    not_authentic,
    seal_key_lost,
    store_failed,
    suspended,
    unmerged,
)
from mpcsim.service.mpc_node.attestations import Attestations
from mpcsim.service.mpc_node.events import Kind
from mpcsim.service.mpc_node.peer import Peer
from mpcsim.service.mpc_node.presignatures import Allowances, Parts
from mpcsim.service.mpc_node.store import ShareStore, StoredShare
from mpcsim.service.mpc_node.testimonies import Testimonies
from mpcsim.service.mpc_node.voting import Voting
from mpcsim.service.rpc import notices, wire
from mpcsim.service.rpc.grants import Grant, GrantReader, Keyring, Scope
from mpcsim.service.rpc.holdings import ACTIVE, PREPARED
from mpcsim.service.rpc.lifetimes import MAKING_S, SIGNING_S
from mpcsim.service.rpc.mail import opened
from mpcsim.service.rpc.standing import PAGE, Ask, Drop, End, Holdings, ListHoldings
from mpcsim.service.rpc.statements import (
    Attest,
    SealKeyStatement,
    SignedAttestation,
    SignedRecord,
    SignedTestimony,
    Suspended,
    Testify,
)
from mpcsim.service.storage.database import StoreFailed
from mpcsim.service.vault import VaultError, VaultUse, answer_tag, hashes, rewrap_half
from mpcsim.service.web.entries import note

LOG = logging.getLogger(__name__)

MAX_SESSIONS: Final = 4096
"""Open at once; a session keeps at most a few hundred kB."""
MAX_SIGNED: Final = 1 << 18
"""Signing sessions that are remembered, some 100 bytes each, those of all users together. Whenever
half of them have been begun, the node's boot becomes another one, but for its first
``START_BYTES``: what was asked for under the one before stays good until the next, and only what is
older is refused, and asked for anew. Presignatures are good until the process ends: each is used
once for itself."""
DECODED_SHARES: Final = 1024
"""Shares kept in decoded form, some 40 kB each."""


@dataclass
class _Session:
    """A session that this node takes part in."""

    session_id: bytes
    user_id: str
    party: Party[Any, Any]
    expires_at: float
    key_id: str | None
    """The key it acts on; None while it generates one."""
    peers: Mapping[PartyId, bytes]
    """Where a key is made: the other MPC node's identity, and the session's key, which is its id,
    for the client (``session_keys``). What is not sealed there is signed."""
    curve: str
    """Of the key that is made; empty where it signs."""
    epoch: str | None = None
    """Of the share that it makes, once that is known."""
    made: StoredShare | None = None
    """The share it has made, prepared in the store."""
    done: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def scope(self, verb: str) -> Scope:
        """Of a request about it."""
        key_id = None if self.key_id is None else bytes.fromhex(self.key_id)
        return Scope(verb, self.user_id, key_id, self.session_id)


class MpcNode:
    """One of the two MPC nodes."""

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
        """A node with its store.

        Args:
            me: OPERATOR or INSTITUTION.
            link: what the gateway's grants for this node are authenticated with.
            clock: monotonic seconds, for the expiry of sessions.
            now: seconds since 1970 UTC, for the expiry of grants.
            listener: told what the parties do; by whichever thread drives them.
        """
        self.me = me
        self.signing_s = signing_s
        self.making_s = making_s
        self._store = store
        self._link = link
        self._now = now
        self._clock = clock
        self._rng = rng or SystemRng()
        self._listener = listener
        self._seal_key = store.seal_key(self._rng)
        self._identity = store.identity(self._rng)
        self._peer = Peer(me, store)
        self._drop_orphans()
        store.pay()
        self._voting = Voting(me, store, self._identity, self._peer.identity, self._public_record)
        self._attestations = Attestations(me, store, self._identity, self._peer, now)
        self._testimonies = Testimonies(
            me, store, self._identity, self._peer, self._voting, self._decode
        )
        self._parts, self._allowances = Parts(), Allowances()
        self._start()
        self._sessions: dict[bytes, _Session] = {}
        self._busy: dict[tuple[str, str], bytes] = {}
        """Sessions that exclude others: (what is done, key_id) to the session."""
        self._decoded: OrderedDict[tuple[str, str], tuple[bytes, KeyShare]] = OrderedDict()
        """Stored and decoded form of shares in force, by user and curve."""
        self._lock = threading.RLock()
        """Of all the above, and of randomness; never held while the disk is waited for."""
        self._settling = threading.Lock()
        """Held while shares are prepared or dropped; taken before the other."""
        self.aborts: Counter[Reason] = Counter()
        """Sessions that this node has aborted, by reason, since it was made."""
        self._verbs: Mapping[str, Callable[[Grant, bytes], wire.Body | None]] = {
            "open": self._open,
            "generate": self._generate,
            "recover": self._recover,
            "sign": self._sign,
            "presigned": self._presigned,
            "exchange": self._exchange,
            "suspend": self._suspend,
            "close": self._close,
            "vote": self._vote,
            "activate": self._activate,
            "standing": self._standing,
            "abort": self._abort,
            "drop": self._drop,
            "holdings": self._holdings,
            "meet": self._meet,
            "attest": self._attest,
            "hear": self._hear,
            "testify": self._testify,
            "merge": self._merge,
            "reset": self._reset,
        }

    @property
    def verbs(self) -> frozenset[str]:
        """What the gateway may ask for."""
        return frozenset(self._verbs)

    @property
    def store(self) -> ShareStore:
        return self._store

    @property
    def sessions(self) -> int:
        """How many are open."""
        return len(self._sessions)

    @property
    def stranger(self) -> str | None:
        """What it lacks to make keys: to have met the other MPC node."""
        try:
            self._peer.identity()
        except NodeFailed as failed:
            return str(failed)
        return None

    def quick(self, verb: str, body: bytes) -> bool:
        """Whether a request computes for a few milliseconds and does not wait for the disk, so that
        a thread is not worth its while. All of signing is, and keeps to one thread by that."""
        if verb == "exchange":
            session = self._sessions.get(body[:SESSION_ID_BYTES])
            return session is not None and (
                self._busy.get((SIGNING, session.key_id or "")) == session.session_id
            )
        return verb in ("open", "sign", "presigned")

    def hello(self) -> wire.Hello:
        """Who this node is, since its last start."""
        return self._hello

    def _start(self) -> None:
        """Be what it is from this start to the next; nothing asked for before is good any more."""
        seal_key = self._seal_key.public
        number = self._store.seal_number()
        signature = self._identity.sign(SealKeyStatement(self.me, seal_key, number))
        boot = self._rng.bytes(BOOT_BYTES)
        self._hello = wire.Hello(self.me, self._identity.public, seal_key, signature, boot, number)
        self._grants = GrantReader(self.me, self._link, boot, self._now)
        self._parts.clear()
        self._allowances.clear()
        self._signed: dict[bytes, set[bytes]] = {boot: set()}
        """Signing sessions under the present boot and the one before, by boot: who carries a
        request could have one begun twice, and what the client says in the first would not fit the
        second, as if the client had cheated."""

    def _age(self) -> None:
        """Give what was asked for before two boots up, once enough has been signed under this."""
        before = self._hello.boot
        if len(self._signed[before]) >= MAX_SIGNED // 2:
            boot = before[:START_BYTES] + self._rng.bytes(BOOT_BYTES - START_BYTES)
            self._hello = replace(self._hello, boot=boot)
            self._grants = GrantReader(self.me, self._link, boot, self._now)
            self._signed = {before: self._signed[before], boot: set()}

    def meet(self, hello: wire.Hello) -> None:
        """Hear who the other MPC node is: its identity is kept at first sight.

        Raises:
            Refused: it is not the other MPC node's, or another one than at first sight. Nothing
                comes of that.
        """
        self._peer.meet(hello)

    def _meet(self, grant: Grant, data: bytes) -> None:
        grant.check(Scope("meet"))
        self.meet(wire.Hello.from_bytes(data))

    def _attest(self, grant: Grant, data: bytes) -> wire.Body:
        grant.check(Scope("attest"))
        Attest.from_bytes(data)
        return self._attestations.made()

    def _hear(self, grant: Grant, data: bytes) -> None:
        grant.check(Scope("hear"))
        self._attestations.hear(SignedAttestation.from_bytes(data))

    def _testify(self, grant: Grant, data: bytes) -> wire.Body:
        body = Testify.from_bytes(data)
        grant.check(Scope("testify", body.user_id))
        return self._testimonies.made(body)

    def _merge(self, grant: Grant, data: bytes) -> None:
        body = SignedTestimony.from_bytes(data)
        at = body.statement.user_id, body.statement.curve_name
        grant.check(Scope("merge", at[0]))
        with self._settling:
            try:
                self._testimonies.hear(body, self._hello.boot)
            finally:  # it may be suspended, though the key is not served
                active = self._store.active(*at)
                if active is not None and active.suspended is not None:
                    self._stop_using(active, active.suspended)

    def _reset(self, grant: Grant, data: bytes) -> None:
        """From a gateway that has just been started. It knows of no session: none that is open here
        will be gone on with, and none must keep others from a key."""
        grant.check(Scope("reset"))
        wire.Reset.from_bytes(data)
        with self._lock:
            for session in list(self._sessions.values()):
                self._forget(session)
        self.sweep()

    def handle(self, verb: str, grant: bytes, body: bytes) -> bytes:
        """Answer one request.

        Args:
            grant: for this verb and what the body is about; used up by this.

        Raises:
            Refused: with an HTTP status; this node's part is as it was before. ``NodeFailed``:
                for want of what is in the store. ``GrantRefused``: for want of a grant.
        """
        try:
            granted = self._grants.read(grant)
            note(granted.user_id, granted.key_id, granted.session_id)
            reply = self._verbs[verb](granted, body)
        except InvalidEncoding as error:
            raise Refused(BAD_REQUEST, f"{verb}: {error}") from None
        except StoreFailed as error:
            LOG.error("%s %s: %s", ROLES[self.me], verb, error)
            raise store_failed(error.told, self.me, error.code) from None
        return b"" if reply is None else reply.to_bytes()

    def restart(self) -> None:
        """What a crash of this node leaves: the store, and no session."""
        with self._lock:
            self._sessions.clear()
            self._busy.clear()
            self._decoded.clear()
            self._attestations.forget()
            self._start()
        self._drop_orphans()

    def _drop_orphans(self) -> None:
        """At a start: of all sessions. Who reads the files just then keeps the node from
        overwriting what was in them, not from starting: the next sweep does it."""
        try:
            self._store.drop_orphans()
        except StoreFailed as error:
            if not self._store.database.needs_emptying:
                raise
            LOG.error("%s: what was deleted stays in the store for now: %s", ROLES[self.me], error)

    # ------------------------------------------------------------------ vault

    def _open(self, grant: Grant, data: bytes) -> wire.Body:
        body = wire.OpenHalf.from_bytes(data)
        grant.check(Scope("open", grant.user_id, body.key_id))
        whole, using = bool(body.whole), body.using
        with self._lock:
            stored = self._usable(grant.user_id, body.key_id.hex())
            use = VaultUse.opening(
                body.key_id,
                grant.user_id,
                body.proof.boot,
                body.reply_key,
                presignatures=body.count,
                using=using.encode(NO_CONTEXT) if using else b"",
            )
            self._check_authentic(stored, use, body.proof.mac)
            if whole and (body.count or using):
                raise Refused(BAD_REQUEST, "presignatures are for vaults that both MPC nodes open")
            allowance: bytes | None = None
            if using:  # whatever becomes of it
                self._allowances.use(stored.key_id, using.allowance, using.index)
            half = self._rewrapped(stored, body.half, body.reply_key, whole=whole)
            if body.count:
                count = min(body.count, wire.MAX_BATCH)
                allowance = self._allowances.made(stored.key_id, count, self._rng)
        return wire.Half(half, allowance)

    def _rewrapped(
        self, stored: StoredShare, half: bytes, reply_key: bytes, *, whole: bool
    ) -> bytes:
        """This node's half of a vault, or the whole, encrypted to a reply key.

        Raises:
            Refused: it does not open, or is sealed to a key that is lost; of a whole, the other MPC
                node has not said within an hour that the key is not suspended.
        """
        if whole:
            self._attestations.check(bytes.fromhex(stored.key_id))
        try:
            with self._lock:
                return rewrap_half(
                    half,
                    self._seal_key,
                    me=self.me,
                    key_id=stored.key_id,
                    user_id=stored.user_id,
                    reply_key=reply_key,
                    rng=self._rng,
                    whole=whole,
                )
        except VaultError:
            if self._store.sealed_to_lost_key(stored.key_id):
                raise seal_key_lost(self.me) from None
            raise Refused(BAD_REQUEST, "Invalid secret_store") from None

    def _check_authentic(self, stored: StoredShare, use: VaultUse, mac: bytes) -> None:
        """See that a request comes from whoever has the client's share, or its secret store.

        Nothing has been opened or begun before, and if it does not, nobody is blamed for it: what
        carries a request can alter it.

        Raises:
            Refused: it does not, or is for an earlier boot of this node.
        """
        if use.using:  # a presignature is used once, whenever that is
            present = use.boot[:START_BYTES] == self._hello.boot[:START_BYTES]
        else:
            present = use.boot in self._signed
        if not present:
            raise another_boot(self.me)
        if not use.authenticated(self._share(stored).auth_key(CLIENT), mac):
            raise not_authentic(self.me)

    # ------------------------------------------------------------------ sessions begin
    #
    # Under the lock: between the look at the key and the entry in the books, it is not retired.

    def _generate(self, grant: Grant, data: bytes) -> wire.Body:
        body = wire.Generate.from_bytes(data)
        grant.check(Scope("generate", grant.user_id, session_id=body.session_id))
        curve = body.curve_name
        scheme = _scheme(curve, body.k)
        try:
            agreed = dkg.setup(curve, THRESHOLD, HOLDERS, scheme)
        except UsageError:
            raise Refused(BAD_REQUEST, "Invalid curve") from None
        with self._on_record(grant.user_id, curve, body.session_id):
            peers = {self._peer.party: self._peer.identity(), CLIENT: body.session_id}
            self.sweep()
            with self._lock:
                self._check_merged(*self._store.of_key(grant.user_id, curve))
                if self._store.active(grant.user_id, curve):
                    raise key_exists(curve)
                party = dkg.party(
                    agreed,
                    self.me,
                    session_id=body.session_id,
                    rng=self._rng,
                    listener=self._listener,
                )
                session = self._begin(
                    party, grant.user_id, None, self.making_s, peers=peers, curve=curve
                )
        self._note_begun(session)
        return self._run(session, body.messages)

    def _recover(self, grant: Grant, data: bytes) -> wire.Body:
        body = wire.Recover.from_bytes(data)
        user_id, curve = grant.user_id, body.curve_name
        scheme = _scheme(curve, body.k)
        with self._on_record(user_id, curve, body.session_id):
            peers = {self._peer.party: self._peer.identity(), CLIENT: body.session_id}
            self.sweep()
            with self._lock:
                stored = self._store.active(user_id, curve)
                if stored is None:
                    raise no_such_key()
                key_id = bytes.fromhex(stored.key_id)
                grant.check(Scope("recover", user_id, key_id, body.session_id))
                self._check_merged(stored)
                share = self._share(stored)
                agreed = reshare.setup(
                    share.record, MPC_NODES, share=share, receivers=HOLDERS, scheme=scheme
                )
                party = reshare.party(
                    agreed,
                    self.me,
                    session_id=body.session_id,
                    rng=self._rng,
                    listener=self._listener,
                )
                session = self._begin(
                    party,
                    user_id,
                    stored.key_id,
                    self.making_s,
                    peers=peers,
                    curve=curve,
                    alone=RECOVERY,
                )
        self._note_begun(session)
        return self._run(session, (), record=share.record.to_bytes())

    def _sign(self, grant: Grant, data: bytes) -> wire.Body:
        """Begin to sign, and open this node's half if it comes along.

        Who has the token and the ``secret_store``, but cannot open the share, gets this far, too:
        an answer to a message of its choice, on ed25519 with a share of a signature. It is of use
        only together with the client's share of this epoch, and costs this node one signing
        session's first step, for which the key is busy.
        """
        body = wire.Sign.from_bytes(data)
        grant.check(
            Scope("sign", grant.user_id, body.key_id, body.session_id, body.message, body.path)
        )
        if body.signer != self.me:
            raise Refused(BAD_REQUEST, f"the {ROLES[self.me]} is not the signer asked for")
        use = VaultUse.signing(
            body.key_id,
            grant.user_id,
            body.proof.boot,
            signer=self.me,
            session_id=body.session_id,
            message=body.message,
            first=body.first,
            reply_key=body.vault.reply_key if body.vault else b"",
            presignatures=body.count,
            path=body.path,
        )
        half: bytes | None = None
        with self._lock:
            stored = self._usable(grant.user_id, body.key_id.hex())
            self._check_authentic(stored, use, body.proof.mac)
            if not set(hashes(body.messages)) <= set(body.first):
                raise not_authentic(self.me)
            if any(body.session_id in begun for begun in self._signed.values()):
                raise Refused(CONFLICT, "a session of this id has been begun before")
            share = self._share(stored)
            if body.vault:
                mine = body.vault.halves.get(self.me, b"")
                whole = bool(body.vault.whole)
                half = self._rewrapped(stored, mine, body.vault.reply_key, whole=whole)
            party = self._signer(share, body)
            session = self._begin(
                party, grant.user_id, stored.key_id, self.signing_s, alone=SIGNING
            )
            self._signed[self._hello.boot].add(body.session_id)
            self._age()
        answer = self._run(session, body.messages)
        secret = share.peers[CLIENT].pair_secret
        answers = answer_tag(secret, self.me, body.session_id, body.proof.mac)
        return replace(answer, answers=answers, half=half)

    def _signer(self, share: KeyShare, body: wire.Sign) -> Party[Any, Any]:
        if share.mta is not None and not share.usable(CLIENT):
            raise suspended("this key was attacked; recover it")
        signers, session_id = (CLIENT, self.me), body.session_id
        try:
            if body.count:
                if body.vault is None or body.vault.whole or body.count > wire.MAX_BATCH:
                    raise UsageError(f"1 to {wire.MAX_BATCH} presignatures, and with a vault")
                agreed = presign.setup(share, signers, body.count)
                return presign.party(
                    agreed, session_id=session_id, rng=self._rng, listener=self._listener
                )
        except UsageError as error:
            raise Refused(BAD_REQUEST, str(error)) from None
        _check_child(share, body.path)
        try:
            return signer(
                share,
                signers,
                body.message,
                path=body.path,
                session_id=session_id,
                rng=self._rng,
                listener=self._listener,
            )
        except UsageError as error:
            raise Refused(BAD_REQUEST, str(error)) from None

    def _presigned(self, grant: Grant, data: bytes) -> wire.Body:
        """Sign with a presignature, and open this node's half.

        The client finishes only if the other MPC node opens its half, too: that one sees to it
        that a presignature is used once, whatever this one does.
        """
        body = wire.Presigned.from_bytes(data)
        using, vault, session_id = body.using, body.vault, body.using.rho
        message = using.message_hash
        grant.check(Scope("presigned", grant.user_id, body.key_id, session_id, message, using.path))
        if using.signer != self.me:
            raise Refused(BAD_REQUEST, f"the {ROLES[self.me]} is not the signer asked for")
        encoded = using.encode(NO_CONTEXT)
        use = VaultUse.presigned(
            body.key_id, grant.user_id, body.proof.boot, vault.reply_key, encoded
        )
        with self._lock:
            stored = self._usable(grant.user_id, body.key_id.hex())
            self._check_authentic(stored, use, body.proof.mac)
            share = self._share(stored)
            _check_child(share, using.path)
            presignature = self._parts.take(stored.key_id, using.presignature)
            mine = vault.halves.get(self.me, b"")
            half = self._rewrapped(stored, mine, vault.reply_key, whole=False)
            try:
                agreed = presigned.setup(
                    share, presignature, CLIENT, message, session_id, path=using.path
                )
                party = presigned.party(
                    agreed, session_id=session_id, rng=self._rng, listener=self._listener
                )
                outputs = party.start()
            except UsageError as error:
                raise Refused(GONE, str(error)) from None
        sends = tuple(output.data for output in outputs if isinstance(output, Send))
        answers = answer_tag(share.peers[CLIENT].pair_secret, self.me, session_id, body.proof.mac)
        return wire.Answer(0, None, sends, answers, half)

    def _begin(
        self,
        party: Party[Any, Any],
        user_id: str,
        key_id: str | None,
        lifetime_s: float,
        *,
        peers: Mapping[PartyId, bytes] = {},
        curve: str = "",
        alone: str | None = None,
    ) -> _Session:
        """Enter a session in the books.

        Args:
            peers: as in ``_Session``; ``curve`` likewise.
            alone: what there may only be one of for the key.

        Raises:
            Refused: there is one, or too many sessions are open, or the session id is in use.
        """
        with self._lock:
            self._expire()
            if party.session_id in self._sessions:
                raise Refused(CONFLICT, "a session of this id is open")
            if len(self._sessions) >= MAX_SESSIONS:
                raise Refused(CONFLICT, "too many sessions are open", code=Code.BUSY)
            if alone and key_id:
                if (alone, key_id) in self._busy:
                    raise busy(alone)
                self._busy[alone, key_id] = party.session_id
            expires_at = self._clock() + lifetime_s
            session = _Session(party.session_id, user_id, party, expires_at, key_id, peers, curve)
            self._sessions[party.session_id] = session
            return session

    # ------------------------------------------------------------------ sessions go on

    def _exchange(self, grant: Grant, data: bytes) -> wire.Body:
        body = wire.Exchange.from_bytes(data)
        session = self._session(body.session_id)
        grant.check(session.scope("exchange"))
        return self._run(session, body.messages)

    def _session(self, session_id: bytes) -> _Session:
        with self._lock:
            self._expire()
            session = self._sessions.get(session_id)
        if session is None:
            raise no_such_session()
        return session

    def _run(
        self, session: _Session, messages: tuple[bytes, ...], record: bytes | None = None
    ) -> wire.Answer:
        """Start the session's party if it is new, and give it messages."""
        with session.lock:
            party = session.party
            outputs: list[Output[Any]] = []
            try:
                mail = [opened(message, session.peers) for message in messages]
                if party.outcome is None and party.waiting() is None:
                    outputs += party.start()
                for sender, message in filter(None, mail):
                    outputs += party.receive(sender, message)
                # First what must be durable, then what the others will hear.
                self._enter(session)
                for output in outputs:
                    self._note(session, output)
            except BaseException:
                self._forget(session)
                self._drop_made(session)
                raise
            if self._over(session):
                self._forget(session)
                self._drop_made(session)
            sends = tuple(output.data for output in outputs if isinstance(output, Send))
            if session.peers:
                sends = tuple(map(self._identity.sign_mail, sends))
            still_open = self._sessions.get(session.session_id) is session
            return wire.Answer(int(still_open), record, sends)

    def _enter(self, session: _Session) -> None:
        """Remember which epoch a session makes, before anybody can vote for it."""
        if not session.peers or session.epoch or (epoch := dkg.epoch(session.party)) is None:
            return
        with self._settling:  # not while it is seen which sessions are over
            if self._sessions.get(session.session_id) is not session:
                raise no_such_session()
            self._store.enter(epoch.hex(), session.user_id, session.curve)
            session.epoch = epoch.hex()

    def _note(self, session: _Session, output: Output[Any]) -> None:
        """Do what an output demands of this node's store."""
        match output:
            case Done() if session.party.definition is presign.PRESIGN:
                with self._lock:
                    if self._sessions.get(session.session_id) is session:
                        self._parts.keep(session.key_id or "", output.result)
            case Prepared(result=KeyShare() as share):
                self._prepare(session, share)
            case Done(result=KeyShare() as share):
                if session.made is None:
                    self._prepare(session, share)
                session.done = True
            case Aborted():
                self._after(session, output)
            case _:
                pass

    def _prepare(self, session: _Session, share: KeyShare) -> None:
        record = share.record
        old = self._store.find(session.key_id) if session.key_id else None
        made = StoredShare(
            record.epoch.hex(),
            session.user_id,
            record.curve_name,
            record.public_key.encode(),
            share.to_bytes(),
            PREPARED,
            recoveries=old.recoveries + 1 if old else 0,
            predecessor=session.key_id,
        )
        with self._settling:
            if self._sessions.get(session.session_id) is not session:
                raise no_such_session()
            self._store.prepare(made)
            session.made = made

    def _after(self, session: _Session, aborted: Aborted) -> None:
        """An abort: discard and suspend what it demands, and say what happened."""
        key_id = session.key_id
        signing = session.party.definition is not reshare.RESHARE
        LOG.warning("%s %s: %s", ROLES[self.me], session.party.definition.name, aborted)
        with self._lock:
            self.aborts[aborted.reason] += 1
        if key_id is None or not signing or aborted.consequence is Consequence.RETRY:
            return
        # Stop working with the culprit: it holds the other share that this key signs with.
        why = f"{aborted.reason.text} (by the {_names(aborted.culprits)})"
        kept: bytes | None = None
        stored = self._store.find(key_id)
        if stored is not None and aborted.consequence is Consequence.BAN_AND_DISCARD_OT:
            with suppress(NodeFailed):  # damaged since: nothing is left of it to sign with
                kept = self._share(stored).after(aborted).to_bytes()
        try:
            self._store.suspend(key_id, why, kept)
        finally:
            self._forget_presignatures(key_id)

    def _forget_presignatures(self, key_id: str) -> None:
        """Of a key that is suspended, or not in force any more."""
        with self._lock:
            self._parts.forget(key_id)
            self._allowances.forget(key_id)

    def _over(self, session: _Session) -> bool:
        """Whether this node has no further part in the session.

        A signer is done when it has sent its last message; the result is for the client. Whoever
        has made a share stays for the vote.
        """
        party = session.party
        if isinstance(party.outcome, Aborted):
            return True
        if session.key_id is None or party.definition is reshare.RESHARE:
            return False
        last = party.definition.rounds[-1]
        waiting = party.waiting()
        if party.definition is presign.PRESIGN:
            return waiting is None
        return waiting is None or (waiting.round == last.number and not last.sends)

    def _forget(self, session: _Session) -> None:
        with self._lock:
            if self._sessions.get(session.session_id) is not session:
                return
            del self._sessions[session.session_id]
            for what, holder in list(self._busy.items()):
                if holder == session.session_id:
                    del self._busy[what]

    def _expire(self) -> None:
        now = self._clock()
        for session in [s for s in self._sessions.values() if s.expires_at <= now]:
            self._forget(session)

    # ------------------------------------------------------------------ sessions end

    def _close(self, grant: Grant, data: bytes) -> None:
        body = wire.Close.from_bytes(data)
        with self._settling:
            session = self._sessions.get(body.session_id)
            if session is not None:
                grant.check(session.scope("close"))
                self._forget(session)
                self._drop_made(session)

    def _drop_made(self, session: _Session) -> None:
        """Of a session that is over: what it has made and nobody has voted for."""
        if session.made is not None:
            self._store.drop_prepared(session.made.key_id)

    def sweep(self) -> None:
        """Drop what sessions that are no more have made, however they ended. It is done before
        anything is made, and from time to time (``sweeping``).

        What could not be written before, and has to be, is tried once more.

        Raises:
            StoreFailed: not everything could be dropped.
        """
        try:
            self._store.pay()
        except StoreFailed as error:  # said by whether it is ready, too
            LOG.error("%s: a suspension is not stored yet: %s", ROLES[self.me], error)
        with self._settling:
            with self._lock:
                self._expire()
                live = [s.epoch for s in self._sessions.values() if s.epoch]
            self._store.drop_orphans(live)

    # ------------------------------------------------------------------ shares come into force

    def _vote(self, grant: Grant, data: bytes) -> wire.Body:
        """Promise: all three holders are done, this one holds its new share durably."""
        body = wire.Activate.from_bytes(data)
        session = self._session(body.session_id)
        grant.check(Scope("vote", session.user_id, body.key_id, body.session_id))
        with session.lock, self._settling:
            made = session.made
            if self._sessions.get(session.session_id) is not session:
                raise no_such_session()
            if made is None or made.key_id != body.key_id.hex():
                raise Refused(CONFLICT, "this session has not made that key")
            if not session.done:
                raise Refused(CONFLICT, f"the {ROLES[self.me]} is not done")
            with self._on_record(made.user_id, made.curve, session.session_id, made.key_id):
                return self._voting.vote(made.key_id)

    def _activate(self, grant: Grant, data: bytes) -> None:
        body = SignedRecord.from_bytes(data)
        record = body.record
        grant.check(Scope("activate", record.user_id, record.epoch))
        with self._settling:
            made_in = self._making(record.key_id)
            session_id = made_in.session_id if made_in else b""
            try:
                with self._on_record(record.user_id, record.curve_name, session_id, record.key_id):
                    self._voting.activate(body, session_id.hex())
            finally:  # it may have been replaced, but not forgotten by the disk
                self._let_go(record.user_id, record.curve_name)
                made = self._store.find(record.key_id)
                if made is not None and made.predecessor is not None:
                    self._forget_presignatures(made.predecessor)

    def _let_go(self, user_id: str, curve: str) -> None:
        """Of shares that are no longer in force, and of what signs with them or reshares them; of
        what has made shares that are in force, or are no more."""
        with self._lock:
            self._decoded.pop((user_id, curve), None)
            for session in [s for s in self._sessions.values() if s.user_id == user_id]:
                replaced = session.key_id and self._state(session.key_id) != ACTIVE
                if replaced or (
                    session.made and self._state(session.made.key_id) in (None, ACTIVE)
                ):
                    self._forget(session)

    def _state(self, key_id: str) -> str | None:
        stored = self._store.find(key_id)
        return None if stored is None else stored.state

    def _standing(self, grant: Grant, data: bytes) -> wire.Body:
        ask = Ask.from_bytes(data)
        grant.check(Scope("standing", ask.user_id))
        self.sweep()
        return self._voting.standing(ask)

    def _abort(self, grant: Grant, data: bytes) -> wire.Body:
        body = End.from_bytes(data)
        abort = body.abort
        grant.check(Scope("abort", abort.user_id, abort.epoch))
        with self._settling:
            ended = self._voting.abort(body)
            if ended.signature is not None:
                with self._lock:  # though it has made nothing yet: no vote may follow
                    making = [s for s in self._sessions.values() if s.epoch == abort.epoch.hex()]
                for session in making:
                    self._forget(session)
            return ended

    def _drop(self, grant: Grant, data: bytes) -> None:
        body = Drop.from_bytes(data)
        abort = body.abort
        grant.check(Scope("drop", abort.user_id, abort.epoch))
        key_id = abort.epoch.hex()
        with self._settling, self._on_record(abort.user_id, abort.curve_name, b"", key_id):
            self._voting.drop(body)
            if (session := self._making(key_id)) is not None:
                self._forget(session)

    def _making(self, key_id: str) -> _Session | None:
        """The session that has made a share, if it is still open."""
        with self._lock:
            sessions = self._sessions.values()
            return next((s for s in sessions if s.made and s.made.key_id == key_id), None)

    def _holdings(self, grant: Grant, data: bytes) -> wire.Body:
        body = ListHoldings.from_bytes(data)
        grant.check(Scope("holdings"))
        return Holdings.of(self._store.holdings(body.after, PAGE))

    # ------------------------------------------------------------------ the log of key events

    def _note_begun(self, session: _Session) -> None:
        """Before anything is done in it."""
        try:
            self._store.note(
                Kind.BEGUN,
                session.user_id,
                session.curve,
                session.key_id or "",
                session.session_id.hex(),
            )
        except BaseException:
            self._forget(session)
            raise

    @contextmanager
    def _on_record(
        self, user_id: str, curve: str, session_id: bytes, key_id: str = ""
    ) -> Iterator[None]:
        """Write down if something is refused."""
        try:
            yield
        except NodeFailed:
            raise
        except Refused as refused:
            with suppress(StoreFailed):
                self._store.note(
                    Kind.REFUSED, user_id, curve, key_id, session_id.hex(), str(refused)
                )
            raise

    def _suspend(self, grant: Grant, data: bytes) -> wire.Body:
        """Do nothing with a key any more but recovering it, if whoever has the client's share says
        so; whoever carries that is believed nothing."""
        body = wire.SuspendKey.from_bytes(data)
        at = body.occasion
        grant.check(Scope("suspend", at.user_id, at.key_id, at.session_id))
        stored = self._mine(at.user_id, at.key_id.hex())
        secret = self._share(stored).peers[CLIENT].pair_secret
        culprit = notices.opened(secret, at, self.me, body.notice)
        if culprit is not None:
            self._stop_using(stored, f"the client caught party {culprit} cheating")
        said = Suspended(at.key_id, notices.digest(body.notice), int(culprit is not None))
        return wire.Acknowledged(said.opened, self._identity.sign(said))

    def _stop_using(self, stored: StoredShare, why: str) -> None:
        try:
            if stored.suspended is None or self._store.owes(stored.key_id):
                self._store.suspend(stored.key_id, stored.suspended or why)
        finally:
            with self._lock:
                signing = self._sessions.get(self._busy.get((SIGNING, stored.key_id), b""))
                if signing is not None:
                    self._forget(signing)
                self._forget_presignatures(stored.key_id)  # after what could still make some

    # ------------------------------------------------------------------ shares

    def _mine(self, user_id: str, key_id: str) -> StoredShare:
        """The active share of one of a user's keys."""
        stored = self._store.find(key_id)
        if stored is None or stored.user_id != user_id or stored.state != ACTIVE:
            raise no_such_key()
        return stored

    def _usable(self, user_id: str, key_id: str) -> StoredShare:
        stored = self._mine(user_id, key_id)
        self._check_merged(stored)
        if stored.suspended is not None:
            raise suspended(
                f"this key is suspended at the {ROLES[self.me]}: {stored.suspended}; recover it"
            )
        if stored.suspended_there:
            # The client that was caught there could go on guessing here.
            raise suspended(f"this key is suspended at the {ROLES[self._peer.party]}; recover it")
        return stored

    def _check_merged(self, *shares: StoredShare) -> None:
        """See that shares are not from a store that was put back, and unheard of since.

        Raises:
            Unmerged: they are.
        """
        if any(share.unmerged for share in shares):
            raise unmerged(self.me, self._peer.party)

    def _share(self, stored: StoredShare) -> KeyShare:
        """The share in decoded form; decoding checks it against its record.

        Raises:
            NodeFailed: it is damaged.
        """
        with self._lock:
            at = stored.user_id, stored.curve
            known = self._decoded.get(at)
            # Another thread may have read the row before it was changed.
            if known is None or known[0] != stored.share:
                known = stored.share, self._decode(stored)
                self._decoded[at] = known
                if len(self._decoded) > DECODED_SHARES:
                    self._decoded.popitem(last=False)
            self._decoded.move_to_end(at)
            return known[1]

    def _public_record(self, stored: StoredShare) -> PublicKeyRecord:
        return self._decode(stored).record

    def _decode(self, stored: StoredShare) -> KeyShare:
        try:
            share = KeyShare.from_bytes(stored.share, schemes=built_in_scheme)
        except InvalidEncoding:  # what it says may quote the share
            share = None
        if share and (share.identifier, share.record.epoch.hex()) == (self.me, stored.key_id):
            return share
        text = f"the {ROLES[self.me]}'s stored share of this key is damaged"
        where = f"user {stored.user_id}, {stored.curve} key {stored.key_id}"
        LOG.error("%s: %s; put a whole %s.sqlite back", text, where, ROLES[self.me])
        raise store_failed(text, self.me)


def _scheme(curve: str, k: int) -> str | None:
    """The multiplication scheme of a new key.

    Raises:
        Refused: there is none with that k.
    """
    try:
        return standard_scheme(curve, k)
    except UsageError as error:
        raise Refused(BAD_REQUEST, str(error)) from None


def _check_child(share: KeyShare, path: Path) -> None:
    """See that there is a key at the end of a path.

    Raises:
        Refused: there is none.
    """
    try:
        share.record.at(path)
    except UsageError as error:
        raise no_such_child(error) from None


def _names(parties: frozenset[int]) -> str:
    return ", ".join(ROLES.get(PartyId(i), str(i)) for i in sorted(parties))

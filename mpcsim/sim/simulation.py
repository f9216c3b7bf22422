"""Simulation of a wallet's operations over a network: generate, sign, presign, recover.

    >>> from mpcsim import Network, Simulation
    >>> sim = Simulation(Network.preset("seoul", institution="frankfurt"), seed=1)
    >>> sim.generate("secp256k1").trace.finished_ms
    >>> sim.sign(signers=(1, 3)).trace.summary()
    >>> sim.presign(8, signers=(1, 3))
    >>> sim.sign_presigned(signers=(1, 3)).trace.finished_ms
    >>> sim.recover()

Every call runs the real protocol among all its parties and returns its result with the trace.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, Literal, TypeVar

from mpcsim.crypto.bip32 import Path
from mpcsim.crypto.mta.base import Mta
from mpcsim.crypto.mta.schemes import scheme_name
from mpcsim.crypto.rng import Rng, SeededRng, SystemRng
from mpcsim.errors import Aborted, Consequence, UsageError, check_type
from mpcsim.ids import PartyId, party_ids
from mpcsim.protocols import dkg, presign, presigned, reshare
from mpcsim.protocols.engine import Party
from mpcsim.protocols.engine.events import Listener, silent
from mpcsim.protocols.key_share import KeyShare, PublicKeyRecord
from mpcsim.protocols.local_run import Participant
from mpcsim.protocols.presign import Presignature
from mpcsim.protocols.signing import PROTOCOLS, signer, signing_input, verifies
from mpcsim.sim.network.draws import DrawSource
from mpcsim.sim.network.topology import Network
from mpcsim.sim.rich_display import Table, document, milliseconds
from mpcsim.sim.run.completion import Validate
from mpcsim.sim.run.compute import Compute, Measured
from mpcsim.sim.run.engine import VirtualRun
from mpcsim.sim.run.faults import Fault, check_faults, kinds_of
from mpcsim.sim.scenario import Policy, Scenario, compute_model
from mpcsim.sim.streams import derived_seed, whole_seed
from mpcsim.sim.tasks import Generate, Presign, Recover, Sign, SignPresigned, Task
from mpcsim.sim.trace import Trace
from mpcsim.sim.traces.records import Scope, Verdict

R = TypeVar("R")

KINDS = kinds_of(PROTOCOLS.values())
"""Names of all message kinds of the wallet's protocols."""

LONGEST_REAL_SESSION_S = 60.0
"""Longest session in real time, in seconds, whatever the policy."""

PresignatureShares = Mapping[PartyId, Presignature]
"""Shares of one presignature, by signer."""

Corrupt = Callable[[Party[Any, Any]], Participant[Any]]
"""Function that wraps a party in an adversary (``mpcsim.sim.run.adversary``)."""


@dataclass(frozen=True)
class Result(Generic[R]):
    """Result of an operation, with the traces of its attempts."""

    scope: ClassVar[Scope] = "protocol"
    """Scope of ``elapsed_ms``: the protocol, without a REST call's own work such as the vault."""
    value: R | None
    """Value of the operation; None unless the verdict is VALID."""
    attempts: tuple[Trace, ...]
    """Traces of the sessions, in order."""
    elapsed_ms: float
    """Time until the last attempt ended, with the earlier attempts."""

    @property
    def trace(self) -> Trace:
        """Trace of the last attempt."""
        return self.attempts[-1]

    @property
    def verdict(self) -> Verdict:
        """Verdict of the last attempt."""
        return self.trace.verdict

    @property
    def ok(self) -> bool:
        """Whether the last attempt's verdict is VALID."""
        return self.verdict is Verdict.VALID

    def __repr__(self) -> str:
        return f"<Result {self}>"

    def __str__(self) -> str:
        tries = f", attempt {len(self.attempts)}" if len(self.attempts) > 1 else ""
        return (
            f"{self.trace.name}: {self.verdict.value} after {self.elapsed_ms:.1f} ms{tries}, "
            f"scope {self.scope}"
        )

    def _repr_html_(self) -> str:
        if len(self.attempts) == 1:
            return self.trace._repr_html_()
        table = Table(
            ("attempt", "verdict", "ms", "messages"),
            [
                (str(at), t.verdict.value, milliseconds(t.finished_ms), str(t.summary().messages))
                for at, t in enumerate(self.attempts, 1)
            ],
            frozenset({"attempt", "ms", "messages"}),
        )
        return document(str(self), [table]) + self.trace._repr_html_()


@dataclass(frozen=True)
class Operation(Generic[R]):
    """Operation of the wallet: how to make its parties, and how to judge and use their results."""

    task: Task
    name: str
    parties: tuple[int, ...]
    party: Callable[[int, bytes], Party[Any, Any]]
    """Function that makes the party with that identifier for a session id."""
    valid: Validate
    value: Callable[[dict[PartyId, Any]], R]
    """Function from the parties' results to the operation's; it keeps new shares."""


class SteppedOperation(Generic[R]):
    """Operation run one event at a time."""

    def __init__(self, simulation: Simulation, operation: Operation[R]) -> None:
        self._simulation = simulation
        self._operation = operation
        self._run = simulation.prepare(operation)
        simulation.note_done(operation)

    @property
    def now_ms(self) -> float:
        """Virtual time."""
        return self._run.now_ms

    @property
    def parties(self) -> dict[PartyId, Participant[Any]]:
        """Parties, for inspection: ``waiting_state()``, ``outcome``, ``keep``, ``inbox``."""
        return self._run.parties

    @property
    def trace(self) -> Trace:
        """Trace of the events so far."""
        return self._simulation.with_scenario(self._run.trace())

    def step(self) -> bool:
        """Process the next event; return False if there is none."""
        return self._run.step()

    def finish(self) -> Result[R]:
        """Process all remaining events, and return the operation's result."""
        while self.step():
            pass
        return self._simulation.finish_operation(self._operation, (self.trace,))


@dataclass
class Simulation:
    """Holders of a key on a network; keeps their shares from one operation to the next."""

    network: Network = field(default_factory=Network.star)
    """Sites, links, connections and placement of the parties; by default ``Network.star()``. All
    parties placed there generate keys."""
    seed: int = 0
    """Seed of latencies, losses and random faults. The same seed and the same operations in the
    same order give the same times, unless ``compute`` measures."""
    compute: Compute = field(default_factory=Measured)
    """Compute model in virtual time: measured as it runs (``Measured``), declared for each round
    (``Declared``, repeatable), or no time (``Free``); ``free`` and ``measured`` are taken by name,
    too. In real time, computation takes its own time."""
    policy: Policy = field(default_factory=Policy)
    """Deadline of a session, number of attempts, and whether messages are sent again; by default
    one attempt without a deadline."""
    faults: tuple[Fault, ...] = ()
    """Faults of messages and honest parties in every session: ``drop``, ``delay``, ``duplicate``,
    ``partition``, ``noise``, ``Crash`` (``mpcsim.sim.run.faults``)."""
    corrupt: Mapping[int, Corrupt] = field(default_factory=dict)
    """Adversaries: by party, the function that wraps the honest party in one
    (``mpcsim.sim.run.adversary``): ``{2: lambda party: Adversary(party, tamper)}``."""
    secrets_seed: str | None = field(default=None, repr=False)
    """REPRODUCIBLE SECRETS for experiments: keys, nonces and session ids follow from this text, so
    that a run repeats byte for byte. None: the operating system's randomness."""
    listener: Listener = silent
    """Callback for every round, message and ending of every party as it happens
    (``mpcsim.protocols.engine.events``); it must not raise."""
    draws: DrawSource | None = None
    """Source of each transfer's latency and losses, in place of seeded draws from the network's
    distributions: for measurements played back, or worst cases."""
    clock: Literal["virtual", "real"] = "virtual"
    """``virtual``: discrete-event simulation. ``real``: the parties run over loopback HTTP with the
    network's delays injected, in real time."""
    contents: bool = False
    """Whether traces keep the contents of messages, for ``Trace.to_json(contents=True)``:
    SECRETS."""
    shares: dict[PartyId, KeyShare] = field(default_factory=dict, repr=False)
    """SECRET: each holder's share of the key, which ``generate`` and ``recover`` set and signing
    uses. Pass those of another simulation to go on with its key."""
    presignatures: dict[tuple[PartyId, ...], list[PresignatureShares]] = field(
        default_factory=dict, repr=False
    )
    """SECRET: presignatures that ``sign_presigned`` has not used, by signers; discarded with the
    key's shares."""
    _sessions: int = field(default=0, repr=False)
    _session_seed: int | None = field(default=None, repr=False)
    """Seed of a session that is run again, in place of one derived from ``seed``."""
    _done: list[Task] = field(default_factory=list, repr=False)
    _alone: bool = field(default=True, repr=False)
    """Whether the simulation began without shares and presignatures of another run."""

    def __post_init__(self) -> None:
        check_type("network", self.network, Network)
        self.seed = whole_seed(self.seed)
        self._check_clock()
        self.compute = compute_model(self.compute)
        check_type("policy", self.policy, Policy)
        faults: object = self.faults
        if not isinstance(faults, Sequence) or not all(isinstance(f, Fault) for f in faults):
            raise UsageError("faults: expected a list of MessageFault, Partition and Crash")
        self._alone = not (self.shares or self.presignatures)

    def __repr__(self) -> str:
        done = f", {len(self._done)} operations" if self._done else ""
        return f"<Simulation of {self.network.name}, seed {self.seed}, {self.clock} clock{done}>"

    # ------------------------------------------------------------------ scenarios

    @classmethod
    def of(cls, scenario: Scenario) -> Simulation:
        """Return a simulation under a scenario's conditions; ``run_task`` runs its tasks.

        >>> sim = Simulation.of(Scenario.load("wallet.toml"))
        """
        return cls(
            scenario.network,
            scenario.seed,
            scenario.compute,
            scenario.policy,
            scenario.faults,
            secrets_seed=scenario.secrets_seed,
            clock=scenario.clock,
        )

    @property
    def scenario(self) -> Scenario | None:
        """Scenario of all tasks so far; None if a file cannot hold it.

        A file cannot hold adversaries, other sources of draws, or a key of another simulation.

        Settings that were changed meanwhile have their present values.
        """
        if self.corrupt or self.draws is not None or not self._alone:
            return None
        return Scenario(
            self.network,
            tuple(self._done),
            self.faults,
            self.policy,
            self.compute,
            self.clock,
            self.seed,
            self.secrets_seed,
        )

    def run_task(self, task: Task) -> Result[Any]:
        """Run a task of a scenario: the operation of the same name."""
        return self._run(self._operation(task))

    # ------------------------------------------------------------------ the wallet's operations

    def generate(
        self, curve: str = "secp256k1", *, threshold: int = 2, scheme: str | Mta | None = None
    ) -> Result[PublicKeyRecord]:
        """Generate a key among all placed parties; the simulation keeps the shares.

        Args:
            scheme: multiplication scheme on secp256k1, ``ot/80`` by default: a name, or one of
                your own that is registered (``mpcsim.crypto.mta.schemes``).

        Raises:
            UsageError: bad curve, threshold or scheme.
        """
        return self.run_task(Generate(curve, threshold, _scheme_name(scheme)))

    def sign(
        self,
        message: bytes = b"hello",
        *,
        signers: Iterable[int] | None = None,
        path: Path = (),
    ) -> Result[bytes]:
        """Sign with the kept shares.

        Args:
            message: hashed with SHA-256 for secp256k1, signed as it is for ed25519.
            signers: by default the first holders of the key, as many as it needs.
            path: of the child key to sign with (BIP 32, secp256k1), e.g. ``(0, 7)``.

        Returns:
            r, s, v (65 bytes) on secp256k1; the RFC 8032 signature (64 bytes) on ed25519.

        Raises:
            UsageError: no key yet, signers that cannot sign, or a path that leads to no key.
        """
        return self.run_task(Sign(message, _parties("signers", signers), path))

    def presign(self, count: int = 1, *, signers: Iterable[int] | None = None) -> Result[int]:
        """Make presignatures with the kept shares; the simulation keeps them.

        Returns:
            How many there are now for these signers.

        Raises:
            UsageError: no key on secp256k1 yet, signers that cannot sign, or a count out of range.
        """
        return self.run_task(Presign(count, _parties("signers", signers)))

    def sign_presigned(
        self,
        message: bytes = b"hello",
        *,
        signers: Iterable[int] | None = None,
        finisher: int | None = None,
        path: Path = (),
    ) -> Result[bytes]:
        """Sign with a kept presignature; every attempt takes one, whatever becomes of it.

        Args:
            message: hashed with SHA-256.
            finisher: the signer whom the others answer; by default the first.
            path: as of ``sign``; presignatures are not bound to one.

        Returns:
            r, s, v (65 bytes).

        Raises:
            UsageError: no presignature (left) of these signers, or another one is to finish.
        """
        return self.run_task(SignPresigned(message, _parties("signers", signers), finisher, path))

    def recover(
        self, lost: int = 1, *, dealers: Iterable[int] | None = None
    ) -> Result[PublicKeyRecord]:
        """Replace a lost share: the other holders reshare, everyone gets a fresh share.

        Args:
            lost: the holder whose share is gone.
            dealers: who deals; by default as many of the others as are needed.

        Raises:
            UsageError: no key yet, ``lost`` or a dealer holds no share, or too few dealers.
        """
        return self.run_task(Recover(lost, _parties("dealers", dealers)))

    # ------------------------------------------------------------------ the same, step by step

    def begin(self, task: Task) -> SteppedOperation[Any]:
        """Begin ``run_task``, one event at a time."""
        return SteppedOperation(self, self._operation(task))

    def begin_generate(
        self, curve: str = "secp256k1", *, threshold: int = 2, scheme: str | Mta | None = None
    ) -> SteppedOperation[PublicKeyRecord]:
        """Begin ``generate``, one event at a time."""
        return self.begin(Generate(curve, threshold, _scheme_name(scheme)))

    def begin_sign(
        self,
        message: bytes = b"hello",
        *,
        signers: Iterable[int] | None = None,
        path: Path = (),
    ) -> SteppedOperation[bytes]:
        """Begin ``sign``, one event at a time."""
        return self.begin(Sign(message, _parties("signers", signers), path))

    def begin_presign(
        self, count: int = 1, *, signers: Iterable[int] | None = None
    ) -> SteppedOperation[int]:
        """Begin ``presign``, one event at a time."""
        return self.begin(Presign(count, _parties("signers", signers)))

    def begin_sign_presigned(
        self,
        message: bytes = b"hello",
        *,
        signers: Iterable[int] | None = None,
        finisher: int | None = None,
        path: Path = (),
    ) -> SteppedOperation[bytes]:
        """Begin ``sign_presigned``, one event at a time."""
        return self.begin(SignPresigned(message, _parties("signers", signers), finisher, path))

    def begin_recover(
        self, lost: int = 1, *, dealers: Iterable[int] | None = None
    ) -> SteppedOperation[PublicKeyRecord]:
        """Begin ``recover``, one event at a time."""
        return self.begin(Recover(lost, _parties("dealers", dealers)))

    # ------------------------------------------------------------------ what the operations are

    def _operation(self, task: Task) -> Operation[Any]:
        match task:
            case Generate():
                return self._generation(task)
            case Sign():
                return self._signing(task)
            case Presign():
                return self._presigning(task)
            case SignPresigned():
                return self._presigned(task)
            case Recover():
                return self._recovery(task)

    def _generation(self, task: Generate) -> Operation[PublicKeyRecord]:
        curve = task.curve
        parties = tuple(sorted(self.network.placement))
        agreed = dkg.setup(curve, task.threshold, parties, task.scheme)

        def party(i: int, session_id: bytes) -> Party[Any, Any]:
            return dkg.party(
                agreed, i, session_id=session_id, rng=self._rng(i), listener=self.listener
            )

        return Operation(task, f"generate {curve}", parties, party, _same_record, self._keep)

    def _signing(self, task: Sign) -> Operation[bytes]:
        record, ids, path = self._key(), self._signers(task.signers), task.path
        signed = signing_input(record, task.message)

        def party(i: int, session_id: bytes) -> Party[Any, Any]:
            share, rng = self._share(i), self._rng(i)
            return signer(
                share,
                ids,
                signed,
                path=path,
                session_id=session_id,
                rng=rng,
                listener=self.listener,
            )

        def valid(results: Mapping[PartyId, Any]) -> bool:
            return all(verifies(record, signed, s.encode(), path=path) for s in results.values())

        def value(results: dict[PartyId, Any]) -> bytes:
            signature: bytes = next(iter(results.values())).encode()
            return signature

        return Operation(task, f"sign {record.curve_name}", ids, party, valid, value)

    def _presigning(self, task: Presign) -> Operation[int]:
        everyone = party_ids(self._signers(task.signers))

        def party(i: int, session_id: bytes) -> Party[Any, Any]:
            agreed = presign.setup(self._share(i), everyone, task.count)
            return presign.party(
                agreed, session_id=session_id, rng=self._rng(i), listener=self.listener
            )

        def valid(results: Mapping[PartyId, Any]) -> bool:
            return all(
                len({p.id for p in parts}) == 1 for parts in zip(*results.values(), strict=True)
            )

        def value(results: dict[PartyId, tuple[Presignature, ...]]) -> int:
            kept = self.presignatures.setdefault(everyone, [])
            kept += [
                dict(zip(results, parts, strict=True))
                for parts in zip(*results.values(), strict=True)
            ]
            return len(kept)

        name = f"presign {self._key().curve_name}"
        return Operation(task, name, everyone, party, valid, value)

    def _presigned(self, task: SignPresigned) -> Operation[bytes]:
        record, everyone, path = self._key(), party_ids(self._signers(task.signers)), task.path
        finisher = everyone[0] if task.finisher is None else task.finisher
        signed = signing_input(record, task.message)
        taken: dict[bytes, tuple[PresignatureShares, bytes]] = {}

        def party(i: int, session_id: bytes) -> Party[Any, Any]:
            if session_id not in taken:
                taken[session_id] = self._take(everyone), self._rng(finisher).bytes(32)
            parts, rho = taken[session_id]
            agreed = presigned.setup(
                self._share(i), parts[PartyId(i)], finisher, signed, rho, path=path
            )
            return presigned.party(
                agreed, session_id=session_id, rng=self._rng(i), listener=self.listener
            )

        def valid(results: Mapping[PartyId, Any]) -> bool:
            released = (signature for signature in results.values() if signature is not None)
            return all(
                verifies(record, signed, signature.encode(), path=path) for signature in released
            )

        def value(results: dict[PartyId, Any]) -> bytes:
            signature: bytes = results[PartyId(finisher)].encode()
            return signature

        name = f"sign presigned {record.curve_name}"
        return Operation(task, name, everyone, party, valid, value)

    def _take(self, signers: tuple[PartyId, ...]) -> PresignatureShares:
        """Remove and return the next presignature of these signers."""
        kept = self.presignatures.get(signers)
        if not kept:
            raise UsageError(f"no presignature of signers {list(signers)} is left: call presign")
        return kept.pop(0)

    def _signers(self, signers: tuple[int, ...] | None) -> tuple[int, ...]:
        record = self._key()
        return record.holders[: record.threshold] if signers is None else signers

    def _recovery(self, task: Recover) -> Operation[PublicKeyRecord]:
        record, lost = self._key(), task.lost
        self._share(lost)
        others = tuple(i for i in record.holders if i != lost)
        dealing = others[: record.threshold] if task.dealers is None else task.dealers
        if lost in dealing:
            raise UsageError(f"party {lost} has lost its share: it cannot be among the dealers")
        for i in dealing:
            self._share(i)

        def party(i: int, session_id: bytes) -> Party[Any, Any]:
            share = self._share(i) if i in dealing else None
            agreed = reshare.setup(
                record,
                dealing,
                share=share,
                scheme=share.mta.identifier if share and share.mta else self._scheme(),
            )
            return reshare.party(
                agreed, i, session_id=session_id, rng=self._rng(i), listener=self.listener
            )

        def valid(results: Mapping[PartyId, Any]) -> bool:
            return _same_record(results) and all(
                share.record.public_key == record.public_key for share in results.values()
            )

        name = f"recover {record.curve_name}"
        return Operation(task, name, record.holders, party, valid, self._keep)

    # ------------------------------------------------------------------ running them

    def prepare(self, operation: Operation[R]) -> VirtualRun:
        """Prepare a session of the operation in virtual time.

        Raises:
            UsageError: the simulation runs in real time, which cannot be stepped.
        """
        if self.clock != "virtual":
            raise UsageError("only virtual time can be stepped: use clock='virtual'")
        return VirtualRun(
            self._participants(operation),
            self.network,
            seed=self._seed_of_session(),
            compute=self.compute,
            faults=self.faults,
            deadline_ms=self.policy.timeout_ms,
            resend_ms=self.policy.resend_ms,
            draws=self.draws,
            validate=operation.valid,
            name=operation.name,
            contents=self.contents,
        )

    def note_done(self, operation: Operation[Any]) -> None:
        """Record an operation's task as part of ``scenario``."""
        self._done.append(operation.task)

    def with_scenario(self, trace: Trace) -> Trace:
        """Return a trace with the scenario that runs it again."""
        return replace(trace, scenario=self.scenario or "")

    def finish_operation(self, operation: Operation[R], attempts: tuple[Trace, ...]) -> Result[R]:
        """Return an operation's result; keep new shares, discard those that must not be used
        again."""
        elapsed = 0.0
        for trace in attempts:
            stalled = trace.verdict is Verdict.STALLED
            wasted = stalled and self.policy.timeout_ms < math.inf
            elapsed += self.policy.timeout_ms if wasted else trace.finished_ms
        self._discard(attempts)
        last = attempts[-1]
        if last.verdict is not Verdict.VALID:
            return Result(None, attempts, elapsed)
        results = {i: outcome.result for i, outcome in last.outcomes.items()}
        return Result(operation.value(results), attempts, elapsed)

    def _participants(self, operation: Operation[R]) -> list[Participant[Any]]:
        """Make the parties of a new session, corrupt ones wrapped in their adversaries."""
        self._check()
        session_id = self._session_id()
        try:
            made = [operation.party(i, session_id) for i in operation.parties]
        except UsageError:
            self._sessions -= 1  # no session took place: later ones must get the same seeds
            raise
        return [self.corrupt[p.me](p) if p.me in self.corrupt else p for p in made]

    def _run_session(self, operation: Operation[R]) -> Trace:
        """Run one session, by the simulation's clock."""
        if self.clock == "virtual":
            return self.prepare(operation).run()
        if self.policy.resend_ms < math.inf:
            raise UsageError("policy resend_ms works in virtual time only")
        # Imported here: virtual time needs no HTTP server.
        from mpcsim.sim.run.realtime.realtime import real_time

        return real_time(
            self._participants(operation),
            self.network,
            seed=self._seed_of_session(),
            faults=self.faults,
            deadline_s=min(self.policy.timeout_ms / 1000, LONGEST_REAL_SESSION_S),
            draws=self.draws,
            validate=operation.valid,
            name=operation.name,
            contents=self.contents,
        )

    def _run(self, operation: Operation[R]) -> Result[R]:
        """Run sessions until one completes, the policy gives up, or a party is to be banned."""
        self._check_clock()
        attempts: list[Trace] = []
        while len(attempts) < self.policy.attempts:
            attempts.append(self._run_session(operation))
            if attempts[-1].verdict in (Verdict.VALID, Verdict.INVALID):
                break
            if not _may_retry(attempts[-1]):
                break
        self.note_done(operation)
        return self.finish_operation(operation, tuple(map(self.with_scenario, attempts)))

    def _check_clock(self) -> None:
        if self.clock not in ("virtual", "real"):
            raise UsageError(f"clock is {self.clock!r}: 'virtual' or 'real'")

    def _keep(self, shares: dict[PartyId, KeyShare]) -> PublicKeyRecord:
        self.shares = shares
        self.presignatures.clear()
        return _record_of(shares)

    def _check(self) -> None:
        """Refuse adversaries and faults that name unknown parties or messages."""
        check_faults(self.faults, self.network.placement, KINDS)
        for i in self.corrupt:
            if i not in self.network.placement:
                raise UsageError(f"corrupt: party {i} has no site in this network")

    def _session_id(self) -> bytes:
        self._sessions += 1
        if self.secrets_seed is None:
            return os.urandom(32)
        return hashlib.sha256(f"{self.secrets_seed} {self._sessions}".encode()).digest()

    def _seed_of_session(self) -> int:
        """Return the seed of latencies, losses and random faults of the present session."""
        if self._session_seed is not None:
            return self._session_seed
        return derived_seed(self.seed, "session", self._sessions)

    def _rng(self, party: int) -> Rng:
        if self.secrets_seed is None:
            return SystemRng()
        return SeededRng(f"{self.secrets_seed}, session {self._sessions}, party {party}")

    def _key(self) -> PublicKeyRecord:
        if not self.shares:
            raise UsageError("there is no key yet: call generate first")
        return _record_of(self.shares)

    def _share(self, party: int) -> KeyShare:
        try:
            return self.shares[PartyId(party)]
        except KeyError:
            raise UsageError(f"party {party} holds no share of this key") from None

    def _scheme(self) -> str | None:
        share = next(iter(self.shares.values()))
        return share.mta.identifier if share.mta else None

    def _discard(self, attempts: Iterable[Trace]) -> None:
        """Update or discard honest parties' shares after aborts, as each abort demands."""
        for trace in attempts:
            for i, outcome in trace.outcomes.items():
                if isinstance(outcome, Aborted) and i in self.shares and i not in self.corrupt:
                    self.shares[i] = self.shares[i].after_abort(outcome)


def run_scenario(scenario: Scenario) -> tuple[Result[Any], ...]:
    """Run a scenario's tasks and return their results; stop if key generation fails.

        >>> generated, signed = run_scenario(Scenario.load("wallet.toml"))
        >>> print(signed.trace.critical_path())

    Raises:
        UsageError: a task that cannot be done: no such party, a path that leads to no key, ...
    """
    check_type("scenario", scenario, Scenario)
    simulation = Simulation.of(scenario)
    found: list[Result[Any]] = []
    for task in scenario.run:
        found.append(simulation.run_task(task))
        if isinstance(task, Generate) and not found[-1].ok:
            break
    return tuple(found)


def _scheme_name(scheme: str | Mta | None) -> str | None:
    return None if scheme is None else scheme_name(scheme)


def _parties(argument: str, ids: Iterable[int] | None) -> tuple[int, ...] | None:
    """
    Raises:
        UsageError: they are no sequence.
    """
    try:
        return None if ids is None else tuple(ids)
    except TypeError:
        raise UsageError(f"{argument}: expected parties, as (1, 3), not {ids!r}") from None


def _may_retry(trace: Trace) -> bool:
    found = [o for o in trace.outcomes.values() if isinstance(o, Aborted)]
    return all(o.consequence is Consequence.RETRY for o in found)


def _record_of(shares: Mapping[PartyId, KeyShare]) -> PublicKeyRecord:
    return next(iter(shares.values())).record


def _same_record(results: Mapping[PartyId, Any]) -> bool:
    """Return whether all parties have one public record, and secret shares that match it."""
    records = {share.record.to_bytes() for share in results.values()}
    return len(records) == 1 and all(
        share.group.base(share.secret_share) == share.record.public_shares[i]
        for i, share in results.items()
    )

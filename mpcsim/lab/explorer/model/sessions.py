"""Where a run comes from: a session that can be run again and altered, or a trace of the past."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from mpcsim.crypto.encoding import Message
from mpcsim.crypto.rng import SystemRng
from mpcsim.errors import InvalidEncoding, UsageError
from mpcsim.ids import PartyId
from mpcsim.lab.explorer.model.fields import WHOLE, alter
from mpcsim.lab.explorer.model.retime import RecordedTimes, Retiming, observed_network
from mpcsim.protocols.engine import Definition, Party
from mpcsim.protocols.local_run import Participant
from mpcsim.sim.network.topology import Network
from mpcsim.sim.run.adversary import Adversary, Tamper, Tampered, pass_unchanged
from mpcsim.sim.run.message_recording import RecordedParty, Recording
from mpcsim.sim.simulation import PresignatureShares, Simulation
from mpcsim.sim.trace import Trace

OPERATIONS: Final = ("generate", "sign", "presign", "sign_presigned", "recover")


@dataclass(frozen=True)
class Edit:
    """One alteration of one message, made by its sender."""

    sender: int
    receiver: int
    kind: str
    operation: str
    """See ``mpcsim.lab.explorer.model.fields``."""
    path: str = WHOLE
    """Of the field; empty for the whole message."""
    argument: bytes = b""
    """New bytes, for ``replace``."""
    everyone: bool = False
    """The same toward every receiver; only toward ``receiver`` otherwise."""

    def __str__(self) -> str:
        to = "everyone" if self.everyone else f"party {self.receiver}"
        what = f"{self.kind}.{self.path}" if self.path else self.kind
        new = f" with {self.argument.hex() or 'nothing'}" if self.operation == "replace" else ""
        return f"party {self.sender} to {to}: {what}: {self.operation}{new}"

    def applies_to(self, kind: str, to: int) -> bool:
        """Whether it alters the sender's message of that kind to that party."""
        return kind == self.kind and (self.everyone or to == self.receiver)


class Source(Protocol):
    """A session to look at."""

    network: Network
    """As it is at first."""
    frozen: str
    """Why messages cannot be altered; empty if they can."""
    fixed_times: str
    """Why it cannot be run over another network; empty if it can."""

    def run(
        self, network: Network, edits: tuple[Edit, ...], seed: int | None = None
    ) -> tuple[Trace, Recording | None]:
        """The session over a network, with messages altered.

        Args:
            seed: of latencies, losses and random faults; as at first, by default.

        Raises:
            UsageError: it cannot be run like that.
        """
        ...


class LiveSession:
    """A session that is run anew, with the same seeds, whenever something is changed.

    The simulation itself stays as it is. Where its secrets come from the operating system, the
    session draws one seed and keeps it. One attempt is made, whatever the simulation's policy says.

    SAME SEEDS AGAIN: parties that run twice from one point and
    receive different messages give their shares away; keys that are explored are for study only.
    """

    frozen = fixed_times = ""
    definition: Definition[Any, Any] | None = None
    """Of a protocol that is not the package's."""

    def __init__(self, simulation: Simulation, operation: str, options: Mapping[str, Any]) -> None:
        """Prepare a session.

        Args:
            operation: one of ``OPERATIONS``.
            options: the arguments of that method of the simulation.

        Raises:
            UsageError: unknown operation.
        """
        if operation not in OPERATIONS:
            raise UsageError(f"unknown operation {operation!r} (known: {', '.join(OPERATIONS)})")
        self._operation = operation
        self._options = dict(options)
        self._simulation = replace(
            simulation,
            shares=dict(simulation.shares),
            presignatures=_copy_presignatures(simulation.presignatures),
            secrets_seed=simulation.secrets_seed or SystemRng().bytes(32).hex(),
        )
        self._reset_runs(simulation.network)

    def _reset_runs(self, network: Network) -> None:
        self.network = network
        self._costs: RecordedTimes | None = None
        self._retiming: Retiming | None = None
        self._first: Trace | None = None
        self._honest: Recording | None = None

    def run(
        self, network: Network, edits: tuple[Edit, ...], seed: int | None = None
    ) -> tuple[Trace, Recording | None]:
        """Run the session; a complete one whose network alone has changed needs no cryptography.

        Raises:
            UsageError: the simulation's own method refuses, or an edit names nobody.
        """
        if not edits and self._first is not None and network is self.network and seed is None:
            return self._first, self._honest
        if not edits and self._retiming is not None:
            return self._retiming.over_network(network, seed), self._honest
        recording = Recording()
        if self._costs is not None:
            recording.before_work = self._costs.start_work
        trace = self._play(network, edits, recording, seed)
        if not edits and self._costs is None:
            self._costs = RecordedTimes.of(trace, network)
            self._first, self._honest = trace, recording
            if self._is_determined_by_network:
                with suppress(UsageError):
                    self._retiming = Retiming(trace, network, self.definition)
        return trace, recording

    @property
    def _is_determined_by_network(self) -> bool:
        """Whether nothing but network and seed says when what arrives: no fault, no deadline."""
        own = self._simulation
        return not own.faults and own.draws is None and own.policy.timeout_ms == math.inf

    def _play(
        self, network: Network, edits: tuple[Edit, ...], recording: Recording, seed: int | None
    ) -> Trace:
        own = self._simulation
        for edit in edits:
            if edit.sender not in network.placement:
                raise UsageError(f"party {edit.sender} has no site in this network")

        def observed(party: Party[Any, Any]) -> RecordedParty:
            made = own.corrupt[party.me](party) if party.me in own.corrupt else party
            mine = [edit for edit in edits if edit.sender == party.me]
            return RecordedParty(with_alterations(made, mine) if mine else made, recording)

        simulation = replace(
            own,
            network=network,
            _session_seed=seed,
            shares=dict(own.shares),
            presignatures=_copy_presignatures(own.presignatures),
            compute=self._costs or own.compute,
            corrupt=dict.fromkeys(network.placement, observed),
            listener=recording.on_event,
        )
        with _guards_restored(own):
            stepping = getattr(simulation, f"begin_{self._operation}")(**self._options)
            while stepping.step():
                pass
            trace: Trace = stepping.trace
        return trace


class TraceSession:
    """A run of the past: to be stepped through, and run over other networks."""

    frozen = (
        "A trace holds no message bytes. Explorer.live(simulation, ...) shows them, and can alter "
        "them."
    )

    def __init__(
        self,
        trace: Trace,
        network: Network | None,
        definition: Definition[Any, Any] | None = None,
    ) -> None:
        """Take a trace.

        Args:
            network: that it ran over; by default, what can be told from the trace.
            definition: of the protocol; not necessary for the protocols of this package.
        """
        self._trace = trace
        self.network = network or observed_network(trace)
        self._retiming: Retiming | None = None
        self.fixed_times = ""
        try:
            self._retiming = Retiming(trace, self.network, definition)
        except UsageError as error:
            only = "only a complete run without faults can be run over another network"
            self.fixed_times = f"{only} ({error})"

    def run(
        self, network: Network, edits: tuple[Edit, ...], seed: int | None = None
    ) -> tuple[Trace, Recording | None]:
        """The trace, or the same messages over another network.

        Raises:
            UsageError: something is to be altered, the run was not complete, or its protocol is
                not known.
        """
        if edits:
            raise UsageError(self.frozen)
        if network is self.network and seed is None:
            return self._trace, None
        if self._retiming is None:
            raise UsageError(self.fixed_times)
        return self._retiming.over_network(network, seed), None


def with_alterations(made: Participant[Any], edits: list[Edit]) -> Adversary:
    """The party, or the adversary it is already, with some messages altered on their way out."""
    if isinstance(made, Adversary):
        made.tamper = _AlteringTamper(made, made.tamper, edits)
        return made
    if isinstance(made, Party):
        adversary = Adversary(made)
        adversary.tamper = _AlteringTamper(adversary, pass_unchanged, edits)
        return adversary
    raise UsageError(f"{made!r} is no party and no Adversary: its messages cannot be altered")


class _AlteringTamper:
    """Alters what another function lets out."""

    def __init__(self, adversary: Adversary, inner: Tamper, edits: list[Edit]) -> None:
        self._adversary = adversary
        self._inner = inner
        self._edits = edits

    def __call__(self, kind: str, to: int, message: Any) -> Tampered:
        item = self._inner(kind, to, message)
        wire = self._adversary.party.wire
        for edit in self._edits:
            if not edit.applies_to(kind, to) or not isinstance(item, Message | bytes):
                continue
            payload = item if isinstance(item, bytes) else item.encode(wire)
            try:
                item = alter(payload, type(message), wire, edit.path, edit.operation, edit.argument)
            except InvalidEncoding:  # an earlier edit left nothing to take apart
                continue
        return item


def _copy_presignatures(
    kept: dict[tuple[PartyId, ...], list[PresignatureShares]],
) -> dict[tuple[PartyId, ...], list[PresignatureShares]]:
    """Presignatures that a run may take without their being gone for the next."""
    return {signers: list(parts) for signers, parts in kept.items()}


@contextmanager
def _guards_restored(simulation: Simulation) -> Iterator[None]:
    """Whatever happens inside, multiplication state and presignatures stay as usable as they were.

    That is what no wallet may do: see ``LiveSession``.
    """
    guards = {id(s.guard): s.guard for s in simulation.shares.values()}.values()
    uses = [
        part.use
        for kept in simulation.presignatures.values()
        for parts in kept
        for part in parts.values()
    ]
    discarded, spent = [guard.discarded for guard in guards], [use.spent for use in uses]
    try:
        yield
    finally:
        for guard, before in zip(guards, discarded, strict=True):
            guard.discarded = before
        for use, was in zip(uses, spent, strict=True):
            use.spent = was

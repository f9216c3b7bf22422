"""Sources of runs: a session that can be run again and altered, or a trace of the past."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from mpcsim.crypto.encoding import Message
from mpcsim.crypto.rng import SystemRng
from mpcsim.errors import InvalidEncoding, UsageError, check_type
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
    """Alteration of one message by its sender."""

    sender: int
    receiver: int
    kind: str
    operation: str
    """Operation of ``mpcsim.lab.explorer.model.fields``."""
    path: str = WHOLE
    """Path of the field; empty for the whole message."""
    argument: bytes = b""
    """New bytes, for ``replace``."""
    everyone: bool = False
    """Whether every receiver gets the altered message, or only ``receiver``."""

    def __str__(self) -> str:
        to = "everyone" if self.everyone else f"party {self.receiver}"
        what = f"{self.kind}.{self.path}" if self.path else self.kind
        new = f" with {self.argument.hex() or 'nothing'}" if self.operation == "replace" else ""
        return f"party {self.sender} to {to}: {what}: {self.operation}{new}"

    def applies_to(self, kind: str, to: int) -> bool:
        """Return whether it alters the sender's message of that kind to that party."""
        return kind == self.kind and (self.everyone or to == self.receiver)


class Source(Protocol):
    """Session to be explored."""

    network: Network
    """Original network."""
    frozen: str
    """Reason why messages cannot be altered; empty if they can."""
    fixed_times: str
    """Reason why it cannot be run over another network; empty if it can."""

    def run(
        self, network: Network, edits: tuple[Edit, ...], seed: int | None = None
    ) -> tuple[Trace, Recording | None]:
        """Run the session over a network, with messages altered.

        Args:
            seed: of latencies, losses and random faults; the original one, by default.

        Raises:
            UsageError: it cannot be run like that.
        """
        ...


class LiveSession:
    """Session that is run anew, with the same seeds, at every change.

    The simulation itself does not change. Where its secrets come from the operating system, the
    session draws one seed and keeps it. One attempt is made, whatever the simulation's policy says.

    SAME SEEDS AGAIN: parties that run twice from one state and receive different messages disclose
    their shares; keys that are explored are for study only.
    """

    frozen = fixed_times = ""
    definition: Definition[Any, Any] | None = None
    """Definition of a protocol that is not the package's."""

    def __init__(self, simulation: Simulation, operation: str, options: Mapping[str, Any]) -> None:
        """Prepare a session.

        Args:
            operation: one of ``OPERATIONS``.
            options: the arguments of that method of the simulation.

        Raises:
            UsageError: unknown operation.
        """
        check_type("simulation", simulation, Simulation)
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
        """Run the session; a complete one with a changed network only needs no cryptography.

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
        """Return whether network and seed alone determine when messages arrive: no fault, no
        deadline."""
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
    """Session of the past, from its trace: to be stepped through, and replayed over other
    networks."""

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
        """Prepare a trace.

        Args:
            network: that it ran over; by default, as the messages met it.
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
        """Return the trace, or that of a replay over another network.

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
    """Return the party, or the adversary that it is already, with messages altered on their way
    out."""
    if isinstance(made, Adversary):
        made.tamper = _AlteringTamper(made, made.tamper, edits)
        return made
    if isinstance(made, Party):
        adversary = Adversary(made)
        adversary.tamper = _AlteringTamper(adversary, pass_unchanged, edits)
        return adversary
    raise UsageError(f"{made!r} is no party and no Adversary: its messages cannot be altered")


class _AlteringTamper:
    """Function that alters what another tamper function lets out."""

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
            except InvalidEncoding:  # after an earlier edit it does not decode
                continue
        return item


def _copy_presignatures(
    kept: dict[tuple[PartyId, ...], list[PresignatureShares]],
) -> dict[tuple[PartyId, ...], list[PresignatureShares]]:
    """Return presignatures that a run may use without using them up."""
    return {signers: list(parts) for signers, parts in kept.items()}


@contextmanager
def _guards_restored(simulation: Simulation) -> Iterator[None]:
    """Restore multiplication state and presignatures at the end of the block.

    No wallet may do so: see ``LiveSession``.
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

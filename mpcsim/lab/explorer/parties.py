"""Session of parties of any protocol, run anew at every change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from mpcsim.errors import UsageError
from mpcsim.lab.explorer.model.sessions import Edit, LiveSession, with_alterations
from mpcsim.protocols.engine import Party
from mpcsim.sim.network.topology import Network
from mpcsim.sim.parties import run_parties
from mpcsim.sim.run.compute import Measured
from mpcsim.sim.run.message_recording import RecordedParty, Recording
from mpcsim.sim.trace import Trace


class PartiesSession(LiveSession):
    """Session that is run anew, with the same seeds, at every change.

    The given parties do not run: each run resumes others from their snapshots.
    """

    def __init__(
        self, parties: Iterable[Party[Any, Any]], network: Network, options: Mapping[str, Any]
    ) -> None:
        """Prepare a session.

        Args:
            options: those of ``run_parties``.

        Raises:
            UsageError: no party, or one that has started or is none.
        """
        self._parties = tuple(parties)
        for party in self._parties:
            if not isinstance(party, Party):
                raise UsageError(f"{party!r} is no party: the explorer itself makes it cheat")
            if party.outcome is not None or party.waiting_state() is not None:
                raise UsageError(f"{party!r} has started already")
        if not self._parties:
            raise UsageError("a session needs at least one party")
        self.definition = self._parties[0].definition
        self._stored = [party.snapshot() for party in self._parties]
        self._options = {"compute": Measured(), **options}
        self._reset_runs(network)

    @property
    def _is_determined_by_network(self) -> bool:
        """Return whether network and seed alone determine when messages arrive."""
        return not self._options.keys() & {"faults", "deadline_ms"}

    def _play(
        self, network: Network, edits: tuple[Edit, ...], recording: Recording, seed: int | None
    ) -> Trace:
        options = self._options | ({"compute": self._costs} if self._costs else {})
        if seed is not None:
            options["seed"] = seed
        observed = []
        for original, stored in zip(self._parties, self._stored, strict=True):
            party, _ = Party.resume(
                original.definition, stored, share=original.share, listener=recording.on_event
            )
            mine = [edit for edit in edits if edit.sender == party.me]
            observed.append(
                RecordedParty(with_alterations(party, mine) if mine else party, recording)
            )
        with self._guards_restored():
            return run_parties(observed, network, **options)

    @contextmanager
    def _guards_restored(self) -> Iterator[None]:
        """Restore the multiplication state at the end of the block."""
        guards = [party.share.guard for party in self._parties if party.share is not None]
        before = [guard.discarded for guard in guards]
        try:
            yield
        finally:
            for guard, was in zip(guards, before, strict=True):
                guard.discarded = was

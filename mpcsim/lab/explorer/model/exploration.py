"""Exploration of one session: what the explorer shows and changes, without its widget."""

from __future__ import annotations

from copy import copy
from typing import Any, Final, Self

from mpcsim.errors import UsageError
from mpcsim.lab.explorer.model import model
from mpcsim.lab.explorer.model.fields import REPLACE, WHOLE
from mpcsim.lab.explorer.model.retime import with_link_numbers
from mpcsim.lab.explorer.model.sessions import Edit, Source, TraceSession
from mpcsim.lab.explorer.model.views import Detail, View
from mpcsim.protocols.engine import Definition
from mpcsim.sim.network.topology import Network
from mpcsim.sim.network.transport import is_whole_number
from mpcsim.sim.run.message_recording import Recording
from mpcsim.sim.simulation import Result
from mpcsim.sim.streams import SEED_BITS
from mpcsim.sim.trace import Trace

LARGEST_SEED: Final = 2**SEED_BITS - 1
"""Largest seed of a session."""


class Exploration:
    """Session that is stepped through and altered."""

    def __init__(
        self,
        run: Result[Any] | Trace | Source,
        *,
        network: Network | None = None,
        definition: Definition[Any, Any] | None = None,
        reveal: bool = False,
    ) -> None:
        """Explore a run.

        Args:
            run: what an operation gave (its last attempt), or a trace. Neither holds the messages
                themselves; ``Explorer.live`` shows those.
            network: that it ran over; by default, as the messages met it.
            definition: of the protocol; not necessary for the protocols of this package.
            reveal: show secret values. They are then in the notebook's output, too.

        Raises:
            UsageError: the trace does not determine the network: pass it.
        """
        trace = run.trace if isinstance(run, Result) else run
        self._source = (
            TraceSession(trace, network, definition) if isinstance(trace, Trace) else trace
        )
        self._network = self._source.network
        self._definition = definition
        self._edits: tuple[Edit, ...] = ()
        self._seed: int | None = None
        """Seed in place of the original one."""
        self._reveal = reveal
        self._first, self._recording = self._source.run(self._network, ())
        self._trace = self._first
        self._details: dict[str, Detail] | None = None

    # ------------------------------------------------------------------ present run

    @property
    def trace(self) -> Trace:
        """Trace of the present run."""
        return self._trace

    @property
    def network(self) -> Network:
        """Present network."""
        return self._network

    @property
    def edits(self) -> tuple[Edit, ...]:
        """Alterations in order."""
        return self._edits

    @property
    def recording(self) -> Recording | None:
        """Recording of an onlooker; None for a run of the past. Holds SECRETS."""
        return self._recording

    @property
    def view(self) -> View:
        """Present run as shown."""
        return model.view(
            self._trace,
            self._recording,
            network=self._network,
            definition=self._definition,
            before=model.Baseline(self._first, self._source.network),
            edits=self._edits,
            reveal=self._reveal,
            frozen=self._source.frozen,
            fixed_times=self._source.fixed_times,
        )

    @property
    def details(self) -> dict[str, Detail]:
        """Contents of each message, by the keys of the view's messages."""
        if self._details is None:
            self._details = model.details(
                self._trace, self._recording, definition=self._definition, reveal=self._reveal
            )
        return self._details

    def shown(self, *, reveal: bool) -> tuple[View, dict[str, Detail]]:
        """Return view and details with or without secret values.

        Raises:
            UsageError: with them, and this exploration does not show them.
        """
        if reveal and not self._reveal:
            raise UsageError(
                "reveal: this explorer shows no secret values: make it with reveal=True"
            )
        if reveal == self._reveal:
            return self.view, self.details
        plain = copy(self)
        plain._reveal, plain._details = False, None
        return plain.view, plain.details

    # ------------------------------------------------------------------ changes

    def edit(
        self,
        sender: int,
        receiver: int,
        kind: str,
        path: str = WHOLE,
        operation: str = REPLACE,
        argument: bytes = b"",
        *,
        everyone: bool = False,
    ) -> Self:
        """Alter a message of a party, and run the session again.

        Args:
            kind: of the message, e.g. ``Commit``.
            path: of the field, e.g. ``reply.eta`` or ``echo[3]``; empty for the whole message.
            operation: one of the field's, see ``details``: ``flip a bit``, ``+ 1``, ``replace``...
            argument: the new bytes, for ``replace``.
            everyone: the same toward every receiver.

        Raises:
            UsageError: a run of the past, no such message or field, or not possible with it.
        """
        if self._source.frozen:
            raise UsageError(self._source.frozen)
        key = f"{sender}>{receiver} {kind}"
        if key not in self.details:
            raise UsageError(f"no {kind} goes from party {sender} to party {receiver}")
        edit = Edit(sender, receiver, kind, operation, path, argument, everyone)
        self._change(self._network, (*self._edits, edit), self._seed)
        return self

    def undo(self) -> Self:
        """Revert the last edit."""
        self._change(self._network, self._edits[:-1], self._seed)
        return self

    def set_link(
        self,
        a: str,
        b: str,
        *,
        one_way_ms: float | None = None,
        mbit_per_s: float | None = None,
        loss: float | None = None,
    ) -> Self:
        """Change the numbers of the link between two sites, and run the session over it.

        Jitter, bursts of losses and the way back change in proportion.

        Args:
            one_way_ms: mean latency from ``a`` to ``b``; None: unchanged, like the others.
            loss: share of lost packets. The seed determines which.

        Raises:
            UsageError: no such link, a bad number, or a run that was incomplete.
        """
        first = self._source.network
        numbers = {"one_way_ms": one_way_ms, "mbit_per_s": mbit_per_s, "loss": loss}
        network = with_link_numbers(self._network, first, a, b, **numbers)
        if network.links == first.links:
            network = first
        self._change(network, self._edits, self._seed)
        return self

    def set_seed(self, seed: int) -> Self:
        """Draw latencies and losses anew; the same seed always gives the same run.

        Contents of messages and secrets do not depend on it.

        Raises:
            UsageError: not a whole number from 0 to ``LARGEST_SEED``, or a run that was incomplete.
        """
        if not is_whole_number(seed, 0) or seed > LARGEST_SEED:
            raise UsageError(f"seed {seed}: it must be a whole number from 0 to {LARGEST_SEED}")
        self._change(self._network, self._edits, None if seed == self._first.seed else int(seed))
        return self

    def restore_network(self) -> Self:
        """Restore links and seed; edits are kept."""
        self._change(self._source.network, self._edits, None)
        return self

    def reset(self) -> Self:
        """Restore the original run."""
        self._change(self._source.network, (), None)
        return self

    def _change(self, network: Network, edits: tuple[Edit, ...], seed: int | None) -> None:
        """Run the session with changes; if that is refused, nothing changes."""
        trace, recording = self._source.run(network, edits, seed)
        if recording is not self._recording or edits != self._edits:
            self._details = None
        self._network, self._edits, self._seed = network, edits, seed
        self._trace, self._recording = trace, recording

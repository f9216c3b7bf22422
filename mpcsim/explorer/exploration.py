"""One session looked at from all sides, and what if: the explorer without its looks."""

from __future__ import annotations

from typing import Any, Self

from mpcsim.errors import UsageError
from mpcsim.explorer import model
from mpcsim.explorer.fields import REPLACE, WHOLE
from mpcsim.explorer.retime import slowed
from mpcsim.explorer.sessions import Edit, Source, TraceSession
from mpcsim.explorer.views import Detail, View
from mpcsim.protocol import Definition
from mpcsim.sim.network.topology import Network
from mpcsim.sim.run.observe import Recording
from mpcsim.sim.simulation import Result
from mpcsim.sim.trace import Trace


class Exploration:
    """One session, stepped through and altered."""

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
            network: that it ran over; by default, what can be told from the trace.
            definition: of the protocol; not necessary for the protocols of this package.
            reveal: show secret values. They are then in the notebook's output, too.

        Raises:
            UsageError: nothing can be told of the network: pass it.
        """
        trace = run.trace if isinstance(run, Result) else run
        self._source = (
            TraceSession(trace, network, definition) if isinstance(trace, Trace) else trace
        )
        self._network = self._source.network
        self._definition = definition
        self._edits: tuple[Edit, ...] = ()
        self._reveal = reveal
        self._first, self._recording = self._source.run(self._network, ())
        self._trace = self._first
        self._details: dict[str, Detail] | None = None

    # ------------------------------------------------------------------ what there is

    @property
    def trace(self) -> Trace:
        """The run as it is now."""
        return self._trace

    @property
    def network(self) -> Network:
        """The network as it is now."""
        return self._network

    @property
    def edits(self) -> tuple[Edit, ...]:
        """What was altered, in order."""
        return self._edits

    @property
    def recording(self) -> Recording | None:
        """What an onlooker saw; None for a run of the past. Holds SECRETS."""
        return self._recording

    @property
    def view(self) -> View:
        """The run as a reader sees it."""
        return model.view(
            self._trace,
            self._recording,
            network=self._network,
            definition=self._definition,
            at_first=self._first,
            first_network=self._source.network,
            edits=self._edits,
            reveal=self._reveal,
            frozen=self._source.frozen,
            fixed_times=getattr(self._source, "fixed_times", False),
        )

    @property
    def details(self) -> dict[str, Detail]:
        """What is in each message, by the keys of the view's messages."""
        if self._details is None:
            self._details = model.details(
                self._trace, self._recording, definition=self._definition, reveal=self._reveal
            )
        return self._details

    # ------------------------------------------------------------------ what if

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
        """Let a party send something else than it should, and run the session again.

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
        self._change(self._network, (*self._edits, edit))
        return self

    def undo(self) -> Self:
        """Take the last edit back."""
        self._change(self._network, self._edits[:-1])
        return self

    def set_latency(self, a: str, b: str, one_way_ms: float) -> Self:
        """Give the link between two sites another mean latency, and watch the times move.

        Raises:
            UsageError: no such link, a bad latency, or a run that broke off in the past.
        """
        network = slowed(self._network, self._source.network, a, b, one_way_ms)
        if network.links == self._source.network.links:
            network = self._source.network
        self._change(network, self._edits)
        return self

    def reset(self) -> Self:
        """Back to the run as it was at first."""
        self._change(self._source.network, ())
        return self

    def _change(self, network: Network, edits: tuple[Edit, ...]) -> None:
        trace, recording = self._source.run(network, edits)
        if recording is not self._recording or edits != self._edits:
            self._details = None
        self._network, self._edits = network, edits
        self._trace, self._recording = trace, recording

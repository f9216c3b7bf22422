"""The round explorer: looks at one session from all sides, and asks what if.

    >>> from mpcsim.explorer import Explorer
    >>> Explorer(sim.sign())                      # a run of the past
    >>> Explorer.live(sim, "sign", signers=(1, 3))  # a session of its own, bytes and all

In a notebook it is a widget; where widgets cannot run, a figure and a table. Everything the widget
does can be done from Python, too: ``edit``, ``undo``, ``set_latency``, ``reset``, ``view``.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from mpcsim.errors import UsageError
from mpcsim.explorer import model
from mpcsim.explorer.fields import REPLACE, WHOLE
from mpcsim.explorer.observe import Recording
from mpcsim.explorer.retime import slowed
from mpcsim.explorer.sessions import Edit, LiveSession, Source, TraceSession
from mpcsim.explorer.views import Detail, View
from mpcsim.sim.network.topology import Network
from mpcsim.sim.rich_display import Table, counted, document, milliseconds
from mpcsim.sim.simulation import Result, Simulation
from mpcsim.sim.traces.picture import picture
from mpcsim.sim.traces.trace import Trace

if TYPE_CHECKING:
    from mpcsim.explorer.widget import ExplorerWidget


class Explorer:
    """One session, stepped through and altered."""

    def __init__(
        self,
        run: Result[Any] | Trace | Source,
        *,
        network: Network | None = None,
        reveal: bool = False,
    ) -> None:
        """Explore a run.

        Args:
            run: what an operation gave (its last attempt), or a trace. Neither holds the messages
                themselves; ``Explorer.live`` shows those.
            network: that it ran over; by default, what can be told from the trace.
            reveal: show secret values. They are then in the notebook's output, too.

        Raises:
            UsageError: nothing can be told of the network: pass it.
        """
        trace = run.trace if isinstance(run, Result) else run
        self._source = TraceSession(trace, network) if isinstance(trace, Trace) else trace
        self._network = self._source.network
        self._edits: tuple[Edit, ...] = ()
        self._reveal = reveal
        self._first, self._recording = self._source.run(self._network, ())
        self._trace = self._first
        self._details: dict[str, Detail] | None = None
        self._widget: ExplorerWidget | None = None

    @classmethod
    def live(
        cls,
        simulation: Simulation,
        operation: str = "sign",
        *,
        reveal: bool = False,
        **options: Any,
    ) -> Explorer:
        """Explore a session of its own, in virtual time; the simulation stays as it is.

        Every change runs the session again with the same seeds, so that nothing differs but what
        was changed. That is what no party may ever do with a key that guards value.

        Args:
            operation: ``generate``, ``sign`` or ``recover``.
            reveal: show secret values. They are then in the notebook's output, too.
            options: the arguments of that method of the simulation.

        Raises:
            UsageError: unknown operation, or what the simulation itself refuses.
        """
        return cls(LiveSession(simulation, operation, options), reveal=reveal)

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
            self._details = model.details(self._trace, self._recording, reveal=self._reveal)
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
    ) -> Explorer:
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

    def undo(self) -> Explorer:
        """Take the last edit back."""
        self._change(self._network, self._edits[:-1])
        return self

    def set_latency(self, a: str, b: str, one_way_ms: float) -> Explorer:
        """Give the link between two sites another mean latency, and watch the times move.

        Raises:
            UsageError: no such link, a bad latency, or a run that broke off in the past.
        """
        network = slowed(self._network, self._source.network, a, b, one_way_ms)
        if network.links == self._source.network.links:
            network = self._source.network
        self._change(network, self._edits)
        return self

    def reset(self) -> Explorer:
        """Back to the run as it was at first."""
        self._change(self._source.network, ())
        return self

    def _change(self, network: Network, edits: tuple[Edit, ...]) -> None:
        trace, recording = self._source.run(network, edits)
        if recording is not self._recording or edits != self._edits:
            self._details = None
        self._network, self._edits = network, edits
        self._trace, self._recording = trace, recording
        if self._widget is not None:
            self._widget.refresh()

    # ------------------------------------------------------------------ how it looks

    @property
    def widget(self) -> ExplorerWidget:
        """The widget.

        Raises:
            UsageError: anywidget is not installed.
        """
        if self._widget is None:
            try:
                from mpcsim.explorer.widget import ExplorerWidget
            except ImportError:
                raise UsageError("the widget needs anywidget: install mpcsim[workbench]") from None
            self._widget = ExplorerWidget(self)
        return self._widget

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """The widget for front ends that can run it, the figure for all others."""
        bundle: dict[str, Any] = {"text/plain": repr(self), "text/html": self._repr_html_()}
        try:
            own = self.widget._repr_mimebundle_()
        except UsageError:
            return bundle
        found = own[0] if isinstance(own, tuple) else own
        return {**(found or {}), **bundle}

    def _repr_html_(self) -> str:
        """The run without anything that moves: verdict, sequence diagram, steps."""
        view = self.view
        notes = [f"altered: {edit}" for edit in view.edits]
        notes += [
            f"party {a.party} aborts {a.where}: {a.text}"
            + (f" ({a.detail})" if a.detail else "")
            + (f"; blames party {', '.join(map(str, a.culprits))}" if a.culprits else "")
            for a in view.aborts
        ]
        rows = [
            (
                str(at),
                milliseconds(step.at_ms),
                step.title,
                ", ".join(f"{r.number} {r.name}" for r in step.rounds),
                ", ".join(
                    f"{view.messages[n].kind} → {view.messages[n].receiver}" for n in step.sent
                ),
                step.standing,
            )
            for at, step in enumerate(view.steps, 1)
        ]
        columns = ("step", "at ms", "what happens", "rounds it runs", "sends", "then")
        table = Table(columns, rows, frozenset({"step", "at ms"}))
        title = f"{view.name}: {view.verdict} after {milliseconds(view.finished_ms)} ms"
        body = document(title, [table], notes=notes)
        hint = escape("A widget where there is a kernel: step, edit, change latencies.")
        return f'{picture(self._trace)}{body}<div style="opacity:.7">{hint}</div>'

    def __repr__(self) -> str:
        changed = f", {counted(len(self._edits), 'edit')}" if self._edits else ""
        return (
            f"Explorer<{self._trace.name}: {self._trace.verdict.value} after "
            f"{self._trace.finished_ms:.1f} ms{changed}>"
        )

"""Round explorer: one session, stepped through, altered, and run over other networks.

    >>> from mpcsim.lab.explorer import Explorer
    >>> Explorer(sim.sign())                      # a run of the past
    >>> Explorer.live(sim, "sign", signers=(1, 3))  # a session of its own, bytes and all
    >>> Explorer.of_parties(parties, network)       # the same, of a protocol of yours

In a notebook it is a widget; where widgets cannot run, a figure and a table. All functions of the
widget are methods, too: ``edit``, ``undo``, ``set_link``, ``set_seed``, ``restore_network``,
``reset``, ``view``, ``export_html``.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mpcsim.errors import needs_extra
from mpcsim.lab.explorer.model.exploration import Exploration
from mpcsim.lab.explorer.model.sessions import Edit, LiveSession
from mpcsim.lab.explorer.parties import PartiesSession
from mpcsim.lab.explorer.saved import saved_page
from mpcsim.protocols.engine import Party
from mpcsim.sim.network.topology import Network
from mpcsim.sim.rich_display import Table, counted, document, milliseconds, mimebundle
from mpcsim.sim.simulation import Simulation
from mpcsim.sim.trace import diagram_html

if TYPE_CHECKING:
    from mpcsim.lab.explorer.widget import ExplorerWidget


class Explorer(Exploration):
    """Session that is stepped through and altered, in a notebook."""

    _widget: ExplorerWidget | None = None

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
            operation: ``generate``, ``sign``, ``presign``, ``sign_presigned`` or ``recover``.
            reveal: show secret values. They are then in the notebook's output, too.
            options: the arguments of that method of the simulation.

        Raises:
            UsageError: unknown operation, or what the simulation itself refuses.
        """
        return cls(LiveSession(simulation, operation, options), reveal=reveal)

    @classmethod
    def of_parties(
        cls,
        parties: Iterable[Party[Any, Any]],
        network: Network,
        *,
        reveal: bool = False,
        **options: Any,
    ) -> Explorer:
        """Explore a session of parties of any protocol, as ``live`` does those of a simulation.

        Args:
            parties: none of them has started. They themselves do not run: every run resumes others
                from their snapshots, with the same seeds.
            reveal: show secret values. They are then in the notebook's output, too.
            options: those of ``mpcsim.sim.run_parties``, in virtual time.

        Raises:
            UsageError: a party that has started, or what ``run_parties`` itself refuses.
        """
        session = PartiesSession(parties, network, options)
        return cls(session, definition=session.definition, reveal=reveal)

    # ------------------------------------------------------------------ display

    @property
    def widget(self) -> ExplorerWidget:
        """Widget of the explorer.

        Raises:
            UsageError: anywidget is not installed.
        """
        if self._widget is None:
            with needs_extra("workbench", "the widget"):
                from mpcsim.lab.explorer.widget import ExplorerWidget
            self._widget = ExplorerWidget(self)
        return self._widget

    def export_html(self, path: str | Path, *, reveal: bool = False) -> Path:
        """Write the session as one HTML file that opens without Python, and without a network.

        It is stepped and searched through like the widget, and begins at the step and message that
        the widget shows; what needs Python (editing, other links) is off in it.

        Args:
            reveal: with the secret values that this explorer shows; the file says so in red.
                Without, they are left out, whatever this explorer shows.

        Returns:
            The path.

        Raises:
            UsageError: ``reveal`` for an explorer that shows no secret values itself.
            OSError: the file cannot be written.
        """
        step, selected = (self._widget.step, self._widget.selected) if self._widget else (0, "")
        shown = self.shown(reveal=reveal)
        path = Path(path)
        path.write_text(saved_page(*shown, step=step, selected=selected), encoding="utf-8")
        return path

    def _change(self, network: Network, edits: tuple[Edit, ...], seed: int | None) -> None:
        super()._change(network, edits, seed)
        if self._widget is not None:
            self._widget.refresh()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """Return the widget for front ends that can run it, and the figure for all others."""
        return mimebundle(self)

    def _repr_html_(self) -> str:
        """Return the static view: verdict, sequence diagram, steps."""
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
        hint = escape("A widget where there is a kernel: step, search, edit, change links.")
        return f'{diagram_html(self._trace)}{body}<div style="opacity:.7">{hint}</div>'

    def __repr__(self) -> str:
        changed = f", {counted(len(self._edits), 'edit')}" if self._edits else ""
        return (
            f"Explorer<{self._trace.name}: {self._trace.verdict.value} after "
            f"{self._trace.finished_ms:.1f} ms{changed}>"
        )

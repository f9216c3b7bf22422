"""Commands of fault injection as methods, over HTTP or where the service was started itself.

What a method returns can be undone: by its ``undo``, or at the end of a ``with``::

    with control.down("operator"):
        ...  # it cannot be reached here
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal

import httpx

from mpcsim.errors import UsageError
from mpcsim.service.fault_injection.access import ControlAccess, read_access
from mpcsim.service.fault_injection.conditions import NotApplied
from mpcsim.sim.network.topology import Network
from mpcsim.sim.scenario import Scenario

PATIENCE_S: Final = 600.0
"""Seconds that a command may take."""

Part = Literal["operator", "institution", "gateway", "node"]
Execute = Callable[[str, dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True)
class ActiveFault:
    """Fault that is in force; a context manager that undoes it."""

    undo: Callable[[], object]

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.undo()


@dataclass(frozen=True)
class Control:
    """Commands of fault injection for a service (``mpcsim.service.fault_injection.commands``).

    Every method raises ``UsageError`` for impossible arguments, and ``NotApplied`` if a process
    does not carry it out.
    """

    execute: Execute = field(repr=False)
    """Function that executes a command, from its name and arguments to its answer."""

    def down(self, part: Part) -> ActiveFault:
        """Stop a process at once, and leave it so."""
        self.execute("down", {"part": part})
        return ActiveFault(lambda: self.up(part))

    def up(self, part: Part) -> None:
        """Start a process that is down."""
        self.execute("up", {"part": part})

    def kill(self, part: Part) -> None:
        """Kill a process and start it again; returns when it answers."""
        self.execute("kill", {"part": part})

    def slow(self, part: Part, ms: float) -> ActiveFault:
        """Delay every answer of a process by ``ms`` milliseconds."""
        self.execute("slow", {"part": part, "ms": ms})
        return ActiveFault(lambda: self.execute("slow", {"part": part, "ms": 0}))

    def cut(self, part: Part) -> ActiveFault:
        """Cut a process off: whoever asks it waits."""
        self.execute("cut", {"part": part})
        return ActiveFault(lambda: self.mend(part))

    def mend(self, part: Part) -> None:
        """Undo ``cut``."""
        self.execute("mend", {"part": part})

    def network(self, under: Scenario | Network | str | os.PathLike[str] | None) -> ActiveFault:
        """Apply a network to the gateway's links, with the faults of a scenario.

        Args:
            under: a path is of a network or scenario file; None: as the service was started.

        Raises:
            OSError: the file cannot be read.
        """
        match under:
            case str() | os.PathLike():
                under = Scenario.load(Path(under))
            case Network():
                under = Scenario(under)
        self.execute("network", {} if under is None else {"scenario": under.dumps()})
        return ActiveFault(lambda: self.execute("network", {}))

    def expire(self, times: int = 1) -> ActiveFault:
        """Make the next access tokens expired when the gateway issues them."""
        self.execute("expire", {"times": times})
        return ActiveFault(lambda: self.execute("expire", {"times": 0}))

    def clock(self, *, hours: float = 0.0, seconds: float = 0.0) -> ActiveFault:
        """Move the clocks of all processes ahead of this machine's by so much."""
        self.execute("clock", {"seconds": hours * 3600 + seconds})
        return ActiveFault(lambda: self.execute("clock", {"seconds": 0}))

    def fail_next(
        self, endpoint: str, answer: int | str, times: int = 1, *, done: bool = False
    ) -> ActiveFault:
        """Make the next calls of an endpoint of the node fail.

        Args:
            endpoint: ``sign``, for one (``ENDPOINTS``).
            answer: a status, or ``hang``.
            done: carry the calls out, and lose the answers.
        """
        order = {"endpoint": endpoint, "answer": str(answer)}
        self.execute("fail", {**order, "times": times, "done": done})
        return ActiveFault(lambda: self.execute("fail", {**order, "times": 0}))

    def reset_users(self) -> None:
        """Empty the stores: there are no users then."""
        self.execute("reset-users", {})

    def demo_users(self, count: int = 3) -> list[dict[str, Any]]:
        """Users with a key on each curve: name, token, password and what was made of each key."""
        users: list[dict[str, Any]] = self.execute("demo-users", {"count": count})["users"]
        return users

    def status(self) -> dict[str, Any]:
        """Return the faults that are in force."""
        return self.execute("status", {})

    def reset(self) -> None:
        """Undo all that can be undone."""
        self.execute("reset", {})


def over_http(data: Path | str) -> Control:
    """Return the commands of the service that runs with ``--control`` on a data folder.

    Raises:
        UsageError: there is none.
    """
    access = read_access(Path(data))
    return Control(lambda name, arguments: _post_command(access, name, arguments))


def _post_command(access: ControlAccess, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        answer = httpx.post(
            f"{access.address}/control/{name}",
            json=arguments,
            headers={"Authorization": f"Bearer {access.token}"},
            timeout=PATIENCE_S,
            trust_env=False,
            verify=False,  # this machine's loopback, without TLS: no certificates to load
        )
    except httpx.TransportError as error:
        raise UsageError(f"switches at {access.address}: {error}; does the service run?") from None
    document: Any = None
    with suppress(ValueError):
        document = answer.json()
    if not isinstance(document, dict):
        raise UsageError(f"switches at {access.address}: the answer is none ({answer.status_code})")
    if answer.is_success:
        return document
    text = str(document.get("error"))
    raise NotApplied(text) if answer.status_code == 503 else UsageError(text)

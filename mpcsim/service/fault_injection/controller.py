"""Controller of injected faults, in the process that has started all the others.

One command at a time. It is in force when ``execute`` returns; if a process does not carry it out,
the others go back to their conditions of before.
"""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from itertools import count
from pathlib import Path
from typing import Any, Final

from mpcsim.errors import UsageError
from mpcsim.service.fault_injection import users
from mpcsim.service.fault_injection.commands import check_answer, find_command
from mpcsim.service.fault_injection.conditions import (
    AS_STARTED,
    Conditions,
    NotApplied,
    command_line,
)
from mpcsim.service.operations.supervisor import ProcessGroup, Program
from mpcsim.sim.scenario import Scenario

LOG = logging.getLogger(__name__)

PATIENCE_S: Final = 10.0
"""Seconds that a process may take to carry out a command."""
STOPPING_S: Final = 1.0
"""Seconds for which a running command is waited for when everything is to stop."""
COMPILING_S: Final = 120.0
"""Additional seconds for the gateway to apply a network: the first one is compiled."""
_MODULES: Final = {"mpcsim": "mpcsim.cli.service.controlled", "node": "node.controlled"}
"""Modules that accept faults, by those that do not."""
_STORES: Final = ("operator", "institution", "gateway")
"""Processes that have a store, in the order of their start."""

Answer = dict[str, Any]


def with_fault_injection(program: Program) -> Program:
    """Return the program as one that accepts faults.

    It starts for a ``FaultController`` alone, which has to speak to it first.
    """
    python, _, _, module, *arguments = program.command
    return replace(program, command=(python, "-m", _MODULES[module], *arguments))


def check_workers(environment: Mapping[str, str]) -> None:
    """Check that a node will be one process.

    Raises:
        UsageError: it is set to be several.
    """
    workers = environment.get("WORKERS", "").strip()
    if workers not in ("", "1"):
        raise UsageError(
            f"WORKERS is {workers}, but switches reach one process of the node: leave it out"
        )


class FaultController:
    """Fault controller of a service whose processes this one starts.

    It has a method for each command, which does what ``commands`` says.
    """

    def __init__(
        self, processes: ProcessGroup, data: Path | str, patience_s: float = PATIENCE_S
    ) -> None:
        """
        Args:
            processes: of which none runs yet.
            data: the data folder.
            patience_s: seconds that a process may take to carry out a command.
        """
        self.lock = threading.RLock()
        """Lock held by whoever starts or stops processes."""
        self._processes = processes
        self._data = Path(data)
        self.patience_s = patience_s
        self._programs: dict[str, Program] = {}
        self._conditions: dict[str, Conditions] = {}
        self._unread: dict[str, bytearray] = {}
        """Bytes that a process has sent over its control line, not read yet."""
        self._numbers = count(1)
        self._quiet = False
        processes.first_line = self._first_line

    def start(self, *programs: Program, quiet: bool = False) -> None:
        """Start processes that accept faults; see ``ProcessGroup.start``."""
        for program in programs:
            self._programs[program.name] = program
            self._conditions[program.name] = AS_STARTED
        self._quiet = quiet
        self._processes.start(*programs, quiet=quiet)

    def execute(self, name: str, arguments: object) -> Answer:
        """Execute a command (``commands``); returns when it is in force.

        Raises:
            UsageError: there is none, or not with these arguments; ``NotApplied``: a process has
                not done it.
        """
        given = find_command(name).parse_arguments(arguments)
        do: Callable[..., Answer | None] = getattr(self, "do_" + name.replace("-", "_"))
        with self.lock:
            answer = do(**given) or {}
        if name != "status":
            said = ", ".join(f"{key} {_short(value)}" for key, value in given.items())
            LOG.warning("control: %s", f"{name}: {said}" if said else name)
        return answer

    # ------------------------------------------------------------------ processes

    def do_down(self, part: str) -> None:
        self._check_running(part)
        self._processes.kill(part)

    def do_up(self, part: str) -> None:
        self._check_known(part)
        if not self._is_running(part):
            self._start(part)

    def do_kill(self, part: str) -> None:
        self._check_running(part)
        self._processes.kill(part)
        self._start(part)

    # ------------------------------------------------------------------ conditions

    def do_slow(self, part: str, ms: float) -> None:
        self._check_running(part)
        self._apply({part: replace(self._conditions[part], delay_ms=ms)})

    def do_cut(self, part: str) -> None:
        self._check_running(part)
        self._apply({part: replace(self._conditions[part], cut=True)})

    def do_mend(self, part: str) -> None:
        self._check_known(part)
        self._apply({part: replace(self._conditions[part], cut=False)})

    def do_network(self, scenario: str | None = None) -> None:
        if scenario is not None:
            under = Scenario.loads(scenario)
            under.check_service(in_process=False)
            self._check_running("gateway")  # it may refuse
        self._apply({"gateway": replace(self._conditions["gateway"], scenario=scenario)})

    def do_clock(self, seconds: float) -> None:
        self._apply({part: replace(c, ahead_s=seconds) for part, c in self._conditions.items()})

    def do_expire(self, times: int = 1) -> None:
        self._check_running("gateway")
        self._command("gateway", "expire", times=times)

    def do_fail(self, endpoint: str, answer: str, times: int = 1, done: bool = False) -> None:
        check_answer(endpoint, answer)
        self._check_running("node")
        self._command("node", "fail", endpoint=endpoint, answer=answer, times=times, done=done)

    # ------------------------------------------------------------------ users

    def do_reset_users(self) -> None:
        stores = [part for part in _STORES if self._is_running(part)]
        for part in reversed(stores):
            self._processes.kill(part)
        try:
            users.empty_stores(self._data)
        finally:
            self._start(*stores)

    def do_demo_users(self, count: int = 3) -> Answer:
        for part in self._programs:
            self._check_running(part)
        self._check_running("node")
        gateway, node = self._programs["gateway"].address, self._programs["node"].address
        return {"users": users.make_demo_users(self._data, gateway, node, count)}

    # ------------------------------------------------------------------ all of them

    def do_status(self) -> Answer:
        found = self._conditions
        fail = self._command("node", "tell")["fail"] if self._is_running("node") else {}
        expire = self._command("gateway", "tell")["expire"] if self._is_running("gateway") else 0
        return {
            "parts": {
                part: {"address": program.address, "runs": self._is_running(part)}
                for part, program in self._programs.items()
            },
            "slow": {part: c.delay_ms for part, c in found.items() if c.delay_ms},
            "cut": [part for part, c in found.items() if c.cut],
            "clock": found["gateway"].ahead_s,
            "network": found["gateway"].scenario,
            "fail": fail,
            "expire": expire,
        }

    def do_reset(self) -> None:
        self.clear_all()
        self._start(*(part for part in self._programs if not self._is_running(part)))

    def clear_all(self) -> None:
        """Undo the faults of all processes: nobody waits for anything then.

        Raises:
            NotApplied: as for ``execute``; those that can have done it.
        """
        failed: list[NotApplied] = []
        with self.lock:
            for part in self._programs:
                self._conditions[part] = AS_STARTED
                if self._is_running(part):
                    try:
                        self._command(part, "clear")
                        self._command(part, "set", **asdict(AS_STARTED))
                    except NotApplied as error:
                        failed.append(error)
        if failed:
            raise failed[0]

    def stop(self) -> None:
        """Release everything that waits on injected faults, before a shutdown. A running command is
        not waited for."""
        if self.lock.acquire(timeout=STOPPING_S):
            try:
                with suppress(NotApplied):
                    self.clear_all()
            finally:
                self.lock.release()

    # ------------------------------------------------------------------ inside

    def _check_known(self, part: str) -> None:
        if part not in self._programs:
            raise UsageError(f"there is no {part} here")

    def _check_running(self, part: str) -> None:
        self._check_known(part)
        if not self._is_running(part):
            raise UsageError(f"the {part} is down: mpcsim control up {part}")

    def _is_running(self, part: str) -> bool:
        return part in self._processes and self._processes.status(part) is None

    def _start(self, *parts: str) -> None:
        """Start processes that are down.

        Raises:
            NotInForce: one cannot be; then none of them is.
        """
        try:
            self._processes.start(*(self._programs[part] for part in parts), quiet=self._quiet)
        except UsageError as error:
            for part in parts:
                self._processes.kill(part)
            raise NotApplied(f"{error}; down: {', '.join(parts)}") from None

    def _first_line(self, part: str) -> bytes:
        """Return the first line for a process. Delays and cuts of its predecessor have ended with
        it."""
        self._unread[part] = bytearray()
        if part not in self._conditions:  # it accepts no faults
            return b""
        now = replace(self._conditions[part], delay_ms=0.0, cut=False)
        self._conditions[part] = now
        return command_line(next(self._numbers), "set", asdict(now))

    def _apply(self, conditions: Mapping[str, Conditions]) -> None:
        """Apply conditions to processes: at once where they run, otherwise from their start on.

        Raises:
            NotInForce: one of them is not; they are as they were.
        """
        changed: list[str] = []
        try:
            for part, new in conditions.items():
                if self._is_running(part):
                    changed.append(part)
                    self._command(part, "set", **asdict(new))
        except NotApplied:
            for part in changed:
                with suppress(NotApplied):
                    self._command(part, "set", **asdict(self._conditions[part]))
            raise
        self._conditions.update(conditions)

    def _command(self, part: str, do: str, **what: Any) -> Any:
        """Tell a process something, and wait until it has done it; what it says then.

        Raises:
            NotInForce: it has not.
        """
        number, to = next(self._numbers), self._processes.control_line(part)
        patience_s = self.patience_s + (COMPILING_S if what.get("scenario") else 0.0)
        deadline = time.monotonic() + patience_s
        try:
            to.settimeout(patience_s)
            to.sendall(command_line(number, do, what))
            while True:
                answer = json.loads(self._read_line(part, to, deadline))
                if answer["number"] == number:  # and not of somebody who has not waited for it
                    break
        except TimeoutError:
            raise NotApplied(
                f"the {part} has not acknowledged within {patience_s:g} s what it was told"
            ) from None
        except OSError:
            raise NotApplied(f"the {part} has ended") from None
        if "refused" in answer:
            raise NotApplied(f"{part}: {answer['refused']}")
        return answer["said"]

    def _read_line(self, part: str, line: socket.socket, deadline: float) -> bytes:
        """The next line that a process says."""
        said = self._unread[part]
        while b"\n" not in said:
            line.settimeout(max(0.001, deadline - time.monotonic()))
            if not (more := line.recv(1 << 16)):
                raise ConnectionError
            said += more
        found, _, rest = said.partition(b"\n")
        said[:] = rest
        return bytes(found)


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 40 and "\n" not in text else f"of {len(text)} characters"

"""The whole service as processes that a campaign kills, stops, pauses, starves and starts again."""

import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from mpcsim.cli.token import credentials
from mpcsim.errors import UsageError
from mpcsim.service.operations import supervisor as system

OPERATOR, INSTITUTION, GATEWAY, NODE = "operator", "institution", "gateway", "node"
BACKEND = (OPERATOR, INSTITUTION, GATEWAY)
ALL = (*BACKEND, NODE)


def seeded(*what: str) -> random.Random:
    """The same moments in every run, as far as chance allows; ``CAMPAIGN_SEED`` asks for others."""
    return random.Random(" ".join([*what, os.environ.get("CAMPAIGN_SEED", "")]))


class Service:
    """Both MPC nodes, gateway and REST node: each on its port, with its log, for good."""

    def __init__(
        self, folder: Path, running: system.ProcessGroup, settings: dict[str, str]
    ) -> None:
        self.data = folder / "data"
        *mpc_nodes, gateway = system.backend(self.data)
        node = system.node_program(system.free_port(), gateway, settings)
        self._programs = {program.name: program for program in (*mpc_nodes, gateway, node)}
        self._logs = {name: folder / f"{name}.log" for name in ALL}
        self._running = running

    def address(self, name: str) -> str:
        return self._programs[name].address

    def start(self, *names: str, limit: str = "") -> None:
        """Start processes, and wait until they answer.

        Args:
            limit: the shell's ``ulimit`` options for them.

        Raises:
            UsageError: one of them does not start.
        """
        self._running.start(*(self._logged(name, limit) for name in names))

    def refusal(self, name: str, limit: str = "") -> str | None:
        """Start a process, which may refuse to: None if it runs, otherwise what it says."""
        before = len(self.log(name))
        try:
            self.start(name, limit=limit)
            return None
        except UsageError as error:
            why, said = str(error), self.log(name)[before:]
        self._running.kill(name)
        *others, last = said.splitlines() or [""]
        command = "gateway" if name == GATEWAY else "mpc-node"
        one_sentence = not others and last.startswith(f"mpcsim {command}: error: ")
        assert why == f"{name} ended with status 2", why
        assert one_sentence, f"{others[-1:]} {last}"
        return last

    def kill(self, *names: str) -> None:
        """As a crash would."""
        for name in names:
            os.kill(self.process_id(name), signal.SIGKILL)
        for name in names:
            self._running.kill(name)

    def terminate(self, *names: str) -> None:
        """Ask processes to end, one after the other, and see that they do."""
        for name in names:
            os.kill(self.process_id(name), signal.SIGTERM)
            deadline = time.monotonic() + system.STOPPING_S
            while _runs(self.process_id(name)):
                assert time.monotonic() < deadline, f"the {name} does not end"
                time.sleep(0.02)
            self._running.kill(name)

    def pause(self, name: str) -> None:
        os.kill(self.process_id(name), signal.SIGSTOP)

    def resume(self, name: str) -> None:
        os.kill(self.process_id(name), signal.SIGCONT)

    def process_id(self, name: str) -> int:
        return self._running.process_id(name)

    def log(self, name: str) -> str:
        """All it has written so far, in this life and those before."""
        log = self._logs[name]
        return log.read_text(errors="replace") if log.exists() else ""

    def token(self, username: str) -> str:
        """An access token for a user, who is signed up first if need be."""
        known = credentials(self.data)
        return system.access_token(self.address(GATEWAY), known.api_key, known.api_secret, username)

    def _logged(self, name: str, limit: str) -> system.Program:
        """The program with its output at the end of its log, and within limits."""
        program = self._programs[name]
        shell = f'log=$1; shift; {f"ulimit {limit};" if limit else ""} exec "$@" >>"$log" 2>&1'
        command = ("/bin/sh", "-c", shell, "sh", str(self._logs[name]), *program.command)
        return replace(program, command=command)


@contextmanager
def service(folder: Path, **settings: str) -> Iterator[Service]:
    """A service that runs; in the end it is stopped, and nobody must have had an error unforeseen.

    Args:
        folder: for its data and its logs.
        settings: the node's environment.
    """
    with system.process_group() as processes:
        made = Service(folder, processes, settings)
        made.start(*ALL)
        yield made
    for name in ALL:
        assert "Traceback" not in made.log(name), made.log(name)


def _runs(process_id: int) -> bool:
    """Whether a child of ours has not ended yet; it is left for its parent's ``wait``."""
    return os.waitid(os.P_PID, process_id, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

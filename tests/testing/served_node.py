"""This project's own node as a target of the kit: four processes, of which three are killed."""

from collections.abc import Sequence
from pathlib import Path

from mpcsim.cli.token import credentials
from mpcsim.service.operations.supervisor import ProcessGroup, backend, free_port, node_program
from mpcsim.testing import HttpTarget, Part, gateway_tokens


class ServedNode(HttpTarget):
    """The target. ``restart`` is a SIGKILL and a new start on the same files."""

    restartable: Sequence[Part] = ("gateway", "operator", "institution")
    signers = ("operator", "institution")
    deepest = 10
    most_presignatures = 64

    def __init__(self, folder: Path) -> None:
        self._processes = ProcessGroup()
        programs = backend(folder)
        self._programs = {program.name: program for program in programs}
        gateway = self._programs["gateway"]
        node = node_program(free_port(), gateway)
        try:
            self._processes.start(*programs, node, quiet=True)
            known = credentials(folder)
        except BaseException:
            self._processes.stop()
            raise
        tokens = gateway_tokens(gateway.address, known.api_key, known.api_secret)
        super().__init__(node.address, tokens)

    def restart(self, part: Part) -> None:
        self._processes.kill(part)
        self._processes.start(self._programs[part], quiet=True)

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._processes.stop()

"""This project's own node as a target of the kit: two processes, of which the gateway is killed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mpcsim.cli.token import credentials
from mpcsim.system import Running, free_port, gateway_program, node_program
from mpcsim.testing import HttpTarget, Part, gateway_tokens


class ServedNode(HttpTarget):
    """The target. ``restart`` is a SIGKILL and a new start on the same files."""

    restartable: Sequence[Part] = ("gateway",)
    signers = ("operator", "institution")

    def __init__(self, folder: Path) -> None:
        self._processes = Running()
        options = ("--data", str(folder))
        self._gateway = gateway_program(free_port(), options)
        node = node_program(free_port(), self._gateway)
        try:
            self._processes.start(self._gateway, quiet=True)
            self._processes.start(node, quiet=True)
            known = credentials(folder)
        except BaseException:
            self._processes.stop()
            raise
        tokens = gateway_tokens(self._gateway.address, known.api_key, known.api_secret)
        super().__init__(node.address, tokens)

    def restart(self, part: Part) -> None:
        self._processes.kill("gateway")
        self._processes.start(self._gateway, quiet=True)

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._processes.stop()

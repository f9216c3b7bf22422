"""Programs that end with the process that started them; whole services: ``tests/cli``."""

import os
import subprocess

from mpcsim.service.process.process_lifetime import program_ending_with_parent


def test_what_starts_a_program_says_nothing_of_its_own():
    command = program_ending_with_parent(("true",), 0, 1 << 30)
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as process:
        assert process.stderr.read() == b""
        assert process.wait() == 0

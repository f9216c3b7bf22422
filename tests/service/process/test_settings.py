"""Settings of a process, and how long it lives."""

import os
import subprocess
from itertools import islice

import pytest

from mpcsim.service.process.backoff import retry_pauses
from mpcsim.service.process.process_lifetime import program_ending_with_parent
from mpcsim.service.process.settings import on_off, seconds, whole_number

TEXTS = [
    (whole_number(2, 5), {"2": 2, "5": 5}, ["1", "6", "2.5", "two", ""]),
    (seconds(3), {"0.001": 0.001, "3": 3.0}, ["0", "-1", "3.001", "nan", "inf", "soon"]),
    (on_off(), {"on": True, "OFF": False}, ["1", "yes", ""]),
]


@pytest.mark.parametrize(("kind", "taken", "refused"), TEXTS, ids=["whole", "seconds", "switch"])
def test_what_a_text_may_be(kind, taken, refused):
    assert {text: kind.parse(text) for text in taken} == taken
    for text in refused:
        with pytest.raises(ValueError):
            kind.parse(text)


def test_each_pause_between_attempts_is_twice_the_one_before_up_to_the_last():
    assert list(islice(retry_pauses(0.5, 3.0), 5)) == [0.5, 1.0, 2.0, 3.0, 3.0]


def test_what_starts_a_program_says_nothing_of_its_own():
    command = program_ending_with_parent(("true",), 0, 1 << 30)
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as process:
        assert process.stderr.read() == b""
        assert process.wait() == 0

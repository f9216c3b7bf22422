"""What commands say before they run, beside a reviewed copy: status, and every word."""

import os
import shlex
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from mpcsim import __version__
from mpcsim.capacity import Costs
from mpcsim.cli import main
from tests.helpers.made_up_costs import made_up
from tests.helpers.processes import PORTS
from tests.helpers.reviewed import check_reviewed
from tests.vectors.network import make

COPY = Path(__file__).with_name("refused.txt")
FILES = {
    "wallet.toml": '[star]\ninstitution = 40.0\n[workload.arrivals]\nkind = "steady"\nper_s = 20\n',
    "policy.toml": "[policy]\ntimeout_ms = 5\n",
    "faults.toml": '[[faults]]\nfault = "drop"\nkind = "Commit"\n',
    **{
        name: (Path(make.__file__).parent / name).read_text()
        for name in ("hping3.txt", "pairs.csv")
    },
}


def outcome(command: str) -> Iterator[str]:
    """What a command line says; it may begin with variables of the environment."""
    words = shlex.split(command)
    at = words.index("mpcsim")
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as folder:
        patch.chdir(folder)
        for name in ("METRICS_PORT", "WAAS_API_KEY", "WAAS_API_SECRET", *PORTS):
            patch.delenv(name, raising=False)
        for word in ("COLUMNS=80", *words[:at]):
            patch.setenv(*word.split("="))
        patch.setattr(Costs, "load", lambda _: made_up())
        patch.setattr(Costs, "measured", made_up)
        for name, text in FILES.items():
            Path(name).write_text(text, encoding="utf-8")
        with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
            status = main(words[at + 1 :])
        said = f"{err.getvalue()}{out.getvalue()}".replace(__version__, "VERSION").splitlines()
        made = [f"left behind: {name}" for name in sorted({*os.listdir()} - {*FILES})]
    yield from (f"$ {command}", f"status {status}", *said, *made)


def everything() -> Iterator[str]:
    for line in COPY.read_text(encoding="utf-8").splitlines():
        if line.startswith("$ "):
            yield from outcome(line.removeprefix("$ "))


def test_what_is_refused_is_as_written_down():
    check_reviewed(everything(), COPY)

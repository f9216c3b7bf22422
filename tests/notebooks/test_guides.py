"""The guides run as they stand: their Python in order, their commands, what they say is printed."""

import ast
import asyncio
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest

from mpcsim.cli import main
from mpcsim.crypto.mta import schemes
from mpcsim.crypto.rng import SystemRng
from mpcsim.ids import MPC_NODES, ROLES
from mpcsim.service.operations import GatewayOptions, open_gateway, open_mpc_node
from mpcsim.service.operations.data_folder import prepare
from mpcsim.service.operations.defaults import DATA_FOLDER
from mpcsim.service.operations.doctor import Doctor
from mpcsim.service.operations.supervisor import free_port
from mpcsim.sim.network.files import latencies
from mpcsim.testing import plugin
from tests.helpers.gateway import Client
from tests.helpers.looked_at import looked_at
from tests.helpers.processes import serve
from tests.helpers.public_names import private_in
from tests.helpers.repo import ROOT
from tests.node.harness import running
from tests.testing import faulty
from tests.testing.own_node import OwnNode, our_app

FOLDER = ROOT / "notebooks" / "guides"
GUIDES = sorted(path for path in FOLDER.glob("*.md") if path.name != "README.md")

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"# ([\w./]+\.\w+)\n")
PRINTED = re.compile(r"print\(.*\)  # (.+)$")


class Block(NamedTuple):
    language: str
    text: str

    @property
    def file(self) -> str:
        """The file that it is, if it says so in its first line."""
        found = NAMED.match(self.text)
        return found[1] if found else ""


def blocks(path: Path) -> list[Block]:
    return [Block(*found) for found in BLOCK.findall(path.read_text(encoding="utf-8"))]


def fits(expected: str, found: str) -> bool:
    """Whether a text is as expected, where ``...`` stands for anything."""
    pattern = ".*".join(map(re.escape, expected.split("...")))
    return re.fullmatch(pattern, found, re.DOTALL) is not None


# ---------------------------------------------------------------------- what readers bring along


def target(stack: ExitStack) -> Mapping[str, Any]:
    return {"target": stack.enter_context(OwnNode())}


def service(stack: ExitStack) -> Mapping[str, Any]:
    gateway = open_gateway()
    stack.callback(gateway.close)
    wrong = stack.enter_context(OwnNode(faulty.RecoversAnotherKey))
    return {"our_app": our_app(gateway), "our_tokens": gateway.token, "faulty_target": wrong}


def deployment(stack: ExitStack) -> Mapping[str, Any]:
    """What a service with one key has left in the folder that commands use."""
    with closing(open_gateway(DATA_FOLDER)) as gateway:
        asyncio.run(Client.of(gateway).generate("ed25519"))
    return {}


def executor(stack: ExitStack) -> Mapping[str, Any]:
    return {"here": stack.enter_context(ThreadPoolExecutor(1))}


def data_folder(stack: ExitStack) -> Mapping[str, Any]:
    """A service that keeps its data here: both MPC nodes run, and the gateway when it is used."""
    data = Path("data").absolute()
    prepare(data, SystemRng())
    variables = {"MPCSIM_DATA": str(data)}
    for party in MPC_NODES:
        node = stack.enter_context(closing(open_mpc_node(data, party)))
        served = stack.enter_context(running(node.app))
        variables[f"{ROLES[party].upper()}_URL"] = str(served.client.base_url)
    stack.enter_context(patch.dict(os.environ, variables))
    stack.enter_context(patch.dict(Doctor.__init__.__kwdefaults__ or {}, pause_s=0))
    addresses = {party: variables[f"{ROLES[party].upper()}_URL"] for party in MPC_NODES}

    def make_key(name: str) -> str:
        async def made() -> str:
            with closing(open_gateway(data, GatewayOptions(mpc_nodes=addresses))) as gateway:
                await gateway.gateway.introduction.introduce()
                client = Client.of(gateway, name)
                await client.generate("ed25519")
                for link in gateway.links.values():
                    await link.port.close()
                return await client.user_id()

        return asyncio.run(made())

    for name in ("alice", "bob"):
        make_key(name)
    return {"make_key": make_key}


def seen(stack: ExitStack) -> Mapping[str, Any]:
    return {"addresses": stack.enter_context(looked_at()).ports}


BROUGHT: Mapping[str, Callable[[ExitStack], Mapping[str, Any]]] = {
    "doctor.md": data_folder,
    "call.md": executor,
    "capacity.md": executor,
    "invariant.md": target,
    "restore.md": deployment,
    "implementation.md": service,
    "metrics.md": seen,
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty folder, and a process that does not remember what a guide has registered."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(schemes, "_REGISTERED", {})
    monkeypatch.setattr(latencies, "KINDS", dict(latencies.KINDS))
    modules = set(sys.modules)
    yield
    for name in set(sys.modules) - modules:
        if name == "guide" or name.startswith(("my_", "our_", "both", "mpcsim_attacks_from")):
            del sys.modules[name]


@pytest.mark.few(5)
@pytest.mark.parametrize("path", [*GUIDES, ROOT / "README.md"], ids=lambda path: path.stem)
def test_a_guide_runs(
    path: Path, place: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = ModuleType("guide")
    monkeypatch.setitem(sys.modules, "guide", module)
    with ExitStack() as stack:
        vars(module).update(BROUGHT.get(path.name, lambda stack: {})(stack))
        for block in blocks(path):
            if block.file:
                Path(block.file).parent.mkdir(parents=True, exist_ok=True)
                Path(block.file).write_text(block.text.replace("# rtt.csv\n", ""))
            if block.language == "python":
                exec(compile(block.text, path.name, "exec"), vars(module))
                said = [found[1] for found in map(PRINTED.search, block.text.splitlines()) if found]
                printed = capsys.readouterr().out.splitlines()
                assert len(printed) >= len(said)
                for expected, found in zip(said, printed, strict=False):
                    assert fits(expected, found), f"{expected!r} is {found!r}"
            elif block.language == "console":
                command, _, expected = block.text.partition("\n")
                assert command.startswith("$ mpcsim ")
                assert main(shlex.split(command)[2:]) == 0
                found = capsys.readouterr().out
                assert fits(expected.strip(), found.strip()), found


@pytest.mark.parametrize("path", [*GUIDES, FOLDER / "README.md"], ids=lambda path: path.stem)
def test_links_and_files_are_there(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert path.name == "README.md" or f"]({path.name})" in (FOLDER / "README.md").read_text(
        "utf-8"
    )
    for name, anchor in re.findall(r"\]\(([\w./]+?\.\w+)(?:#([\w-]+))?\)", text):
        linked = path.parent / name
        assert linked.is_file(), name
        if anchor and linked.suffix == ".md":
            headings = re.findall(r"^#+ (.+)$", linked.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in [heading.lower().replace(" ", "-") for heading in headings]
    for name in re.findall(r"`((?:mpcsim|tests|node)/[\w./]+)`", text):
        assert (ROOT / name).exists(), name


# ---------------------------------------------------------------------- shells

SHELL_PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *GUIDES]
IN_A_CLEAN_COPY = "tests/repo/test_walkthrough.py runs it in a clean copy of the project"
NOT_RUN_HERE = {
    ("README", "make up"): IN_A_CLEAN_COPY,
    ("README", "TOKEN="): IN_A_CLEAN_COPY,
    ("start", "make up"): IN_A_CLEAN_COPY,
    ("start", "TOKEN="): IN_A_CLEAN_COPY,
    ("start", "wallet "): IN_A_CLEAN_COPY,
    ("running", "make serve"): "it begins with an installation; the options are parsed below",
    ("CONTRIBUTING", "make install"): IN_A_CLEAN_COPY,
    ("CONTRIBUTING", "make check"): "the tests themselves; the targets are looked for below",
    ("smart_account", "mpcsim faucet"): "needs the chain that the page's first request starts",
    ("metrics", "mpcsim serve"): "a server with an option that is parsed below",
}
"""Shell blocks by page and beginning, and why they do not run beside a service."""
FRESH = """
import subprocess

def fresh(name):
    said = subprocess.run(["mpcsim", "token", name], stdout=subprocess.PIPE, check=True, text=True)
    return said.stdout.strip()
"""
"""What implementation.md expects a reader to have: a function that issues tokens."""


def shell_blocks() -> Iterator[tuple[str, str]]:
    """Page and text of each, with those last that switch faults on."""
    found = [
        (path.stem, b.text) for path in SHELL_PAGES for b in blocks(path) if b.language == "sh"
    ]
    yield from sorted(found, key=lambda each: each[0] == "control")


def why_not_run(page: str, text: str) -> str | None:
    reasons = [
        why for (at, start), why in NOT_RUN_HERE.items() if at == page and text.startswith(start)
    ]
    return reasons[0] if reasons else None


def test_shell_blocks_that_are_not_run_name_what_there_is() -> None:
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    left_out = [(page, text) for page, text in shell_blocks() if why_not_run(page, text)]
    assert len(left_out) == len(NOT_RUN_HERE)
    for _, text in left_out:
        assert set(re.findall(r"^make (\w+)", text, re.MULTILINE)) <= targets
        for options in re.findall(r"(?:SERVE_ARGS=|^mpcsim serve )(\S+)", text, re.MULTILINE):
            assert main(["serve", *shlex.split(options)], {"serve": lambda _: 0}) == 0


@pytest.mark.soak
def test_shell_blocks_run(tmp_path: Path) -> None:
    """Beside a service that the page tells readers to start."""
    control = str(free_port())
    (tmp_path / "our_tests").mkdir()
    (tmp_path / "our_tests" / "tokens.py").write_text(FRESH)
    here = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    options = ("--data", str(tmp_path / DATA_FOLDER), "--control", control)
    with serve(tmp_path, *options) as (_, _, ports):
        own = {"PATH": here, "PYTHONPATH": f"{ROOT}:.", "PYTEST_ADDOPTS": "--wallet-examples=1"}
        for page, text in shell_blocks():
            if why_not_run(page, text):
                continue
            text = text.replace("mpcsim serve --control\n", "")
            for default, port in (("9091", ports["APP_PORT"]), ("9094", control)):
                text = text.replace(f":{default}", f":{port}")
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", text],
                cwd=tmp_path,
                env={**os.environ, **ports, **own},
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            assert done.returncode == 0, (page, text, done.stdout, done.stderr)


# ---------------------------------------------------------------------- what is not Python


def options() -> set[str]:
    """The plugin's."""
    found: set[str] = set()
    group = SimpleNamespace(addoption=lambda name, **_: found.add(name))
    plugin.pytest_addoption(SimpleNamespace(getgroup=lambda *_: group))  # type: ignore[arg-type]
    return found


def test_commands_in_text_have_options_that_there_are() -> None:
    for path in GUIDES:
        text = path.read_text(encoding="utf-8")
        assert set(re.findall(r"--wallet-\w+", text)) <= options()
    (block,) = [b for b in blocks(FOLDER / "implementation.md") if b.language == "toml"]
    assert plugin.ApiRun.to_known_deviations(tomllib.loads(block.text)).reasons


BROUGHT_NAMES = "addresses faulty_target here make_key our_app our_tokens target"
"""What readers bring along (``BROUGHT``)."""


@pytest.mark.soak
def test_python_passes_strict_mypy(tmp_path: Path) -> None:
    """In the deep tests: mypy reads the whole package for it."""
    brought = [f"{name}: Any = None" for name in BROUGHT_NAMES.split()]
    for path in (*GUIDES, ROOT / "README.md"):
        python = [block.text for block in blocks(path) if block.language == "python"]
        made = "\n".join(["from typing import Any", *brought, *python])
        made = made.replace("from my_attacks import MINE\n", "")  # a block above
        (tmp_path / f"guide_{path.stem}.py").write_text(made)
    mypy = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent"]
    files = map(str, sorted(tmp_path.iterdir()))
    found = subprocess.run([*mypy, *files], cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)
def test_guides_use_what_is_public(path: Path) -> None:
    for block in blocks(path):
        if block.language == "python":
            ast.parse(block.text)
            assert private_in(block.text) == []

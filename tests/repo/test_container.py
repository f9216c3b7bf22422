"""The Dockerfile and compose.yml: what can be checked without a container engine.

The Dockerfile's build steps are carried out in a clean directory with only the files that it
copies, and both images' commands are run there.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
import yaml

from mpcsim.service.operations.serving import SHUTDOWN_S as GATEWAY_SHUTDOWN_S
from mpcsim.service.operations.supervisor import HOST, Program, free_port, process_group
from mpcsim.service.process import log_settings
from node.serving import SHUTDOWN_S as NODE_SHUTDOWN_S
from tests.helpers.repo import ROOT
from tests.repo.test_lock import read_lock

DOCKERFILE = ROOT / "Dockerfile"


def stages() -> dict[str, list[tuple[str, str]]]:
    """Instructions of each stage, continued lines joined."""
    text = re.sub(r"\\\n\s*", "", DOCKERFILE.read_text())
    found: dict[str, list[tuple[str, str]]] = {}
    name = ""
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        instruction, _, rest = line.partition(" ")
        if instruction == "FROM":
            name = rest.split(" AS ")[1]
            found[name] = []
        elif name:
            found[name].append((instruction, rest))
    return found


@pytest.mark.parametrize(
    ("image", "most", "without"),
    [
        ("build", 10, set()),
        ("node", 40, {"numba", "httpx", "eth-account"}),
        ("gateway", 60, {"numba", "py-evm"}),
    ],
)
def test_an_images_lock_is_a_small_part_of_the_lock(image, most, without):
    whole = {(str(r.name), str(r.specifier)): hashes for r, hashes in _pins("requirements.lock")}
    pins = _pins(f"requirements-{image}.lock")
    for requirement, hashes in pins:
        assert whole[str(requirement.name), str(requirement.specifier)] == hashes
    names = {requirement.name for requirement, _ in pins}
    assert 5 < len(names) <= most
    assert not names & (without | {"pip", "pytest", "jupyterlab", "matplotlib"})


def _pins(name: str):
    return read_lock((ROOT / name).read_text(encoding="utf-8"))


def test_base_images_cannot_change():
    """A digest, and beside it the version, which says more to a reader."""
    text = DOCKERFILE.read_text()
    bases = {line.split()[1] for line in text.splitlines() if line.startswith("FROM ")}
    assert bases - set(stages()) == {"${BASE}"}
    (base,) = re.findall(r"^ARG BASE=(.*)$", text, re.MULTILINE)
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim@sha256:[0-9a-f]{64}", base)
    version = base.partition(":")[2].partition("-")[0]
    assert f"# Python {version} on Debian" in text


def test_containers_log_for_programs():
    (environment,) = (rest for what, rest in stages()["runtime"] if what == "ENV")
    assert f"{log_settings.VARIABLE}=json" in environment.split()
    assert f"{log_settings.FOLDER_VARIABLE}=off" in environment.split()  # to standard output alone


def test_containers_may_do_little():
    compose = yaml.safe_load((ROOT / "compose.yml").read_text())
    places = {
        name: f"{name}-data:/service/data/{name}" for name in ("gateway", "operator", "institution")
    }
    writable = {name: [place] for name, place in places.items()} | {
        "node": [],
        "link-operator": [places["gateway"], places["operator"]],
        "link-institution": [places["gateway"], places["institution"]],
    }
    assert set(compose["services"]) == set(writable)
    for name, service in compose["services"].items():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service.get("volumes", []) == writable[name]
        assert not {"privileged", "cap_add", "tmpfs", "user"} & set(service)
        assert service["restart"] == ("no" if name.startswith("link-") else "unless-stopped")
    assert ("VOLUME", "/service/data") in stages()["gateway"]
    assert ("USER", "10001:10001") in stages()["runtime"]


def test_containers_have_the_time_to_finish():
    """What they drain, and closing what was open."""
    compose = yaml.safe_load((ROOT / "compose.yml").read_text())
    drains = dict.fromkeys(("gateway", "operator", "institution"), GATEWAY_SHUTDOWN_S)
    for name, drain_s in {**drains, "node": NODE_SHUTDOWN_S}.items():
        grace = re.fullmatch(r"(\d+)s", compose["services"][name]["stop_grace_period"])
        assert int(grace[1]) >= drain_s + 10


@pytest.mark.soak
def test_every_build_step_works_in_a_clean_directory(tmp_path):
    venv, source, home = tmp_path / "venv", tmp_path / "src", tmp_path / "home"
    source.mkdir()
    home.mkdir()
    ignored = (ROOT / ".dockerignore").read_text().split()
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    environment = {"PATH": path, "HOME": str(home), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    environment |= {name: v for name, v in os.environ.items() if name.startswith("PIP_")}
    wheels, build = tmp_path / "wheels", tmp_path / "build"
    python = shlex.quote(sys.executable)
    for stage in ("build", "node-venv", "gateway-venv"):
        own = str(venv / stage.removesuffix("-venv"))
        for instruction, rest in stages()[stage]:
            if instruction == "COPY":
                *files, target = rest.split()
                for file in files:
                    assert f"!{file}" in ignored, f".dockerignore keeps {file} out"
                    _copy(ROOT / file, source / target / ("" if (ROOT / file).is_file() else "."))
            elif instruction == "RUN":
                command = rest.replace("/venv", own).replace("/wheels", str(wheels))
                command = command.replace("/build", str(build)).replace(
                    "python3 -m", f"{python} -m"
                )
                subprocess.run(command, shell=True, cwd=source, env=environment, check=True)
        environment["PATH"] = f"{build / 'bin'}:{path}"
    for image in ("node", "gateway"):
        reach = ROOT / "tests" / "helpers" / "reachable.py"
        run = [venv / image / "bin" / "python", "-P", reach, image]
        there = {**environment, "PYTHONPATH": str(ROOT)}
        subprocess.run(run, cwd=source, env=there, check=True)
    shutil.rmtree(source)

    gateway_port, node_port = free_port(), free_port()
    environment |= {"GATEWAY_PORT": str(gateway_port), "APP_PORT": str(node_port)}
    environment |= {name: str(free_port()) for name in ("OPERATOR_PORT", "INSTITUTION_PORT")}
    environment["WAAS_API_URL"] = f"http://{HOST}:{gateway_port}"
    with process_group() as processes:
        for name, port, ready in (
            ("gateway", gateway_port, "/.well-known/jwks.json"),
            ("node", node_port, "/"),
        ):
            (command,) = (rest for what, rest in stages()[name] if what == "CMD")
            program, *arguments = yaml.safe_load(command)
            run = ["/usr/bin/env", "-i", *(f"{k}={v}" for k, v in environment.items())]
            run += ["sh", "-c", 'cd "$HOME" && exec "$0" "$@"', str(venv / name / "bin" / program)]
            processes.start(Program(name, [*run, *arguments], port, "", ready))
            (check,) = (rest for what, rest in stages()[name] if what == "HEALTHCHECK")
            probe = yaml.safe_load(check.partition("CMD ")[2])
            subprocess.run(
                [venv / name / "bin" / probe[0], *probe[1:]], env=environment, check=True
            )
        health = httpx.get(f"http://{HOST}:{node_port}/", trust_env=False).json()
        assert health["version"]
        token = subprocess.run(
            [venv / "gateway" / "bin" / "mpcsim", "token", "alice", "--data", "data"],
            cwd=home,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        answer = httpx.get(
            f"http://{HOST}:{node_port}/v3/wallet/user",
            headers={"Authorization": f"Bearer {token}"},
            trust_env=False,
        )
        assert answer.json()["username"] == "alice"


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)

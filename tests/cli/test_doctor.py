"""``mpcsim doctor``: against MPC nodes behind sockets, as one runs it."""

import asyncio
import shutil
from contextlib import ExitStack, closing
from types import SimpleNamespace

import pytest

from mpcsim.cli import main
from mpcsim.ids import MPC_NODES, ROLES
from mpcsim.service.mpc_node.app import create_app
from mpcsim.service.operations import HOST, Doctor, free_port, link_file, store_file
from tests.helpers.gateway import Client, reopen
from tests.node.harness import running


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A gateway in this process, whose MPC nodes are behind sockets; a copy of its folder from when
    alice was its only user; and the folder of another deployment."""
    folder, before = tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("before") / "data"
    other = tmp_path_factory.mktemp("other")

    async def generate(gateway, name):
        client = Client.of(gateway, name)
        await client.generate("ed25519")
        return await client.user_id()

    with closing(reopen(other)) as gateway:
        asyncio.run(generate(gateway, "eve"))
    with closing(reopen(folder)) as gateway:
        asyncio.run(generate(gateway, "alice"))
    shutil.copytree(folder, before)
    with ExitStack() as stack:
        gateway = stack.enter_context(closing(reopen(folder)))
        bob = asyncio.run(generate(gateway, "bob"))
        addresses = {}
        for party, link in gateway.links.items():
            api = stack.enter_context(running(create_app(link.node)))
            addresses[ROLES[party]] = str(api.client.base_url)
        yield SimpleNamespace(
            folder=folder, before=before, other=other, bob=bob, addresses=addresses
        )


@pytest.fixture
def told(served, monkeypatch, capsys):
    """Runs the command: its status, and its lines or its complaint."""
    monkeypatch.setitem(Doctor.__init__.__kwdefaults__, "pause_s", 0)
    for role, address in served.addresses.items():
        monkeypatch.setenv(f"{role.upper()}_URL", address)

    def run(*arguments, data=None):
        status = main(["doctor", "--data", str(data or served.folder), *arguments])
        said = capsys.readouterr()
        return status, said.out.splitlines() or said.err

    return run


@pytest.fixture
def old(served, tmp_path):
    """The gateway's folder as it was before bob, and no other."""
    shutil.copytree(served.before / "gateway", tmp_path / "gateway")
    return tmp_path


def test_all_fits(told):
    assert told() == (
        0,
        ["alice, ed25519: fits", "bob, ed25519: fits", "2 keys of 2 users: 2 fit, 0 stuck"],
    )
    assert told("--user", "bob") == (0, ["bob, ed25519: fits", "1 key of 1 user: 1 fit, 0 stuck"])


def test_a_registry_of_an_earlier_day_is_told_and_repaired(told, old, served):
    unknown = (
        f"user {served.bob}, ed25519: gateway.sqlite does not know the user: mpcsim doctor --repair"
        f" --name {served.bob}=NAME signs the user up again; only your backend knows the name"
    )
    stuck = ["alice, ed25519: fits", unknown, "2 keys of 2 users: 1 fit, 1 stuck"]
    for options in ([], ["--repair"], ["--repair", "--name", f"{'0' * 32}=bob"]):
        status, said = told(*options, data=old)
        if len(options) < 3:
            assert (status, said) == (1, stuck)
    assert status == 2
    assert said == (
        f"mpcsim doctor: error: no MPC node that was heard holds a share of user '{'0' * 32}'\n"
    )
    name = ["--repair", "--name", f"{served.bob}=bob"]
    fits = ["alice, ed25519: fits", "bob, ed25519: repaired; fits"]
    assert told(*name, data=old) == (0, [*fits, "2 keys of 2 users: 2 fit, 0 stuck, 1 repaired"])
    assert told(*name, data=old)[0] == 0


def test_a_part_that_cannot_be_reached(told, old, monkeypatch):
    monkeypatch.setenv("OPERATOR_URL", f"http://{HOST}:{free_port()}")
    assert told() == (
        1,
        [
            "alice, ed25519: the operator's MPC node cannot be reached",
            "bob, ed25519: the operator's MPC node cannot be reached",
            "the operator's MPC node cannot be reached: start it, or correct OPERATOR_URL and "
            "OPERATOR_PORT; then ask again. If it does not start because its seal key is lost: "
            "mpcsim rotate seal-key operator --lost, on its machine",
            "2 keys of 2 users: 0 fit, 0 stuck, 2 could not be told",
        ],
    )
    status, lines = told(data=old)  # what is known to be the matter counts
    assert (status, lines[-1]) == (1, "2 keys of 2 users: 0 fit, 1 stuck, 1 could not be told")


@pytest.mark.parametrize(
    ("what", "complaint"),
    [
        ("registry", "is missing: put a backup of it back, or start the gateway, which makes an"),
        ("link", "is missing: mpcsim link operator --data"),
        ("half copied", "it is damaged, or not a store of this kind; put a whole one in its place"),
        ("another", "gateway.sqlite is of another deployment than the .link files beside it"),
    ],
)
def test_what_the_gateway_lacks_is_one_sentence(told, old, served, what, complaint):
    path = store_file(old, "gateway")
    if what == "another":
        shutil.copy(store_file(served.other, "gateway"), path)
    elif what == "half copied":
        path.write_bytes(path.read_bytes()[:9000])
    else:
        (path if what == "registry" else link_file(old, "gateway", MPC_NODES[0])).unlink()
    before = {path.name: path.read_bytes() for path in (old / "gateway").iterdir()}
    status, said = told(data=old)
    assert (status, complaint in said, said.count("\n")) == (2, True, 1), said
    assert {path.name: path.read_bytes() for path in (old / "gateway").iterdir()} == before


@pytest.mark.parametrize("what", ["one address for the other", "another deployment"])
def test_another_that_answers_is_told_from_one_that_does_not(told, served, monkeypatch, what):
    if what == "another deployment":  # a folder of its own: the links are others
        status, lines = told(data=served.other)
        says = "the gateway and the institution's MPC node are at odds about what may be asked: "
    else:
        monkeypatch.setenv("OPERATOR_URL", served.addresses["institution"])
        status, lines = told()
        says = "what answers at the operator's address is not the operator: correct OPERATOR_URL or"
    assert (status, lines[-2].startswith(says)) == (1, True), lines


def test_an_address_of_another_scheme(told, monkeypatch):
    monkeypatch.setenv("OPERATOR_URL", "ftp://x")
    assert told()[0] == 2

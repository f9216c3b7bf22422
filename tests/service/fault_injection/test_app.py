"""The HTTP interface of the switches, without a service behind it."""

import asyncio
import json
import stat
from pathlib import Path

import httpx
import pytest

from mpcsim.cli import main
from mpcsim.errors import UsageError
from mpcsim.service.fault_injection import access, app
from mpcsim.service.fault_injection.access import ControlAccess
from mpcsim.service.fault_injection.client import over_http
from mpcsim.service.fault_injection.commands import find_command
from mpcsim.service.fault_injection.conditions import NotApplied
from mpcsim.service.operations.supervisor import HOST, free_port
from mpcsim.service.process.http_limits import listen
from mpcsim.sim import Network, Scenario
from tests.helpers.reviewed import check_answers

TOKEN = "0123456789abcdef" * 4


class Thrown:
    """Remembers what was thrown."""

    def __init__(self, error=None):
        self.seen = []
        self.error = error

    def __call__(self, name, told):
        self.seen.append((name, find_command(name).parse_arguments(told)))
        if self.error is not None:
            raise self.error
        return {"runs": True} if name == "status" else {}


def asked(thrown, method, path, token=TOKEN, **body):
    async def ask():
        transport = httpx.ASGITransport(app.create_app(thrown, TOKEN))
        headers = body.pop("headers", [])
        if token is not None:
            headers = [*headers, (b"Authorization", f"Bearer {token}".encode())]
        async with httpx.AsyncClient(transport=transport, base_url="http://control") as http:
            return await http.request(method, path, headers=headers, **body)

    return asyncio.run(ask())


def test_a_switch_is_thrown():
    thrown = Thrown()
    answer = asked(thrown, "POST", "/control/slow", json={"part": "node", "ms": 5})
    assert (answer.status_code, answer.json()) == (200, {})
    assert asked(thrown, "GET", "/control").json() == {"runs": True}
    assert asked(thrown, "POST", "/control/reset").status_code == 200
    assert thrown.seen == [("slow", {"part": "node", "ms": 5.0}), ("status", {}), ("reset", {})]


ASKED = [("GET", "/control"), ("POST", "/control/reset"), ("POST", "/control/x")]


@pytest.mark.parametrize("token", [None, "", TOKEN[:-1], TOKEN + "0", "ü", TOKEN.upper()])
@pytest.mark.parametrize(("method", "path"), ASKED)
def test_nothing_works_without_the_token(method, path, token):
    thrown = Thrown()
    answer = asked(thrown, method, path, token)
    assert answer.status_code == 401
    assert answer.json() == {"error": "not the token of these switches"}
    assert answer.headers["X-Error-Code"] == "unauthorized"
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert thrown.seen == []


def test_each_mistake_has_an_answer():
    def said(question):
        path, _, body = question.partition(" ")
        answer = asked(Thrown(), "POST", path, **eval(body))
        assert answer.headers["X-Request-Id"]
        code = answer.headers["X-Error-Code"]
        return f"{answer.status_code} {code} {answer.json()['error']}"

    check_answers(said, Path(__file__).with_name("mistakes.txt"))


def test_what_is_not_in_force_is_no_mistake_of_the_callers():
    answer = asked(Thrown(NotApplied("the node has ended")), "POST", "/control/reset")
    assert (answer.status_code, answer.json()) == (503, {"error": "the node has ended"})


# ---------------------------------------------------------------------- the other end


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The data folder of a service with switches, and what was thrown."""
    data, port, thrown = tmp_path_factory.mktemp("data"), free_port(), Thrown()
    with (
        app.serve_control(thrown, TOKEN, port),
        access.write_access(data, ControlAccess(f"http://{HOST}:{port}", TOKEN)),
    ):
        yield data, thrown


@pytest.fixture
def thrown(served):
    thrown = served[1]
    yield thrown
    thrown.seen, thrown.error = [], None


@pytest.fixture
def data(served):
    return served[0]


def test_the_file_is_its_owners_alone_and_goes_with_the_service(tmp_path):
    (tmp_path / "control.json").write_text(
        '{"address": "a", "token": "b"}'
    )  # of one that was killed
    (tmp_path / ".control.json.x.part").write_text("{}")
    at = ControlAccess("http://127.0.0.1:1", TOKEN)
    with access.write_access(tmp_path, at):
        (path,) = tmp_path.iterdir()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert access.read_access(tmp_path) == at
        assert TOKEN not in repr(at)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UsageError, match="no service that runs with --control keeps its data in"):
        access.read_access(tmp_path)
    for damaged in ("", "{}", '{"address": 1}', '["a"]', '{"address":"a","token":"b","c":1}'):
        (tmp_path / "control.json").write_text(damaged)
        with pytest.raises(UsageError, match="cannot be read, or is damaged"):
            access.read_access(tmp_path)
        with pytest.raises(UsageError, match="move it away"), access.write_access(tmp_path, at):
            pass
        assert (tmp_path / "control.json").read_text() == damaged
    (tmp_path / "control.json").unlink()
    (tmp_path / "control.json").mkdir()
    with pytest.raises(UsageError, match="cannot be read, or is damaged"):
        access.read_access(tmp_path)
    (tmp_path / "control.json").rmdir()
    with access.write_access(tmp_path, at):
        (tmp_path / "control.json").write_text("somebody's")
    assert (tmp_path / "control.json").read_text() == "somebody's"


def test_from_python(data, thrown):
    control, scenario = over_http(data), Scenario(Network.star(3.0), seed=5)
    scenario.save(data / "my.toml")
    with control.down("operator"), control.slow("node", 5), control.cut("gateway"):
        thrown.seen.clear()
    with pytest.raises(ZeroDivisionError), control.clock(hours=1, seconds=1):
        1 / 0  # noqa: B018
    with control.fail_next("sign", 504, done=True), control.expire(2):
        pass
    for under in (scenario, data / "my.toml", str(data / "my.toml")):
        control.network(under).undo()
    control.network(Network.star(4.0))
    fail = {"endpoint": "sign", "answer": "504", "times": 1, "done": True}
    assert thrown.seen == [
        ("mend", {"part": "gateway"}),
        ("slow", {"part": "node", "ms": 0}),
        ("up", {"part": "operator"}),
        ("clock", {"seconds": 3601}),
        ("clock", {"seconds": 0}),
        ("fail", fail),
        ("expire", {"times": 2}),
        ("expire", {"times": 0}),
        ("fail", {"endpoint": "sign", "answer": "504", "times": 0}),
        *[("network", {"scenario": scenario.dumps()}), ("network", {})] * 3,
        ("network", {"scenario": Scenario(Network.star(4.0)).dumps()}),
    ]
    assert control.status() == {"runs": True}
    thrown.error = NotApplied("the gateway has ended")
    with pytest.raises(NotApplied, match="the gateway has ended"):
        control.reset()


def test_from_the_command_line(data, thrown, capsys):
    def control(*words, at=data):
        status = main(["control", *words, "--data", str(at)])
        said = capsys.readouterr()
        return status, json.loads(said.out) if said.out else said.err

    assert control("status") == (0, {"runs": True})
    assert control("fail", "sign", "hang", "--times", "2", "--done") == (0, {"done": "fail"})
    for network in (["seoul,loss=0.1"], []):
        assert control("network", *network)[0] == 0
    fail = {"endpoint": "sign", "answer": "hang", "times": 2, "done": True}
    under = {"scenario": Scenario(Network.preset("seoul", loss=0.1)).dumps()}
    assert thrown.seen == [("status", {}), ("fail", fail), ("network", under), ("network", {})]
    for words, why in [
        (["slow", "node", "soon"], "slow: ms must be a number from 0 to 600000"),
        (["network", "atlantis"], "unknown region 'atlantis'"),
        (["network", "no/such.toml"], "no/such.toml: No such file or directory"),
    ]:
        status, said = control(*words)
        assert (status, why in said) == (2, True), said
    others = {
        "not the token of these switches": ControlAccess(
            access.read_access(data).address, TOKEN[::-1]
        ),
        "does the service run?": ControlAccess(f"http://{HOST}:{free_port()}", TOKEN),
    }
    for why, other in others.items():
        with access.write_access(data / "other", other):
            status, said = control("status", at=data / "other")
            assert (status, why in said) == (2, True), said
    assert len(thrown.seen) == 4


def test_a_port_that_is_taken_is_said_before_anything_runs(tmp_path, capsys):
    port = free_port()
    with listen(HOST, port):
        options = ["serve", "--control", str(port), "--data", str(tmp_path / "data")]
        assert main(options) == 2
    said = f"control: cannot listen on {HOST} port {port}: Address already in use"
    assert said in capsys.readouterr().err
    assert not (tmp_path / "data").exists()

"""The same run over every kind of client, and over a socket with the plugin."""

import logging
import threading
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import httpx
import jwt
import pytest
from starlette.applications import Starlette

from mpcsim.service.operations import open_gateway
from mpcsim.testing import ApiRun, AsgiTarget, HttpTarget, check_wallet_service, plugin
from mpcsim.testing.backend import service_checks as checks
from mpcsim.testing.backend.asgi import LogLines
from mpcsim.testing.backend.service import Request, ThreadedLoop, service_of
from mpcsim.testing.backend.target import ShowsLogs
from mpcsim.testing.profile import Profile, Progress
from node.app import create_app
from node.local import LocalService
from node.process.settings import Settings
from tests.helpers import secrecy
from tests.helpers.processes import pytest_with_the_kit
from tests.node.harness import running
from tests.testing import faulty
from tests.testing.own_node import CHEAP, OwnNode, our_app

pytestmark = pytest.mark.soak  # Whole runs of the kit: seconds each.


def run_through(target: HttpTarget) -> ApiRun:
    api = ApiRun(target)
    api.health()
    api.generate("alice", "ed25519")
    api.sign("alice", "ed25519")
    api.sign_twice_at_once("alice", "ed25519")
    api.unauthenticated("alice", "ed25519", "garbage")
    api.recover("alice", "ed25519")
    api.sign("alice", "ed25519", share=0)
    api.access_other_users_key("bob", "alice", "ed25519", "sign")
    api.end()
    return api


def test_an_asgi_target():
    gateway, loud = open_gateway(), logging.getLogger("node")
    level = loud.level
    with AsgiTarget(our_app(gateway), gateway.token, loggers=("node",)) as target:
        assert isinstance(target, ShowsLogs)
        run_through(target)
        loud.info("something else")
        assert target.logs() == "something else"
        assert target.logs() == ""
        check_wallet_service(target, Profile("short", 1, 4, both_curves=0.0), seed=1)
    assert loud.level == level
    assert not any(isinstance(handler, LogLines) for handler in loud.handlers)
    gateway.close()


def test_an_asgi_target_hears_secrets_in_logs():
    gateway = open_gateway()
    app = faulty.LogsShares(our_app(gateway))
    with (
        AsgiTarget(app, gateway.token, loggers=("node",)) as target,
        pytest.raises(checks.no_secret_in_logs.Broken, match="alice's encrypted_share"),
    ):
        api = ApiRun(target)
        api.generate("alice", "ed25519")
        api.validate_share("alice", "ed25519")
    gateway.close()
    secrecy.LEDGER.leaks()


def test_an_application_that_does_not_start_leaves_nothing_behind():
    @asynccontextmanager
    async def lifespan(app):
        raise ZeroDivisionError
        yield

    threads = threading.active_count()
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            AsgiTarget(Starlette(lifespan=lifespan), str, loggers=("node",))
    assert threading.active_count() <= threads
    handlers = logging.getLogger("node").handlers
    assert not any(isinstance(handler, LogLines) for handler in handlers)


def test_a_blocking_client():
    with LocalService(cost=CHEAP) as local:
        run_through(HttpTarget(local.http, local.gateway.token))


def test_nobody_at_the_address():
    target = HttpTarget("http://127.0.0.1:1", lambda user: "a token")
    with target, pytest.raises(checks.service_answers.Broken) as caught:
        ApiRun(target).keys("alice")
    assert "alice listed the keys: no answer (ConnectError" in str(caught.value)
    assert "target = HttpTarget('http://127.0.0.1:1', token=...)" in str(caught.value)


def test_clients_that_are_given_are_used():
    transport = httpx.MockTransport(lambda request: httpx.Response(418, text=request.url.path))
    for kind, client in (
        ("blocking", httpx.Client(transport=transport, base_url="http://service")),
        ("async", httpx.AsyncClient(transport=transport, base_url="http://service")),
    ):
        service = service_of(client)
        answers = service.ask([Request("GET", "/a"), Request("POST", "/b", {})])
        assert [(a.status, a.text) for a in answers] == [(418, "/a"), (418, "/b")], kind
        service.close()
    ThreadedLoop().close()


# ---------------------------------------------------------------------- the plugin


@pytest.mark.parametrize(
    "service", [pytest.param(faulty.Faulty, marks=pytest.mark.soak), faulty.ErrorsOfTheFramework]
)
def test_the_plugin(tmp_path, service):
    gateway = open_gateway()
    credentials = gateway.credentials
    right = service is faulty.Faulty
    with running(gateway.app) as front, running(service(our_app(gateway))) as node:
        done = pytest_with_the_kit(
            tmp_path,
            *("--pyargs", "mpcsim.testing.suite", "-k", "any_steps", "--wallet-seed=5"),
            f"--wallet-examples={2 if right else 50}",
            f"--wallet-target={node.client.base_url}",
            f"--wallet-gateway={front.client.base_url}",
            WAAS_API_KEY=credentials.api_key,
            WAAS_API_SECRET=credentials.api_secret,
        )
    gateway.close()
    assert done.returncode == (0 if right else 1), done.stdout + done.stderr
    if not right:
        report = done.stdout.partition("test_any_steps_of_any_users ___")[2].splitlines()
        assert report[1].startswith("Every error is {"), done.stdout
        assert "seed 5" in done.stdout
        assert "-k test_any_steps_of_any_users --wallet-examples=50 --wallet-seed=5" in done.stdout
        assert f"target = HttpTarget('{node.client.base_url}', token=...)" in done.stdout
        assert "api.generate('alice', 'ed25519')" in done.stdout


def test_the_suite_without_a_target_stops_at_once(tmp_path):
    done = pytest_with_the_kit(tmp_path, "--pyargs", "mpcsim.testing.suite")
    assert done.returncode == 4, done.stdout + done.stderr
    assert "nothing to test: give the service's address with --wallet-target" in done.stdout
    assert len(done.stdout.splitlines()) < 12


def test_a_service_that_lacks_a_setting_stops_the_run():
    config: Any = SimpleNamespace(stash={})
    with AsgiTarget(create_app(Settings()), lambda user: jwt.encode({}, "k" * 32)) as target:
        with pytest.raises(pytest.exit.Exception, match="lacks a setting: WAAS_API_URL is not set"):
            plugin.check_is_set_up(target, config)
        plugin.check_is_set_up(target, config)  # once in a run
    with (
        HttpTarget("http://127.0.0.1:1", str) as target,
        pytest.raises(pytest.exit.Exception, match="does not answer"),
    ):
        plugin.check_is_set_up(target, SimpleNamespace(stash={}))


def test_a_seed_asks_the_same_again():
    """In virtual time down to the last request, races included."""
    profile = Profile("short", 8, 12, both_curves=0.0)
    runs = []
    for seed in (5, 5, 6):
        with OwnNode() as target:
            asked = record(target)
            progress = Progress("runs")
            check_wallet_service(target, profile, seed=seed, progress=progress)
            assert progress.calls == sum(map(len, asked))
            assert progress.races == sum(len(requests) > 1 for requests in asked) > 0
            runs.append([[replayed(request) for request in requests] for requests in asked])
    assert runs[0] == runs[1] != runs[2]


def record(target: OwnNode) -> list[list[Request]]:
    """What is asked of a target from now on."""
    asked: list[list[Request]] = []
    ask = target.ask

    def noting(requests):
        asked.append(list(requests))
        return ask(requests)

    target.ask = noting
    return asked


def replayed(request: Request) -> tuple[Any, ...]:
    """What of a request is the same with other keys and users."""
    body = request.body or {}
    drawn = [str(body.get(name)) for name in ("curve", "password", "message", "signer")]
    return request.method, request.path.partition("?")[0], sorted(body), drawn


def test_the_options(tmp_path):
    (tmp_path / "ours.py").write_text("def token(user):\n    return 'a token of ' + user\n")
    (tmp_path / "test_it.py").write_text(
        "def test_it(wallet_target, wallet_profile, wallet_seed, check_service):\n"
        "    assert wallet_target.token('alice') == 'a token of alice'\n"
        "    assert (wallet_profile.name, wallet_profile.seconds) == ('soak', 7.0)\n"
        "    assert wallet_seed == 3\n"
    )
    options = ("--wallet-profile=soak", "--wallet-seconds=7", "--wallet-seed=3")
    with running(Starlette()) as node:
        address = (f"--wallet-target={node.client.base_url}", "--wallet-tokens=ours:token")
        done = pytest_with_the_kit(tmp_path, *options, *address)
    assert done.returncode == 0, done.stdout + done.stderr

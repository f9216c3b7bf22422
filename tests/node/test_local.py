"""The whole service in one process: clients, clocks, and what the clocks agree on."""

import asyncio
import hashlib
import logging
import signal
import sys
import threading
import time
from contextlib import contextmanager
from datetime import timedelta
from itertools import count

import pytest

from mpcsim import Network
from mpcsim.errors import UsageError
from mpcsim.sim.run.realtime.clock import Deadlock
from node.local import LocalService
from tests.helpers.tiers import fast_few
from tests.node.wallets import CHEAP, PASSWORD, check_signature

MESSAGE = hashlib.sha256(b"payment").digest()
WAN = Network.star(10, 20, 30)


@pytest.fixture(autouse=True)
def nothing_left():
    """No test here leaves a thread behind."""
    threads = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - threads:
        thread.join(5)  # it has been told to end
    assert set(threading.enumerate()) <= threads


def ms(elapsed):
    return elapsed / timedelta(milliseconds=1)


def local(network=None, **options):
    return LocalService(network, cost=CHEAP, **options)


def generate(client, curve="ed25519", **options):
    new = {"curve": curve, "password": PASSWORD}
    answer = client.post("/v3/wallet/generate", json=new, **options)
    assert answer.status_code == 200, answer.text
    return answer.json()


@contextmanager
def with_key(network=None, curve="ed25519", **options):
    """A service where Alice has a key."""
    with local(network, **options) as service:
        alice = service.user("alice")
        yield service, alice, generate(alice, curve)


def order(share, **fields):
    return {**share, "message": MESSAGE.hex(), **fields}


def sign(client, share, **fields):
    answer = client.post("/v3/wallet/sign", json=order(share, **fields))
    assert answer.status_code == 200, answer.text
    return answer


# --------------------------------------------------------------------------- what a link costs


def test_a_gateway_that_streams_pays_for_the_windows_once():
    """Hops of 50 ms, and every call after a pause, so that windows are those of the beginning.

    The request that opens the vault, and its answer, take 4 ways: 200 ms. Then 49,237 bytes go, 35
    segments: 10 leave at once, 20 when those are acknowledged 100 ms later, 5 after 100 more, and
    arrive at 250; 40,414 bytes come, 29 segments: 10, then 19, which arrive at 150. On two hops
    each: 200 + 2 * 250 + 2 * 150 = 1000. If the gateway hands on what it has, a message is on its
    second hop 50 ms after it was on its first one: 200 + (50 + 250) + (50 + 150) = 700. The rest
    are bytes: at 1 Gbit/s each takes 8 ns a hop. The service's gateway does what its network has it
    do, and what is in force counts.
    """
    network = Network.star(50.0, 50.0, 50.0)
    streaming = network.with_connection(forwarding="stream")
    with with_key(streaming, curve="secp256k1") as (service, alice, share):
        for _ in range(2):
            service.wait(10_000)
            assert 700 <= ms(sign(alice, share).elapsed) < 701
        service.change(network)
        assert 1000 <= ms(sign(alice, share).elapsed) < 1001
    with with_key(network, forwarding="stream", curve="secp256k1") as (service, alice, share):
        service.wait(10_000)
        assert 700 <= ms(sign(alice, share).elapsed) < 701


@pytest.mark.parametrize(("setting", "value"), [("cpu_factor", 50.0), ("cores", 4)])
def test_a_site_setting_without_effect_is_refused(setting, value):
    network = WAN.with_site("operator", **{setting: value})
    with pytest.raises(UsageError, match=f"site operator: {setting} is {value}"):
        local(network)
    with local(WAN) as service:
        share = generate(service.user("alice"))
        with pytest.raises(UsageError, match=f"site operator: {setting}"):
            service.change(network)
        assert ms(sign(service.user("alice"), share).elapsed) == pytest.approx(80, rel=1e-3)


def test_computation_can_be_made_to_cost():
    with with_key(cpu_factor=20) as (service, alice, share):
        assert service.elapsed_ms > 20
        assert ms(sign(alice, share).elapsed) > 2


# --------------------------------------------------------------------------- again and again


def test_calls_that_fail_are_counted_and_not_timed():
    with local(WAN, token_lifetime_s=60) as service:
        alice = service.user("alice")
        found = service.repeat(lambda: alice.get("/v3/wallet/user"), 4, pause_ms=20_000)
        assert (len(found.times_ms), found.failed, found.failure) == (2, 2, "HTTP 401")
        assert found.times_ms == pytest.approx([20.0, 20.0], rel=1e-3)
        late = service.user("bob")
        with pytest.raises(UsageError, match="2 of 2 calls failed: ReadTimeout"):
            service.repeat(lambda: late.get("/v3/wallet/user", timeout=0.01), 2)
        with pytest.raises(ZeroDivisionError):
            service.repeat(lambda: 1 // 0, 2)


# --------------------------------------------------------------------------- repeatable


def life(curve, **options):
    """A wallet's life, with everything a caller sees of it."""
    lossy = Network.preset("seoul", institution="frankfurt", access="lte", loss=0.02)
    with local(lossy, queue=3, **options) as service:
        alice, bob = service.user("alice"), service.user("bob")
        seen = []
        new = {"curve": curve, "password": PASSWORD}
        both = [one.build_request("POST", "/v3/wallet/generate", json=new) for one in (alice, bob)]
        shares = [answer.json() for answer in service.at_once(both)]
        orders = [
            client.build_request("POST", "/v3/wallet/sign", json=order(share))
            for client, share in zip((alice, bob), shares, strict=True)
            for _ in range(3)
        ]
        for answer in service.at_once(orders):
            seen += [answer.status_code, answer.elapsed]
            if "secrets_seed" in options:
                seen += [answer.text]
        seen += [alice.post("/v3/wallet/recover", json=new).elapsed]
        seen += [service.elapsed_ms, service.now_ms]
        return seen


@pytest.mark.parametrize("curve", fast_few(["ed25519", "secp256k1"], 1))
def test_the_same_seeds_give_the_same_times_and_secrets_and_others_do_not(curve):
    first, again, other = (life(curve, seed=1, secrets_seed=secrets) for secrets in "aab")
    assert first == again != other
    assert [seen for seen in other if not isinstance(seen, str)] == life(curve, seed=1)
    assert [seen for seen in first if not isinstance(seen, str)] != life(curve, seed=2)


# --------------------------------------------------------------------------- how it is called


@pytest.mark.parametrize("clock", ["virtual", "real"])
def test_a_wallet_from_all_sides(clock):
    with with_key(clock=clock, curve="secp256k1") as (service, alice, share):
        check_signature(share["public_key"], MESSAGE, sign(alice, share).json()["signature"])
        assert service.http.get("/").json()["name"] == "mpc-node"
        assert service.http.get("/v3/wallet/user").status_code == 401
        assert service.http.get("/api/docs/swagger-ui.css").status_code == 200  # read in a thread
        assert service.user("bob").get("/v3/wallet").status_code == 404
        busy = service.at_once(
            [alice.build_request("POST", "/v3/wallet/sign", json=order(share)) for _ in range(2)]
        )
        assert 200 in {answer.status_code for answer in busy}
        assert repr(service).startswith(f"LocalService({clock} time")


@pytest.mark.parametrize("clock", ["virtual", "real"])
def test_it_works_beside_a_running_loop(clock):
    """As in a notebook, whose cells run in an event loop."""

    async def cell():
        with local(WAN, clock=clock) as service:
            assert service.user("alice").get("/v3/wallet/user").status_code == 200
            async with service.async_user("alice") as alice:
                answer = await alice.get("/v3/wallet/user")
                assert answer.json()["username"] == "alice"
                assert ms(answer.elapsed) >= 20

    asyncio.run(cell())


def test_coroutines_run_in_the_services_time():
    with local(WAN) as service:
        assert service.elapsed_ms == 0

        async def story():
            async with service.async_user("alice") as alice, service.async_user() as nobody:
                await asyncio.sleep(1)
                answers = await asyncio.gather(
                    alice.get("/v3/wallet/user"), alice.get("/v3/wallet/key"), nobody.get("/")
                )
            return [answer.status_code for answer in answers]

        assert service.run(story()) == [200, 200, 200]
        assert service.elapsed_ms == pytest.approx(1020, rel=1e-3)

        async def inside_out():
            service.http.get("/")

        with pytest.raises(UsageError, match="await it"):
            service.run(inside_out())

        async def for_ever():
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(True)

        ended = []
        with pytest.raises(Deadlock):
            service.run(for_ever())
        assert ended == [True]
        assert service.http.get("/").status_code == 200


@pytest.mark.timeout(60)
@pytest.mark.parametrize("clock", ["virtual", "real"])
def test_an_interrupt_cancels_the_call(clock):
    """Ctrl-C, or the notebook's stop button."""
    with local(clock=clock) as service:
        main, cancelled = threading.main_thread().ident or 0, threading.Event()

        async def long():
            while sys._current_frames()[main].f_code.co_name != "wait":
                await asyncio.to_thread(time.sleep, 0.001)  # only who waits is interrupted in it
            try:
                for tries in count():
                    # A signal that comes just before a lock is waited for is heard with the next.
                    if tries % 1000 == 0:
                        signal.pthread_kill(main, signal.SIGINT)
                    # In a thread: a virtual loop ends whatever only turns in circles.
                    await asyncio.to_thread(time.sleep, 0.001)
            except asyncio.CancelledError:
                cancelled.set()
                raise

        with pytest.raises(KeyboardInterrupt):
            service.run(long())
        assert cancelled.wait(30)
        assert service.http.get("/").status_code == 200


def test_closing():
    service = local(WAN)
    alice = service.user("alice")
    service.close()
    service.close()
    with pytest.raises(UsageError, match="closed"):
        alice.get("/v3/wallet/user")
    with pytest.raises(UsageError, match="closed"):
        service.wait(1)


def test_closing_in_real_time_waits_no_longer_than_it_says(monkeypatch):
    monkeypatch.setattr("node.local.CLOSING_S", 0.05)
    service = local(Network.star(3_600_000.0), clock="real")
    body = {"curve": "secp256k1", "password": PASSWORD}
    request = service.user("alice").build_request("POST", "/v3/wallet/generate", json=body)
    asked = service._thread.begin(service.answer(request))
    service.close()  # the links alone would take hours
    assert asked.cancelled()


IMPOSSIBLE = [
    {"clock": "lunar"},
    {"clock": "real", "cpu_factor": 1.0},
    {"clock": "real", "secrets_seed": "x"},
    {"cpu_factor": -1.0},
    {"network": Network.mesh([1, 2])},
]


@pytest.mark.parametrize("options", IMPOSSIBLE)
def test_impossible_options(options):
    with pytest.raises(UsageError):
        LocalService(**options)


def test_errors_are_not_printed(capfd):
    """The node's log lines are for its operator; a notebook shows what was asked for."""
    assert any(isinstance(h, logging.NullHandler) for h in logging.getLogger("node").handlers)
    with local() as service:
        assert service.http.get("/v3/wallet/user").status_code == 401
    assert capfd.readouterr() == ("", "")

"""Requests that are never finished, too many connections: while they last, those who have a
connection sign, and those who come get one."""

import asyncio
import contextlib
import json
import random
import resource
import socket
import time
from pathlib import Path

import httpx
import pytest

from tests.campaign.callers import ALLOWANCE_S, crowd
from tests.campaign.service import ALL, GATEWAY, INSTITUTION, NODE, OPERATOR, service

pytestmark = [pytest.mark.soak, pytest.mark.timeout(300)]

HEADER_S, BODY_S = 10, 30
"""How long the servers wait for a header's, and a body's, end."""
CONNECTIONS = 1000
"""That each of them holds at a time."""
FLOOD = CONNECTIONS + 100
OTHER_FILES = 80
"""That they may have open besides."""
PATHS = {NODE: "/v3/wallet/sign", GATEWAY: "/mpc/v1/sign", OPERATOR: "/sign", INSTITUTION: "/sign"}
READY = {NODE: "/", GATEWAY: "/.well-known/jwks.json", OPERATOR: "/hello", INSTITUTION: "/hello"}


@pytest.fixture(autouse=True)
def open_files():
    """As many as a flood takes here."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FLOOD + 1000
    if resource.RLIM_INFINITY not in (soft, hard) and hard < wanted:
        pytest.skip(f"{hard} open files are too few")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def half_header(name, token):
    return f"POST {PATHS[name]} HTTP/1.1\r\nHost: here\r\nX-More: ".encode()


def half_body(name, token):
    kind = "application/json" if name == NODE else "application/octet-stream"
    return (
        f"POST {PATHS[name]} HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: {kind}\r\nContent-Length: 1000\r\n\r\n{{"
    ).encode()


def connect(served, name):
    url = httpx.URL(served.address(name))
    return socket.create_connection((url.host, url.port), timeout=ALLOWANCE_S)


def flood(served, name, start, number, opened):
    """Open connections, and begin a request on each; some may be refused or closed."""
    for _ in range(number):
        with contextlib.suppress(OSError):
            opened.append(connect(served, name))
            opened[-1].sendall(start)


def closed(connection, within_s):
    """What the server says before it closes a connection; it must do so in time."""
    said, deadline = b"", time.monotonic() + within_s
    with connection, contextlib.suppress(ConnectionError):
        while True:
            connection.settimeout(max(0.01, deadline - time.monotonic()))
            more = connection.recv(65536)
            if not more:
                break
            said += more
    return said


def check_refusal(said):
    """Nothing, or an error in the one form of all errors; an MPC node says more, to the gateway."""
    if said:
        head, _, body = said.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 4"), head
        forms = {"error"}, {"code", "message"}, {"error", "party", "code", "kind"}
        assert json.loads(body).keys() in forms


def open_file_count(served, name):
    folder = Path(f"/proc/{served.process_id(name)}/fd")
    return len(list(folder.iterdir())) if folder.is_dir() else 0


@contextlib.asynccontextmanager
async def bystanders(served):
    """Those who sign all the while; and a token."""
    over = asyncio.Event()

    async def go_on(caller, share):
        while not over.is_set():
            answer = await caller.sign(share)
            assert answer is not None, "no answer"
            assert answer.is_success, answer.text
            await asyncio.sleep(0.05)

    async with crowd(served, random.Random(0)) as people:
        people.join("ed25519", 3)
        await people.check()
        shares = [caller.key.shares.popitem() for caller in people.callers]
        for caller, (key_id, share) in zip(people.callers, shares, strict=True):
            caller.key.shares[key_id] = share
        signing = [
            asyncio.ensure_future(go_on(caller, share))
            for caller, (_, share) in zip(people.callers, shares, strict=True)
        ]
        try:
            yield served.token("user 0")
        finally:
            over.set()
            await asyncio.gather(*signing)
        await people.check()


async def newcomer(served, within_s):
    """All servers take a new connection and answer."""
    for name, path in READY.items():
        deadline = time.monotonic() + within_s
        while True:
            with contextlib.suppress(httpx.TransportError):
                async with httpx.AsyncClient(trust_env=False, timeout=within_s) as http:
                    if (await http.get(served.address(name) + path)).status_code == 200:
                        break
            assert time.monotonic() < deadline, f"the {name} takes no new connection"
            await asyncio.sleep(0.1)


def run(tmp_path, scene):
    async def campaign():
        async with bystanders(served) as token:
            await scene(served, token)

    with service(tmp_path) as served:
        asyncio.run(campaign())


def test_requests_that_are_never_finished(tmp_path):
    async def scene(served, token):
        waits = []
        for name in ALL:
            for start, wait_s in ((half_header, HEADER_S), (half_body, BODY_S)):
                connection = connect(served, name)
                connection.sendall(start(name, token))
                waits.append(asyncio.to_thread(closed, connection, wait_s + ALLOWANCE_S))
        for said in await asyncio.gather(*waits):
            check_refusal(said)

    run(tmp_path, scene)


@pytest.mark.parametrize("start", [half_header, half_body])
@pytest.mark.parametrize("name", ALL)
def test_more_connections_than_there_may_be(tmp_path, name, start):
    async def scene(served, token):
        before, opened = open_file_count(served, name), []
        try:
            await asyncio.to_thread(flood, served, name, start(name, token), FLOOD, opened)
            await newcomer(served, ALLOWANCE_S)
            assert open_file_count(served, name) <= CONNECTIONS + OTHER_FILES
        finally:
            for connection in opened:
                connection.close()
        deadline = time.monotonic() + ALLOWANCE_S
        while open_file_count(served, name) > before + 20:
            assert time.monotonic() < deadline, "connections stay open"
            await asyncio.sleep(0.1)

    run(tmp_path, scene)

"""What it costs a signature that requests have names and are counted: calls, not time."""

import inspect
import sys
from pathlib import Path

import httpx
import pytest

import node.app
import node.local
from mpcsim.gateway.mpc_nodes import OverHttp
from mpcsim.mpc_node.app import create_app as create_mpc_node_app
from mpcsim.rpc import http
from mpcsim.rpc.entries import Book
from mpcsim.rpc.transport import AsgiTransport
from mpcsim.service.metrics import of_gateway, of_mpc_node
from mpcsim.sim.run import clock
from node.local import LocalService
from node.metrics import seen
from tests.node.harness import CHEAP, PASSWORD

MESSAGE = "11" * 32
CLIENT = str(Path(httpx.__file__).parent)


def unnamed(app, *_):
    """In place of the middleware that names and counts requests."""
    return app


def signing_calls(monkeypatch, *, named, counted):
    """Calls of one signature with secp256k1: node, gateway, both MPC nodes, and the HTTP interfaces
    between them. The same randomness each time, and not the first signature."""
    with monkeypatch.context() as patched:
        patched.setattr(Book, "close", inspect.unwrap(Book.close))  # the tests look for secrets
        if not named:
            patched.setattr(node.app, "RequestIds", unnamed)
            patched.setattr(http, "RequestIds", unnamed)
        with LocalService(secrets_seed="calls", cost=CHEAP) as service:
            gateway = service.gateway
            if counted:
                of_gateway(gateway.app, gateway.gateway, [])
                seen(service.app)
            for party, link in gateway.links.items():
                app = create_mpc_node_app(link.node)
                if counted:
                    of_mpc_node(app, link.node)
                link.port = OverHttp(party, AsgiTransport(app))
            alice = service.user("alice")
            new = {"curve": "secp256k1", "password": PASSWORD}
            share = alice.post("/v3/wallet/generate", json=new).json()
            order = {**share, "message": MESSAGE}

            async def signed():
                request = alice.build_request("POST", "/v3/wallet/sign", json=order)
                request.read()
                return await calls(service.answer(request))

            service.run(signed())
            return service.run(signed())


async def calls(asking):
    """How many calls an answer takes (as ``mpcsim.bench.protocols.calls`` counts them) at the
    service, without the caller's client; a look at the virtual clock is one, as at a real one."""
    count = 0

    def tell(frame, event, argument):
        nonlocal count
        if event in ("call", "c_call"):
            code = frame.f_code
            if code.co_filename == clock.__file__:
                count += event == "call" and code.co_name == "time"
            else:
                count += CLIENT not in code.co_filename

    sys.setprofile(tell)
    try:
        answer = await asking
    finally:
        sys.setprofile(None)
    assert answer.status_code == 200
    return count


@pytest.mark.soak
def test_names_and_metrics_add_less_than_a_hundredth_to_a_signature(monkeypatch):
    for _ in range(2):  # afterwards, what a process remembers is there for all alike
        bare = signing_calls(monkeypatch, named=False, counted=False)
    named = signing_calls(monkeypatch, named=True, counted=False)
    counted = signing_calls(monkeypatch, named=True, counted=True)
    assert bare < named < counted, "it is measured at all"
    print(f"{bare} calls, {named - bare} for names, {counted - named} for metrics")
    assert counted - bare < bare / 100

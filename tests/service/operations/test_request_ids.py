"""One name for a request in all that node, gateway and MPC nodes log because of it."""

import json
import logging

import pytest

from mpcsim.ids import MPC_NODES
from mpcsim.service.process.request_id import HEADER
from mpcsim.service.web.logs import JsonLines, TextLines
from tests.node.harness import PASSWORD, PLACES, answer, system


@pytest.fixture
def written(monkeypatch):
    """What is written, by logger, as a server writes it."""
    formatters = {
        "node": JsonLines(),
        "mpcsim.service.web": TextLines(),
        "mpcsim.service.mpc_node": TextLines(),
    }
    lines = {name: [] for name in formatters}
    handlers = {}
    for name, formatter in formatters.items():
        handlers[name] = logging.Handler()
        handlers[name].setFormatter(formatter)
        handlers[name].emit = lambda record, to=lines[name], by=formatter: to.append(
            by.format(record)
        )
        logging.getLogger(name).addHandler(handlers[name])
    yield lines
    for name, handler in handlers.items():
        logging.getLogger(name).removeHandler(handler)


@pytest.mark.parametrize("place", PLACES)
def test_everybody_logs_the_callers_name(place, written, caplog):
    caplog.set_level(logging.INFO, "node")
    with system(place) as whole:
        alice = whole.user()
        share = answer(
            alice.post("/v3/wallet/generate", {"curve": "ed25519", "password": PASSWORD})
        )
        for party in MPC_NODES:  # in a quick call, and in a thread
            database = whole.gateway.links[party].node.store._database
            with database.transaction() as cursor:
                cursor.execute("UPDATE shares SET share = X'00'")
        for path, name, signer in (
            ("sign", "order-7", "institution"),
            ("recover", "order-8", None),
        ):
            before = {logger: len(lines) for logger, lines in written.items()}
            body = {**share, "password": PASSWORD, "message": "00" * 32, "signer": signer}
            response = alice.post(f"/v3/wallet/{path}", body, headers={HEADER: name})
            assert response.is_error
            assert response.headers[HEADER] == name
            new = {logger: lines[before[logger] :] for logger, lines in written.items()}
            assert {json.loads(line)["request_id"] for line in new["node"]} == {name}
            assert new["mpcsim.service.mpc_node"]
            for line in new["mpcsim.service.mpc_node"]:
                assert f" ERROR mpcsim.service.mpc_node.node [{name}]: the " in line


@pytest.mark.parametrize("place", PLACES)
def test_the_gateway_has_it_even_in_an_unexpected_error(place, written, monkeypatch):
    with system(place) as whole:
        alice = whole.user()

        def broken(*_):
            raise ZeroDivisionError

        monkeypatch.setattr(whole.gateway.gateway.registry, "keys", broken)
        response = alice.get("/v3/wallet/key?curve=ed25519", headers={HEADER: "order-9"})
        assert response.is_error
    (line,) = written["mpcsim.service.web"]
    assert " ERROR mpcsim.service.web.http [order-9]: GET /wallet/v1/keys: ZeroDiv" in line

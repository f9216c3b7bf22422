"""One name for a request in all that node, gateway and MPC nodes log because of it."""

import logging

from mpcsim.ids import MPC_NODES
from mpcsim.service.process.request_id import HEADER
from mpcsim.service.web.logs import TextLines
from tests.node.harness import PASSWORD, PLACES, answer, system


def test_everybody_logs_the_callers_name(caplog, monkeypatch):
    """In a quick call, in a thread, and in an unexpected error; as a server writes it."""
    monkeypatch.setattr(caplog.handler, "formatter", TextLines())
    caplog.set_level(logging.INFO, "node")

    def broken(*_):
        raise ZeroDivisionError

    with system(PLACES[1]) as whole:
        alice, new = whole.user(), {"curve": "ed25519", "password": PASSWORD}
        share = answer(alice.post("/v3/wallet/generate", new))
        for party in MPC_NODES:
            with whole.gateway.links[party].node.store._database.transaction() as cursor:
                cursor.execute("UPDATE shares SET share = X'00'")
        order = {**share, "message": "00" * 32, "signer": "institution"}
        damaged = "mpc_node.node [{}]: the "
        for name, method, path, body, line in (
            ("order-7", "POST", "sign", order, damaged),
            ("order-8", "POST", "recover", new, damaged),
            ("order-9", "GET", "key", None, "web.http [{}]: GET /wallet/v1/keys: ZeroDiv"),
        ):
            if name == "order-9":
                monkeypatch.setattr(whole.gateway.gateway.registry, "keys", broken)
            headers = {HEADER: name}
            response = alice.request(method, f"/v3/wallet/{path}", headers=headers, json=body)
            assert response.is_error
            assert response.headers[HEADER] == name
            assert f" ERROR mpcsim.service.{line.format(name)}" in caplog.text
            assert f" node [{name}]: " in caplog.text

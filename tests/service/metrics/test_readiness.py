"""Whether a process is ready: what is looked at, how long that may take, and how often."""

import asyncio
import os
import sqlite3
from contextlib import asynccontextmanager, closing

import pytest
from starlette.applications import Starlette

from mpcsim.ids import INSTITUTION, OPERATOR
from mpcsim.service.gateway.api import metrics as of_gateways
from mpcsim.service.metrics import readiness
from mpcsim.service.mpc_node import metrics as of_mpc_nodes
from mpcsim.service.mpc_node.node import MpcNode
from mpcsim.service.mpc_node.store import ShareStore
from mpcsim.service.storage import database as databases
from mpcsim.service.storage.database import Database, StoreProblem
from mpcsim.service.web.transport import AsgiTransport
from node.api import metrics as of_nodes
from node.app import NoGateway
from node.gateway_client.client import GatewayClient
from tests.helpers.gateway import Clock, set_down


@asynccontextmanager
async def asked(*probes, clock=None):
    """Readiness of a process that runs in this event loop."""
    app = Starlette()
    found = readiness.Readiness(probes, clock or Clock())
    found.attach(app)
    async with app.router.lifespan_context(app):
        yield found


async def checks(*probes):
    async with asked(*probes) as found:
        return dict((await found.state()).checks)


async def well():
    return None


async def test_an_answer_holds_for_a_while_and_is_for_all_who_ask():
    clock, looks = Clock(), []

    async def look():
        looks.append(clock.now)
        await asyncio.sleep(0)
        return None if len(looks) < 3 else "no more"

    async with asked(readiness.single_probe("it", look), clock=clock) as found:
        states = await asyncio.gather(*(found.state() for _ in range(10)))
        assert states[0].document() == {"ready": True, "checks": {"it": "ok"}}
        assert (len(looks), {state.is_ready for state in states}) == (1, {True})
        clock.now += readiness.KEPT_S - 0.1
        await found.state()
        assert len(looks) == 1
        clock.now += 0.1
        assert (await found.state()).is_ready
        clock.now += readiness.KEPT_S
        state = await found.state()
        assert state.document() == {"ready": False, "checks": {"it": "no more"}}


async def test_what_takes_too_long_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(readiness, "PATIENCE_S", 0.05)
    silent = readiness.Probe(("one", "other"), asyncio.Event().wait)
    found = await checks(silent, readiness.single_probe("it", well))
    assert found == {
        "one": "no answer within 0.05 s",
        "other": "no answer within 0.05 s",
        "it": None,
    }
    assert not readiness.ReadinessState(found).is_ready
    assert readiness.ReadinessState({"it": None}).is_ready


async def test_what_fails_is_told_without_its_text(caplog):
    async def look():
        raise ValueError("the password is sesame")

    assert await checks(readiness.single_probe("it", look)) == {"it": "it cannot be told"}
    assert caplog.messages == ["looking at it: ValueError"]


async def test_before_and_after_the_service_runs():
    clock = Clock()
    async with asked(readiness.single_probe("it", well), clock=clock) as found:
        pass
    assert (await found.state()).checks == {"service": readiness.STARTING}
    assert not (await found.state()).is_ready


# ---------------------------------------------------------------------- of the parts


async def test_a_gateway_needs_both_mpc_nodes_and_its_registry(tmp_path, gateway):
    probes = of_gateways.probes(gateway.gateway)
    assert await checks(*probes) == {"operator": None, "institution": None, "registry": None}
    gateway.links[INSTITUTION].down = True
    (tmp_path / "gateway" / "gateway.sqlite").unlink()
    assert await checks(*probes) == {
        "operator": None,
        "institution": "the institution's MPC node cannot be reached",
        "registry": "gateway.sqlite: it cannot be opened, read or written",
    }
    assert not (tmp_path / "gateway" / "gateway.sqlite").exists()


async def test_a_node_needs_its_gateway_and_mpc_nodes_that_it_knows(gateway):
    async def of(transport, *pinned):
        return await checks(*of_nodes.probes(GatewayClient(transport, *pinned)))

    transport = AsgiTransport(gateway.app)
    good = {"gateway": None, "mpc_nodes": None, "identities": None}
    assert await of(transport) == good
    assert await of(transport, {OPERATOR: bytes(32), INSTITUTION: bytes(32)}) == good | {
        "identities": "The operator has another identity than MPC_NODE_KEYS says"
    }
    set_down(gateway, True)
    assert await of(transport) == good | {
        "mpc_nodes": "the gateway cannot reach the operator and the institution"
    }
    nowhere = await of(NoGateway())
    assert "WAAS_API_URL" in nowhere["gateway"]
    assert "WAAS_API_URL" in nowhere["mpc_nodes"]
    assert nowhere["identities"] == of_nodes.UNKNOWN


async def test_an_mpc_node_has_to_have_met_the_other():
    nodes = {
        party: MpcNode(party, ShareStore(), bytes(32), clock=Clock())
        for party in (OPERATOR, INSTITUTION)
    }
    operator = nodes[OPERATOR]
    found = await checks(*of_mpc_nodes.probes(operator))
    assert found == {
        "store": None,
        "other_mpc_node": "the operator has not met the institution yet",
    }
    operator.meet(nodes[INSTITUTION].hello())
    assert await checks(*of_mpc_nodes.probes(operator)) == {"store": None, "other_mpc_node": None}


# ---------------------------------------------------------------------- a store that can be written


@pytest.fixture
def store(tmp_path):
    with closing(Database(tmp_path / "a.sqlite", "CREATE TABLE t (x);")) as found:
        yield found


async def test_looking_writes_nothing(store, tmp_path):
    def files():
        return {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}

    before = files()
    assert store.write_failure() is None
    assert files() == before
    assert await checks(readiness.thread_probe("store", lambda: None)) == {"store": None}


def test_a_store_that_another_process_has_locked(store, tmp_path, monkeypatch):
    monkeypatch.setattr(databases, "PROBING_S", 0.05)
    with closing(sqlite3.connect(tmp_path / "a.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        found = store.write_failure()
        assert found is not None
        assert found.problem is StoreProblem.LOCKED
        other.execute("ROLLBACK")
    assert store.write_failure() is None


def test_a_full_disk_and_one_that_may_not_be_written(store, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(databases, "_free_bytes", lambda folder: 1000)
        assert store.write_failure().problem is StoreProblem.FULL
    with monkeypatch.context() as patched:
        patched.setattr(os, "access", lambda path, mode: False)
        assert store.write_failure().problem is StoreProblem.READ_ONLY

"""What is shown of a service: figures that are right, in a form that others read."""

import asyncio
import re
import threading
from types import SimpleNamespace

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as parsed
from prometheus_client.registry import Collector

from mpcsim.errors import Reason
from mpcsim.ids import CLIENT, OPERATOR, ROLES
from mpcsim.service.gateway.api.metrics import GatewayMetrics
from mpcsim.service.metrics.aborts import AbortCounts
from mpcsim.service.metrics.connections import ConnectionCounts
from mpcsim.service.metrics.durations import BOUNDS_S, Durations
from mpcsim.service.metrics.exposition import MetricsSource, build_registry, create_app
from mpcsim.service.metrics.readiness import Readiness
from mpcsim.service.metrics.requests import OTHER, RequestCounts
from mpcsim.service.metrics.stores import StoreSizes
from mpcsim.service.mpc_node.app import create_app as create_mpc_node_app
from mpcsim.service.operations.metrics import gateway_metrics_source, mpc_node_metrics_source
from mpcsim.service.process.http_limits import ConnectionLimits, Connections, Limit
from mpcsim.service.storage.database import Database
from mpcsim.service.web.request_records import RequestRecord
from node.api.metrics import metrics_source
from tests.helpers.looked_at import looked_at, value
from tests.helpers.repo import ROOT

ROW = re.compile(r"^\| `(mpcsim_\w+)` \| (\w+) \|([\w, ]*)\| ([\w, ]+) \| .+ \|$", re.MULTILINE)


@pytest.fixture(scope="module")
def whole():
    with looked_at() as found:
        yield found


def samples_of(*collectors):
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for collector in collectors
        for family in collector.collect()
        for sample in family.samples
    }


async def test_who_asks_meanwhile_is_shown_the_same():
    """Anybody may ask, and putting figures together takes the interpreter from the service."""
    collected = []

    class Counting(Collector):
        def collect(self):
            collected.append(self)
            return iter(())

    app = create_app(build_registry(MetricsSource("node", [Counting()], [])), Readiness([]))
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as http:
        answers = await asyncio.gather(*[http.get("/metrics") for _ in range(9)])
    assert all('part="node"' in answer.text for answer in answers)
    assert len(collected) <= 2  # one for the first, one for all who came after that was begun


# ---------------------------------------------------------------------- of a whole service


def test_what_a_wallet_has_done_is_counted(whole):
    node, gateway = whole.samples("node"), whole.samples("gateway")
    for operation, count in (("generate", 1), ("sign", 3)):
        assert value(node, "mpcsim_requests_total", operation=operation, status="200") == count
        for samples, phases in (
            (node, ("total", "vault", "compute", "round1")),
            (gateway, ("total", "operator", "institution-link")),
        ):
            for phase in phases:
                at = {"operation": operation, "phase": phase}
                name = "mpcsim_request_duration_seconds"
                assert value(samples, f"{name}_count", **at) == count
                assert value(samples, f"{name}_bucket", **at, le="+Inf") == count
                assert 0 <= value(samples, f"{name}_sum", **at) < 60
    assert value(node, "mpcsim_argon2_wait_seconds_count") == 1
    assert value(node, "mpcsim_argon2_running") == value(node, "mpcsim_argon2_waiting") == 0
    for party in ("operator", "institution"):
        held = {"party": party, "state": "active"}
        assert value(gateway, "mpcsim_shares", **held, suspended="false") == 1
        assert value(gateway, "mpcsim_shares", **held, suspended="true") == 0
        assert value(gateway, "mpcsim_mpc_node_sessions", party=party) == 0
    assert value(gateway, "mpcsim_gateway_sessions", kind="making") == 0
    assert value(node, "process_resident_memory_bytes") > 1 << 20


def test_refusals_and_unknown_paths_are_counted_under_names_that_there_are(whole):
    answers = [
        whole.api.post("/v3/wallet/sign", {}),
        whole.api.get("/v3/wallet/sign"),
        whole.api.get("/" + 32 * "5e"),
        whole.api.get("/v3/wallet/nothing"),
    ]
    assert [answer.status_code for answer in answers] == [401, 405, 404, 404]
    node = whole.samples("node")
    assert value(node, "mpcsim_requests_total", operation="sign", status="401") == 1
    assert value(node, "mpcsim_requests_total", operation="sign", status="405") == 1
    assert value(node, "mpcsim_requests_total", operation=OTHER, status="404") == 2


def test_no_label_names_a_user_a_key_or_a_request(whole):
    registry = whole.gateway.gateway.registry
    (key,) = registry.all_keys()
    for address in whole.ports.values():
        text = httpx.get(f"{address}/metrics", trust_env=False).text
        assert key.user_id not in text
        assert key.key_id not in text
        assert not re.search(r'="[0-9a-f]{16,}"', text)


def test_the_port_has_two_pages_and_no_more(whole):
    address = whole.ports["node"]
    assert all(each.daemon for each in threading.enumerate() if each.name == "metrics")
    with httpx.Client(base_url=address, trust_env=False) as http:
        text = http.get("/metrics")
        assert text.headers["content-type"].startswith("text/plain; version=")
        assert list(parsed(text.text))
        newer = http.get("/metrics", headers={"accept": "application/openmetrics-text"})
        assert newer.headers["content-type"].startswith("application/openmetrics-text; version=")
        names = {sample.name for family in openmetrics(newer.text) for sample in family.samples}
        assert names == {s.name for family in parsed(text.text) for s in family.samples}
        odd = http.get("/metrics", headers={"accept": "text/plain; version=nonsense"})
        assert odd.status_code == 200
        assert http.get("/ready").json() == {
            "ready": True,
            "checks": {"gateway": "ok", "mpc_nodes": "ok", "identities": "ok"},
        }
        for answer, status in ((http.get("/"), 404), (http.post("/metrics"), 405)):
            assert answer.status_code == status
            assert list(answer.json()) == ["error"]


def test_the_guide_names_what_is_shown(whole):
    """Every metric, its kind, its labels, and of what: as they are shown, and no others."""
    gateway, app = whole.gateway, whole.api.app
    node = gateway.links[OPERATOR].node
    connections = ConnectionCounts(Connections(ConnectionLimits()))
    shown = {
        "node": metrics_source(app),
        "gateway": gateway_metrics_source(gateway.app, gateway.gateway, []),
        "MPC nodes": mpc_node_metrics_source(create_mpc_node_app(node), node),
    }
    found = {}
    for part, what in shown.items():
        requests = what.collectors[0]
        requests.count(RequestRecord("1", path="/", status=200, ended=0.1))
        for family in build_registry(what, connections).collect():
            if not family.name.startswith("mpcsim_"):
                continue
            (sample, *_) = family.samples or [None]
            name = family.name + {"counter": "_total", "info": "_info"}.get(family.type, "")
            kind = {"info": "gauge"}.get(family.type, family.type)
            labels = getattr(family, "_labelnames", None) or (sample.labels if sample else ())
            entry = found.setdefault(name, (kind, frozenset(labels), set()))
            entry[2].add(part)
    text = (ROOT / "notebooks/guides/metrics.md").read_text(encoding="utf-8")
    table = {
        name: (kind, labels_of(labels), set(shown) if of == "all" else set(of.split(", ")))
        for name, kind, labels, of in ROW.findall(text)
    }
    assert found == table


def labels_of(text):
    return frozenset(text.replace(" ", "").split(",")) if text.strip() else frozenset()


# ---------------------------------------------------------------------- one by one


def test_durations_fall_into_the_buckets_that_they_belong_to():
    durations = Durations("took_seconds", "How long.", "what")
    durations.add(0.3, "other")
    for seconds in (0.0, 0.001, 0.0011, 29.0, 30.5, 1000.0):
        durations.add(seconds, "one")
    found = {
        (sample.labels["what"], sample.labels.get("le", sample.name)): sample.value
        for sample in durations.to_family().samples
    }
    assert found["one", "0.001"] == 2
    assert found["one", "0.0025"] == found["one", "10.0"] == 3
    assert found["one", "30.0"] == 4
    assert found["one", "+Inf"] == found["one", "took_seconds_count"] == 6
    assert found["one", "took_seconds_sum"] == pytest.approx(1059.5021)
    assert (found["other", "0.25"], found["other", "0.5"]) == (0, 1)
    assert [name for name, _ in found] == sorted(["one", "other"] * (len(BOUNDS_S) + 2))


def test_spans_of_one_name_add_up():
    requests = RequestCounts({"/sign": "sign"})
    spans = [("round", 0.0, 1.0), ("vault", 1, 1.5), ("round", 2, 4)]
    requests.count(RequestRecord("1", path="/sign", status=200, ended=4.0, spans=spans))
    requests.count(RequestRecord("2", path="/sign", ended=0.5))
    found = samples_of(requests)
    name = "mpcsim_request_duration_seconds"
    assert value(found, f"{name}_sum", operation="sign", phase="round") == 3.0
    assert value(found, f"{name}_count", operation="sign", phase="round") == 1
    assert value(found, f"{name}_sum", operation="sign", phase="total") == 4.5
    assert value(found, "mpcsim_requests_total", operation="sign", status="0") == 1


def test_aborts_are_there_for_every_reason_from_the_start():
    counts = {Reason.ECHO_MISMATCH: 2}
    found = samples_of(AbortCounts({ROLES[CLIENT]: counts}))
    assert len(found) == len(Reason)
    assert value(found, "mpcsim_aborts_total", party="client", reason="echo_mismatch") == 2
    assert sum(found.values()) == 2


def test_connections_are_told_by_what_they_wait_for_and_why_they_ended():
    connections = Connections(ConnectionLimits())
    connections.open = {"a", "b"}
    connections.idle.since["a"] = 0.0
    connections.closed[Limit.SLOW_BODY] += 3
    found = samples_of(ConnectionCounts(connections))
    assert value(found, "mpcsim_connections") == 2
    assert value(found, "mpcsim_connections_waiting", awaiting="idle") == 1
    assert value(found, "mpcsim_connections_waiting", awaiting="headers") == 0
    assert value(found, "mpcsim_connections_closed_total", limit="slow_body") == 3
    assert value(found, "mpcsim_connections_closed_total", limit="idle") == 0


def test_sizes_of_a_store(tmp_path):
    path = tmp_path / "gateway.sqlite"
    database = Database(path, "CREATE TABLE t (x);")
    with database.transaction() as cursor:
        cursor.execute("INSERT INTO t VALUES (zeroblob(100000))")
    found = samples_of(StoreSizes("gateway", database))
    for file, name in (("database", path.name), ("log", path.name + "-wal")):
        size = value(found, "mpcsim_store_bytes", store="gateway", file=file)
        assert size == (tmp_path / name).stat().st_size
    assert value(found, "mpcsim_store_bytes", store="gateway", file="log") > 100_000
    assert value(found, "mpcsim_store_free_bytes", store="gateway") > 0
    database.close()
    assert samples_of(StoreSizes("gateway", Database(":memory:", ""))) == {}


def test_open_sessions_are_told_by_kind():
    opened = [SimpleNamespace(makes_key=made) for made in (True, False, False)]
    gateway = SimpleNamespace(sessions=SimpleNamespace(open_sessions=opened))
    kinds = next(GatewayMetrics(gateway).collect()).samples
    assert [each.value for each in kinds if each.labels["kind"] == "signing"] == [2]

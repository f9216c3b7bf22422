"""The settings of connections, and the sizes of TLS handshakes beside those of OpenSSL.

What connections do is in ``tests/sim/network/tcp``.
"""

import json
import ssl
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from numba.core import event

from mpcsim.errors import UsageError
from mpcsim.sim.network import traffic
from mpcsim.sim.network.transport import MAX_WINDOW, MOST_CONNECTIONS, TLS_FLIGHTS, Connection
from tests.helpers.reviewed import check_answers
from tests.vectors.network import make

KIND = "numba:compile"

# ------------------------------------------------------------------ settings


def test_bad_connections() -> None:
    def said(changes: str) -> str:
        with pytest.raises(UsageError) as refused:
            Connection(**json.loads(changes))
        return str(refused.value)

    check_answers(said, Path(__file__).with_name("wrong_connections.txt"))


def test_the_least_and_the_most() -> None:
    Connection(overhead_bytes=0, initial_window=1, pool=1)
    Connection(initial_window=MAX_WINDOW, pool=MOST_CONNECTIONS)


@pytest.mark.parametrize(
    ("settings", "flights", "round_trips"),
    [
        ({"tls_round_trips": 0}, 0, 1),
        ({"tls_round_trips": 0, "resumption": True}, 0, 1),
        ({"tls_round_trips": 1}, 3, 2),
        ({"tls_round_trips": 2}, 4, 3),
        ({"tls_round_trips": 1, "resumption": True}, 3, 2),
        ({"tls_round_trips": 2, "resumption": True}, 3, 2),
        ({"tls_round_trips": 1, "resumption": True, "early_data": True}, 2, 1),
    ],
    ids=str,
)
def test_flights_and_round_trips(settings: dict, flights: int, round_trips: int) -> None:
    """One round trip for TCP. TLS 1.3 takes one more, TLS 1.2 two, or one if it resumes a session;
    early data goes along with the first flight of TLS."""
    connection = Connection(**settings)
    assert len(connection.tls_flights) == flights
    assert connection.handshake_round_trips == round_trips
    assert min(connection.tls_flights, default=1) > 0


def test_resumption_leaves_out_the_certificates() -> None:
    for versions in (1, 2):
        full, resumed = (
            Connection(tls_round_trips=versions, resumption=resumption).tls_flights
            for resumption in (False, True)
        )
        assert resumed[1] < full[1] / 4
        assert resumed[0] > full[0]  # the ticket


# ------------------------------------------------------------------ the sizes of TLS's flights

FOLDER = Path(make.__file__).parent
HOST = "wallet.example.com"
"""Of the certificate in ``tls_chain.pem``."""
VERSIONS = {1: ssl.TLSVersion.TLSv1_3, 2: ssl.TLSVersion.TLSv1_2}


def handshake(
    caller: ssl.SSLContext, server: ssl.SSLContext, session: ssl.SSLSession | None
) -> tuple[list[int], ssl.SSLObject]:
    """Bytes of the flights in the order in which they are sent, and the caller's end."""
    to_caller, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    from_caller, from_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = caller.wrap_bio(to_caller, from_caller, server_hostname=HOST, session=session)
    other = server.wrap_bio(to_server, from_server, server_side=True)
    flights = []

    def turns() -> Iterator[tuple[ssl.SSLObject, ssl.MemoryBIO, ssl.MemoryBIO]]:
        for _ in range(4):
            yield one, from_caller, to_server
            yield other, from_server, to_caller

    for end, out, into in turns():
        with suppress(ssl.SSLWantReadError):
            end.do_handshake()
        if data := out.read():
            flights.append(len(data))
            into.write(data)
    other.write(b"tickets come before this")
    to_caller.write(from_server.read())
    one.read(100)
    return flights, one


def measured(round_trips: int, resumed: bool) -> list[int]:
    """The flights of a handshake before the caller may send data."""
    caller = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    caller.load_verify_locations(FOLDER / "tls_root.pem")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(FOLDER / "tls_chain.pem")
    for context in (caller, server):
        context.minimum_version = context.maximum_version = VERSIONS[round_trips]
    flights, end = handshake(caller, server, None)
    if resumed:
        assert not end.session_reused
        flights, end = handshake(caller, server, end.session)
        assert end.session_reused
    return flights[: 4 if round_trips == 2 and not resumed else 3]


@pytest.mark.skipif(
    ssl.OPENSSL_VERSION_INFO >= (3, 5), reason="its first flight offers post-quantum keys, too"
)
@pytest.mark.parametrize(("round_trips", "resumed"), [(1, False), (1, True), (2, False), (2, True)])
def test_flights_are_as_long_as_openssl_s(round_trips: int, resumed: bool) -> None:
    """To 15 % or 60 bytes: names, tickets and certificates differ in length."""
    found = measured(round_trips, resumed)
    expected = TLS_FLIGHTS[round_trips, resumed]
    assert len(found) == len(expected)
    for ours, theirs in zip(expected, found, strict=True):
        assert abs(ours - theirs) <= max(0.15 * theirs, 60), (expected, found)


def test_compilation_is_announced_once(monkeypatch, capsys, tmp_path):
    """In one process, and in a further one with the same cache."""
    cached = SimpleNamespace(cache_path=str(tmp_path / "tcp"))
    for due in ("mpcsim.sim", ""):
        monkeypatch.setitem(event._registered, KIND, [])
        traffic._announce_compilation()
        for module in ("theirs.jit", "mpcsim.sim", "mpcsim.capacity"):
            function = SimpleNamespace(py_func=SimpleNamespace(__module__=module), _cache=cached)
            with event.trigger_event(KIND, data={"dispatcher": function}):
                assert capsys.readouterr().err == traffic.COMPILING * (module == due)

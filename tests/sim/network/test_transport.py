"""The settings of connections, and the sizes of TLS handshakes beside those of OpenSSL.

What connections do is in ``tests/sim/network/tcp``.
"""

import math
import ssl
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import (
    AuthorityInformationAccessOID,
    ExtendedKeyUsageOID,
    NameOID,
    ObjectIdentifier,
)
from numba.core import event

from mpcsim.errors import UsageError
from mpcsim.sim.network import traffic
from mpcsim.sim.network.transport import MAX_WINDOW, MOST_CONNECTIONS, TLS_FLIGHTS, Connection

KIND = "numba:compile"

# ------------------------------------------------------------------ settings


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"forwarding": "cut"}, "connection forwarding 'cut'"),
        ({"profile": "windows"}, "connection profile 'windows'"),
        ({"congestion": "bbr"}, "connection congestion 'bbr'"),
        ({"http": "3"}, "connection http '3'"),
        ({"http": 2}, "connection http '2'"),
        ({"tls_round_trips": 3}, "connection tls_round_trips is 3: 0, 1 or 2"),
        ({"tls_round_trips": -1}, "connection tls_round_trips is -1"),
        ({"overhead_bytes": -1}, "overhead_bytes is -1: not a whole number from 0 on"),
        ({"overhead_bytes": math.nan}, "overhead_bytes is nan"),
        ({"overhead_bytes": 1.5}, "overhead_bytes is 1.5"),
        ({"initial_window": 0}, "initial_window is 0: .* segments from 1 to 511"),
        ({"initial_window": 2.5}, "initial_window is 2.5"),
        ({"initial_window": MAX_WINDOW + 1}, "initial_window is 512"),
        ({"pool": 0}, "pool is 0: not a whole number of connections from 1 to 256"),
        ({"pool": 1.0}, "pool is 1.0"),
        ({"pool": MOST_CONNECTIONS + 1}, "pool is 257"),
        ({"early_data": True}, "early_data needs resumption and tls_round_trips 1"),
        ({"early_data": True, "resumption": True, "tls_round_trips": 2}, "early_data needs"),
        ({"early_data": True, "resumption": True, "tls_round_trips": 0}, "early_data needs"),
    ],
    ids=str,
)
def test_bad_connections(changes: dict, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Connection(**changes)


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

HOST = "wallet.example.com"
VERSIONS = {1: ssl.TLSVersion.TLSv1_3, 2: ssl.TLSVersion.TLSv1_2}


def name(common: str, *organisation: str) -> x509.Name:
    return x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, word) for word in organisation]
        + [x509.NameAttribute(NameOID.COMMON_NAME, common)]
    )


def usage(*allowed: str) -> x509.KeyUsage:
    every = (
        "digital_signature", "content_commitment", "key_encipherment", "data_encipherment",
        "key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
    )  # fmt: skip
    return x509.KeyUsage(**{word: word in allowed for word in every})


def certificate(
    subject: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Name,
    issuer_key: ec.EllipticCurvePrivateKey,
    *more: x509.ExtensionType,
) -> x509.Certificate:
    """With what public authorities put into theirs."""
    authority = subject != name(HOST)
    purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    where = [
        (AuthorityInformationAccessOID.OCSP, "http://ocsp.authority.example"),
        (AuthorityInformationAccessOID.CA_ISSUERS, "http://certs.authority.example/1"),
    ]
    revoked = x509.UniformResourceIdentifier("http://revoked.authority.example/1.crl")
    extensions = [
        x509.BasicConstraints(authority, None),
        usage("digital_signature", *(("key_cert_sign", "crl_sign") if authority else ())),
        x509.ExtendedKeyUsage(purposes),
        x509.SubjectKeyIdentifier.from_public_key(key.public_key()),
        x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
        x509.AuthorityInformationAccess(
            [x509.AccessDescription(oid, x509.UniformResourceIdentifier(at)) for oid, at in where]
        ),
        x509.CRLDistributionPoints([x509.DistributionPoint([revoked], None, None, None)]),
        x509.CertificatePolicies(
            [x509.PolicyInformation(ObjectIdentifier("2.23.140.1.2.1"), None)]
        ),
        *more,
    ]
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime(2024, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2124, 1, 1, tzinfo=UTC))
    )
    for extension in extensions:
        critical = isinstance(extension, x509.BasicConstraints | x509.KeyUsage)
        builder = builder.add_extension(extension, critical)
    return builder.sign(issuer_key, hashes.SHA256())


def pem(thing: x509.Certificate) -> bytes:
    return thing.public_bytes(serialization.Encoding.PEM)


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A file with the key of ``HOST``, its certificate and that of its authority, and the root that
    callers know. Two names and two time stamps of transparency logs are in the first."""
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(3)]
    root, authority = name("Root 1", "Some Authority"), name("Authority E1", "Some Authority")
    stamps = x509.UnrecognizedExtension(ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2"), bytes(245))
    names = x509.SubjectAlternativeName([x509.DNSName(HOST), x509.DNSName(f"www.{HOST}")])
    top = certificate(root, keys[0], root, keys[0])
    between = certificate(authority, keys[1], root, keys[0])
    own = certificate(name(HOST), keys[2], authority, keys[1], names, stamps)
    private = keys[2].private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file = tmp_path_factory.mktemp("chain") / "chain.pem"
    file.write_bytes(pem(own) + pem(between) + private)
    return file, pem(top).decode()


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


def measured(chain: tuple[Path, str], round_trips: int, resumed: bool) -> list[int]:
    """The flights of a handshake before the caller may send data."""
    file, root = chain
    caller = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    caller.load_verify_locations(cadata=root)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(file)
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
def test_flights_are_as_long_as_openssl_s(
    chain: tuple[Path, str], round_trips: int, resumed: bool
) -> None:
    """To 15 % or 60 bytes: names, tickets and certificates differ in length."""
    found = measured(chain, round_trips, resumed)
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

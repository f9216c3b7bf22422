"""Everything that reads bytes: damaged bytes give InvalidEncoding and nothing else; what is
accepted is the one encoding of its value."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpcsim.crypto import Message, WireContext
from mpcsim.errors import InvalidEncoding
from mpcsim.protocols import LocalRun, keys
from mpcsim.protocols.engine import Envelope, Party
from mpcsim.protocols.engine.envelope import AbortNotice
from mpcsim.protocols.key_share import KeyShare, PublicKeyRecord
from mpcsim.testing.runs.fields import alterations, malformations
from tests.helpers.adversary import Adversary
from tests.helpers.sessions import DEFINITIONS, RecordedRun, kinds, session
from tests.helpers.tiers import SOAKING, examples

MOST_DAMAGE = 600 if SOAKING else 250
"""Places at which one encoding is damaged: all of them if it is short, else spread evenly."""


@dataclass(frozen=True)
class Decoder:
    """A pair of functions that should be inverses, and genuine encodings."""

    decode: Callable[[bytes], Any]
    encode: Callable[[Any], bytes]
    genuine: tuple[bytes, ...]


def of_message(kind: type[Message], wire: WireContext, genuine: tuple[bytes, ...]) -> Decoder:
    return Decoder(lambda data: kind.decode(data, wire), lambda m: m.encode(wire), genuine)


@cache
def payloads(name: str) -> dict[str, tuple[bytes, ...]]:
    """Every different payload of an honest run, by kind; and every envelope."""
    s = session(name)
    parties = {party.me: Adversary(party) for party in s.parties()}
    run = RecordedRun(parties.values())
    run.start()
    run.finish()
    found: dict[str, dict[bytes, None]] = {}
    for message in run.recorded:
        payload = parties[message.sender].payload(message.send)
        found.setdefault(message.send.kind, {})[payload] = None
        found.setdefault("Envelope", {})[message.send.data] = None
    return {kind: tuple(seen) for kind, seen in found.items()}


KINDS = [(name, sends.message) for name in DEFINITIONS for sends in kinds(DEFINITIONS[name])]
STORED = ["Envelope", "AbortNotice", "share ed25519", "share secp256k1", "record"]
NAMES = [f"{name} {kind.__name__}" for name, kind in KINDS] + STORED


@cache
def decoder(name: str) -> Decoder:
    match name:
        case "Envelope":
            seen = tuple(payloads("frost-3")["Envelope"] + payloads("dkg-ed25519")["Envelope"])
            return Decoder(Envelope.decode, Envelope.encode, seen)
        case "AbortNotice":
            wire = session("frost-2").party(1).wire
            notice = AbortNotice("ECHO_MISMATCH").encode(wire)
            return of_message(AbortNotice, wire, (notice,))
        case "share ed25519" | "share secp256k1":
            held = keys(name.removeprefix("share "))
            shares = (held[1].to_bytes(), held[3].without_multiplication(1).to_bytes())
            return Decoder(KeyShare.from_bytes, KeyShare.to_bytes, shares)
        case "record":
            records = tuple(keys(c)[1].record.to_bytes() for c in ("ed25519", "secp256k1"))
            return Decoder(PublicKeyRecord.from_bytes, PublicKeyRecord.to_bytes, records)
    label, _, kind_name = name.rpartition(" ")
    kind = next(k for n, k in KINDS if n == label and k.__name__ == kind_name)
    s = session(label)
    wire = s.party(s.members[0]).wire
    return of_message(kind, wire, payloads(label).get(kind_name, ()))


def spread(n: int) -> Iterator[int]:
    """0..n-1, thinned out."""
    return iter(range(0, n, max(1, n // MOST_DAMAGE)))


def with_flipped_bits(data: bytes) -> Iterator[bytes]:
    """One bit each time."""
    for bit in spread(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        yield bytes(flipped)


def refused(d: Decoder, data: bytes) -> bool:
    """Whether the decoder refuses, in the only way it may; what it accepts must be canonical."""
    try:
        value = d.decode(data)
    except InvalidEncoding:
        return True
    assert d.encode(value) == data
    return False


@pytest.mark.few(14)
@pytest.mark.parametrize("name", NAMES)
@examples(40)
@given(data=st.binary(max_size=300))
def test_random_bytes(name, data):
    refused(decoder(name), data)


@pytest.mark.parametrize("name", NAMES)
def test_genuine_encodings_round_trip(name):
    d = decoder(name)
    for data in d.genuine:
        assert d.encode(d.decode(data)) == data


@pytest.mark.few(12)
@pytest.mark.parametrize("name", [name for name in NAMES if name != "Envelope"])
def test_prefixes_and_longer_encodings_are_refused(name):
    """Not of envelopes: their bodies have any length, and vouch for themselves."""
    d = decoder(name)
    for data in d.genuine[:2]:
        for cut in spread(len(data)):
            assert refused(d, data[:cut]), f"{cut} of {len(data)} bytes"
        assert refused(d, data[:-1])
        for more in (b"\0", b"\1", b"\xff", bytes(32)):
            assert refused(d, data + more)


@pytest.mark.few(14)
@pytest.mark.parametrize("name", NAMES)
def test_flipped_bits(name):
    d = decoder(name)
    for data in d.genuine[:2]:
        for flipped in with_flipped_bits(data):
            refused(d, flipped)


@pytest.mark.few(20)
@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_the_field_table_does_what_it_says(name, kind):
    """Alterations survive encoding and decoding and differ; malformations are refused."""
    d = decoder(f"{name} {kind.__name__}")
    s = session(name)
    wire = s.party(s.members[0]).wire
    for data in d.genuine[:1]:
        message = d.decode(data)
        names = []
        for alteration in alterations(message, wire):
            altered = alteration.apply(message)
            assert altered.encode(wire) != data
            assert d.decode(altered.encode(wire)) == altered
            names.append(alteration.name)
        for malformation in malformations(message, wire):
            assert refused(d, malformation.apply(message)), malformation.name
            names.append(malformation.name)
        assert len(set(names)) == len(names) >= 5


# ---------------------------------------------------------------------- snapshots


@cache
def snapshots(name: str) -> list[bytes]:
    """A party before its start, in the middle and at the end."""
    s = session(name)
    run = LocalRun(s.parties())
    found = [run.parties[s.members[0]].snapshot()]
    run.start()
    for _ in range(3):
        run.deliver()
    found.append(run.parties[s.members[0]].snapshot())
    run.finish()
    found.append(run.parties[s.members[0]].snapshot())
    return found


CHEAP = ["dkg-ed25519", "ecdsa-2", "frost-2", "reshare-ed25519"]


@cache
def held(name: str) -> KeyShare | None:
    """The key share that the snapshots' party signs with."""
    s = session(name)
    return s.party(s.members[0]).share


def resumes(name: str, data: bytes) -> bool:
    try:
        Party.resume(DEFINITIONS[name], data, share=held(name))
    except InvalidEncoding:
        return False
    return True


@pytest.mark.parametrize("name", CHEAP)
def test_snapshots_resume_and_damaged_ones_do_not(name):
    for data in snapshots(name):
        assert resumes(name, data)
        for cut in (*spread(min(len(data), 400)), len(data) - 1):
            assert not resumes(name, data[:cut])
        assert not resumes(name, data + b"\0")
        assert not any(resumes(name, flipped) for flipped in with_flipped_bits(data))


@pytest.mark.parametrize("name", CHEAP)
def test_a_snapshot_of_another_protocol(name):
    for other in CHEAP:
        assert resumes(other, snapshots(name)[0]) == (other == name)

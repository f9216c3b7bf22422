"""Benchmark of protocols: CPU time, bytes, messages and message delays of each."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Any

from mpcsim.crypto.params import LIKE_SILENCE, OT_EXTENSION_KS, OtParameters
from mpcsim.crypto.rng import Rng, SeededRng, SystemRng
from mpcsim.ids import PartyId
from mpcsim.protocols import dkg, ecdsa, frost, presign, presigned, reshare
from mpcsim.protocols.engine import Output, Party
from mpcsim.protocols.engine.events import Listener, PartyEvent, StepFinished, StepStarted, silent
from mpcsim.protocols.key_share import KeyShare
from mpcsim.protocols.local_run import LocalRun, results, run
from mpcsim.protocols.presign import Presignature
from mpcsim.protocols.sample_keys import as_unused
from mpcsim.sim.run.adversary import WrappedParty

Parties = list[Party[Any, Any]]
SYSTEM: Rng = SystemRng()

PRESIGN = "presign_secp256k1_2p_x16"
PRESIGNATURES = 16
"""Number of presignatures in one session where presigning is measured."""

CURVE_OPERATIONS: dict[str, dict[str, int]] = {
    "sign_secp256k1_2p": {
        "base_mult": 12,  # each signer: R_i, pk_i, Gamma^u, Gamma^v, d^u * G, d^v * G
        "scalar_mult": 4,  # each: chi * R_j, chi * pk_j
        "point_decode": 8,  # each: R_j, pk_j, Gamma^u, Gamma^v of the peer
        "recover": 2,  # each: verify the signature and its recovery id
    },
    "sign_presigned_secp256k1_2p": {
        "base_mult": 2,  # each signer: delta * G
        "point_add": 2,  # each: R + delta * G
        "recover": 1,  # the one who finishes: verify the signature and its recovery id
    },
    "sign_ed25519_2p": {
        "ed25519_base_mult": 6,  # each signer: D_i, E_i, own term of R
        "ed25519_scalar_mult": 2,  # each: rho_j * E_j
        "ed25519_point_check": 4,  # each: D_j, E_j
        "ed25519_point_add": 4,  # each: D_j + rho_j * E_j, sum of R
        "ed25519_verify": 2,
    },
}
"""Curve operations of a signature that no implementation of the protocol can leave out."""


def curve_floor_ms(name: str, primitives: Mapping[str, float]) -> float:
    """Return the cost of a signature's curve operations on this machine."""
    counts = CURVE_OPERATIONS[name].items()
    return sum(n * primitives[f"{operation}_us"] for operation, n in counts) / 1000


class StepClock:
    """Listener that adds up the time of every step, without the steps inside it."""

    def __init__(self) -> None:
        self.ns: Counter[str] = Counter()
        self._open: list[tuple[str, int, int]] = []

    def __call__(self, event: PartyEvent) -> None:
        now = time.perf_counter_ns()
        if isinstance(event, StepStarted):
            self._open.append((event.step, now, 0))
        elif isinstance(event, StepFinished):
            step, begin, inside = self._open.pop()
            self.ns[step] += now - begin - inside
            if self._open:
                outer, outer_begin, outer_inside = self._open[-1]
                self._open[-1] = (outer, outer_begin, outer_inside + now - begin)


def step_times(runs: int) -> dict[str, dict[str, float]]:
    """Return milliseconds of each step of a two-party signature, both parties together, by
    curve."""
    found: dict[str, dict[str, float]] = {}
    for name, shares in (
        ("sign_secp256k1_2p", keys("secp256k1")),
        ("sign_ed25519_2p", keys("ed25519")),
    ):
        clock = StepClock()
        begin = time.perf_counter_ns()
        for _ in range(runs):
            run(signing_parties(shares, (1, 2), clock))
        whole = time.perf_counter_ns() - begin
        found[name] = {step: ns / runs / 1e6 for step, ns in clock.ns.most_common()}
        found[name]["messages: encode, seal, open, decode, route"] = (
            (whole - clock.ns.total()) / runs / 1e6
        )
    return found


class TimedParty(WrappedParty):
    """Party whose CPU time is added up."""

    def __init__(self, party: Party[Any, Any]) -> None:
        self.party = party
        self.cpu_ns = 0

    def start(self) -> list[Output[Any]]:
        begin = time.process_time_ns()
        outputs = self.party.start()
        self.cpu_ns += time.process_time_ns() - begin
        return outputs

    def receive(self, sender: int, data: bytes) -> list[Output[Any]]:
        begin = time.process_time_ns()
        outputs = self.party.receive(sender, data)
        self.cpu_ns += time.process_time_ns() - begin
        return outputs


@dataclass(frozen=True)
class Figures:
    """Medians over the runs of one operation."""

    total_ms: float
    """CPU time of all parties together, from creating them to the last result."""
    party_ms: float
    """CPU time of the busiest party."""
    bytes_sent: int
    """Bytes sent by all parties, envelopes included."""
    messages: int
    delays: int
    """Number of sequential message delays when all parties start together."""


def measure(make: Callable[[], Parties], runs: int) -> Figures:
    """Run an operation ``runs`` times after two warm-up runs."""
    totals, busiest = [], []
    sent = messages = delays = 0
    for n in range(-2, runs):
        begin = time.process_time_ns()
        timed = [TimedParty(party) for party in make()]
        local: LocalRun[Any] = LocalRun(timed)
        local.start()
        sent = messages = 0
        while local.in_flight:
            message = local.deliver()
            sent += len(message.send.data)
            messages += 1
        elapsed = time.process_time_ns() - begin
        results(local.outcomes())
        delays = max(local.depth.values())
        if n >= 0:
            totals.append(elapsed / 1e6)
            busiest.append(max(party.cpu_ns for party in timed) / 1e6)
    return Figures(statistics.median(totals), statistics.median(busiest), sent, messages, delays)


def round_trips(parties: Parties) -> int:
    """Return the number of round trips when the first party is a client and the second answers."""
    client, server = parties
    count = 0
    to_server = client.start()
    outputs = server.start()
    while client.outcome is None:
        count += 1
        for output in to_server:
            outputs += server.receive(client.me, getattr(output, "data", b""))
        to_server = []
        for output in outputs:
            to_server += client.receive(server.me, getattr(output, "data", b""))
        outputs = []
    return count


def calls(operation: Callable[[], object]) -> int:
    """Return the number of calls of Python functions and of C functions that an operation makes.

    They are what ``sys.setprofile`` reports as ``call`` and ``c_call``. Calls that C code makes of
    C code do not count, nor are all Python versions alike: 3.12 has no call for a comprehension.
    """
    count = 0

    def count_event(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count_event)
    try:
        operation()
    finally:
        sys.setprofile(before)
    return count - 1  # of sys.setprofile itself


def call_figures() -> dict[str, float]:
    """Return the calls of one signature, all parties together, from set-up to last result.

    It is the second one with these shares, so that nothing is counted that is done once; and
    seeded, since numbers that are close to a multiple of the order take a few calls more.
    """
    rng = SeededRng("calls")
    secp, ed = keys("secp256k1", rng=rng), keys("ed25519", rng=rng)
    made: dict[PartyId, Presignature] = _presignature(secp, (1, 2), rng)
    signatures: dict[str, Callable[[], Parties]] = {
        "sign_secp256k1_2p": lambda: signing_parties(secp, (1, 2), rng=rng),
        "sign_presigned_secp256k1_2p": lambda: presigned_parties(secp, made, rng),
        "sign_ed25519_2p": lambda: signing_parties(ed, (1, 2), rng=rng),
    }
    return {f"{name}_calls": _calls_of_second(make) for name, make in signatures.items()}


def _calls_of_second(make: Callable[[], Parties]) -> int:
    run(make())
    return calls(lambda: run(make()))


def keys(curve: str, scheme: str | None = None, rng: Rng = SYSTEM) -> dict[PartyId, KeyShare]:
    """Return the shares of a fresh 2-of-3 key."""
    return results(run(_keygen(curve, scheme, rng)))


def _keygen(curve: str, scheme: str | None = None, rng: Rng = SYSTEM) -> Parties:
    agreed = dkg.setup(curve, 2, (1, 2, 3), scheme)
    session_id = rng.bytes(32)
    return [dkg.party(agreed, i, session_id=session_id, rng=rng) for i in agreed.parties]


def _reshare(shares: dict[PartyId, KeyShare]) -> Parties:
    session_id = os.urandom(32)
    record = shares[PartyId(1)].record
    return [
        reshare.party(
            reshare.setup(record, (2, 3), share=share if i != 1 else None),
            i,
            session_id=session_id,
        )
        for i, share in shares.items()
    ]


def signing_parties(
    shares: dict[PartyId, KeyShare],
    signers: tuple[int, ...],
    listener: Listener = silent,
    rng: Rng = SYSTEM,
) -> Parties:
    """Return fresh signers of a random digest, by the protocol of the key's curve."""
    session_id, digest = rng.bytes(32), rng.bytes(32)
    protocol = ecdsa if shares[PartyId(1)].mta else frost
    return [
        protocol.party(
            protocol.setup(shares[PartyId(i)], signers, digest),
            session_id=session_id,
            rng=rng,
            listener=listener,
        )
        for i in signers
    ]


def presigning_parties(
    shares: dict[PartyId, KeyShare], signers: tuple[int, ...], count: int, rng: Rng = SYSTEM
) -> list[Party[presign.PresignSetup, tuple[Presignature, ...]]]:
    """Return fresh parties of a session that makes presignatures."""
    session_id = rng.bytes(32)
    return [
        presign.party(
            presign.setup(shares[PartyId(i)], signers, count), session_id=session_id, rng=rng
        )
        for i in signers
    ]


def presigned_parties(
    shares: dict[PartyId, KeyShare], parts: Mapping[PartyId, Presignature], rng: Rng = SYSTEM
) -> Parties:
    """Return fresh signers of a random digest with a presignature; the first one finishes.

    They take the same one again and again, which is for measuring only.
    """
    session_id, digest, rho = rng.bytes(32), rng.bytes(32), rng.bytes(32)
    finisher = min(parts)
    return [
        presigned.party(
            presigned.setup(shares[i], as_unused(part), finisher, digest, rho),
            session_id=session_id,
            rng=rng,
        )
        for i, part in parts.items()
    ]


def _presignature(
    shares: dict[PartyId, KeyShare], signers: tuple[int, ...], rng: Rng = SYSTEM
) -> dict[PartyId, Presignature]:
    made = results(run(presigning_parties(shares, signers, 1, rng)))
    return {i: parts[0] for i, parts in made.items()}


def operations() -> Iterator[tuple[str, Callable[[], Parties], float]]:
    """Yield name, maker of fresh parties, and share of the full number of runs, of each
    operation."""
    secp, wide, ed = keys("secp256k1"), keys("secp256k1", LIKE_SILENCE.identifier), keys("ed25519")
    yield "sign_secp256k1_2p", lambda: signing_parties(secp, (1, 2)), 1.0
    yield "sign_secp256k1_2p_xi512", lambda: signing_parties(wide, (1, 2)), 1.0
    for k in OT_EXTENSION_KS[1:]:
        of_k = keys("secp256k1", OtParameters(k=k).identifier)
        yield f"sign_secp256k1_2p_k{k}", partial(signing_parties, of_k, (1, 2)), 1.0
    yield "sign_secp256k1_3p", lambda: signing_parties(secp, (1, 2, 3)), 1.0
    ahead = _presignature(secp, (1, 2))
    yield PRESIGN, lambda: list(presigning_parties(secp, (1, 2), PRESIGNATURES)), 0.25
    yield "sign_presigned_secp256k1_2p", lambda: presigned_parties(secp, ahead), 1.0
    yield "sign_ed25519_2p", lambda: signing_parties(ed, (1, 2)), 1.0
    yield "sign_ed25519_3p", lambda: signing_parties(ed, (1, 2, 3)), 1.0
    yield "keygen_secp256k1", lambda: _keygen("secp256k1"), 0.5
    yield "keygen_secp256k1_k4", lambda: _keygen("secp256k1", OtParameters(k=4).identifier), 0.5
    yield "keygen_ed25519", lambda: _keygen("ed25519"), 1.0
    yield "reshare_secp256k1", lambda: _reshare(secp), 0.5
    yield "reshare_ed25519", lambda: _reshare(ed), 1.0


def presigned_figures(measured: Mapping[str, Figures]) -> dict[str, float]:
    """Return the cost of a signature with a presignature, beside one without."""
    offline = measured[PRESIGN].total_ms / PRESIGNATURES
    online = measured["sign_presigned_secp256k1_2p"].total_ms
    full = measured["sign_secp256k1_2p"].total_ms
    return {
        "presign_secp256k1_2p_per_signature_ms": offline,
        "presigned_offline_and_online_of_full_percent": 100 * (offline + online) / full,
    }


def round_trip_figures() -> dict[str, float]:
    """Return HTTP round trips of a two-party signature."""
    secp, ed = keys("secp256k1"), keys("ed25519")
    ahead = _presignature(secp, (1, 2))
    return {
        "sign_presigned_secp256k1_2p_round_trips": round_trips(presigned_parties(secp, ahead)),
        "sign_secp256k1_2p_round_trips": round_trips(signing_parties(secp, (1, 2))),
        "sign_ed25519_2p_round_trips": round_trips(signing_parties(ed, (1, 2))),
    }


def share_figures() -> dict[str, float]:
    """Return the size of a serialized 2-of-3 share, with and without multiplication state."""
    found: dict[str, float] = {}
    for curve in ("secp256k1", "ed25519"):
        share = keys(curve)[PartyId(1)]
        found[f"share_{curve}_bytes"] = len(share.to_bytes())
        for peer in share.peers if share.mta else ():
            share = share.without_multiplication(peer)
        found[f"share_{curve}_without_multiplication_bytes"] = len(share.to_bytes())
    return found

"""Hypothesis strategies for threshold wallets. All of them shrink toward the ordinary case.

Strategies for steps through a service's API are in ``mpcsim.testing.machine.rules``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from mpcsim.crypto.bip32 import HARDENED, MAX_STEPS, Path
from mpcsim.ids import CLIENT, INSTITUTION, OPERATOR
from mpcsim.protocols.key_share import KeyShare
from mpcsim.protocols.sample_keys import keys
from mpcsim.sim.network import presets
from mpcsim.sim.network.topology import Network
from mpcsim.sim.run.faults import Crash, Effect, Fault, MessageFault, Partition, partition
from mpcsim.testing.machine.rules import (
    api_call_sequences,
    api_calls,
    api_messages,
    curves,
    guesses,
    passwords,
    users,
)
from mpcsim.testing.runs.deviation import AbstractDeviation, Deviation, TwoFaced, changes
from mpcsim.testing.runs.protocol_run import MessageReplay, Order, record_session
from mpcsim.testing.runs.scenarios import (
    ProtocolScenario,
    ecdsa_signing,
    frost_signing,
    key_generation,
    presigned_signing,
    presigning,
    resharing,
)

__all__ = [
    "Sharing",
    "adversaries",
    "api_call_sequences",
    "api_calls",
    "api_messages",
    "curves",
    "fault_plans",
    "guesses",
    "hashes",
    "key_shares",
    "messages",
    "networks",
    "passwords",
    "paths",
    "quorums",
    "replays",
    "scenarios",
    "schedules",
    "thresholds",
    "user_operations",
    "users",
]

MAX_UINT256: Final = (1 << 256) - 1


# ---------------------------------------------------------------------- keys and quorums


class Sharing(NamedTuple):
    """Sharing of a key: threshold and holders."""

    threshold: int
    holders: tuple[int, ...]
    """Identifiers 1, 2, ..."""


@st.composite
def thresholds(draw: DrawFn, max_holders: int = 5, max_threshold: int = 3) -> Sharing:
    """Thresholds from 2 on, with at least so many holders."""
    holders = draw(st.integers(2, max_holders))
    threshold = draw(st.integers(2, min(max_threshold, holders)))
    return Sharing(threshold, tuple(range(1, holders + 1)))


@st.composite
def quorums(draw: DrawFn, sharing: Sharing, exactly: bool = False) -> tuple[int, ...]:
    """Holders that are enough, in ascending order.

    Args:
        exactly: not more than enough.
    """
    most = sharing.threshold if exactly else len(sharing.holders)
    size = draw(st.integers(sharing.threshold, most))
    return tuple(sorted(draw(st.permutations(sharing.holders))[:size]))


@st.composite
def key_shares(
    draw: DrawFn, curve: str | None = None, sharing: Sharing | None = None
) -> Mapping[int, KeyShare]:
    """All shares of a key, by holder, from a real key generation.

    The keys are few and are kept, since a key generation on secp256k1 takes long.

    Args:
        curve: None: either.
        sharing: None: on ed25519 up to 3 of 5; on secp256k1 2 of 2, 2 of 3 or 3 of 3.
    """
    on = draw(curves()) if curve is None else curve
    if sharing is None:
        sharing = draw(thresholds() if on == "ed25519" else thresholds(3))
    name = draw(st.sampled_from(("", "another")))
    found = keys(on, sharing.threshold, len(sharing.holders), name)
    return {int(i): share for i, share in found.items()}


# ---------------------------------------------------------------------- messages


def hashes() -> SearchStrategy[bytes]:
    """32 bytes to sign on secp256k1; those at the ends of the range, and around the order, too."""
    order = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
    special = (0, 1, order - 1, order, order + 1, MAX_UINT256)
    return st.one_of(
        st.binary(min_size=32, max_size=32),
        st.sampled_from([number.to_bytes(32, "big") for number in special]),
    )


def messages(max_size: int = 1 << 16) -> SearchStrategy[bytes]:
    """1 byte to ``max_size`` bytes to sign on ed25519; mostly short."""
    return st.one_of(
        st.binary(min_size=1, max_size=min(200, max_size)),
        st.sampled_from([b"\0", bytes(32), b"\xff" * 64]).filter(lambda m: len(m) <= max_size),
        st.integers(1, max_size).map(bytes),
    )


# ---------------------------------------------------------------------- the network


def schedules(max_size: int = 40) -> SearchStrategy[Order]:
    """Orders of delivery, for ``run_protocol``; shrink to the order of sending."""
    return st.lists(st.integers(0, 1000), min_size=1, max_size=max_size).map(
        lambda numbers: Order(tuple(numbers))
    )


@st.composite
def networks(draw: DrawFn, parties: Sequence[int] = (CLIENT, OPERATOR, INSTITUTION)) -> Network:
    """Networks among any parties: meshes, and, for a wallet's three, stars around a gateway and
    presets of real regions."""
    latency = st.floats(0.0, 300.0)
    mbit = st.sampled_from((1000.0, 100.0, 1.0))
    loss = st.sampled_from((0.0, 0.01, 0.2))
    wallet = set(parties) <= {CLIENT, OPERATOR, INSTITUTION}
    kind = draw(st.sampled_from(("mesh", "star", "preset") if wallet else ("mesh",)))
    if kind == "star":
        return Network.star(draw(latency), draw(latency), draw(latency), mbit_per_s=draw(mbit))
    if kind == "preset":
        region = st.sampled_from(sorted(presets.REGIONS))
        return Network.preset(
            draw(region),
            institution=draw(region),
            access=draw(st.sampled_from(sorted(presets.ACCESS))),
            loss=draw(loss),
        )
    return Network.mesh(parties, draw(latency), mbit_per_s=draw(mbit), loss=draw(loss))


@st.composite
def fault_plans(
    draw: DrawFn,
    scenario: ProtocolScenario,
    *,
    lossy: bool = True,
    clocked: bool = False,
    max_size: int = 3,
) -> tuple[Fault, ...]:
    """Faults of messages and machines in one run of a scenario.

    Args:
        lossy: messages and parties may be gone for good; otherwise everyone should still finish.
        clocked: with partitions, and delays that mean something (``run_over_network``).
    """
    kinds = [None, *(sends.kind for _, sends in scenario.definition.kinds())]
    party = st.sampled_from(scenario.members)
    anyone = st.one_of(st.none(), party)
    effects = [Effect.DUPLICATE, Effect.DELAY, *([Effect.DROP] if lossy else [])]
    message = st.builds(
        MessageFault,
        st.sampled_from(effects),
        st.sampled_from(kinds),
        sender=anyone,
        receiver=anyone,
        nth=st.one_of(st.none(), st.integers(1, 6)),
        probability=st.sampled_from((1.0, 0.5)),
        delay_ms=st.floats(1.0, 500.0).map(lambda ms: round(ms, 3)),
    ).filter(lambda fault: fault.sender is None or fault.sender != fault.receiver)
    down = st.sampled_from((10.0, float("inf")) if lossy else (10.0,))
    crash = st.builds(Crash, party, st.integers(0, 6), down)
    some: list[SearchStrategy[Fault]] = [message]
    if not clocked or lossy:
        # By the clock, what reaches a party while it is down is lost.
        some.append(crash)
    if clocked and lossy:
        some.append(_partitions(scenario))
    found: list[Fault] = draw(st.lists(st.one_of(some), max_size=max_size))
    return tuple(found)


@st.composite
def _partitions(draw: DrawFn, scenario: ProtocolScenario) -> Partition:
    members = draw(st.permutations(scenario.members))
    cut = draw(st.integers(1, len(members) - 1))
    begins = draw(st.floats(0.0, 1000.0))
    lasts = draw(st.sampled_from((100.0, float("inf"))))
    return partition(members[:cut], members[cut:], begins, begins + lasts)


def replays(
    scenario: ProtocolScenario, max_size: int = 3
) -> SearchStrategy[tuple[MessageReplay, ...]]:
    """Messages of an earlier session of the same kind that are said again."""
    sent = len(record_session(scenario))
    one = st.builds(MessageReplay, st.integers(1, sent), st.integers(1, sent))
    return st.lists(one, max_size=max_size).map(tuple)


# ---------------------------------------------------------------------- protocols and cheaters


def paths() -> SearchStrategy[Path]:
    """Paths to child keys (BIP 32), the empty one among them."""
    numbers = st.integers(0, 3) | st.integers(0, HARDENED - 1)
    return st.lists(numbers, max_size=MAX_STEPS).map(tuple)


@st.composite
def scenarios(draw: DrawFn, secp256k1: bool = True) -> ProtocolScenario:
    """Sessions that take milliseconds: on ed25519 any protocol with up to 5 parties, on secp256k1
    signing, presigning, and signing with presignatures (all with keys that are made once).

    Args:
        secp256k1: False: ed25519 only.
    """
    on_secp256k1 = ("ecdsa", "presign", "presigned") if secp256k1 else ()
    kind = draw(st.sampled_from(("frost", "dkg", "reshare", *on_secp256k1)))
    sharing = draw(thresholds(3 if kind in on_secp256k1 else 5))
    threshold, holders = sharing
    if kind == "dkg":
        return key_generation("ed25519", threshold, len(holders))
    chosen = draw(quorums(sharing))
    if kind == "frost":
        return frost_signing(threshold, len(holders), chosen)
    if kind == "ecdsa":
        return ecdsa_signing(threshold, len(holders), chosen, path=draw(paths()))
    if kind == "presign":
        return presigning(threshold, len(holders), chosen, draw(st.integers(1, 3)))
    if kind == "presigned":
        return presigned_signing(threshold, len(holders), chosen, draw(st.sampled_from(chosen)))
    receivers = tuple(sorted(draw(st.sets(st.integers(1, 6), min_size=2, max_size=4))))
    new = draw(st.integers(2, min(3, len(receivers))))
    return resharing("ed25519", threshold, len(holders), chosen, receivers, new)


@st.composite
def adversaries(draw: DrawFn, scenario: ProtocolScenario) -> AbstractDeviation:
    """A party that deviates at one message: withholds or repeats it, or alters one field of it,
    toward everyone or one receiver; or that is two-faced."""
    party = draw(st.sampled_from([i for i in scenario.members if changes(scenario, i)]))
    possible = changes(scenario, party)
    others = [i for i in scenario.members if i != party]
    # The last, so that failures shrink to one message.
    kind = draw(st.sampled_from([*sorted(possible), *[TwoFaced.__name__] * (len(others) > 1)]))
    if kind == TwoFaced.__name__:
        heard = draw(st.sets(st.sampled_from(others), min_size=1, max_size=len(others) - 1))
        return TwoFaced(party, frozenset(heard))
    change = draw(st.sampled_from(possible[kind]))
    to = draw(st.one_of(st.none(), st.sampled_from(others)))
    return Deviation(party, kind, change, to)


# ---------------------------------------------------------------------- smart accounts


def _hexadecimal(size: SearchStrategy[int]) -> SearchStrategy[str]:
    return size.flatmap(lambda n: st.binary(min_size=n, max_size=n)).map(lambda b: "0x" + b.hex())


def _numbers(most: int) -> SearchStrategy[Any]:
    """Return a number in every form that requests may have."""
    number = st.one_of(st.integers(0, min(most, 1 << 32)), st.integers(0, most))
    return st.one_of(number, number.map(str), number.map(hex))


def user_operations(signed: bool = True) -> SearchStrategy[dict[str, Any]]:
    """UserOperations as requests carry them (ERC-4337, EntryPoint v0.6): plain dicts with the
    specified snake_case fields, numbers as integers, decimal strings or 0x hex.

    ``init_code`` and ``paymaster_and_data`` are ``0x``, or an address and more.

    Args:
        signed: with a ``signature`` of 65 bytes.
    """
    address = _hexadecimal(st.just(20))
    prefixed = st.one_of(st.just("0x"), _hexadecimal(st.integers(20, 120)))
    gas = _numbers((1 << 120) - 1)  # the EntryPoint takes no more (AA94)
    fields: dict[str, SearchStrategy[Any]] = {
        "sender": address,
        "nonce": _numbers(MAX_UINT256),
        "init_code": prefixed,
        "call_data": _hexadecimal(st.integers(0, 200)),
        "call_gas_limit": gas,
        "verification_gas_limit": gas,
        "pre_verification_gas": gas,
        "max_fee_per_gas": gas,
        "max_priority_fee_per_gas": gas,
        "paymaster_and_data": prefixed,
    }
    if signed:
        fields["signature"] = _hexadecimal(st.just(65))
    return st.fixed_dictionaries(fields)

"""The front door: a wallet's life on both curves, policies, cheaters, and what is kept."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from coincurve import PublicKey
from slip10 import SLIP10

import mpcsim.sim
from mpcsim import Network, Simulation
from mpcsim.errors import Consequence, Reason, UsageError
from mpcsim.protocols import keys
from mpcsim.protocols.engine import Party
from mpcsim.protocols.frost.messages import Commitments
from mpcsim.protocols.signing import signing_input, verifies
from mpcsim.sim import Adversary, Free, Policy, Verdict, alter_kind
from mpcsim.sim.experiments.compare import compare
from mpcsim.sim.network.latency import LogNormal
from mpcsim.sim.replay import record
from mpcsim.sim.run import Crash, drop, faults, noise, partition
from mpcsim.sim.simulation import _same_record
from tests.helpers.reviewed import check_calls

CURVES = ("secp256k1", "ed25519")
CHEAP_FIRST = [pytest.param("secp256k1", marks=pytest.mark.soak), "ed25519"]


def simulation(network: Network | None = None, **settings) -> Simulation:
    """Deterministic in everything, secrets included."""
    settings = {"compute": Free(), "secrets_seed": "tests", **settings}
    return Simulation(network or Network.star(10.0, 5.0, 20.0), **settings)


def with_key(curve: str, **settings) -> Simulation:
    """A wallet with a key, generated without trouble before the settings take effect."""
    made = simulation()
    made.generate(curve)
    return replace(made, **settings)


# ------------------------------------------------------------------ a wallet's life


@pytest.mark.parametrize("curve", CURVES)
def test_a_life(curve: str) -> None:
    sim = simulation()
    generated = sim.generate(curve)
    assert generated.ok
    record = generated.value
    assert record.holders == (1, 2, 3)
    assert record.threshold == 2
    assert set(sim.shares) == {1, 2, 3}

    signed = sim.sign(b"pay 5 to Alice", signers=(1, 3))
    assert signed.ok
    assert verifies(record, signing_input(record, b"pay 5 to Alice"), signed.value)
    assert not verifies(record, signing_input(record, b"pay 6 to Alice"), signed.value)

    old = dict(sim.shares)
    recovered = sim.recover(1)
    assert recovered.ok
    assert recovered.value.public_key == record.public_key
    assert recovered.value.epoch != record.epoch
    for i in (1, 2, 3):
        assert sim.shares[i].secret_share != old[i].secret_share
    assert sim.sign(signers=(1, 2)).ok
    assert sim.sign(signers=(1, 2, 3)).ok


def test_signing_with_presignatures() -> None:
    sim = with_key("secp256k1")
    record = sim.shares[1].record
    made = sim.presign(2, signers=(1, 3))
    assert (made.ok, made.value) == (True, 2)
    assert sim.presign(1, signers=(3, 1)).value == 3
    signed = sim.sign_presigned(b"pay", signers=(1, 3))
    assert signed.ok
    assert verifies(record, signing_input(record, b"pay"), signed.value)
    assert [(m.kind, m.sender, m.receiver) for m in signed.trace.messages] == [("Answer", 3, 1)]
    other = sim.sign_presigned(b"pay", signers=(1, 3), finisher=3)
    assert [m.sender for m in other.trace.messages] == [1]
    assert other.value[:32] != signed.value[:32]
    assert len(sim.presignatures[(1, 3)]) == 1
    with pytest.raises(UsageError, match=r"no presignature of signers \[1, 2\]"):
        sim.sign_presigned()
    sim.recover()
    with pytest.raises(UsageError, match="no presignature"):
        sim.sign_presigned(signers=(1, 3))
    with pytest.raises(UsageError, match="secp256k1"):
        with_key("ed25519").presign()


def test_child_keys_sign_with_and_without_a_presignature() -> None:
    sim = with_key("secp256k1")
    record, path = sim.shares[1].record, (0, 7)
    child = SLIP10(record.chain_code, pubkey=record.public_key.encode())
    expected = child.get_pubkey_from_path(list(path))
    sim.presign()
    digest = hashlib.sha256(b"pay").digest()
    for signed in (sim.sign(b"pay", path=path), sim.sign_presigned(b"pay", path=path)):
        assert signed.ok
        compact = signed.value[:64] + bytes([signed.value[64] - 27])
        found = PublicKey.from_signature_and_message(compact, digest, hasher=None)
        assert found.format() == expected
    with pytest.raises(UsageError, match="BIP 32 derives on secp256k1 only"):
        with_key("ed25519").sign(path=path)


def test_without_a_seed_secrets_differ_and_times_do_not() -> None:
    one, other = (Simulation(Network.star(10.0, 5.0), 1, Free()) for _ in range(2))
    first, second = one.generate("ed25519"), other.generate("ed25519")
    assert first.value.public_key != second.value.public_key
    assert first.trace.finished_ms == second.trace.finished_ms
    assert not first.trace.reproducible


def test_everything_repeats_with_both_seeds() -> None:
    def life(seed: int):
        network = Network.star(LogNormal(20, 0.5), 5.0, 60.0, loss=0.01)
        sim = simulation(network, seed=seed)
        return [sim.generate("ed25519"), sim.sign(), sim.sign(), sim.recover(2)]

    first, again, other = life(1), life(1), life(2)
    assert first == again
    assert first[1].trace != first[2].trace
    assert [r.elapsed_ms for r in first] != [r.elapsed_ms for r in other]
    assert first[0].value == other[0].value


# ------------------------------------------------------------------ policies


def test_a_timeout_and_another_attempt() -> None:
    """Attempt 1 sends at 0 through the partition and waits in vain for 300 ms. The partition is
    the network's, so it is there again in attempt 2, whose clock starts at 0."""
    cut = (partition({1}, {2}, 0.0, 1.0),)
    sim = with_key("ed25519", faults=cut, policy=Policy(timeout_ms=300.0, attempts=2))
    result = sim.sign()
    assert result.verdict is Verdict.STALLED
    assert [trace.verdict for trace in result.attempts] == [Verdict.STALLED] * 2
    assert result.elapsed_ms == 600
    assert result.value is None


@pytest.mark.parametrize("curve", CHEAP_FIRST)
def test_sending_again_needs_one_attempt(curve: str) -> None:
    policy = Policy(timeout_ms=10_000.0, resend_ms=150.0)
    sim = with_key(curve, faults=(Crash(1, 1, down_ms=200.0), *noise(drop=0.1)), policy=policy)
    for _ in range(5):
        result = sim.sign()
        assert result.ok
        assert len(result.attempts) == 1
    assert sim.recover(3).ok


# ------------------------------------------------------------------ cheaters


def spoil_offer(message):
    offer = message.offer
    return replace(message, offer=replace(offer, u=bytes([offer.u[0] ^ 1]) + offer.u[1:]))


def cheating(kind: str, change: Callable) -> dict[int, Callable[[Party], Adversary]]:
    return {2: lambda party: Adversary(party, alter_kind(kind, change))}


def test_after_an_attack_the_set_up_is_discarded_until_the_next_recovery() -> None:
    several = Policy(timeout_ms=10_000.0, attempts=3)
    sim = with_key("secp256k1", corrupt=cheating("Offer", spoil_offer), policy=several)
    result = sim.sign(signers=(1, 2))
    assert len(result.attempts) == 1  # nobody tries again with a party that is to be banned
    assert result.trace.aborted.reason is Reason.OT_EXTENSION_CHECK
    assert result.trace.aborted.consequence is Consequence.BAN_AND_DISCARD_OT
    assert not sim.shares[1].can_multiply(2)
    with pytest.raises(UsageError, match="discarded"):
        sim.sign(signers=(1, 2))

    sim.corrupt = {}
    assert sim.sign(signers=(1, 3)).ok
    with pytest.raises(UsageError, match="discarded"):
        sim.sign(signers=(1, 2))
    assert sim.recover(2).ok
    assert sim.sign(signers=(1, 2)).ok


@pytest.mark.parametrize("curve", CHEAP_FIRST)
def test_shares_are_kept_if_a_recovery_fails(curve: str) -> None:
    """Whatever message is lost; even if some of the parties have already finished."""
    sim = with_key(curve)
    before = dict(sim.shares)
    statuses = set()
    for nth in (1, 7, 24 if curve == "ed25519" else 30):
        failing = replace(sim, faults=(drop(nth=nth),))
        result = failing.recover(1)
        assert result.verdict is Verdict.STALLED
        assert result.value is None
        assert failing.shares == before
        assert failing.sign(signers=(2, 3)).verdict is not Verdict.INVALID
        statuses |= {ending.status for ending in result.trace.endings}
    assert statuses == {"waiting", "done"}
    assert sim.sign(signers=(2, 3)).ok


def test_a_failed_generation_leaves_no_key_and_none_behind() -> None:
    sim = simulation(faults=(drop("Deal", sender=3, receiver=1),))
    assert sim.generate("ed25519").value is None
    assert sim.shares == {}
    with pytest.raises(UsageError, match="generate first"):
        sim.sign()


def test_an_operation_can_be_stepped_and_then_finished():
    sim = Simulation(Network.star(10.0, 5.0, 50.0), compute=Free())
    assert sim.begin_generate("ed25519").finish().ok
    stepping = sim.begin_sign(b"slowly", signers=(1, 3))
    assert stepping.trace.verdict is Verdict.STALLED
    assert not stepping.trace.messages
    times = []
    while not stepping.parties[1].inbox.received(Commitments):
        assert stepping.step()
        times.append(stepping.now_ms)
    assert times == sorted(times)
    assert stepping.parties[3].waiting_state() is not None
    assert stepping.trace.messages
    result = stepping.finish()
    assert result.ok
    assert not stepping.step()
    again = sim.begin_recover(1).finish()
    assert again.ok
    assert again.value.public_key == sim.shares[1].public_key


def test_the_same_operations_in_real_time():
    sim = Simulation(Network.star(2.0, 1.0, 3.0), clock="real")
    generated = sim.generate("ed25519")
    assert (generated.ok, generated.trace.clock) == (True, "real")
    with pytest.raises(UsageError, match="only virtual time"):
        sim.begin_sign()
    sim.policy = Policy(timeout_ms=1000.0, resend_ms=100.0)
    with pytest.raises(UsageError, match="resend_ms"):
        sim.sign()
    sim.clock = "sidereal"
    with pytest.raises(UsageError, match="'virtual' or 'real'"):
        sim.sign()


def test_wrong_arguments_are_named() -> None:
    """By name, with their type or what there is; policies have an end; ``KEY`` has a key."""
    key = with_key("ed25519")
    names = {"KEY": key, "replace": replace, "compare": compare, "record": record}
    check_calls(Path(__file__).with_name("wrong_arguments.txt"), mpcsim.sim, faults, **names)
    assert key.sign().ok
    assert Simulation(compute="free").compute == Free()  # type: ignore[arg-type]


def test_keys_are_valid_if_each_share_is_that_of_one_record() -> None:
    shares, (other, *_) = keys("ed25519"), keys("ed25519", name="another").values()
    one, two = (shares[i].secret_share for i in (1, 2))
    assert _same_record(shares)
    assert not _same_record(shares | {1: other})
    assert not _same_record(shares | {2: replace(shares[2], secret_share=one + two)})

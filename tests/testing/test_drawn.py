"""Strategies and scenarios beside a reviewed copy: what is drawn, declared, and found wrong."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from mpcsim.crypto.groups.secp256k1 import SECP256K1
from mpcsim.protocols.local_run import run
from mpcsim.protocols.sample_keys import keys
from mpcsim.sim.network.topology import Network
from mpcsim.testing import PROFILES
from mpcsim.testing import strategies as wallets
from mpcsim.testing.runs.scenarios import (
    ecdsa_signing,
    frost_signing,
    key_generation,
    presigned_signing,
    presigning,
    resharing,
    shares_problem,
)
from tests.helpers.reviewed import check_reviewed

COPY = Path(__file__).with_name("drawn.txt")
TWO, THREE = frost_signing(2, 3, (1, 3)), frost_signing(2, 3, (1, 2, 3))
SHARING = wallets.Sharing(2, (1, 2, 3))
DRAWS: list[tuple[Any, tuple[Any, ...]]] = [
    (wallets.thresholds(), (5, 3)),
    (wallets.thresholds(4, 3), (2, 2)),
    (wallets.quorums(SHARING), (3, [3, 1, 2])),
    (wallets.quorums(SHARING, exactly=True), (2, [3, 1, 2])),
    *((wallets.key_shares(), (curve, SHARING, "another")) for curve in ("ed25519", "secp256k1")),
    (wallets.key_shares("ed25519", SHARING), ("",)),
    (wallets.networks(), ("star", 1.0, 2.0, 3.0, 100.0)),
    (wallets.networks(), ("preset", "seoul", "tokyo", "lte", 0.01)),
    *((wallets.networks((i, 3)), ("mesh", 5.0, 100.0, 0.2)) for i in (1, 4)),
    *((wallets.fault_plans(THREE, lossy=b, clocked=c), ([],)) for b in (1, 0) for c in (1, 0)),
    (wallets._partitions(THREE), ([3, 1, 2], 2, 5.0, 100.0)),
    (wallets.scenarios(), ("ecdsa", SHARING, (1, 3), (1, 2))),
    (wallets.scenarios(), ("presign", SHARING, (1, 3), 3)),
    (wallets.scenarios(), ("presigned", SHARING, (1, 3), 3)),
    (wallets.scenarios(False), ("frost", SHARING, (1, 3))),
    (wallets.scenarios(), ("dkg", SHARING)),
    (wallets.scenarios(), ("reshare", SHARING, (1, 3), {5, 2, 4}, 3)),
    (wallets.adversaries(THREE), (2, "TwoFaced", {3})),
    (wallets.adversaries(TWO), (3, "SignatureShare", "withheld", None)),
]
PLAIN = [
    wallets.hashes(), wallets.messages(), wallets.messages(40), wallets.schedules(),
    wallets.replays(TWO), wallets.paths(), wallets.user_operations(),
    wallets.user_operations(signed=False), wallets.users(), wallets.guesses(),
    wallets.api_messages(), wallets.api_messages("ed25519"),
]  # fmt: skip
ED, EC = keys("ed25519"), keys("secp256k1")
PEER = EC[1].peers[2]
DKG, RESHARE = key_generation("ed25519", 2, 3), resharing("ed25519", 2, 3, (1, 2), (2, 3, 4))
ECDSA, PRESIGN = ecdsa_signing(2, 3, (1, 2)), presigning(2, 3, (1, 2), 1)
PRESIGNED = presigned_signing(3, 3, (1, 2, 3), 3)
SCENARIOS = (TWO, DKG, key_generation("secp256k1", 2, 2), RESHARE, ECDSA, PRESIGN, PRESIGNED)
SCENARIOS += (ecdsa_signing(3, 3, (1, 2, 3)), presigned_signing(2, 3, (1, 2), 1))


def other(value: Any, **fields: Any) -> Any:
    """The value, with fields in which the given is added to what was there."""
    return replace(value, **{name: getattr(value, name) + more for name, more in fields.items()})


def of_new_record(share: Any, **fields: Any) -> Any:
    return replace(share, record=replace(share.record, **fields))


WRONG: list[tuple[Any, Any]] = [
    *((DKG, lambda found, i=i: found | {i: ED[i]}) for i in (1, 3)),
    (DKG, lambda found: {1: found[2]}),
    (DKG, lambda found: found | {2: other(found[2], secret_share=found[2].group.scalar(1))}),
    (RESHARE, lambda found: found | {1: found[2]}),
    (RESHARE, lambda found: found | {4: None}),
    (RESHARE, lambda found: {2: ED[2]}),
    (RESHARE, lambda found: {2: keys("ed25519", name="another")[2]}),
    (RESHARE, lambda found: {2: of_new_record(found[2], chain_code=bytes(32))}),
    (ECDSA, lambda found: found | {2: other(found[2], s=1)}),
    (ECDSA, lambda found: {2: other(found[2], s=1)}),
    (ECDSA, lambda found: {2: replace(found[2], s=0)}),
    (ECDSA, lambda found: {2: high(found[2])}),
    (PRESIGNED, lambda found: {3: found[3]}),
    (PRESIGNED, lambda found: {1: None, 2: None}),
    (PRESIGNED, lambda found: found | {1: found[3]}),
    (PRESIGNED, lambda found: found | {3: None}),
    (PRESIGNED, lambda found: found | {3: other(found[3], s=1)}),
    (TWO, lambda found: found | {3: replace(found[3], z=bytes(32))}),
    (TWO, lambda found: {3: replace(found[3], z=bytes(32))}),
    (PRESIGN, lambda found: {1: (), 2: ()}),
    (PRESIGN, lambda found: {1: found[2]}),
    *(
        (PRESIGN, lambda found, new=new: found | {2: (replace(found[2][0], **new),)})
        for new in ({"id": b""}, {"epoch": b""}, {"name": b""}, {"holder": 1}, {"R": PRESIGN})
    ),
    *(
        (PRESIGN, lambda found, name=name: found | {2: (other(found[2][0], **{name: ONE}),)})
        for name in ("phi_i", "u_i", "v_i")
    ),
]
ONE = SECP256K1.scalar(1)


def high(signature: Any) -> Any:
    """The same signature with high s."""
    s, recovery_id = SECP256K1.order - signature.s, signature.recovery_id ^ 1
    return replace(signature, s=s, recovery_id=recovery_id)


def judged() -> Iterator[str]:
    """What scenarios declare, and what they find wrong with results; the last have other peers."""
    results = {}
    for each in SCENARIOS:
        outcomes = run(each.participant(i) for i in each.members)
        found = results[each] = {i: outcome.result for i, outcome in outcomes.items()}
        yield f"{each}: {each!r}: {each.problem(found)}"
        for what in ("heard", "repeated", "unnamed", "unchecked"):
            yield f"  {what}: {dict(getattr(each, what))}"
    for scenario, change in WRONG:
        yield f"{scenario.definition.name}: {scenario.problem(change(results[scenario]))}"
    for peer in (replace(PEER, pair_secret=bytes(32)), replace(PEER, zero_seed=bytes(32)), None):
        peers = {i: each for i, each in {**EC[1].peers, 2: peer}.items() if each}
        yield f"{shares_problem({2: EC[2], 1: replace(EC[1], peers=peers), 3: EC[3]})}"


def drawn(strategy: Any, answers: tuple[Any, ...]) -> Iterator[str]:
    """What a composite strategy asks for, what it is given, and what it makes of that."""
    left, asked = iter(answers), []

    def draw(one: Any) -> Any:
        asked.append((one, next(left)))
        return asked[-1][1]

    made = strategy.wrapped_strategy
    found = made.definition(draw, *made.args, **made.kwargs)
    yield from ("", f"# {strategy}", *(f"{one}: {answer}" for one, answer in asked))
    if isinstance(found, Network):
        found = found.name, found.table()["links"]
    if isinstance(found, dict) and 1 in found:
        found = {i: (share.record.threshold, share.public_key) for i, share in found.items()}
    yield f"-> {found!r}"
    assert not [*left]


def everything() -> str:
    lines = [line for each in DRAWS for line in drawn(*each)]
    lines += ["", *map(repr, PLAIN), ""]
    for profile in PROFILES.values():
        lines += [f"{profile}", f"{profile.settings(7)}"]
    lines += ["", *judged()]
    return shorter("\n".join(lines) + "\n")


def shorter(text: str) -> str:
    """Scenarios by their calls, and what is repeated once."""
    scenario = r"ProtocolScenario\(recipe='(.*?)',.*?unchecked={}\)"
    text = re.sub(scenario, r"\1", text, flags=re.DOTALL).replace(",\n ", ",\n  ")
    return re.sub(r"(\\x..|.{1,5})\1{9,}", lambda m: f"{m[1]}*{len(m[0]) // len(m[1])}", text)


def test_strategies_draw_as_written_down():
    check_reviewed(everything(), COPY)

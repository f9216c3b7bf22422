"""Runs of protocols beside a reviewed copy: what each tells, who hears what, and how it ends."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mpcsim.errors import Aborted, InRound, Reason
from mpcsim.protocols.engine import Done, Waiting
from mpcsim.protocols.engine.envelope import Envelope
from mpcsim.sim.network.topology import Network
from mpcsim.sim.run.faults import Crash, delay, drop, duplicate, noise, partition
from mpcsim.testing import BrokenInvariant
from mpcsim.testing.runs import protocol_checks as checks
from mpcsim.testing.runs.deviation import Deviation, TwoFaced
from mpcsim.testing.runs.protocol_run import MessageReplay, Order, run_over_network, run_protocol
from mpcsim.testing.runs.scenarios import frost_signing, resharing
from tests.helpers.reviewed import check_reviewed
from tests.testing.implementations import Around

COPY = Path(__file__).with_name("runs.txt")
HEARD: list[str] = []


class Listening(Around):
    """Notes what it receives; of another session with a dash."""

    def receive(self, sender: int, data: bytes) -> Any:
        envelope = Envelope.decode(data)
        old = "-" * (envelope.session_id != self.party.session_id)
        HEARD.append(f"{sender}>{self.me}{old}")
        return super().receive(sender, data)


PLAIN = frost_signing(2, 3, (1, 2, 3))
THREE = Listening.of(PLAIN)
RESHARE = Listening.of(resharing("ed25519", 2, 3, (1, 2), (2, 3)))
SPOILT = Deviation(2, "SignatureShare", ".share + 1")
FAULTS: list[tuple[Any, ...]] = [
    (drop("Commitments", sender=1, receiver=2),),
    (drop("SignatureShare", nth=2), drop("Commitments", nth=9)),
    (delay(5.0, "Commitments", sender=2),),
    (delay(5.0),),
    (duplicate("Commitments", sender=3), delay(1.0, "SignatureShare")),
    (Crash(2, 1, 10.0),),
    (Crash(3, 0, 10.0), Crash(1, 50)),
    (Crash(2, 1),),
    (Crash(1, 0), Crash(2, 2)),
]
IN_MEMORY: list[dict[str, Any]] = [
    *({"order": Order(numbers)} for numbers in ((0,), (-1,), (2, 0), (3, -1, 1))),
    *({"replays": (MessageReplay(3, before=n),)} for n in (1, 2, 5, 99)),
    {"replays": (MessageReplay(12, before=4), MessageReplay(1), MessageReplay(6, before=4))},
    *({"faults": faults} for faults in FAULTS),
    *({"faults": noise(drop=0.3), "seed": n} for n in (1, 2)),
    *({"deviation": Deviation(2, "SignatureShare", "withheld", to)} for to in (None, 1)),
    {"deviation": Deviation(3, "Commitments", "twice")},
    {"deviation": Deviation(3, "Commitments", "last byte missing", 1), "order": Order((1,))},
    {"deviation": SPOILT, "order": Order((-1,)), "faults": (Crash(1, 3, 1.0),)},
    {"deviation": SPOILT, "faults": (drop("Commitments", receiver=2),)},
    {"deviation": TwoFaced(2, frozenset({1}))},
    {"deviation": TwoFaced(1, frozenset({3})), "faults": (Crash(1, 1, 1.0),)},
]
OVER_NETWORK: list[dict[str, Any]] = [
    {"deadline_ms": 12.0},
    *({"faults": faults} for faults in (*FAULTS[:2], FAULTS[3], FAULTS[5], FAULTS[7])),
    {"faults": (partition((1,), (2, 3), 4.0),), "seed": 1},
    {"faults": (partition((1,), (2, 3), 4.0, 7.0), Crash(1, 50))},
    *({"deviation": deviation} for deviation in (SPOILT, TwoFaced(2, frozenset({3})))),
]


def told(scenario: Any, run: Any, **how: Any) -> Iterator[str]:
    HEARD.clear()
    made = run(scenario, **how)
    yield ""
    yield re.sub(r"Network.of.*?}}?\)", "mesh", " ".join(made.snippet.partition("\n\n")[2].split()))
    yield from (*made.sentences[1:], *made.idle)
    if HEARD:
        yield f"heard {' '.join(HEARD)}"
    ends = (f"{i} {'done' if isinstance(o, Done) else o}" for i, o in made.outcomes.items())
    yield f"{'; '.join(ends)}; cheaters {[*made.cheaters]}, silence {made.silence}"


ABORTED = Aborted(Reason.MALFORMED_MESSAGE, InRound(4, "confirm"))
BLAMES, SUSPECTS, DOUBTS = (
    Aborted(Reason.MALFORMED_MESSAGE, InRound(4, "confirm"), *map(frozenset, named))
    for named in (({3, 2},), ((), {2}), ((), {2, 3}))
)
WAITING = Waiting(5, "finish", {"Confirm": frozenset({2})})
GAVE_UP = Waiting(5, "finish", {"Confirm": frozenset({2})}, gave_up={2: "MALFORMED_MESSAGE"})
ECHO = Aborted(Reason.ECHO_MISMATCH, InRound(4, "confirm"))


def judged() -> Iterator[str]:
    """What checks say of one party's outcome beside others' cheating."""
    for one in (Done(None), ABORTED, BLAMES, SUSPECTS, DOUBTS, ECHO, WAITING, GAVE_UP):
        for cheaters in ((), (2,), (4, 3, 2)):
            outcomes = {2: ABORTED, 1: one} if one is GAVE_UP and not cheaters else {1: one}
            found = []
            for check, *more in (
                (checks.blame_is_right, cheaters),
                (checks.somebody_is_named, cheaters, {}),
                (checks.somebody_is_named, cheaters, {"MALFORMED_MESSAGE": "for once"}),
                (checks.no_hang, cheaters, False),
                (checks.no_hang, cheaters, True),
            ):
                try:
                    check(outcomes, *more)
                except BrokenInvariant as broken:
                    found.append(f"{broken.name}: {broken.problem}")
            yield f"cheaters {cheaters}, {one}: {'; '.join(found) or 'fine'}"


def everything() -> str:
    lines = []
    for how in IN_MEMORY:
        lines += told(THREE, run_protocol, **how)
    lines += told(RESHARE, run_protocol, faults=(Crash(2, 1, 10.0),))
    for how in OVER_NETWORK:
        network = Network.mesh(THREE.members, 5.0)
        lines += told(PLAIN, run_over_network, network=network, **how)
    return "\n".join([*lines, "", *judged()]) + "\n"


def test_runs_are_as_written_down():
    check_reviewed(everything(), COPY)

"""Pictures of the protocols' rounds, drawn from the rounds themselves.

``python -m tests.helpers.state_picture`` draws those in ARCHITECTURE.md anew. A block there begins
with ``<!-- rounds: NAME -->``, where NAME is a session of ``tests.helpers.sessions``.
"""

import re
from itertools import groupby

from mpcsim.protocols.engine import Definition, Delivery, Round, Sends
from mpcsim.protocols.engine.outcome import Phase
from mpcsim.protocols.local_run import LocalRun
from tests.helpers.repo import ROOT
from tests.helpers.sessions import session

FILE = ROOT / "ARCHITECTURE.md"
BLOCK = re.compile(r"(<!-- rounds: (\S+) -->\n)```mermaid\n.*?```\n", re.DOTALL)


def picture(definition: Definition, phases: dict[int, Phase]) -> str:
    """Mermaid text: a party's states are the rounds that it waits in, grouped by phase.

    Args:
        phases: the phase that a party is in while it waits for a round, by the round's number.
    """
    first, *later = definition.rounds
    lines = ["stateDiagram-v2", f"    [*] --> {later[0].name} : start, run {_done(first)}"]
    for phase, rounds in groupby(later, key=lambda r: phases[r.number]):
        lines.append(f"    state {phase.name} {{")
        for round_ in rounds:
            needed = ", ".join(kind.__name__ for kind in round_.needs)
            lines.append(f"        {round_.name} : waiting in round {round_.number} for {needed}")
        lines.append("    }")
    goals = [*(round_.name for round_ in later[1:]), "Done"]
    for round_, goal in zip(later, goals, strict=True):
        lines.append(f"    {round_.name} --> {goal} : run {_done(round_)}")
    for phase in dict.fromkeys(phases.values()):
        told = "" if phase is Phase.PREPARED else ", or a peer reports an abort"
        lines.append(f"    {phase.name} --> Aborted : a check fails{told}")
    return "\n".join([*lines, ""])


def _done(round_: Round) -> str:
    sent = ", ".join(map(_sent, round_.sends))
    return round_.name + (f", send {sent}" if sent else "")


def _sent(sends: Sends) -> str:
    if sends.delivery is Delivery.BROADCAST:
        return f"{sends.kind} to {sends.receivers}"
    return f"{sends.kind} to each" + ("" if sends.receivers == "all" else f" of {sends.receivers}")


def drawn(name: str) -> str:
    """The picture of a session's protocol, with the phases that an honest run goes through."""
    run: LocalRun = LocalRun(session(name).parties())
    phases: dict[int, Phase] = {}
    run.start()
    while run.in_flight:
        for party in run.parties.values():
            if waiting := party.waiting_state():
                phases[waiting.round] = party.phase
        run.deliver()
    return picture(session(name).definition, phases)


def redrawn(text: str) -> str:
    """A document with its pictures as they must be."""
    return BLOCK.sub(lambda found: f"{found[1]}```mermaid\n{drawn(found[2])}```\n", text)


if __name__ == "__main__":
    FILE.write_text(redrawn(FILE.read_text(encoding="utf-8")), encoding="utf-8")

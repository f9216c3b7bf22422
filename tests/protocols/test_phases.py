"""How far a party is, and that all protocols are known by their names and numbers."""

import pytest

from mpcsim.protocols.engine.outcome import Phase
from mpcsim.protocols.local_run import LocalRun
from mpcsim.protocols.signing import PROTOCOLS
from tests.helpers.sessions import session


def phases(name: str, party: int) -> list[Phase]:
    """Those that one party of a session goes through."""
    run = LocalRun(session(name).parties())
    watched = run.parties[party]
    found = [watched.phase]
    run.start()
    while run.in_flight:
        found.append(watched.phase)
        run.deliver()
    found.append(watched.phase)
    return list(dict.fromkeys(found))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("frost-2", [Phase.NOT_STARTED, Phase.SEALED, Phase.OVER]),  # secrets from the start
        ("dkg-ed25519", [*list(Phase)[:3], Phase.OVER]),  # agrees on secrets
        ("reshare-ed25519", list(Phase)),
    ],
)
def test_phases(name: str, expected: list[Phase]) -> None:
    assert phases(name, 1) == expected


def test_protocols_by_name():
    numbers = {definition.number: name for name, definition in PROTOCOLS.items()}
    assert numbers == {1: "dkg", 2: "ecdsa", 3: "frost", 4: "reshare", 5: "presign", 6: "presigned"}
    assert all(definition.name == name for name, definition in PROTOCOLS.items())

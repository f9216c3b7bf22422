"""The run in memory refuses what makes no sense, and loses nothing by it."""

from pathlib import Path

import pytest

from mpcsim.errors import UsageError
from mpcsim.protocols.local_run import LocalRun, results
from tests.helpers.reviewed import check_reviewed
from tests.helpers.sessions import dkg_session


def test_a_run_refuses_what_makes_no_sense():
    with pytest.raises(UsageError, match="at least one party"):
        LocalRun([])
    run = LocalRun(dkg_session("ed25519", 2, 3).parties())
    with pytest.raises(UsageError, match="party 1 has not started"):
        run.outcomes()
    run.start()
    waiting = len(run.in_flight)
    for index in (-1, waiting):
        with pytest.raises(UsageError, match=f"no message number {index}; {waiting} in flight"):
            run.deliver(index)
    assert len(run.in_flight) == waiting
    with pytest.raises(UsageError, match="party 1: "):
        results(run.outcomes())
    assert set(results(run.finish())) == {1, 2, 3}
    assert run.depth == {1: 3, 2: 3, 3: 3}  # commit, reveal, deal


def test_a_listener_hears_of_each_step_and_of_each_message_at_both_ends():
    """The youngest message comes first, so that some are early. Sizes of proofs are fixed."""
    heard, run = [], LocalRun(dkg_session("ed25519", 2, 2).parties())
    for party in run.parties.values():
        party.listener = heard.append
    run.start()
    run.finish(lambda in_flight: len(in_flight) - 1)
    check_reviewed(map(str, heard), Path(__file__).with_name("heard.txt"))

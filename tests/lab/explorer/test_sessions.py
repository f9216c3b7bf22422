"""Live sessions: run again with the same seeds, while the simulation stays as it is."""

import pytest

from mpcsim import Simulation
from mpcsim.errors import UsageError
from mpcsim.lab.explorer import Edit, Explorer
from mpcsim.lab.explorer.model.fields import FLIP, PLUS_G
from mpcsim.lab.explorer.model.sessions import with_alterations
from mpcsim.sim import Adversary, alter_kind
from tests.lab.explorer.wallets import NETWORK, presigned


def payloads(explorer):
    recording = explorer.recording
    return {flow: recording.first_message(flow).payload for flow in recording.sent}


def test_a_run_again_is_the_same_run(explorer):
    before = payloads(explorer)
    explorer.edit(3, 1, "Respond", "R_i", PLUS_G)
    after = payloads(explorer)
    own = {
        flow: data for flow, data in after.items() if flow in before and flow[2] != "AbortNotice"
    }
    differing = [flow for flow, data in own.items() if data != before[flow]]
    assert differing == [(3, 1, "Respond")]
    assert payloads(explorer.undo()) == before


def test_the_operating_systems_randomness_is_drawn_once():
    simulation = Simulation(NETWORK, seed=1)
    simulation.generate("ed25519")
    explorer = Explorer.live(simulation, "sign", signers=(1, 2))
    before = payloads(explorer)
    explorer.edit(1, 2, "SignatureShare", "share", "+ 1")
    assert payloads(explorer)[1, 2, "Commitments"] == before[1, 2, "Commitments"]
    other = Explorer.live(simulation, "sign", signers=(1, 2))
    assert payloads(other)[1, 2, "Commitments"] != before[1, 2, "Commitments"]
    assert simulation.secrets_seed is None
    assert explorer.trace.reproducible


@pytest.mark.few(1)
@pytest.mark.parametrize("operation", ["generate", "sign", "recover"])
def test_the_simulation_stays_as_it_is(wallet, operation):
    shares, sessions = dict(wallet.shares), wallet._sessions
    Explorer.live(wallet, operation)
    assert wallet.shares == shares
    assert wallet._sessions == sessions
    assert not wallet.corrupt


def test_multiplication_state_survives_what_is_tried_on_it(wallet, explorer):
    view = explorer.edit(3, 1, "Offer", "offer.x", FLIP).view
    assert repr(explorer).endswith(", 1 edit>")
    assert view.aborts[0].reason == "OT_EXTENSION_CHECK"
    assert view.aborts[0].consequence == "ban and discard OT"
    assert wallet.shares[1].can_multiply(3)
    assert explorer.undo().view.good
    assert wallet.sign(signers=(1, 3)).ok


def test_edits_come_on_top_of_each_other(explorer):
    explorer.edit(3, 1, "Respond", "psi", "+ 1").edit(1, 3, "Respond", "R_i", PLUS_G)
    assert len(explorer.view.edits) == 2
    assert {a.party for a in explorer.view.aborts} == {3}
    assert explorer.undo().view.aborts[0].reason == "SIGNATURE_INVALID"
    # What an edit left in pieces, a later one cannot take apart.
    explorer.reset().edit(3, 1, "Respond", "", "replace", b"nothing")
    assert explorer.details["3>1 Respond"].problem.startswith("does not decode")
    explorer.edit(3, 1, "Respond", "R_i", PLUS_G)
    assert explorer.view.aborts[0].reason == "MALFORMED_MESSAGE"


def test_what_cannot_be_done_is_said(wallet, explorer):
    with pytest.raises(UsageError, match="no Deal goes from party 3 to party 1"):
        explorer.edit(3, 1, "Deal")
    with pytest.raises(UsageError, match="no field 'x'"):
        explorer.edit(3, 1, "Respond", "x", FLIP)
    with pytest.raises(UsageError, match="no site"):
        explorer._source.run(explorer.network, (Edit(9, 1, "Commit", "withhold"),))
    assert explorer.view.good
    with pytest.raises(UsageError, match="unknown operation"):
        Explorer.live(wallet, "sing")
    with pytest.raises(UsageError, match="hold no share"):
        Explorer.live(wallet, "sign", signers=(1, 9))
    wallet.clock = "real"
    with pytest.raises(UsageError, match="virtual"):
        Explorer.live(wallet, "sign")


def test_a_trace_cannot_be_edited(wallet):
    explorer = Explorer(wallet.sign(signers=(1, 3)))
    assert explorer.view.frozen
    assert explorer.recording is None
    with pytest.raises(UsageError, match=r"Explorer\.live"):
        explorer.edit(3, 1, "Respond", "R_i", PLUS_G)
    with pytest.raises(UsageError, match=r"Explorer\.live"):
        explorer._source.run(explorer.network, (Edit(3, 1, "Commit", "withhold"),))


def test_a_presignature_that_is_explored_is_still_there():
    """Each run of the session takes it again, and the simulation's own is not used."""
    sim = presigned()
    explorer = Explorer.live(sim, "sign_presigned", signers=(1, 3))
    assert explorer.view.verdict == "completed valid"
    explorer.edit(3, 1, "Answer", "rho_i", "flip a bit")
    (abort,) = [a for a in explorer.view.aborts if a.party == 1]
    assert (abort.reason, abort.culprits) == ("COMMITMENT_OPENING", (3,))
    assert explorer.reset().view.verdict == "completed valid"
    assert sim.sign_presigned(signers=(1, 3)).ok


def test_an_adversary_can_be_edited_too_and_other_cheats_cannot(wallet):
    wallet.corrupt = {
        3: lambda party: Adversary(party, alter_kind("SignatureShare", lambda m: None))
    }
    explorer = Explorer.live(wallet, "sign", signers=(1, 3))
    assert explorer.view.verdict == "stalled"
    explorer.edit(3, 1, "Respond", "R_i", PLUS_G)
    assert explorer.view.aborts[0].reason == "COMMITMENT_OPENING"
    with pytest.raises(UsageError, match="is no party and no Adversary"):
        with_alterations(object(), [])

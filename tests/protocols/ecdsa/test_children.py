"""Signatures of child keys (BIP 32): verified by libsecp256k1 under keys that another library has
derived from what the holders agreed on."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpcsim.crypto import SeededRng
from mpcsim.crypto.bip32 import HARDENED, MAX_STEPS
from mpcsim.errors import Aborted, InRound, Reason, UsageError
from mpcsim.protocols import ecdsa, keys, results, run, session_id
from mpcsim.protocols.ecdsa import ECDSA
from mpcsim.protocols.engine import Party
from tests.helpers.adversary import Adversary, with_round
from tests.helpers.sessions import (
    HASH,
    check_ecdsa,
    child_key,
    ecdsa_session,
    judge,
    run_with,
    signing_parties,
)
from tests.helpers.tiers import examples

PATHS = st.lists(st.integers(0, HARDENED - 1), max_size=MAX_STEPS).map(tuple)
QUORUMS = st.sampled_from([(1, 2), (1, 3), (2, 3), (1, 2, 3)])


@examples(7)
@given(path=PATHS, signers=QUORUMS, seed=st.integers())
def test_any_path_any_quorum(path, signers, seed):
    shares = keys("secp256k1")
    found = results(run(signing_parties(shares, signers, HASH, str(seed), path)))
    check_ecdsa(child_key(shares[1].record, path), found)


# --- who signs with another key -------------------------------------------------------------------


def test_a_record_with_another_chain_code_is_noticed_before_any_multiplication():
    """Nobody is blamed, and no multiplication state is lost: a stored record may be damaged."""
    shares = keys("secp256k1")
    held = {1: shares[1], 2: shares[2]}
    held[2] = replace(held[2], record=replace(held[2].record, chain_code=bytes(32)))
    outcomes = run(signing_parties(held, (1, 2), HASH, path=(0, 7)))
    for me, outcome in outcomes.items():
        assert isinstance(outcome, Aborted)
        assert outcome.reason is Reason.SESSION_MISMATCH
        assert outcome.where == InRound(3, "respond")
        assert outcome.about == {3 - me}
        assert outcome.detail == f"party {3 - me} signs with another key"
        assert not outcome.culprits
    assert not any(share.guard.discarded for share in held.values())


@pytest.mark.parametrize(("signers", "culprits"), [((1, 2), {2}), ((1, 2, 3), set())])
def test_who_adds_another_tweak_spoils_the_signature(signers, culprits):
    """It says that it signs with this key, and computes its part for another one."""
    session = ecdsa_session(signers, 2, 3, path=(0, 7))
    honest = session.party(2)

    def share(original, view, keep, inbox):
        return original(replace(view, setup=replace(view.setup, path=())), keep, inbox)

    cheater = Party(
        with_round(ECDSA, 4, share),
        honest.setup,
        2,
        session_id=honest.session_id,
        rng=SeededRng("cheater"),
    )
    outcomes = judge(session, run_with(session, Adversary(cheater)), {2})
    assert any(
        isinstance(o, Aborted) and o.reason is Reason.SIGNATURE_INVALID and o.culprits == culprits
        for o in outcomes.values()
    )


# --- what cannot be begun -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ((0, HARDENED), r"step 2 \(\"2147483648\"\) is hardened"),
        ((0,) * 11, "step 11 of 11 is too deep"),
        ((-1,), "step 1 is not a number"),
    ],
)
def test_paths_that_lead_nowhere(path, words):
    share = keys("secp256k1")[1]
    with pytest.raises(UsageError, match=words):
        ecdsa.setup(share, (1, 2), HASH, path=path)
    with pytest.raises(UsageError, match=words):
        ecdsa.prestart(
            share.record.epoch,
            (1, 2),
            HASH,
            path=path,
            me=share.identifier,
            auth_keys=share.auth_keys((2,)),
            session_id=session_id("early"),
        )
    agreed = replace(ecdsa.setup(share, (1, 2), HASH), path=path)
    with pytest.raises(UsageError, match=words):
        ecdsa.party(agreed, session_id=session_id("by hand"))

"""Attacks on resharing and recovery: a shifted key, a split view, a bad helper, mixed epochs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mpcsim.attacks.harness import (
    CHEATER,
    HONEST,
    THIRD,
    broken_if_both_done,
    can_combine,
    cannot_combine,
    cheating_party,
    finding_of,
    honest_party,
    run_to_end,
)
from mpcsim.attacks.model import Attack, Effect, Finding
from mpcsim.attacks.research import KEEP_BOTH, Build, ResearchBuild, Shape
from mpcsim.crypto.groups.ed25519 import ED25519
from mpcsim.crypto.groups.group import Scalar
from mpcsim.errors import Aborted, InRound, Reason
from mpcsim.protocols import reshare
from mpcsim.protocols.dkg.rounds import COMMIT, DEAL, FINISH, REVEAL
from mpcsim.protocols.engine import Done
from mpcsim.protocols.frost import FROST
from mpcsim.protocols.frost.rounds import FrostSetup
from mpcsim.protocols.key_share import KeyShare
from mpcsim.protocols.local_run import LocalRun
from mpcsim.protocols.reshare import RESHARE
from mpcsim.protocols.sample_keys import keys
from mpcsim.sim.run.adversary import Adversary, alter_kind

DEALERS = (CHEATER, THIRD)
"""Dealers of a recovery: party 1 has lost its share, party 2 cheats."""


def resharing_party(
    build: Build, shares: dict[int, KeyShare], i: int, dealers: Any = DEALERS
) -> Any:
    """Return an honest party of the build's resharing; it brings its share if it deals."""
    share = shares[i] if i in dealers else None
    return honest_party(build, RESHARE, reshare.setup(shares[i].record, dealers, share=share), i)


# ---------------------------------------------------------------------- D12: shifting the key


class ShiftedSetup(reshare.ReshareSetup):
    """Set-up of a dealer that adds one to its constant term."""

    def constant_term(self, view: Any) -> Scalar:
        return super().constant_term(view) + ED25519.scalar(1)

    def check_constant_term(self, dealer: Any, C_0: Any) -> None:
        """Skip the check of its own term."""

    def check_public_key(self, Y: Any) -> None:
        """Skip the check of its own term."""


def shifted_key(build: Build) -> Finding:
    """Deal lambda_2 * x_2 + 1, and commit to it."""
    shares = keys("ed25519")
    honest = reshare.setup(shares[CHEATER].record, DEALERS, share=shares[CHEATER])
    shifted = ShiftedSetup(**{name: getattr(honest, name) for name, _ in honest.CODECS})
    off = build.definition(RESHARE)
    members = [
        resharing_party(build, shares, HONEST),
        cheating_party(off, shifted),
        resharing_party(build, shares, THIRD),
    ]
    run_to_end(*members)
    new = [members[i].outcome for i in (0, 2)]
    if not all(isinstance(outcome, Done) for outcome in new):
        return finding_of(members[2])
    record = new[0].result.record
    text = "old shares dropped, new ones of x + 1: nobody can sign for the registered key"
    return Finding.broken_if(
        record.public_key == shares[HONEST].public_key + ED25519.base(ED25519.scalar(1)),
        Effect.UNUSABLE,
        text,
    )


# ---------------------------------------------------------------------- D10: split view

ONE_PHASE = replace(RESHARE, rounds=(COMMIT, REVEAL, DEAL, FINISH))
"""Resharing in one phase: a party with its new share is done, and drops the old one."""


def split_view(build: Build) -> Finding:
    """Deal to party 1 and not to party 3, so that one drops its old share and the other gets no
    new."""
    shares = keys("ed25519")
    silent = alter_kind("Deal", lambda message: None, to={THIRD})
    # Party 1 deals, too: the honest parties have the old threshold between them.
    dealers = (HONEST, CHEATER, THIRD)
    members = {i: resharing_party(build, shares, i, dealers) for i in (HONEST, THIRD)}
    setup = reshare.setup(shares[CHEATER].record, dealers, share=shares[CHEATER])
    cheater = Adversary(cheating_party(build.definition(RESHARE), setup), silent)
    local: LocalRun[Any] = LocalRun([members[HONEST], cheater, members[THIRD]])
    local.start()
    local.finish()
    held = {
        i: p.outcome.result if isinstance(p.outcome, Done) else shares[i]
        for i, p in members.items()
    }
    if can_combine(*held.values()):
        return replace(
            finding_of(members[HONEST]), shown="both still hold the old shares: they sign"
        )
    text = "party 1 has dropped its old share, party 3 has no new one: no two shares match"
    return Finding.broken(Effect.UNUSABLE, text)


def last_confirmation(build: Build) -> Finding:
    """Confirm to party 1, which is done then, and never to party 3.

    Party 3 must not roll back to its old share: party 1 has dropped its own.
    """
    shares = keys("ed25519")
    members = {i: resharing_party(build, shares, i) for i in (HONEST, THIRD)}
    setup = reshare.setup(shares[CHEATER].record, DEALERS, share=shares[CHEATER])
    silent = alter_kind("Confirm", lambda message: None, to={THIRD})
    cheater = Adversary(cheating_party(RESHARE, setup), silent)
    local: LocalRun[Any] = LocalRun([members[HONEST], cheater, members[THIRD]])
    local.start()
    local.finish()
    outcome = members[HONEST].outcome
    if not isinstance(outcome, Done):
        return finding_of(members[HONEST])
    held = [shares[THIRD]] + ([local.prepared[THIRD]] if build.fulfils(KEEP_BOTH) else [])
    if any(can_combine(outcome.result, share) for share in held):
        text = "party 3 keeps both shares: the new one and party 1's make the key"
        return replace(finding_of(members[THIRD]), shown=text)
    text = "party 3 rolled back, party 1 is done: their shares are of different epochs"
    return Finding.broken(Effect.UNUSABLE, text)


# ---------------------------------------------------------------------- D14: a bad helper


def bad_helper(build: Build) -> Finding:
    """Deal a wrong share to the party that lost its own."""
    shares, one = keys("ed25519"), ED25519.scalar(1)
    bad = alter_kind("Deal", lambda m: replace(m, share=m.share + one), to={HONEST})
    setup = reshare.setup(shares[CHEATER].record, DEALERS, share=shares[CHEATER])
    members = {i: resharing_party(build, shares, i) for i in (HONEST, THIRD)}
    cheater = Adversary(cheating_party(RESHARE, setup), bad)
    text = "the 'recovered' share of party 1 does not fit party 3's"
    return broken_if_both_done(members, cheater, cannot_combine, Effect.UNUSABLE, text)


# ---------------------------------------------------------------------- D13, mixed epochs


def mixed_epochs(build: Build) -> Finding:
    """Sign with party 1, which was left out of a refresh, and party 3, which was not; nobody
    cheats."""
    old = keys("ed25519")
    agreed = {
        i: reshare.setup(old[i].record, (CHEATER, THIRD), share=old[i], receivers=(CHEATER, THIRD))
        for i in (CHEATER, THIRD)
    }
    refreshed = [cheating_party(RESHARE, setup, i) for i, setup in agreed.items()]
    run_to_end(*refreshed)
    new = refreshed[1].outcome
    if not isinstance(new, Done):
        return finding_of(refreshed[1])
    pair, message = (HONEST, THIRD), b"pay 5 to Alice"
    setups = [
        FrostSetup(old[HONEST], pair, message),
        # The refreshed record no longer lists party 1; a caller that overlooks this has it listed.
        FrostSetup(list_old_holders(new.result, old[THIRD]), pair, message),
    ]
    signers = [honest_party(build, FROST, setup, i) for i, setup in zip(pair, setups, strict=True)]
    run_to_end(*signers)
    outcome = signers[1].outcome
    if isinstance(outcome, Aborted) and outcome.reason is Reason.SIGNATURE_INVALID:
        return Finding.broken(
            Effect.UNUSABLE, "every share of the signature is valid, their sum is not"
        )
    return finding_of(signers[1])


def list_old_holders(new: KeyShare, old: KeyShare) -> KeyShare:
    """Return the new share with the old epoch's entries for holders that were left out."""
    X = {**old.record.public_shares, **new.record.public_shares}
    record = replace(new.record, public_shares=X)
    return replace(new, record=record, peers={**old.peers, **new.peers})


ATTACKS = (
    Attack(
        id="D10a",
        name="split-view resharing (forget and forgive)",
        reference="Aumasson-Shlomovits, eprint 2020/1052; Kudelski audit of ING's library (2021)",
        step="reshare, round 3, Deal",
        check="two phases: the old share goes only when every receiver has confirmed the new one",
        injection="E, N: a good Deal to one, none to the other",
        run=split_view,
        research=lambda: ResearchBuild(shape=Shape(definitions={"reshare": ONE_PHASE})),
        expected_on=Finding.waiting({THIRD}),
        expected_off=Finding.broken(Effect.UNUSABLE),
    ),
    Attack(
        id="D10b",
        name="the last confirmation, for one party alone",
        reference="Aumasson-Shlomovits, eprint 2020/1052",
        step="reshare, round 4, Confirm",
        check="whoever is prepared keeps the old and the new share until it has every confirmation",
        injection="E, N: confirms to party 1, not to party 3",
        run=last_confirmation,
        research=lambda: ResearchBuild(neglecting=[KEEP_BOTH]),
        expected_on=Finding.waiting({CHEATER}),
        expected_off=Finding.broken(Effect.UNUSABLE),
    ),
    Attack(
        id="D12",
        name="a refresh that shifts the key",
        reference="eprint 2020/1052; cb-mpc and CGGMP21, InvalidKeyRefresh",
        step="reshare, round 2, Reveal: C_{i,0}",
        check="C_{i,0} = lambda_i * X_i for every dealer, and the sum is the registered key",
        injection="F: deals lambda_i * x_i + 1",
        run=shifted_key,
        research=lambda: ResearchBuild(
            without=[Reason.WRONG_CONSTANT_TERM, Reason.PUBLIC_KEY_MISMATCH]
        ),
        expected_on=Finding.aborted(Reason.WRONG_CONSTANT_TERM, InRound(3, "deal"), {CHEATER}),
        expected_off=Finding.broken(Effect.UNUSABLE),
    ),
    Attack(
        id="D13",
        name="shares of two epochs in one signature",
        reference="keep-core, issue 586",
        step="frost, round 1, after a refresh that left party 1 out",
        check="the epoch is in the session's context, compared first",
        injection="N, S: a holder that was offline during the refresh comes back",
        run=mixed_epochs,
        research=lambda: ResearchBuild(without=[Reason.SESSION_MISMATCH, Reason.ECHO_MISMATCH]),
        expected_on=Finding.aborted(Reason.SESSION_MISMATCH, InRound(2, "sign")),
        expected_off=Finding.broken(Effect.UNUSABLE),
        also=("D10",),
    ),
    Attack(
        id="D14",
        name="a malicious helper in a recovery",
        reference="Laing-Stinson, repairable threshold schemes (no blame among helpers)",
        step="reshare, round 3, Deal to the party that lost its share",
        check="the dealt share lies on the dealer's committed polynomial",
        injection="M: share + 1, toward party 1 alone",
        run=bad_helper,
        research=lambda: ResearchBuild(without=[Reason.SHARE_INCONSISTENT]),
        expected_on=Finding.aborted(Reason.SHARE_INCONSISTENT, InRound(4, "prepare"), {CHEATER}),
        expected_off=Finding.broken(Effect.UNUSABLE),
    ),
)

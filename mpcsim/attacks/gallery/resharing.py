"""Attacks on resharing and recovery: a shifted key, a split view, a bad helper, mixed epochs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mpcsim.attacks.gallery.entries import entry
from mpcsim.attacks.harness import (
    ALL,
    CHEATER,
    HONEST,
    THIRD,
    WRONG_SHARE,
    can_combine,
    cheat_two_parties,
    cheating_party,
    finding_of,
    honest_party,
    spoil_shares_of_two,
)
from mpcsim.attacks.model import Effect, Finding
from mpcsim.attacks.research import KEEP_BOTH, Build, Shape
from mpcsim.crypto.groups.ed25519 import ED25519
from mpcsim.crypto.groups.group import Scalar
from mpcsim.errors import Aborted, Reason
from mpcsim.protocols import reshare
from mpcsim.protocols.dkg.rounds import COMMIT, DEAL, FINISH, REVEAL
from mpcsim.protocols.engine import Done
from mpcsim.protocols.frost import FROST
from mpcsim.protocols.frost.rounds import FrostSetup
from mpcsim.protocols.key_share import KeyShare
from mpcsim.protocols.local_run import LocalRun, run
from mpcsim.protocols.reshare import RESHARE
from mpcsim.protocols.sample_keys import keys
from mpcsim.sim.run.adversary import Adversary, alter_kind

DEALERS = (CHEATER, THIRD)
"""Dealers of a recovery: party 1 has lost its share, party 2 cheats."""


def setup_of(shares: dict[int, KeyShare], i: int, dealers: Any = DEALERS) -> Any:
    """Return party i's set-up; it brings its share if it deals."""
    share = shares[i] if i in dealers else None
    return reshare.setup(shares[i].record, dealers, share=share)


def honest_pair(build: Build, shares: dict[int, KeyShare], dealers: Any = DEALERS) -> Any:
    """Return honest parties 1 and 3 of the build's resharing."""
    return {
        i: honest_party(build, RESHARE, setup_of(shares, i, dealers), i) for i in (HONEST, THIRD)
    }


def run_without(
    kind: str, definition: Any, build: Build, shares: dict[int, KeyShare], dealers: Any = DEALERS
) -> tuple[Any, LocalRun[Any]]:
    """Run a resharing in which the cheater sends party 3 no message of a kind."""
    members = honest_pair(build, shares, dealers)
    cheater = cheating_party(definition, setup_of(shares, CHEATER, dealers))
    silent = Adversary(cheater, alter_kind(kind, lambda message: None, to={THIRD}))
    local: LocalRun[Any] = LocalRun([members[HONEST], silent, members[THIRD]])
    local.start()
    local.finish()
    return members, local


# ---------------------------------------------------------------------- D12: shifting the key


class ShiftedSetup(reshare.ReshareSetup):
    """Set-up of a dealer that adds one to its constant term."""

    def constant_term(self, view: Any) -> Scalar:
        return super().constant_term(view) + ED25519.scalar(1)

    def check_constant_term(self, dealer: Any, C_0: Any) -> None:
        """Skip the check of its own term."""

    def check_public_key(self, Y: Any) -> None:
        """Skip the check of its own term."""


@entry("D12", without=[Reason.WRONG_CONSTANT_TERM, Reason.PUBLIC_KEY_MISMATCH])
def shifted_key(build: Build) -> Finding:
    """Deal lambda_2 * x_2 + 1, and commit to it."""
    shares = keys("ed25519")
    honest = setup_of(shares, CHEATER)
    shifted = ShiftedSetup(**{name: getattr(honest, name) for name, _ in honest.CODECS})
    other_key = shares[HONEST].public_key + ED25519.base(ED25519.scalar(1))
    return cheat_two_parties(
        honest_pair(build, shares),
        cheating_party(build.definition(RESHARE), shifted),
        lambda one, other: one.record.public_key == other_key,
        Effect.UNUSABLE,
        "old shares dropped, new ones of x + 1: nobody can sign for the registered key",
        otherwise=THIRD,
    )


# ---------------------------------------------------------------------- D10: split view

ONE_PHASE = replace(RESHARE, rounds=(COMMIT, REVEAL, DEAL, FINISH))
"""Resharing in one phase: a party with its new share is done, and drops the old one."""


@entry("D10a", shape=Shape(definitions={"reshare": ONE_PHASE}))
def split_view(build: Build) -> Finding:
    """Deal to party 1 and not to party 3, so that one drops its old share and the other gets no
    new."""
    shares = keys("ed25519")
    # Party 1 deals, too: the honest parties have the old threshold between them.
    members, _ = run_without("Deal", build.definition(RESHARE), build, shares, ALL)
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


@entry("D10b", neglecting=[KEEP_BOTH])
def last_confirmation(build: Build) -> Finding:
    """Confirm to party 1, which is done then, and never to party 3.

    Party 3 must not roll back to its old share: party 1 has dropped its own.
    """
    shares = keys("ed25519")
    members, local = run_without("Confirm", RESHARE, build, shares)
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


@entry("D14", without=[Reason.SHARE_INCONSISTENT])
def bad_helper(build: Build) -> Finding:
    """Deal a wrong share to the party that lost its own."""
    shares = keys("ed25519")
    cheater = Adversary(cheating_party(RESHARE, setup_of(shares, CHEATER)), WRONG_SHARE)
    text = "the 'recovered' share of party 1 does not fit party 3's"
    return spoil_shares_of_two(honest_pair(build, shares), cheater, text)


# ---------------------------------------------------------------------- D13, mixed epochs


@entry("D13", without=[Reason.SESSION_MISMATCH, Reason.ECHO_MISMATCH])
def mixed_epochs(build: Build) -> Finding:
    """Sign with party 1, which was left out of a refresh, and party 3, which was not; nobody
    cheats."""
    old = keys("ed25519")
    agreed = {
        i: reshare.setup(old[i].record, (CHEATER, THIRD), share=old[i], receivers=(CHEATER, THIRD))
        for i in (CHEATER, THIRD)
    }
    refreshed = [cheating_party(RESHARE, setup, i) for i, setup in agreed.items()]
    run(refreshed)
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
    run(signers)
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

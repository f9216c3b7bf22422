"""Multiplication schemes of one's own: registered by name, used everywhere but in a service."""

import os

import pytest

from mpcsim import Network, Simulation
from mpcsim.crypto.mta import Mta, OtMta, register_scheme, schemes
from mpcsim.crypto.mta.schemes import built_in_scheme, mta_scheme
from mpcsim.errors import InvalidEncoding, UsageError
from mpcsim.ids import CLIENT, HOLDERS
from mpcsim.protocols import dkg, reshare, results, run
from mpcsim.protocols.key_share import KeyShare
from tests.examples.open_multiplication import OpenMta

OPEN = OpenMta()


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemes, "_REGISTERED", {})
    register_scheme(OPEN)


def simulation() -> Simulation:
    made = Simulation(Network.star(1.0), secrets_seed="open")
    assert made.generate(scheme=OPEN).ok
    return made


def named(name: object) -> Mta:
    made = OpenMta()
    made.identifier = name  # type: ignore[assignment]
    return made


def test_a_wallets_life_with_a_scheme_of_ones_own() -> None:
    sim = simulation()
    assert sim.shares[CLIENT].mta is OPEN
    signed = sim.sign(signers=(1, 3))
    assert signed.ok
    assert sum(message.size for message in signed.trace.messages) < 10_000  # ot/80 sends 200,000
    assert sim.presign(2).ok
    assert sim.sign_presigned().ok
    assert sim.recover().ok
    assert {share.mta for share in sim.shares.values()} == {OPEN}
    assert sim.sign().ok


def test_shares_come_back_with_their_scheme() -> None:
    share = simulation().shares[CLIENT]
    stored = share.to_bytes()
    assert b"\x04open" in stored
    assert KeyShare.from_bytes(stored) == share
    register_scheme(other := named("open"), replace=True)
    assert KeyShare.from_bytes(stored).mta is other


def test_another_scheme_after_a_resharing() -> None:
    shares, sid = simulation().shares, os.urandom(32)
    setups = {
        i: reshare.setup(shares[i].record, HOLDERS, share=shares[i], scheme="ot/80")
        for i in HOLDERS
    }
    new = results(run(reshare.party(setups[i], i, session_id=sid) for i in HOLDERS))
    assert {share.mta for share in new.values()} == {mta_scheme("ot/80")}


def test_a_share_of_a_scheme_that_is_not_registered_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stored = simulation().shares[CLIENT].to_bytes()
    monkeypatch.setattr(schemes, "_REGISTERED", {})
    with pytest.raises(InvalidEncoding, match=r"not known: .* scheme 'open'.*register_scheme"):
        KeyShare.from_bytes(stored)


def test_a_service_reads_none_but_the_packages_own() -> None:
    stored = simulation().shares[CLIENT].to_bytes()
    with pytest.raises(InvalidEncoding, match="unknown multiplication scheme 'open'"):
        KeyShare.from_bytes(stored, schemes=built_in_scheme)


# ---------------------------------------------------------------------- what is refused


def test_two_schemes_under_one_name_are_refused() -> None:
    with pytest.raises(UsageError, match="another multiplication scheme is registered as 'open'"):
        register_scheme(OpenMta())
    assert register_scheme(OPEN) is OPEN  # the same one again
    assert mta_scheme("open") is OPEN


@pytest.mark.parametrize("name", ["", "two words", "n" * 33, "é", b"open", None, 3])
def test_names_that_shares_cannot_hold_are_refused(name: object) -> None:
    with pytest.raises(UsageError, match="1 to 32 printable ASCII"):
        register_scheme(named(name))


def test_the_packages_own_names_are_its_own() -> None:
    for scheme in (named("ot/80"), named("ot/mine"), OtMta()):
        with pytest.raises(UsageError, match="are the package's own"):
            register_scheme(scheme)


def test_what_is_no_scheme_is_refused() -> None:
    with pytest.raises(UsageError, match="is no multiplication scheme"):
        register_scheme(OpenMta)  # type: ignore[type-var]

    bare = type("Bare", (Mta,), {k: v for k, v in vars(OpenMta).items() if k.islower()})()
    with pytest.raises(UsageError, match="has no SetupOffer, SetupReply, PairSetup, Offer, Reply"):
        register_scheme(bare)


def test_a_scheme_that_is_not_registered_cannot_be_used() -> None:
    with pytest.raises(UsageError, match=r"'mine' is not registered.*call register_scheme"):
        Simulation().generate(scheme=named("mine"))
    with pytest.raises(UsageError, match="'open' is not registered"):
        dkg.setup("secp256k1", 2, HOLDERS, OpenMta())  # another one of that name
    with pytest.raises(UsageError, match="the package's own are given by name"):
        dkg.setup("secp256k1", 2, HOLDERS, OtMta())
    with pytest.raises(UsageError, match="need no multiplication scheme"):
        dkg.setup("ed25519", 2, HOLDERS, OPEN)
    with pytest.raises(UsageError, match="or the name of one, such as 'ot/80', not a int"):
        dkg.setup("secp256k1", 2, HOLDERS, 7)  # type: ignore[arg-type]

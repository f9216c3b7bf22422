"""Research builds: apart from the product, and the product none the worse for them."""

import re

import pytest

from mpcsim.attacks.harness import honest_party
from mpcsim.attacks.research import PRODUCT, ResearchBuild, Shape
from mpcsim.errors import Reason, UsageError
from mpcsim.protocols import dkg, ecdsa, frost, reshare
from mpcsim.protocols.dkg import DKG, steps
from mpcsim.protocols.ecdsa import ECDSA
from mpcsim.protocols.engine import Done
from mpcsim.protocols.frost import FROST
from mpcsim.protocols.local_run import run
from mpcsim.protocols.reshare import RESHARE
from mpcsim.protocols.sample_keys import keys
from tests.helpers.repo import ROOT, python_files

REPORTS = (
    "mpcsim.attacks.service import perform as perform_service",
    "mpcsim.attacks import perform",
)

# ---------------------------------------------------------------------- who may import what


def test_no_product_code_imports_the_gallery():
    """But for the command line, which imports its reports and nothing else of it."""
    found = [
        (room, line.strip())
        for path in python_files("mpcsim", "node")
        if (room := path.relative_to(ROOT).parts[1]) != "attacks"
        for line in re.findall(r".*mpcsim\.attacks.*", path.read_text(encoding="utf-8"))
        if room != "cli" or "import " in line
    ]
    assert found == [("cli", f"from {name}") for name in REPORTS]


# ---------------------------------------------------------------------- nothing leaks


def test_only_the_named_reasons_are_off():
    lenient = ResearchBuild(without=[Reason.ECHO_MISMATCH]).function(steps.check_share)
    check_copy = lenient.__globals__["check"]
    check_copy(False, Reason.ECHO_MISMATCH)
    with pytest.raises(Exception, match=Reason.SHARE_INCONSISTENT.text):
        check_copy(False, Reason.SHARE_INCONSISTENT)


def test_a_replacement_that_would_do_nothing_is_refused():
    with pytest.raises(UsageError, match="does nothing"):
        ResearchBuild(replacing={keys: keys})


# ---------------------------------------------------------------------- what a copy is worth


def run_all(build):
    """A key generation and a signature on each curve, and a resharing, all by one build."""
    new = {}
    for curve in ("secp256k1", "ed25519"):
        agreed = dkg.setup(curve, 2, (1, 2, 3))
        outcomes = run(honest_party(build, DKG, agreed, i) for i in (1, 2, 3))
        new[curve] = {i: outcome.result for i, outcome in outcomes.items()}
    ed, secp = new["ed25519"], new["secp256k1"]
    signing = [
        (FROST, [frost.setup(ed[i], (1, 2), b"m") for i in (1, 2)]),
        (ECDSA, [ecdsa.setup(secp[i], (1, 2), bytes(32)) for i in (1, 2)]),
        (RESHARE, [reshare.setup(ed[1].record, (1, 2, 3), share=ed[i]) for i in (1, 2, 3)]),
    ]
    outcomes = [
        run(honest_party(build, definition, setup, i) for i, setup in enumerate(setups, start=1))
        for definition, setups in signing
    ]
    return new, outcomes


def test_without_any_check_off_the_copy_does_exactly_what_the_product_does():
    """Same seeds, same shares, same signatures: what an attack shows is due to the check alone."""
    (mine, ends), (theirs, others) = run_all(ResearchBuild()), run_all(PRODUCT)
    assert mine == theirs
    assert ends == others
    assert all(isinstance(end, Done) for outcomes in ends for end in outcomes.values())


def test_a_build_says_what_is_off():
    assert not ResearchBuild().switched_off
    off = ResearchBuild(shape=Shape(number=7, setup_check=False, sealing=False)).switched_off
    assert off == ("set-up check", "sealing", "protocol numbers")

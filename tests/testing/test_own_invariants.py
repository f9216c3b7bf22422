"""Invariants of somebody's own: asked, told and shrunk like the kit's."""

import inspect
import json
import textwrap
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mpcsim import testing
from mpcsim.protocols.engine import Done
from mpcsim.testing.protocols import frost_signing
from tests.helpers.reviewed import check_reviewed
from tests.testing import own_invariants as own
from tests.testing.own_node import OwnNode

pytestmark = pytest.mark.soak  # Whole runs of the kit: seconds each.

HUNT = testing.Profile("hunt", examples=100, steps=12, both_curves=0.0)


def test_a_broken_one_is_told_and_shrunk():
    with OwnNode() as target, pytest.raises(own.no_share_signs_twice.Broken) as caught:
        testing.check_wallet_service(target, HUNT, seed=9, invariants=[own.no_share_signs_twice])
    check_reviewed(f"{caught.value}\n", Path(__file__).with_name("own_broken.txt"))
    with OwnNode() as target, pytest.raises(own.no_share_signs_twice.Broken) as again:
        snippet = caught.value.failure.snippet
        exec(snippet.replace("target = OwnNode()", ""), {"target": target})
    assert again.value.failure.steps == caught.value.failure.steps


def test_the_examples_run():
    lines = (inspect.getdoc(testing.invariant) or "").splitlines()
    code = textwrap.dedent("\n".join(line for line in lines if line.startswith(" ") or not line))
    check = partial(testing.check_wallet_service, profile=HUNT.with_budget(2), seed=0)
    names: dict[str, Any] = {"ApiRun": testing.ApiRun, "Done": Done, "invariant": testing.invariant}
    names |= {"order": testing.Order((1, 0)), "faults": (), "scenario": frost_signing(2, 3, (1, 2))}
    names |= {"check_wallet_service": check} | vars(testing.protocols)
    with OwnNode() as names["target"]:
        exec(code, names)
    found = names["no_nonce_twice"]
    said = testing.Answer(200, json.dumps({"signature": "ab" * 64}))
    one, other = ({"message": text} for text in ("00", "01"))
    asked = [(testing.Request("POST", "/v3/wallet/sign", body), said) for body in (one, other)]
    found(SimpleNamespace(exchanged=[asked[0], asked[0]]))
    with pytest.raises(found.Broken, match="signed with the same nonce"):
        found(SimpleNamespace(exchanged=asked))
    assert isinstance(names["all_or_none"], testing.Invariant)

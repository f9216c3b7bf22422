"""Ready-made tests of a service at an address; ``mpcsim.testing.plugin`` says how to run them."""

from __future__ import annotations

from mpcsim.testing.api_steps import ApiRun
from mpcsim.testing.plugin import DONE, CheckService, Note
from mpcsim.testing.profile import Progress
from mpcsim.testing.target import Target


def test_a_wallet_from_beginning_to_end(wallet_target: Target, record_property: Note) -> None:
    """Generate, sign, lose the share, recover it and sign again, on both curves."""
    api = ApiRun(wallet_target)
    api.health()
    for curve in ("ed25519", "secp256k1"):
        api.wallet("alice")
        api.generate("alice", curve)
        api.sign("alice", curve)
        api.recover("alice", curve)
        api.sign("alice", curve)
        api.sign("alice", curve, share=0)
        api.keys("alice")
    made = Progress("runs")
    made.step(api.calls, api.races)
    record_property(DONE, str(made))


def test_any_steps_of_any_users(wallet_target: Target, check_service: CheckService) -> None:
    """Whatever users do, in whatever order: the specification holds."""
    check_service(wallet_target)

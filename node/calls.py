"""The message graph of a signing call, in one line: for questions about what a caller waits for.

    >>> from mpcsim import Network
    >>> from node.calls import signing_call
    >>> network = Network.preset("tokyo", institution="frankfurt", access="lte", loss=0.01)
    >>> signing_call().replay(network.with_connection(cold=True), 100_000).percentile(99)

``LocalService.record`` makes such a graph of any call.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import httpx

from mpcsim.crypto.groups.curves import CURVES
from mpcsim.crypto.params import OT_EXTENSION_KS
from mpcsim.errors import UsageError, unknown
from mpcsim.ids import MPC_NODES, ROLES
from mpcsim.service.vault import Argon2Cost
from mpcsim.sim.replay import MessageGraph
from mpcsim.sim.replay.calls import RUNS
from node.local import LocalService
from node.process.settings import POLICIES, Settings

__all__ = ["SIGNERS", "Signing", "signing_call"]

SIGNERS: Final = tuple(ROLES[node] for node in MPC_NODES)
SWITCHES: Final = ("early_requests", "separate_messages", "presigned")
PRESIGNED_CURVE: Final = "secp256k1"
PRESIGNED_POLICY: Final = "both"

_CHEAP: Final = Argon2Cost(operations=1, memory_kib=64)
"""Computing takes no time here, so that a cheap password hash gives the same graph."""


@dataclass(frozen=True)
class Signing:
    """A call of ``POST /v3/wallet/sign``, and the service that answers it.

    All but ``signer`` and ``presigned`` are settings of the REST node (``node.process.settings``).
    """

    curve: str = "secp256k1"
    signer: str = "operator"
    """MPC node that the caller signs with: ``operator`` or ``institution``."""
    vault_policy: str = "both"
    """Openers of the vault: ``both`` MPC nodes, or the ``signer`` alone."""
    early_requests: bool = True
    """The first message goes with the request that opens the vault."""
    ot_extension_k: int = 1
    """1, 2 or 4: what is said in signing shrinks. Has no effect on ed25519."""
    separate_messages: bool = False
    """Each message in a request of its own. Has no effect on ed25519."""
    presigned: bool = False
    """Whether the caller has a presignature: one request, whatever else is set."""

    def __post_init__(self) -> None:
        for name, known in (("curve", CURVES), ("signer", SIGNERS), ("vault_policy", POLICIES)):
            if (value := getattr(self, name)) not in known:
                raise UsageError(unknown(name.replace("_", " "), str(value), known))
        if self.ot_extension_k not in OT_EXTENSION_KS:
            raise UsageError(f"ot_extension_k is {self.ot_extension_k}: 1, 2 or 4")
        for name in SWITCHES:
            if not isinstance(value := getattr(self, name), bool):
                raise UsageError(f"{name} is {value!r}: True or False")
        if self.presigned and self.curve != PRESIGNED_CURVE:
            raise UsageError(
                f"presigned: presignatures are for {PRESIGNED_CURVE}, not for {self.curve}"
            )
        if self.presigned and self.vault_policy != PRESIGNED_POLICY:
            raise UsageError("presigned: presignatures need the vault policy both")

    def __str__(self) -> str:
        said = [self.curve, f"with the {self.signer}"]
        if self.vault_policy != "both":
            said.append(f"vault policy {self.vault_policy}")
        if not self.early_requests:
            said.append("vault first")
        if self.ot_extension_k != 1:
            said.append(f"k = {self.ot_extension_k}")
        if self.separate_messages:
            said.append("separate messages")
        if self.presigned:
            said.append("presigned")
        return ", ".join(said)


def signing_call(
    curve: str = "secp256k1",
    signer: str = "operator",
    *,
    vault_policy: str = "both",
    early_requests: bool = True,
    ot_extension_k: int = 1,
    separate_messages: bool = False,
    presigned: bool = False,
) -> MessageGraph:
    """The message graph of ``POST /v3/wallet/sign``, vault and all (scope ``rest``).

    Recorded from a service of its own, in virtual time, which takes about a second; with the same
    options it is the same graph, and at once. Its keys come from a seed (REPRODUCIBLE SECRETS).

    Args:
        curve: and all others: fields of ``Signing``.

    Raises:
        UsageError: an unknown option, or two that do not go together.
    """
    return _record(
        Signing(
            curve,
            signer,
            vault_policy,
            early_requests,
            ot_extension_k,
            separate_messages,
            presigned,
        )
    )


@cache
def _record(signing: Signing) -> MessageGraph:
    name = f"sign {signing}"
    settings = Settings(
        waas_api_url="http://gateway",
        vault_policy=signing.vault_policy,
        early_requests=signing.early_requests,
        ot_extension_k=signing.ot_extension_k,
        separate_messages=signing.separate_messages,
    )
    # Two services with the same secrets would make the same presignatures, which count as used.
    secrets = f"REPRODUCIBLE: {name}"
    with LocalService(settings=settings, cost=_CHEAP, secrets_seed=secrets) as service:
        alice = service.user("alice")
        new = {"curve": signing.curve, "password": "correct horse"}
        share = _post(alice, "generate", new)
        order = {**share, "message": "00" * 32, "signer": signing.signer}
        if not signing.presigned:
            return service.record(lambda: alice.post("/v3/wallet/sign", json=order), name)
        wanted = {**share, "signer": signing.signer, "count": RUNS + 1}
        ready = iter(_post(alice, "presign", wanted)["presignatures"])
        return service.record(
            lambda: alice.post("/v3/wallet/sign", json={**order, "presignatures": [next(ready)]}),
            name,
        )


def _post(user: httpx.Client, verb: str, document: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = (
        user.post(f"/v3/wallet/{verb}", json=document).raise_for_status().json()
    )
    return answer

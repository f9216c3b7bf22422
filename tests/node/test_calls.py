"""The message graph of a signing call, by its options: it takes as long as the call itself."""

import pytest

from mpcsim import Network
from mpcsim.errors import UsageError
from node.calls import Signing, signing_call
from node.local import LocalService
from node.process.settings import Settings
from tests.node.wallets import CHEAP

STAR = Network.star(20, 5, 70)
NETWORKS = (STAR, STAR.with_connection(cold=True), Network.star(50, 50, 50, mbit_per_s=5))
OPTIONS = [
    {},
    {"separate_messages": True, "early_requests": False, "vault_policy": "signer"},
    {"presigned": True, "signer": "institution"},
    {"signer": "institution", "ot_extension_k": 4, "early_requests": False},
    {"separate_messages": True},
    {"curve": "ed25519", "vault_policy": "signer"},
]


def durations(signing):
    """Return what a call takes on each of ``NETWORKS``, after a pause: with new connections."""
    settings = Settings(
        waas_api_url="http://gateway",
        vault_policy=signing.vault_policy,
        early_requests=signing.early_requests,
        ot_extension_k=signing.ot_extension_k,
        separate_messages=signing.separate_messages,
    )
    with LocalService(cost=CHEAP, settings=settings) as service:
        alice = service.user("alice")
        new = {"curve": signing.curve, "password": "correct horse"}
        share = alice.post("/v3/wallet/generate", json=new).json()
        order = {**share, "message": "00" * 32, "signer": signing.signer}
        presignatures = [None] * len(NETWORKS)
        if signing.presigned:
            wanted = {**share, "signer": signing.signer, "count": len(NETWORKS)}
            made = alice.post("/v3/wallet/presign", json=wanted)
            presignatures = made.json()["presignatures"]
        else:  # it knows everybody then, and the vault policy's statements are there
            assert alice.post("/v3/wallet/sign", json=order).is_success
        found = []
        for network, presignature in zip(NETWORKS, presignatures, strict=True):
            service.change(network)
            service.wait(10_000)
            if presignature is not None:
                order["presignatures"] = [presignature]
            answer = alice.post("/v3/wallet/sign", json=order)
            assert answer.is_success, answer.text
            found.append(service.elapsed_ms)
        return found


@pytest.mark.few(1)
@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: " ".join(options) or "as it is")
def test_a_replay_takes_as_long_as_the_call(options):
    graph = signing_call(**options)
    assert graph.scope == "rest"
    replayed = [graph.replay(network, 1).finished_ms[0] for network in NETWORKS]
    assert replayed == pytest.approx(durations(Signing(**options)), abs=1e-6)


CANNOT_BE = [
    ({"curve": "secp256k"}, "did you mean secp256k1"),
    ({"signer": "client"}, "unknown signer"),
    ({"vault_policy": "none"}, "unknown vault policy"),
    ({"ot_extension_k": 3}, "1, 2 or 4"),
    ({"presigned": 1}, "True or False"),
    ({"presigned": True, "curve": "ed25519"}, "are for secp256k1"),
    ({"presigned": True, "vault_policy": "signer"}, "vault policy both"),
]


@pytest.mark.parametrize(("options", "named"), CANNOT_BE)
def test_what_cannot_be(options, named):
    with pytest.raises(UsageError, match=named):
        signing_call(**options)

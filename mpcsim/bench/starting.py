"""Start-up time of the gateway until it answers, with many keys in its stores.

After a clean stop everything is in the databases' own files. After a crash part of it is in their
logs, and there are sessions that came to nothing.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Final

from mpcsim.bench.protocols import keys
from mpcsim.crypto.rng import SystemRng
from mpcsim.ids import CLIENT, MPC_NODES, ROLES, PartyId
from mpcsim.protocols.key_share import PublicKeyRecord
from mpcsim.service.gateway.registry import Registry
from mpcsim.service.mpc_node.events import EMPTY
from mpcsim.service.mpc_node.identity import Identity
from mpcsim.service.mpc_node.store import ShareStore, StoredShare
from mpcsim.service.operations import open_gateway
from mpcsim.service.operations.data_folder import store_file
from mpcsim.service.operations.supervisor import backend, process_group
from mpcsim.service.rpc.activation_messages import ACTIVE, PREPARED
from mpcsim.service.rpc.statements import KeyRecord, SignedRecord, Vote, shares_hash
from mpcsim.service.storage.roles import REGISTRY

KEYS: Final = 10_000
BROKEN_OFF: Final = 32
"""Sessions under way at the crash."""
RUNS: Final = 5
CURVE: Final = "secp256k1"

TARGETS_S: Final = {"gateway_start_clean_s": 3.0, "gateway_start_crashed_s": 3.0}
"""Figures this project promises on two cores: upper bounds."""


def starting_figures(count: int = KEYS, runs: int = RUNS) -> dict[str, float]:
    """Start gateways on folders with many keys.

    Args:
        count: keys in the stores.
        runs: starts behind each median.

    Returns:
        Seconds from the start of the process to its first answer, and the folder's size in
        megabytes, by name.
    """
    with tempfile.TemporaryDirectory() as place:
        clean, crashed, empty = (Path(place) / name for name in ("clean", "crashed", "empty"))
        fill(clean, crashed, count)
        size = sum(file.stat().st_size for file in clean.rglob("*"))
        return {
            "gateway_start_empty_s": _start_s([empty] * runs),
            "gateway_start_clean_s": _start_s([clean] * runs),
            # A start puts right what the crash has left: every time from the same state.
            "gateway_start_crashed_s": _start_s(
                [Path(shutil.copytree(crashed, f"{crashed} {n}")) for n in range(runs)]
            ),
            "gateway_start_keys": count,
            "gateway_start_mb": size / 1e6,
        }


def fill(clean: Path, crashed: Path, count: int) -> None:
    """Two data folders with a key for each of ``count`` users: as a stop and as a crash leave it.

    The keys are one key under many names: what is in the stores is real, and nothing is generated
    ten thousand times.
    """
    open_gateway(clean).close()
    rng = SystemRng()
    shares = keys(CURVE)
    registry = Registry(store_file(clean, REGISTRY))
    stores = {party: ShareStore(store_file(clean, ROLES[party])) for party in MPC_NODES}
    services: list[Registry | ShareStore] = [registry, *stores.values()]
    for service in services:
        # Nobody waits for the disk after each of these changes.
        service._database._writer.execute("PRAGMA synchronous = OFF")
    identities = {party: store.keys.identity(rng) for party, store in stores.items()}
    for n in range(count + BROKEN_OFF):
        user, key_id = registry.sign_up(f"user-{n}"), rng.bytes(32)
        public = replace(shares[CLIENT].record, epoch=key_id)
        signed = _sign_record(identities, user.user_id, public)
        for party, store in stores.items():
            made = StoredShare(
                key_id.hex(),
                user.user_id,
                CURVE,
                public.public_key.encode(),
                replace(shares[party], record=public).to_bytes(),
                PREPARED,
            )
            if n < count:
                made = replace(made, state=ACTIVE, record=signed.to_bytes())
            store.prepare(made)
        if n < count:
            registry.put(signed)
    shutil.copytree(clean, crashed)
    for service in services:
        service.close()


def _sign_record(
    identities: Mapping[PartyId, Identity], user_id: str, public: PublicKeyRecord
) -> SignedRecord:
    """Return a key's record, signed by both MPC nodes."""
    record = KeyRecord(
        user_id,
        CURVE,
        public.public_key.encode(),
        public.epoch,
        None,
        0,
        shares_hash(public.to_bytes()),
        {party: identity.public for party, identity in identities.items()},
        chain_code=public.chain_code,
    )
    vote = Vote(record, EMPTY, 0)
    signatures = {party: identity.sign(vote) for party, identity in identities.items()}
    return SignedRecord(
        record, dict.fromkeys(MPC_NODES, EMPTY), signatures, dict.fromkeys(MPC_NODES, 0)
    )


def _start_s(folders: list[Path]) -> float:
    """Median time of a start."""
    took = []
    for folder in folders:
        with process_group() as processes:
            began = time.perf_counter()
            processes.start(*backend(folder), quiet=True)
            took.append(time.perf_counter() - began)
    return median(took)


def table(figures: dict[str, float]) -> str:
    """Return the figures as text."""
    lines = ["start of the gateway, until it answers", ""]
    for name, value in figures.items():
        line = f"{name:<40}{value:>10.2f}".removesuffix(".00")
        if name in TARGETS_S:
            verdict = "reached" if value <= TARGETS_S[name] else "NOT reached"
            line += f"   target at most {TARGETS_S[name]:g}: {verdict}"
        lines.append(line)
    return "\n".join(lines)

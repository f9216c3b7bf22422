"""``mpcsim demo``: generate, sign, recover, sign again, on both curves, over a simulated WAN.

The real system on free ports, called as a backend would: only the distances are simulated.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from mpcsim.cli.command import Command, Options, flag, option
from mpcsim.cli.network import network_option, scenario
from mpcsim.cli.token import credentials
from mpcsim.errors import UsageError
from mpcsim.ids import MPC_NODES, OPERATOR, ROLES

if TYPE_CHECKING:
    import httpx

DEFAULT_NETWORK: Final = "seoul,institution=frankfurt"
PASSWORD: Final = "correct horse battery staple"
SIGNATURES: Final = 3
CURVES: Final = ("secp256k1", "ed25519")
COLUMNS: Final = ("vault", "round1", "round2", "round3", "compute", "argon2", "activate")


@dataclass(frozen=True)
class Row:
    """Row of the table: a timed call."""

    curve: str
    what: str
    ms: float
    parts: dict[str, float]
    """Milliseconds by name, from the Server-Timing header; Argon2id runs beside the rounds."""


def command() -> Command:
    return Command(
        "demo",
        run,
        [
            network_option(),
            option(
                "--signer",
                "whose MPC node signs with the caller",
                type=click.Choice([ROLES[party] for party in MPC_NODES]),
                default=ROLES[OPERATOR],
            ),
            flag("--json", "JSON instead of a table"),
        ],
    )


def run(options: Options) -> int:
    """Start the system, go through a wallet's life, print the table."""
    import httpx

    from mpcsim.service.operations import (
        access_token,
        backend,
        free_port,
        node_program,
        process_group,
    )

    preset = options.network or DEFAULT_NETWORK
    network = scenario(preset).network
    if not options.json:
        sys.stdout.write(f"{network}\n\nsigning with the {options.signer}\n\n")
    with tempfile.TemporaryDirectory() as folder, process_group() as processes:
        *mpc_nodes, gateway = backend(folder, ["--network", preset])
        node = node_program(free_port(), gateway)
        processes.start(*mpc_nodes, gateway, node, quiet=True)
        known = credentials(Path(folder))
        token = access_token(gateway.address, known.api_key, known.api_secret, "demo")
        headers = {"Authorization": f"Bearer {token}"}
        with httpx.Client(
            base_url=node.address, headers=headers, timeout=60, trust_env=False
        ) as http:
            if options.json:
                rows = [
                    asdict(row) for curve in CURVES for row in life(http, curve, options.signer)
                ]
                calls = {"network": preset, "signer": options.signer, "calls": rows}
                sys.stdout.write(json.dumps(calls, indent=1) + "\n")
                return 0
            _print_head()
            for curve in CURVES:
                for row in life(http, curve, options.signer):
                    _print(row)
    return 0


def life(http: httpx.Client, curve: str, signer: str) -> list[Row]:
    """Generate, sign, lose the share, recover, sign; the key stays the same.

    Args:
        signer: the role of the MPC node that signs.

    Raises:
        UsageError: a call fails, or the recovered key is another one.
    """
    rows: list[Row] = []

    def call(what: str, path: str, **body: str) -> dict[str, Any]:
        began = time.perf_counter()
        answer = http.post(path, json=body)
        ms = (time.perf_counter() - began) * 1000
        if answer.status_code != 200:
            raise UsageError(f"{what}: {answer.status_code} {answer.text}")
        rows.append(Row(curve, what, ms, timings(answer.headers.get("server-timing", ""))))
        document: dict[str, Any] = answer.json()
        return document

    def sign(share: dict[str, Any]) -> None:
        fields = {name: share[name] for name in ("key_id", "encrypted_share", "secret_store")}
        for n in range(SIGNATURES):
            message = hashlib.sha256(f"payment {n}".encode()).hexdigest()
            call("sign", "/v3/wallet/sign", **fields, curve=curve, message=message, signer=signer)

    first = call("generate", "/v3/wallet/generate", curve=curve, password=PASSWORD)
    sign(first)
    second = call("recover", "/v3/wallet/recover", curve=curve, password=PASSWORD)
    if second["public_key"] != first["public_key"]:
        raise UsageError("recovery changed the public key")
    sign(second)
    return rows


def timings(header: str) -> dict[str, float]:
    """Parse a Server-Timing header: milliseconds by name."""
    found = (part.strip().partition(";dur=") for part in header.split(","))
    return {name: float(ms) for name, _, ms in found if ms}


def _print_head() -> None:
    columns = "".join(f"{name:>9}" for name in COLUMNS)
    sys.stdout.write(f"{'':<10} {'ms':<9}{'call':>9}{columns}\n")


def _print(row: Row) -> None:
    cells = [f"{row.parts[name]:9.1f}" if name in row.parts else " " * 9 for name in COLUMNS]
    line = f"{row.curve:<10} {row.what:<9}{row.ms:9.1f}{''.join(cells)}"
    sys.stdout.write(line.rstrip() + "\n")
    sys.stdout.flush()

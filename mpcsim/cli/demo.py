"""``mpcsim demo``: generate, sign, recover, sign again, on both curves, over a simulated WAN.

The real system on free ports, called as a backend would: only the distances are simulated.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from mpcsim.cli.network import add_network, parse
from mpcsim.cli.token import credentials
from mpcsim.errors import UsageError
from mpcsim.system import access_token, free_port, gateway_program, node_program, running

DEFAULT_NETWORK: Final = "seoul,institution=frankfurt"
PASSWORD: Final = "correct horse battery staple"
SIGNATURES: Final = 3


@dataclass(frozen=True)
class Row:
    """One call, timed."""

    curve: str
    what: str
    ms: float
    server_timing: str


def add(subparsers: Any) -> None:
    """Declare the subcommand."""
    parser = subparsers.add_parser(
        "demo", help="generate, sign, recover and sign over a simulated WAN; prints the timings"
    )
    add_network(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Start the system, go through a wallet's life, print the table."""
    preset = options.network or DEFAULT_NETWORK
    network = parse(preset)
    sys.stdout.write(f"{network}\n\n")
    with tempfile.TemporaryDirectory() as folder, running() as processes:
        gateway = gateway_program(free_port(), ["--data", folder, "--network", preset])
        node = node_program(free_port(), gateway)
        processes.start(gateway, quiet=True)
        processes.start(node, quiet=True)
        known = credentials(Path(folder))
        token = access_token(gateway.address, known.api_key, known.api_secret, "demo")
        headers = {"Authorization": f"Bearer {token}"}
        with httpx.Client(
            base_url=node.address, headers=headers, timeout=60, trust_env=False
        ) as http:
            for curve in ("secp256k1", "ed25519"):
                for row in life(http, curve):
                    _print(row)
    return 0


def life(http: httpx.Client, curve: str) -> list[Row]:
    """Generate, sign, lose the share, recover, sign; the key stays the same.

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
        rows.append(Row(curve, what, ms, answer.headers.get("server-timing", "")))
        document: dict[str, Any] = answer.json()
        return document

    def sign(share: dict[str, Any]) -> None:
        fields = {name: share[name] for name in ("key_id", "encrypted_share", "secret_store")}
        for n in range(SIGNATURES):
            message = hashlib.sha256(f"payment {n}".encode()).hexdigest()
            call("sign", "/v3/wallet/sign", **fields, curve=curve, message=message)

    first = call("generate", "/v3/wallet/generate", curve=curve, password=PASSWORD)
    sign(first)
    second = call("recover", "/v3/wallet/recover", curve=curve, password=PASSWORD)
    if second["public_key"] != first["public_key"]:
        raise UsageError("recovery changed the public key")
    sign(second)
    return rows


def _print(row: Row, write: Callable[[str], Any] = sys.stdout.write) -> None:
    write(f"{row.curve:<10} {row.what:<9} {row.ms:8.1f} ms   {row.server_timing}\n")
    sys.stdout.flush()

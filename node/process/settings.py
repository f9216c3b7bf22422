"""The node's settings, from environment variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from mpcsim.crypto.params import OT_EXTENSION_KS
from mpcsim.ids import PartyId
from mpcsim.service.process.http_limits import ConnectionLimits
from mpcsim.service.process.log_settings import folder_setting, format_setting
from mpcsim.service.process.settings import (
    SettingsError,
    ValueKind,
    describe,
    on_off,
    read,
    seconds,
    setting,
    whole_number,
)
from mpcsim.service.rpc import pinned_identities

__all__ = ["LEVELS", "Settings", "SettingsError"]

POLICIES: Final = ("both", "signer")
"""Vault policies."""
LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR")


def _address(text: str) -> str | None:
    parts = urlsplit(text)
    unwanted = parts.query or parts.fragment or parts.username is not None
    if parts.scheme not in ("http", "https") or not parts.hostname or unwanted:
        raise ValueError
    _ = parts.port  # raises ValueError if it is none
    return text.rstrip("/")


def _identities(text: str) -> Mapping[PartyId, bytes] | None:
    return pinned_identities.parse_identities(text)


def _policy(text: str) -> str:
    if text not in POLICIES:
        raise ValueError
    return text


def _k(text: str) -> int:
    k = int(text)
    if k not in OT_EXTENSION_KS:
        raise ValueError
    return k


def _level(text: str) -> str:
    if text.upper() not in LEVELS:
        raise ValueError
    return text.upper()


@dataclass(frozen=True)
class Settings:
    """Settings of a deployment. Only the gateway's address has no default."""

    waas_api_url: str | None = setting(
        None,
        "WAAS_API_URL",
        ValueKind(_address, "an address such as https://gateway.example"),
        "Base address of the gateway. Without it only the health check works.",
    )
    app_port: int = setting(
        9091, "APP_PORT", whole_number(1, 65535, "a port number"), "Port to listen on."
    )
    app_host: str = setting(
        "127.0.0.1",
        "APP_HOST",
        ValueKind(str, "an IP address"),
        # Whoever reaches the node can try tokens on it.
        "Address to listen on. A container sets 0.0.0.0; its network is the restriction then.",
    )
    build_type: str = setting(
        "development", "BUILD_TYPE", ValueKind(str, "a word"), "Shown in the health record."
    )
    gateway_timeout_s: float = setting(
        30.0, "GATEWAY_TIMEOUT_S", seconds(600), "How long one request to the gateway may take."
    )
    metrics_port: int | None = setting(
        None,
        "METRICS_PORT",
        ValueKind[int | None](whole_number(1, 65535).parse, "a port number, 1 to 65535"),
        "Port with figures for Prometheus, GET /metrics, and whether it is ready, GET /ready; "
        "none without it. For one process only.",
    )
    workers: int = setting(
        1, "WORKERS", whole_number(1, 64, "a number of processes"), "Processes that share the port."
    )
    password_threads: int | None = setting(
        None,
        "PASSWORD_THREADS",
        ValueKind[int | None](whole_number(1, 256).parse, "a number of threads, 1 to 256"),
        "Passwords that a process checks at a time, each with a core and 64 MiB. Unset: as many as "
        "its limits of CPU and memory allow (cgroup v2), but for a core that stays for signing.",
    )
    log_level: str = setting(
        "INFO",
        "LOG_LEVEL",
        ValueKind(_level, "one of " + ", ".join(LEVELS)),
        "The lowest level that is logged.",
    )
    log_format: str = format_setting()
    log_folder: str | None = folder_setting()
    mpc_node_keys: Mapping[PartyId, bytes] | None = setting(
        None,
        pinned_identities.VARIABLE,
        ValueKind(_identities, "operator=<64 hex digits>,institution=<64 others>"),
        "Identities of the MPC nodes; no others are worked with. Without it those that the gateway "
        "first shows are taken, and logged in this form: the gateway is believed once.",
    )
    early_requests: bool = True
    """Whether the first message of a signature travels with the request that opens the vault, which
    saves a round trip. No variable: off is for comparisons alone."""
    separate_messages: bool = setting(
        False,
        "SEPARATE_MESSAGES",
        on_off(),
        "Whether what a signature has to say to its MPC node at one time goes in requests of their "
        "own, over connections of their own: more requests, and each with a window of its own.",
    )
    vault_policy: str = setting(
        "both",
        "VAULT_POLICY",
        ValueKind(_policy, "both or signer"),
        "Who opens a share that is made from now on. both: the two MPC nodes together; whoever has "
        "the caller's database and one MPC node has nothing, and nothing signs while either is "
        "away. signer: the one that signs, alone; signing goes on for an hour while the other is "
        "away, and whoever has the database and one MPC node has the caller's share.",
    )
    ot_extension_k: int = setting(
        1,
        "OT_EXTENSION_K",
        ValueKind(_k, "1, 2 or 4"),
        "Of secp256k1 keys that are made from now on: what is said to the MPC node in signing "
        "shrinks to 1/k, a fifth of all at first; the shares grow, with 4 to two and a half times "
        "their size, and a signature costs a few percent more CPU.",
    )
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    """Connection limits, with variables of their own."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Settings:
        """Read the variables; an empty one counts as unset.

        Raises:
            SettingsError: a variable has an impossible value.
        """
        found = read(cls, environment, limits=read(ConnectionLimits, environment))
        if found.metrics_port is not None and found.workers > 1:
            raise SettingsError(
                "METRICS_PORT needs WORKERS=1: each process would have figures of its own; run "
                "several nodes, with a port each"
            )
        return found

    @classmethod
    def variables(cls) -> str:
        """Return a description of all variables, for a help text."""
        return describe(cls, ConnectionLimits)

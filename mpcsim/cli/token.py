"""``mpcsim token USER``: print an access token, alone on standard output."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mpcsim.cli.command import FILE, Command, Options, argument, option
from mpcsim.cli.ports import gateway_port
from mpcsim.errors import UsageError
from mpcsim.service.operations import DATA_FOLDER, HOST

if TYPE_CHECKING:
    from mpcsim.service.gateway import Credentials

__all__ = ["command", "credentials", "data_option", "fresh_token"]


def command() -> Command:
    return Command(
        "token",
        run,
        [
            argument("user", "USER", help="user name; signed up if need be"),
            option("--gateway", "address of the gateway (default: this machine's)", metavar="URL"),
            data_option(),
        ],
    )


def data_option() -> click.Option:
    return option(
        "--data",
        "where the services have their folders; MPCSIM_DATA sets the default",
        type=FILE,
        default=_data_folder(),
        metavar="FOLDER",
    )


def run(options: Options) -> int:
    """Sign up if need be, log in, print the token."""
    sys.stdout.write(fresh_token(options.user, options.gateway, options.data) + "\n")
    return 0


def fresh_token(user: str, gateway: str | None = None, data: Path | None = None) -> str:
    """Return a new token for a user, who is signed up first if need be.

    Args:
        gateway: its address; this machine's by default.
        data: the data folder; as for ``--data`` by default.

    Raises:
        UsageError: the gateway cannot be reached, or refuses; or no credentials are known.
    """
    from mpcsim.service.operations import access_token

    found = credentials(data or _data_folder())
    address = gateway or f"http://{HOST}:{gateway_port()}"
    return access_token(address, found.api_key, found.api_secret, user)


def _data_folder() -> Path:
    return Path(os.environ.get("MPCSIM_DATA") or DATA_FOLDER)


def credentials(folder: Path) -> Credentials:
    """Return the credentials of callers: ``WAAS_API_KEY`` and ``WAAS_API_SECRET``, or those
    in the gateway's own database.

    Raises:
        UsageError: neither is there.
    """
    from mpcsim.service.gateway import Credentials, Registry
    from mpcsim.service.operations import store_file
    from mpcsim.service.storage import REGISTRY

    api_key, api_secret = os.environ.get("WAAS_API_KEY"), os.environ.get("WAAS_API_SECRET")
    if api_key and api_secret:
        return Credentials(api_key, api_secret)
    path = store_file(folder, REGISTRY)
    if not (path.is_file() and path.stat().st_size):
        raise UsageError(
            f"no gateway has kept its data in {folder} (--data names another folder; "
            "WAAS_API_KEY and WAAS_API_SECRET do without)"
        )
    registry = Registry(path)
    try:
        return registry.credentials()
    finally:
        registry.close()

"""``--network``: a network from the command line, a preset or a file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Final

from mpcsim.errors import UsageError, unknown
from mpcsim.sim.network.presets import ACCESS, REGIONS
from mpcsim.sim.network.topology import Network

SETTINGS: Final = ("operator", "institution", "gateway", "access", "loss")

SUFFIX: Final = ".toml"
"""What makes it a file."""

HELP: Final = (
    "latencies, rates and losses on all links, from a network file (FILE.toml; see mpcsim network) "
    "or a preset: REGION[,SETTING=VALUE...], e.g. "
    "seoul,institution=frankfurt,access=lte,loss=0.01; settings: "
    + ", ".join(SETTINGS)
    + "; regions: "
    + ", ".join(REGIONS)
    + "; access: "
    + ", ".join(ACCESS)
)


def add_network(parser: argparse.ArgumentParser) -> None:
    """Declare the option."""
    parser.add_argument("--network", metavar="NETWORK", help=HELP)


def parse(text: str | None) -> Network | None:
    """The network that ``--network`` names.

    Raises:
        UsageError: unknown region, access network or setting; a file that is none, or that cannot
            be read.
    """
    if not text:
        return None
    if text.endswith(SUFFIX):
        return load(text)
    region, *settings = text.split(",")
    chosen: dict[str, Any] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if name not in SETTINGS:
            raise UsageError(f"--network: {unknown('setting', name, SETTINGS)}")
        if not equals:
            raise UsageError(f"--network: {name} has no value: {name}=...")
        try:
            chosen[name] = float(value) if name == "loss" else value
        except ValueError:
            raise UsageError(f"--network: loss is {value!r}, not a number") from None
    return Network.preset(region, **chosen)


def load(path: str | Path) -> Network:
    """The network in a file.

    Raises:
        UsageError: it cannot be read, or is none: says where.
    """
    try:
        return Network.load(path)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None

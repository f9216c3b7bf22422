"""``--network``: a network from the command line."""

from __future__ import annotations

import argparse
from typing import Any, Final

from mpcsim.errors import UsageError, unknown
from mpcsim.sim.network.presets import ACCESS, REGIONS
from mpcsim.sim.network.topology import Network

SETTINGS: Final = ("operator", "institution", "gateway", "access", "loss")

HELP: Final = (
    "latency preset on all links: REGION[,SETTING=VALUE...], e.g. "
    "seoul,institution=frankfurt,access=lte,loss=0.01; settings: "
    + ", ".join(SETTINGS)
    + "; regions: "
    + ", ".join(REGIONS)
    + "; access: "
    + ", ".join(ACCESS)
)


def add_network(parser: argparse.ArgumentParser) -> None:
    """Declare the option."""
    parser.add_argument("--network", metavar="PRESET", help=HELP)


def parse(text: str | None) -> Network | None:
    """The network that ``--network`` names.

    Raises:
        UsageError: unknown region, access network or setting.
    """
    if not text:
        return None
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

"""``--network``: a network from the command line, a preset or a file, and scenarios likewise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from mpcsim.cli.command import option
from mpcsim.errors import UsageError, unknown
from mpcsim.sim.network import ACCESS, REGIONS

if TYPE_CHECKING:
    from mpcsim.sim import Network, Scenario

SETTINGS: Final = ("operator", "institution", "gateway", "access", "loss")

SUFFIX: Final = ".toml"
"""Suffix of network files."""

HELP: Final = (
    "latencies, rates and losses on all links, from a network or scenario file (FILE.toml; see "
    "mpcsim network and mpcsim sim) or a preset: REGION[,SETTING=VALUE...], e.g. "
    "seoul,institution=frankfurt,access=lte,loss=0.01; settings: "
    + ", ".join(SETTINGS)
    + "; operator and institution may be a round trip, too: institution=120ms; regions: "
    + ", ".join(REGIONS)
    + "; access: "
    + ", ".join(ACCESS)
)


def network_option() -> click.Option:
    return option("--network", HELP, metavar="NETWORK")


def scenario(text: str) -> Scenario:
    """Return the scenario in a file, or the default scenario over a preset.

    Raises:
        UsageError: unknown region, access network or setting; a file that is none, or that cannot
            be read.
    """
    from mpcsim.sim import Scenario

    if not text.endswith(SUFFIX):
        if {".", "/"} & set(text.partition(",")[0]):
            raise UsageError(f"{text} is neither a file that ends in {SUFFIX} nor a preset")
        return Scenario(_preset(text))
    try:
        return Scenario.load(text)
    except OSError as error:
        raise UsageError(f"{text}: {error.strerror or error}") from None


def conditions(text: str | None, *, in_process: bool = False) -> Scenario | None:
    """Return the network that ``--network`` names, with faults and seed if a scenario file has
    them.

    Args:
        in_process: see ``Scenario.check_service``.

    Raises:
        UsageError: as for ``scenario``; a scenario that no service can be in.
    """
    if not text:
        return None
    found = scenario(text)
    found.check_service(in_process=in_process)
    return found


def losses(network: Network) -> dict[str, str]:
    """Return the loss of each direction that loses packets at random, such as ``client → gateway``;
    acknowledgements take the other direction."""
    directions = [link.direction(end) for link in network.links for end in (link.a, link.b)]
    rows = [direction.row() for direction in directions if direction.loss]
    return {name: loss for name, _, _, loss, _ in rows}


def format_losses(network: Network) -> str:
    """Return a sentence on the losses; empty if there are none."""
    found = losses(network)
    return "packets lost: " + ", ".join(map(" ".join, found.items())) if found else ""


def _preset(text: str) -> Network:
    from mpcsim.sim import Network

    region, *settings = text.split(",")
    chosen: dict[str, Any] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if name not in SETTINGS:
            raise UsageError(f"{text}: {unknown('setting', name, SETTINGS)}")
        if not equals:
            raise UsageError(f"{text}: {name} has no value: {name}=...")
        try:
            chosen[name] = float(value) if name == "loss" else value
        except ValueError:
            raise UsageError(
                f"{text}: loss is {value!r}, not a number: loss=0.01 loses one packet in a hundred"
            ) from None
    return Network.preset(region, **chosen)


def summary(network: Network) -> str:
    """Return the latencies between its sites, in a line."""
    links = [f"{link.a} - {link.b} {link.mean_text}" for link in network.links]
    return ", ".join(links) + " (one way, on average)"

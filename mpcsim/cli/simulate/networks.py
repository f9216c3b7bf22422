"""``mpcsim network``: make networks from measurements, and show network files."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Final

import click

from mpcsim.cli.command import Command, Options, argument, flag, group, option, repeatable
from mpcsim.cli.network import SUFFIX, scenario
from mpcsim.cli.outputs import PICTURES, prepare_output, save_figure
from mpcsim.cli.reference import MEASUREMENTS, NETWORK, reference_option
from mpcsim.errors import UsageError
from mpcsim.ids import ROLES
from mpcsim.sim import Table, counted
from mpcsim.sim.network.measured import DISTRIBUTIONS, Fit, Series, fit, network_assembly, reading
from mpcsim.version import __version__

IN_FULL: Final = 4
"""Limit of pairs of sites that are shown one by one; more are shown as a table."""

EPILOG: Final = """\
FILE is what one of these has written, recognised by its content:
  ping (Unix and Windows), fping, hping3 -S, tcpping, mtr (--json, --report, --csv, --raw),
  iperf3 --json (and --json-stream), curl -w '%{json}\\n' (or lines of time_connect: 0.0123),
  a HAR file of a browser or proxy, a table with the columns from, to, rtt_ms (and time),
  a matrix of regions; tables as CSV, Markdown or JSON.
Several runs in a file are told apart; several hosts are several pairs (--site).

The network is the wallet's: nodes of the caller, the operator and the institution around the
gateway. A file of one pair measures the caller's link, unless --site says otherwise.

Columns of the fits: the latency one way; the greatest difference of the distribution functions
(KS: Kolmogorov-Smirnov distance, 0 to 1); the mean error of a round trip (off by ms: Wasserstein
distance); mean and percentiles of the round trips, as measured and as each distribution has them.
"*" is what is taken.
"""


def command() -> click.Group:
    return group("network", [_fit_command(), _show_command()])


def _fit_command() -> Command:
    return Command(
        "fit",
        run_fit,
        [
            argument("file", "FILE"),
            option(
                "--format",
                "of FILE (default: by its content)",
                type=click.Choice(list(reading.FORMATS)),
            ),
            option("--unit", "of the numbers of a CSV: ns, us, ms or s"),
            option("--column", "heading of the round trips in a CSV"),
            repeatable(
                "--site",
                "given twice: the ends of the pair that was measured, or which pair of FILE is "
                "meant",
                metavar="NAME",
            ),
            *(
                option(f"--{role}", f"at which site the {role} is", metavar="SITE")
                for role in network_assembly.ROLES
            ),
            option(
                "--distribution", "to take (default: the nearest)", type=click.Choice(DISTRIBUTIONS)
            ),
            option(
                "--blocks",
                "keep the order of the samples in blocks of N: round trips come in bursts",
                type=int,
                metavar="N",
            ),
            option(
                "--mbit",
                "rate of the measured links in Mbit/s, where FILE does not say it",
                type=float,
                metavar="RATE",
            ),
            option("--output", "network file to write", metavar=f"NET{SUFFIX}"),
            option("--figure", "picture to write: PNG, SVG or PDF", metavar="FIT.png"),
            reference_option("tables of measurements", *MEASUREMENTS),
        ],
        text="Show what was measured and the distributions that fit, and write a network file.",
        more=EPILOG,
    )


def _show_command() -> Command:
    file = argument("file", f"NET{SUFFIX}")
    as_json = flag("--json", "JSON instead of a table")
    return Command(
        "show",
        run_show,
        [file, as_json, reference_option("network files", *NETWORK)],
        text="Show what a network file says.",
    )


def run_show(options: Options) -> int:
    """Print the network."""
    network = scenario(options.file).network
    directions = [link.direction(end) for link in network.links for end in (link.a, link.b)]
    links = [direction.row() for direction in directions]
    head = ("link", "one way", "Mbit/s", "loss", "queue")
    if options.json:
        found = {
            "name": network.name,
            "links": [dict(zip(head, link, strict=True)) for link in links],
            "sites": list(network.sites),
            "parties": {str(ROLES.get(p, p)): site for p, site in network.placement.items()},
            "connection": {
                each.name: getattr(network.connection, each.name)
                for each in fields(network.connection)
            },
        }
        sys.stdout.write(json.dumps(found, indent=1) + "\n")
        return 0
    parties = ", ".join(
        f"{ROLES.get(party, party)} at {site}" for party, site in network.placement.items()
    )
    connection = ", ".join(
        f"{each.name} {getattr(network.connection, each.name)}"
        for each in fields(network.connection)
    )
    lines = [
        f"Network: {network.name or 'unnamed'}",
        Table(head, links, frozenset(head[2:])).text(),
        f"  sites: {', '.join(network.sites)}",
        f"  parties: {parties}",
        f"  connections: {connection}",
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def run_fit(options: Options) -> int:
    """Read measurements, fit them, print the fits, and write the outputs."""
    _check_outputs(options)
    found = reading.read(options.file, options.format, unit=options.unit, column=options.column)
    series = _sites(found.series, options.site)
    fits = [fit(each, options.distribution, options.blocks) for each in series]
    chosen = replace(found, series=tuple(series))
    chose = [each.headline for each in fits[:IN_FULL]]
    if len(fits) > IN_FULL:
        chose = [f"{counted(len(fits), 'pair')} fitted"]
    lines = [*chose, *(f"  {line}" for line in chosen.summary), _format_fits(fits)]
    sys.stdout.write("\n".join(lines) + "\n")
    asked = {
        role: site
        for role in network_assembly.ROLES
        if (site := getattr(options, role)) is not None
    }
    if options.output is None and not asked:
        if options.figure is not None:
            _draw(fits[:IN_FULL], options.figure, options.file)
        return 0
    made = network_assembly.assemble_network(
        fits, asked, mbit_per_s=options.mbit, name=Path(options.file).name
    )
    lines = ["", str(made.network), *(f"  assumed: {text}" for text in made.assumptions)]
    sys.stdout.write("\n".join(lines) + "\n")
    if options.output is not None:
        try:
            note = f"{made.note(found.path)}\nWritten by mpcsim {__version__}."
            made.network.save(options.output, note)
        except OSError as error:
            raise UsageError(f"--output: {options.output}: {error.strerror or error}") from None
        sys.stdout.write(
            f"\nwritten: {options.output}  (mpcsim serve --network={options.output})\n"
        )
    if options.figure is not None:
        _draw(made.fits, options.figure, options.file)
    return 0


def _check_outputs(options: Options) -> None:
    """Check the outputs before anything is fitted."""
    prepare_output("--output", options.output, (SUFFIX,))
    prepare_output("--figure", options.figure, PICTURES)
    if len(options.site) not in (0, 2):
        raise UsageError("--site: a pair has two of them: --site=client --site=gateway")
    if options.mbit is not None and not 0 < options.mbit < float("inf"):
        raise UsageError(f"--mbit is {options.mbit}: not above 0, or not finite")
    roles = [role for role in network_assembly.ROLES if getattr(options, role) is not None]
    if options.mbit is not None and options.output is None and not roles:
        raise UsageError(f"--mbit: of a network, and none is made: --output=NET{SUFFIX}")


def _sites(series: Sequence[Series], names: Sequence[str]) -> list[Series]:
    """Return the pair that the names choose, or all.

    Raises:
        UsageError: the names are alike; the file has several pairs, and not this one.
    """
    if not names:
        return list(series)
    a, b = names
    meant = [each for each in series if {each.a, each.b} == {a, b}]
    if meant:
        return meant
    if a == b:
        raise UsageError(f"--site: {a} twice: a link needs two sites")
    if len(series) > 1:
        pairs = ", ".join(f"{each.a} - {each.b}" for each in series[:20])
        raise UsageError(f"--site: {a} - {b} is not among the measured pairs: {pairs}")
    return [series[0].with_ends(a, b)]


def _format_fits(fits: Sequence[Fit]) -> str:
    if len(fits) <= IN_FULL:
        return "\n".join(
            "\n".join(["", *network_assembly.describe_fit(each), "", each.table().text()])
            for each in fits
        )
    rows = []
    for each in fits:
        series, moments = each.series, each.series.moments
        rows.append(
            (
                f"{series.a} - {series.b}",
                str(moments.count),
                f"{moments.least_ms:.4g}",
                f"{moments.mean_ms:.4g}",
                f"{series.loss:.2%}",
                str(each.chosen),
            )
        )
    head = ("pair", "samples", "least ms", "mean ms", "loss", "one way")
    understood = dict.fromkeys(f"  {text}" for each in fits for text in each.series.understood)
    said = dict.fromkeys(
        f"  Warning: {text}" for each in fits for text in (*each.series.warnings, *each.warnings)
    )
    return "\n".join(["", Table(head, rows, frozenset(head[1:5])).text(), *understood, *said])


def _draw(fits: Sequence[Fit], path: str, source: str) -> None:
    from mpcsim.sim.figures import measured_links

    save_figure(measured_links(fits), path, f"mpcsim network fit {source}")
    sys.stdout.write(f"written: {path}\n")

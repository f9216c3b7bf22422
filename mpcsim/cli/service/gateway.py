"""``mpcsim gateway``: the gateway alone."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from mpcsim.cli.command import (
    COUNT,
    Command,
    Options,
    at_least,
    flag,
    option,
)
from mpcsim.cli.logs import log_folder, log_format, log_format_option
from mpcsim.cli.network import conditions, network_option
from mpcsim.cli.ports import (
    gateway_port,
    metrics_port,
    metrics_port_option,
    mpc_node_address,
)
from mpcsim.cli.token import data_option
from mpcsim.errors import UsageError
from mpcsim.ids import MPC_NODES
from mpcsim.service.gateway import (
    LEASE_S,
    LINK_TIMEOUT_S,
    MAKING_QUEUE,
    MAKING_WAIT_S,
    TOKEN_LIFETIME_S,
)
from mpcsim.service.operations import HOST
from mpcsim.service.process import ConnectionLimits, LogSettings, describe, read
from mpcsim.sim.network import FORWARDING

if TYPE_CHECKING:
    from mpcsim.service.gateway import Rate
    from mpcsim.service.gateway.api import MakeService
    from mpcsim.service.operations import RunningGateway

LIMITS: Final = {
    "guesses": "checks of a password",
    "recoveries": "recoveries of its keys",
    "signatures": "signatures",
}
VARIABLES: Final = """\
  GATEWAY_PORT
      Port to listen on. Default: 9090.
  OPERATOR_URL, INSTITUTION_URL
      Where the MPC nodes are. Default: this machine, OPERATOR_PORT (9092) and INSTITUTION_PORT
      (9093).
  CHAIN_RPC_URL, CHAIN_BUNDLER_KEY
      A chain for the smart accounts, and the key that pays there. Default: an empty chain of the
      gateway's own, in a process beside it.
  CHAIN_BUDGET_WEI
      What is sponsored for each user in a day, in wei; as much may be lost by the key that pays.
      Default: 10^18, one coin.
"""


def command() -> Command:
    return Command(
        "gateway",
        run,
        [
            flag(
                "--with-mpc-nodes",
                "both MPC nodes in this process, too: quicker, but one process holds both shares",
            ),
            *gateway_options(),
            metrics_port_option(),
            log_format_option(),
            data_option(),
        ],
        about="See serve for all at once.",
        more="Environment variables:\n" + VARIABLES + describe(LogSettings, ConnectionLimits),
    )


def gateway_options() -> list[click.Parameter]:
    """Return the options of a gateway."""
    return [
        option("--host", "address the gateway listens on", default=HOST),
        option(
            "--queue",
            "signing requests that may wait for one key; at 0 a second one is refused at once",
            type=COUNT,
            default=0,
            metavar="N",
        ),
        option(
            "--making-limit",
            "keys that may be made at a time, by generate and recover of all users together, so "
            "that signing keeps its share of the cores; more wait in order, and whoever has tokens "
            "can keep others waiting; 0: no limit",
            type=COUNT,
            default=0,
            metavar="N",
        ),
        option(
            "--making-queue",
            "how many may wait for that; more are answered 429",
            type=COUNT,
            default=MAKING_QUEUE,
            metavar="N",
        ),
        option(
            "--making-wait",
            "seconds after which those who wait are answered 429, too; less than the node's "
            "GATEWAY_TIMEOUT_S",
            type=at_least(0),
            default=MAKING_WAIT_S,
            metavar="S",
        ),
        *(
            option(
                f"--limit-{name}",
                f"how many {what} each user may ask for in a minute, all at once if it likes; "
                "N/Ss: in S seconds; more are answered 429 (default: no limit)",
                type=_rate,
                metavar="N",
            )
            for name, what in LIMITS.items()
        ),
        option(
            "--token-lifetime",
            "seconds a token holds",
            type=at_least(1),
            default=TOKEN_LIFETIME_S,
            metavar="S",
        ),
        option(
            "--lease",
            "seconds a session's caller may be silent before the key's next caller takes its place",
            type=at_least(0.1),
            default=LEASE_S,
            metavar="S",
        ),
        option(
            "--link-timeout",
            "seconds the gateway waits for an MPC node; less than the node's GATEWAY_TIMEOUT_S",
            type=at_least(0.1),
            default=LINK_TIMEOUT_S,
            metavar="S",
        ),
        option(
            "--forwarding",
            "messages of a signature: store them and forward them once they are whole, or forward "
            "what has come of them, which saves round trips on long hops (default: as --network "
            "has it, or else store)",
            type=click.Choice(FORWARDING),
        ),
        network_option(),
    ]


def given(options: Options) -> list[str]:
    """Return the options, but for the address, as a command line."""
    found = ["--queue", str(options.queue), "--token-lifetime", str(options.token_lifetime)]
    found += ["--lease", str(options.lease), "--link-timeout", str(options.link_timeout)]
    found += ["--making-limit", str(options.making_limit)]
    found += ["--making-queue", str(options.making_queue)]
    found += ["--making-wait", str(options.making_wait)]
    for name in ("forwarding", "network", *(f"limit-{name}" for name in LIMITS)):
        if (value := getattr(options, name.replace("-", "_"))) is not None:
            found += [f"--{name}", str(value)]
    return found


def run(
    options: Options,
    *,
    now: Callable[[], float] = time.time,
    opened: Callable[[RunningGateway], None] = lambda gateway: None,
) -> int:
    """Serve until Ctrl-C, SIGTERM or SIGHUP.

    Args:
        now: seconds since 1970 UTC.
        opened: is given the gateway before it serves.
    """
    from mpcsim.service.operations import GatewayOptions, chain_file, open_gateway, serve
    from mpcsim.service.web import SHARE, configure_logs

    limits = read(ConnectionLimits, os.environ)
    shown_at = metrics_port(options)
    log = configure_logs(log_format(options), log_folder(), "gateway")
    under = conditions(options.network, in_process=options.with_mpc_nodes)
    gateway = open_gateway(
        options.data,
        GatewayOptions(
            mpc_nodes=None
            if options.with_mpc_nodes
            else {p: mpc_node_address(p) for p in MPC_NODES},
            smart_accounts=_chain(chain_file(options.data)),
            network=under.network if under else None,
            faults=under.faults if under else (),
            seed=under.seed if under else 0,
            forwarding=options.forwarding,
            queue=options.queue,
            making_limit=options.making_limit,
            making_queue=options.making_queue,
            making_wait_s=options.making_wait,
            most_of_user=max(1, limits.connections // SHARE),
            limit_guesses=options.limit_guesses,
            limit_recoveries=options.limit_recoveries,
            limit_signatures=options.limit_signatures,
            token_lifetime_s=options.token_lifetime,
            lease_s=options.lease,
            log=log,
            log_now=time.time,
            link_timeout_s=options.link_timeout,
            now=now,
        ),
    )
    opened(gateway)
    serve(gateway, options.host, gateway_port(), limits, shown_at)
    return 0


def _rate(text: str) -> Rate:
    """Parse a rate."""
    from mpcsim.service.gateway import Rate

    try:
        return Rate.parse(text)
    except UsageError as error:
        raise click.BadParameter(str(error)) from None


def _chain(address_file: Path) -> MakeService:
    """Return the chain of the smart-account flow: ``CHAIN_RPC_URL``, with ``CHAIN_BUNDLER_KEY`` to
    pay, or else one of the gateway's own.

    Raises:
        UsageError: only one of the two is set, the key is none, or the budget is no number.
    """
    from mpcsim.service.gateway.api import in_own_process, over_rpc

    budget = _whole("CHAIN_BUDGET_WEI")
    url, key = os.environ.get("CHAIN_RPC_URL"), os.environ.get("CHAIN_BUNDLER_KEY")
    if bool(url) != bool(key):
        raise UsageError("CHAIN_RPC_URL and CHAIN_BUNDLER_KEY go together")
    if not (url and key):
        return in_own_process(budget, address_file)
    address_file.unlink(missing_ok=True)  # left by a gateway that was killed
    return over_rpc(url, key, budget)


def _whole(variable: str) -> int | None:
    """Return an environment variable's whole number from 0 on; None: it is not set."""
    text = os.environ.get(variable)
    if not text:
        return None
    if not (text.isascii() and text.isdigit()):
        raise UsageError(f"{variable} is {text}: not a whole number from 0 on")
    return int(text)

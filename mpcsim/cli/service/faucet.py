"""``mpcsim faucet ADDRESS``: coins for an address on the chain that the gateway runs itself."""

from __future__ import annotations

import sys
from decimal import Decimal
from typing import Final

import click

from mpcsim.cli.command import Command, Options, argument, option
from mpcsim.cli.token import data_option

WEI: Final = 10**18
MOST: Final = 10**9


def command() -> Command:
    return Command(
        "faucet",
        run,
        [
            argument("address", "ADDRESS", help="of any account, in 0x hex"),
            option("--coins", "how many", type=_to_wei, default="1", metavar="N"),
            data_option(),
        ],
    )


def run(options: Options) -> int:
    """Give the coins; print the new balance.

    Raises:
        UsageError: the address is none, or no gateway runs a chain of its own.
    """
    from mpcsim.service.operations import chain_file
    from mpcsim.service.smart_account import give_coins

    balance = give_coins(chain_file(options.data), options.address, options.coins)
    sys.stdout.write(f"{options.address} has {Decimal(balance) / WEI:f} coins\n")
    return 0


def _to_wei(text: str) -> int:
    """Parse an amount for Click; return it in wei."""
    try:
        found = int(Decimal(text) * WEI)
    except (ArithmeticError, ValueError):
        found = 0
    if not 0 < found <= MOST * WEI:
        raise click.BadParameter(f"{text!r} is not a number above 0, up to {MOST}")
    return found

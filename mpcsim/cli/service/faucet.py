"""``mpcsim faucet ADDRESS``: coins for an address on the chain that the gateway runs itself."""

from __future__ import annotations

import argparse
import sys
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from mpcsim.cli.token import add_data
from mpcsim.service.operations import chain_file

WEI: Final = 10**18
MOST: Final = 10**9


def add(subparsers: Any) -> None:
    """Declare the subcommand."""
    parser = subparsers.add_parser(
        "faucet", help="give an address coins on the gateway's own chain, and on no other"
    )
    parser.add_argument("address", help="of any account, in 0x hex")
    parser.add_argument(
        "--coins", type=_coins, default="1", metavar="N", help="how many (default %(default)s)"
    )
    add_data(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Give the coins; print the new balance.

    Raises:
        UsageError: the address is none, or no gateway runs a chain of its own.
    """
    from mpcsim.service.smart_account import give_coins  # loads the libraries of Ethereum

    balance = give_coins(chain_file(options.data), options.address, options.coins)
    sys.stdout.write(f"{options.address} has {Decimal(balance) / WEI:f} coins\n")
    return 0


def _coins(text: str) -> int:
    """Return an amount in wei, for argparse."""
    try:
        found = int(Decimal(text) * WEI)
    except (InvalidOperation, OverflowError, ValueError):
        found = 0
    if not 0 < found <= MOST * WEI:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0, up to {MOST}")
    return found

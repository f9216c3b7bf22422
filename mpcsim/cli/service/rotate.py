"""``mpcsim rotate``: another key for tokens, or for a link, or in place of a lost seal key."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from typing import Any

from mpcsim.cli.service.mpc_node import PARTIES
from mpcsim.cli.token import add_data
from mpcsim.crypto import SystemRng
from mpcsim.ids import ROLES, PartyId
from mpcsim.service.operations import (
    GRACE_S,
    link_file,
    replace_lost_seal_key,
    rotate_link,
    rotate_token_key,
)
from mpcsim.service.storage import REGISTRY
from mpcsim.sim import counted


def add(subparsers: Any) -> None:
    """Declare the subcommand."""
    parser = subparsers.add_parser(
        "rotate", help="change a key of the service, while it runs, or replace a lost one"
    )
    what = parser.add_subparsers(dest="what", required=True)

    token_key = what.add_parser("token-key", help="sign access tokens with another key")
    token_key.add_argument(
        "--now",
        action="store_true",
        help="the old key has leaked: tokens that it has signed hold no more (by default each "
        "holds until it expires)",
    )
    add_data(token_key)
    token_key.set_defaults(run=_token_key)

    link = what.add_parser("link", help="give gateway and MPC node another key for their link")
    link.add_argument("role", choices=PARTIES, help="whose MPC node it is")
    link.add_argument(
        "--grace",
        type=float,
        default=GRACE_S,
        metavar="S",
        help="seconds for which the MPC node accepts the old key, too: time to carry the files to "
        "where they belong (default %(default)s; 0 if the old key has leaked)",
    )
    add_data(link)
    link.set_defaults(run=_link)

    seal_key = what.add_parser(
        "seal-key", help="a new seal key for an MPC node that has lost its own and has no backup"
    )
    seal_key.add_argument("role", choices=PARTIES, help="whose MPC node it is; it must not run")
    seal_key.add_argument(
        "--lost",
        action="store_true",
        required=True,
        help="the old one is lost: nothing opens any more that was sealed to it, and every user "
        "has to recover",
    )
    add_data(seal_key)
    seal_key.set_defaults(run=_seal_key)


def _token_key(options: argparse.Namespace) -> int:
    end = rotate_token_key(options.data, SystemRng(), at_once=options.now)
    _print("Tokens are signed with a new key from now on.")
    if end is None:
        _print("Those of the old one hold no more: callers get a 401 and have to log in again.")
    else:
        _print(
            f"Those of the old one hold as long as they would have, the last until {_time(end)}."
        )
    return 0


def _link(options: argparse.Namespace) -> int:
    party: PartyId = PARTIES[options.role]
    until = rotate_link(options.data, party, SystemRng(), grace_s=options.grace)
    node, gateway = (link_file(options.data, role, party) for role in (ROLES[party], REGISTRY))
    _print(
        f"The link to the {options.role} has a new key; the old one is accepted until "
        f"{_time(until)}.",
        "Where the folders are used is seen within a second. If that is elsewhere, take the files "
        "there by then, in this order:",
        f"  1. {node}",
        f"  2. {gateway}",
    )
    return 0


def _seal_key(options: argparse.Namespace) -> int:
    shares = replace_lost_seal_key(options.data, PARTIES[options.role], SystemRng())
    _print(
        f"The {options.role} has a new seal key. {counted(shares, 'share')}: the key of each has "
        "to be recovered by its user (POST /v3/wallet/recover) before it signs again."
    )
    return 0


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(" ", "seconds").replace("+00:00", " UTC")


def _print(*lines: str) -> None:
    sys.stdout.writelines(f"{line}\n" for line in lines)

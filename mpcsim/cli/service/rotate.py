"""``mpcsim rotate``: another key for tokens, or for a link, or in place of a lost seal key."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

import click

from mpcsim.cli.command import Command, Options, flag, group, option
from mpcsim.cli.service.mpc_node import PARTIES, role_argument
from mpcsim.cli.token import data_option
from mpcsim.errors import UsageError
from mpcsim.ids import ROLES, PartyId
from mpcsim.service.operations import GRACE_S
from mpcsim.sim import counted


def command() -> click.Group:
    return group("rotate", [_token_key_command(), _link_command(), _seal_key_command()])


def _token_key_command() -> Command:
    return Command(
        "token-key",
        _token_key,
        [
            flag(
                "--now",
                "the old key has leaked: tokens that it has signed hold no more (by default each "
                "holds until it expires)",
            ),
            data_option(),
        ],
        text="Sign access tokens with another key.",
    )


def _link_command() -> Command:
    return Command(
        "link",
        _link,
        [
            role_argument("whose MPC node it is"),
            option(
                "--grace",
                "seconds for which the MPC node accepts the old key, too: time to carry the files "
                "to where they belong; 0 if the old key has leaked",
                type=float,
                default=GRACE_S,
                metavar="S",
            ),
            data_option(),
        ],
        text="Give gateway and MPC node another key for their link.",
    )


def _seal_key_command() -> Command:
    return Command(
        "seal-key",
        _seal_key,
        [
            role_argument("whose MPC node it is; it must not run"),
            flag(
                "--lost",
                "the old one is lost: nothing opens any more that was sealed to it, and every "
                "user has to recover; required",
            ),
            data_option(),
        ],
        text="Make a new seal key for an MPC node that has lost its own and has no backup.",
    )


def _token_key(options: Options) -> int:
    from mpcsim.crypto import SystemRng
    from mpcsim.service.operations import rotate_token_key

    end = rotate_token_key(options.data, SystemRng(), at_once=options.now)
    _print("Tokens are signed with a new key from now on.")
    if end is None:
        _print("Those of the old one hold no more: callers get a 401 and have to log in again.")
    else:
        _print(
            f"Those of the old one hold as long as they would have, the last until {_time(end)}."
        )
    return 0


def _link(options: Options) -> int:
    from mpcsim.crypto import SystemRng
    from mpcsim.service.operations import link_file, rotate_link
    from mpcsim.service.storage import REGISTRY

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


def _seal_key(options: Options) -> int:
    from mpcsim.crypto import SystemRng
    from mpcsim.service.operations import replace_lost_seal_key

    if not options.lost:
        raise UsageError("only if the old key is lost: --lost")
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

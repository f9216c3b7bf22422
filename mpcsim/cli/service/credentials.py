"""``mpcsim credentials``: API key and secret of a gateway's callers, and a log-in with curl."""

from __future__ import annotations

import sys
from typing import Final

import click

from mpcsim.cli.command import Command, Options, option
from mpcsim.cli.ports import gateway_port
from mpcsim.cli.token import credentials, data_option
from mpcsim.service.operations import HOST

FORMS: Final = ("text", "env")


def command() -> Command:
    return Command(
        "credentials",
        run,
        [
            option(
                "--format",
                "env: two assignments alone, for a shell's eval or an env file",
                type=click.Choice(FORMS),
                default=FORMS[0],
            ),
            option(
                "--gateway",
                "its address in the curl lines (default: this machine's)",
                metavar="URL",
            ),
            data_option(),
        ],
    )


def run(options: Options) -> int:
    """Print the credentials."""
    found = credentials(options.data)
    lines = [f"WAAS_API_KEY={found.api_key}", f"WAAS_API_SECRET={found.api_secret}"]
    if options.format == "text":
        address = options.gateway or f"http://{HOST}:{gateway_port()}"
        user = '--user "$WAAS_API_KEY:$WAAS_API_SECRET"'
        lines += [
            "",
            "# with both set: sign a user up, once, and log in for an access token",
            f"curl -sS {user} {address}/member/user-management/v3/signup \\",
            """  -H 'Content-Type: application/json' -d '{"username": "alice"}'""",
            f"curl -sS {user} {address}/auth/auth-service/v3/login \\",
            "  -d grant_type=client_credentials -d username=alice",
        ]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0

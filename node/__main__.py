"""``python -m node``: serve the node until SIGINT or SIGTERM."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from mpcsim.errors import UsageError
from node import logs
from node.serving import serve
from node.settings import Settings, SettingsError


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve; returns the exit status."""
    argparse.ArgumentParser(
        prog="python -m node",
        description="Serve the REST node until SIGINT or SIGTERM.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="environment variables:\n" + Settings.variables(),
        allow_abbrev=False,
    ).parse_args(arguments)
    try:
        settings = Settings.from_environment(os.environ)
        logs.configure(settings.log_level)
        serve(settings)
    except (SettingsError, UsageError) as error:
        sys.stderr.write(f"node: {error}\n")
        return 2 if isinstance(error, SettingsError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

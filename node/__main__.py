"""``python -m node``: serve the node until SIGINT, SIGTERM or SIGHUP."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from mpcsim.errors import UsageError, needs_extra
from mpcsim.platforms import require_posix


def main(
    arguments: Sequence[str] | None = None, application: Callable[[], Any] | None = None
) -> int:
    """Serve; returns the exit status.

    Args:
        application: makes it; by default as the environment wants it.
    """
    # Of what is made by imports almost all stays; `reduce_collections` decides for what follows.
    gc.set_threshold(50_000)
    # Here, because they import what is not on every platform.
    try:
        require_posix()
        with needs_extra("node", "the REST node"):
            from mpcsim.service.process.settings import SettingsError
            from node.process import logs
            from node.process.settings import Settings
            from node.serving import FROM_ENVIRONMENT, serve
    except UsageError as error:
        return _refused(error, 1)
    try:
        argparse.ArgumentParser(
            prog="python -m node",
            description="Serve the REST node until SIGINT, SIGTERM or SIGHUP.",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            epilog="environment variables:\n" + Settings.variables(),
            allow_abbrev=False,
        ).parse_args(arguments)
        settings = Settings.from_environment(os.environ)
        logs.configure(settings.log_level, settings.log_format, settings.log_folder)
        serve(settings, application or FROM_ENVIRONMENT)
    except UsageError as error:
        return _refused(error, 2 if isinstance(error, SettingsError) else 1)
    except KeyboardInterrupt:
        return 130
    return 0


def _refused(error: UsageError, status: int) -> int:
    """Print why the node does not serve, and return the exit status."""
    sys.stderr.write(f"node: {error}\n")
    return status


if __name__ == "__main__":
    sys.exit(main())

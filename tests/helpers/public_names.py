"""Which names are for everybody: those that a package's ``__init__`` offers in its ``__all__``."""

import ast
import re
from functools import cache
from importlib import import_module
from importlib.util import find_spec

OPEN_MODULES = {
    *("mpcsim.errors", "mpcsim.ids", "mpcsim.platforms", "mpcsim.processes", "mpcsim.version"),
    *("mpcsim.testing.protocols", "mpcsim.testing.strategies", "mpcsim.testing.suite"),
    # Not offered by their package: they come with matplotlib, and the compiled simulation.
    *("mpcsim.capacity.results.figures", "mpcsim.capacity.running"),
    *("node.local", "node.calls"),
}
"""Modules that are there for everybody to import from, beside packages."""
NAMED_TUPLE = ("_replace", "_asdict", "_fields")
MAGIC = re.compile(r"^[%!].*", re.MULTILINE)


def private_in(source: str) -> list[str]:
    """What an example uses that its readers could not, or should not."""
    found = []
    for node in ast.walk(ast.parse(MAGIC.sub("", source))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if not is_open(alias.name)]
        elif isinstance(node, ast.ImportFrom):
            names = [(node.module or "", alias.name) for alias in node.names]
            found += [f"{module}.{name}" for module, name in names if not offered(module, name)]
        elif isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            # What is a class's own or its base's, and what Jupyter asks for.
            own = isinstance(node.value, ast.Name) and node.value.id == "self"
            own |= node.attr.startswith("__") or node.attr in NAMED_TUPLE
            if not own and not node.attr.startswith("_repr_"):
                found.append(node.attr)
    return found


def ours(module: str) -> bool:
    return module.partition(".")[0] in ("mpcsim", "node", "tests")


@cache
def is_package(module: str) -> bool:
    spec = find_spec(module)
    return spec is not None and spec.submodule_search_locations is not None


def is_open(module: str) -> bool:
    """Whether a module may be imported by whoever is outside: a package, or one of a few."""
    if module.startswith("tests"):
        return module.startswith("tests.examples")
    return not ours(module) or module in OPEN_MODULES or is_package(module)


def offered(module: str, name: str) -> bool:
    """Whether a module offers a name: in its ``__all__``, or a package in it."""
    if not ours(module) or module.startswith("tests"):
        return is_open(module)
    if not is_open(module) or (name.startswith("_") and name != "__version__"):
        return False
    listed = getattr(import_module(module), "__all__", None)
    if not is_package(module):
        return name == "*" or listed is None or name in listed
    return name in (listed or ()) or is_open(f"{module}.{name}")

"""Every mutant of the product: the source with one check removed, or with one small mistake."""

import ast
import gc
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tests.mutation import operators, sites

# Not from tests.helpers: pytest must see those imported after its plugins.
ROOT = Path(__file__).resolve().parents[2]
CHECK = "check removed"


def _paths(folder: str, names: str, ending: str = "") -> tuple[str, ...]:
    return tuple(f"{folder}/{name}{ending}" for name in names.split())


SOURCES = (
    *_paths("mpcsim", "ids.py crypto protocols service/vault"),
    *_paths("mpcsim/service/rpc", "tokens grants signed_messages statements", ".py"),
    *_paths("mpcsim/service/rpc", "suspension_notices pinned_identities", ".py"),
    *_paths("mpcsim/service/mpc_node", "app boot events node peer presignatures shares", ".py"),
    *_paths("mpcsim/service/mpc_node", "agreement sessions store verbs"),
    *_paths("mpcsim/service/gateway", "gateway introduction", ".py"),
    *_paths("mpcsim/service/gateway/sessions", "sessions body_validation streaming routing", ".py"),
    *_paths(
        "mpcsim/service/gateway/activation", "activation attestations decision suspensions", ".py"
    ),
    "node/checks.py",
    *_paths("node/gateway_client", "records identity_pinning", ".py"),
    *_paths("node/signing", "combined_opening presigning sessions signing", ".py"),
    *_paths("node/signing", "suspensions vaults", ".py"),
    "node/wallet/wallet.py",
)
"""Files and folders whose checks are accounted for."""


@dataclass(frozen=True)
class Room:
    """A part of the product, and the share of its mutants that must be killed."""

    paths: tuple[str, ...]
    bar: float = 0.8


ROOMS = {
    "crypto": Room(_paths("mpcsim", "crypto ids"), 0.9),
    "protocols": Room(("mpcsim/protocols",), 0.9),
    "vault": Room(("mpcsim/service/vault",), 0.9),
    "mpc_node": Room(("mpcsim/service/mpc_node",), 0.9),
    "decisions": Room(_paths("mpcsim/service/gateway", "activation sessions"), 0.9),
    "gateway": Room(("mpcsim/service/gateway",)),
    "rpc": Room(_paths("mpcsim", "service/rpc service/web strict_json errors")),
    "smart_account": Room(("mpcsim/service/smart_account",)),
    "service": Room(_paths("mpcsim", "service link_transport")),
    "node": Room(("node/",)),
    "sim": Room(("mpcsim/sim",)),
    "capacity": Room(("mpcsim/capacity",)),
    "lab": Room(_paths("mpcsim", "lab testing attacks")),
    "rest": Room(("mpcsim/",)),
}
"""The first whose paths a file's path begins with is its room."""

COMPILED = ("mpcsim/sim/network/tcp/", "mpcsim/sim/replay/kernels/replay_loop.py",
            "mpcsim/sim/replay/kernels/fitted_loop.py", "mpcsim/capacity/kernel/",
            "mpcsim/capacity/simulation/stepping.py")  # fmt: skip
"""Compiled by numba: a mutant costs a minute of compiling, or hours when it is interpreted."""


@dataclass(frozen=True)
class Mutant:
    """The source of one module with one change."""

    name: str
    """File, function, operator, fragment. No line numbers: they change."""
    path: str
    """Relative to the project's root."""
    operator: str
    lines: Sequence[int]
    """That a test runs if it can notice; of a check, those at which it refuses."""
    branch: Sequence[int]
    """Lines that are run only if the condition holds that is changed."""
    late: bool
    """The change is in a function's body: to be made without importing anew."""
    apply: Callable[[], None] = field(compare=False, repr=False)
    """Edit the tree that it was found in."""

    @property
    def module(self) -> str:
        return module_name(self.path)

    @property
    def room(self) -> str:
        return room_of(self.path)


def room_of(path: str) -> str:
    return next(name for name, room in ROOMS.items() if path.startswith(room.paths))


def module_name(path: str) -> str:
    parts = Path(path).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def files() -> tuple[str, ...]:
    """Every file of the product that is mutated."""
    found = [path for top in ("mpcsim", "node") for path in sorted((ROOT / top).rglob("*.py"))]
    relative = (path.relative_to(ROOT).as_posix() for path in found)
    return tuple(path for path in relative if not path.startswith(COMPILED))


@cache
def text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


@cache
def _makers() -> frozenset[str]:
    """Names of functions that return an error to raise."""
    pattern = rf"^ *def (\w+)\([^)]*\) -> (?:{'|'.join(sites.REFUSALS)}):"
    return frozenset(
        name for path in files() for name in re.findall(pattern, text(path), re.MULTILINE)
    )


def parsed(path: str) -> ast.Module:
    """Python 3.11 takes what is collected meanwhile, if it runs Python code, for a mistake of its
    parser's own (SystemError: recursion depth mismatch)."""
    gc.disable()
    try:
        return ast.parse(text(path))
    finally:
        gc.enable()


def found(path: str, tree: ast.Module, *, checks_only: bool = False) -> Iterator[Mutant]:
    """Yield the mutants of a file; each edits the tree."""
    seen: Counter[str] = Counter()

    def named(name: str) -> str:
        seen[name] += 1
        return f"{path} {name}" + (f" #{seen[name]}" if seen[name] > 1 else "")

    if path.startswith(SOURCES):
        for site in sites.find(tree, _makers()):
            for i, name in enumerate(site.names()):
                yield Mutant(
                    named(name), path, CHECK, site.lines, (), True, lambda s=site, i=i: s.remove(i)
                )
    for variant in () if checks_only else operators.find(tree):
        place = variant.place
        name = f"{place.function or '<module>'}: {variant.operator} {variant.change}"
        yield Mutant(
            named(name), path, variant.operator, variant.lines, place.branch, place.late,
            lambda v=variant: v.place.put(v.new),
        )  # fmt: skip


@cache
def all_checks() -> dict[str, Mutant]:
    """Every check by its name, in the order of the source."""
    return {
        each.name: each
        for path in files()
        if path.startswith(SOURCES)
        for each in found(path, parsed(path), checks_only=True)
    }


def _look_up(name: str) -> tuple[Mutant, ast.Module]:
    """Return the mutant of that name, and the source of its module, which it can change.

    Raises:
        LookupError: there is none.
    """
    path = name.partition(" ")[0]
    if path in files():
        tree = parsed(path)
        for each in found(path, tree):
            if each.name == name:
                return each, tree
    raise LookupError(f"no mutant is called {name!r}")


def named(name: str) -> Mutant:
    """Return the mutant of that name; raises as ``_look_up``."""
    return _look_up(name)[0]


def mutated(name: str) -> ast.Module:
    """Return the source of a mutant's module with its change; raises as ``_look_up``."""
    mutant, tree = _look_up(name)
    mutant.apply()
    return ast.fix_missing_locations(tree)

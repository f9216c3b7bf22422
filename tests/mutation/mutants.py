"""Every consistency check of the product, and the source without any one of them."""

from __future__ import annotations

import ast
import gc
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.mutation.sites import REFUSALS, CallSite, Site, find

# Not from tests.helpers: pytest must see those imported after its plugins.
ROOT = Path(__file__).resolve().parents[2]

SOURCES = (
    "mpcsim/params.py",
    "mpcsim/ids.py",
    "mpcsim/kernels",
    "mpcsim/algebra",
    "mpcsim/encoding.py",
    "mpcsim/primitives",
    "mpcsim/mta",
    "mpcsim/keyshare.py",
    "mpcsim/protocol",
    "mpcsim/protocols",
    "mpcsim/vault",
    "mpcsim/rpc/tokens.py",
    "mpcsim/rpc/grants.py",
    "mpcsim/rpc/mail.py",
    "mpcsim/rpc/notices.py",
    "mpcsim/rpc/pins.py",
    "mpcsim/rpc/statements.py",
    "mpcsim/mpc_node/app.py",
    "mpcsim/mpc_node/attestations.py",
    "mpcsim/mpc_node/events.py",
    "mpcsim/mpc_node/node.py",
    "mpcsim/mpc_node/peer.py",
    "mpcsim/mpc_node/presignatures.py",
    "mpcsim/mpc_node/store.py",
    "mpcsim/mpc_node/testimonies.py",
    "mpcsim/mpc_node/voting.py",
    "mpcsim/gateway/gateway.py",
    "mpcsim/gateway/sessions.py",
    "mpcsim/gateway/meeting.py",
    "mpcsim/gateway/waves.py",
    "mpcsim/gateway/sieve.py",
    "mpcsim/gateway/streaming.py",
    "mpcsim/gateway/activation.py",
    "mpcsim/gateway/attestations.py",
    "mpcsim/gateway/decision.py",
    "mpcsim/gateway/suspensions.py",
    "node/checks.py",
    "node/early.py",
    "node/presigning.py",
    "node/records.py",
    "node/sessions.py",
    "node/signing.py",
    "node/suspensions.py",
    "node/trust.py",
    "node/vaults.py",
    "node/wallet.py",
)
"""Files and folders whose checks are accounted for."""


@dataclass(frozen=True)
class Check:
    """One check, and thereby one mutant: the source without it."""

    name: str
    """File, function, reason or text, part of the condition. No line numbers: they change."""
    path: str
    """Relative to the project's root."""
    mutant: str
    """What is done to the source, in words."""

    @property
    def module(self) -> str:
        return module_name(self.path)


def module_name(path: str) -> str:
    parts = Path(path).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def files() -> tuple[str, ...]:
    """Every file whose checks are accounted for."""
    found = []
    for source in SOURCES:
        path = ROOT / source
        found += [path] if path.is_file() else sorted(path.rglob("*.py"))
    return tuple(path.relative_to(ROOT).as_posix() for path in found)


@cache
def _parsed(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


@cache
def _makers() -> frozenset[str]:
    """Names of functions that return an error to raise."""
    pattern = rf"^ *def (\w+)\([^)]*\) -> (?:{'|'.join(REFUSALS)}):"
    return frozenset(
        name
        for package in ("mpcsim", "node")
        for path in sorted((ROOT / package).rglob("*.py"))
        for name in re.findall(pattern, path.read_text(encoding="utf-8"), re.MULTILINE)
    )


def _tree(source: str) -> ast.Module:
    """Python 3.11 takes what is collected meanwhile, if it runs Python code, for a mistake of its
    parser's own (SystemError: recursion depth mismatch)."""
    gc.disable()
    try:
        return ast.parse(source)
    finally:
        gc.enable()


def _found(path: str) -> tuple[ast.Module, list[tuple[str, Site | CallSite, int]]]:
    """A fresh tree of the file, and its checks: name, site in the tree, index of the part."""
    tree = _tree(_parsed(path))
    seen: Counter[str] = Counter()
    checks = []
    for site in find(tree, _makers()):
        for index, name in enumerate(site.names()):
            seen[name] += 1
            again = f" #{seen[name]}" if seen[name] > 1 else ""
            checks.append((f"{path} {name}{again}", site, index))
    return tree, checks


@cache
def all_checks() -> dict[str, Check]:
    """Every check by its name, in the order of ``SOURCES`` and of the source."""
    return {
        name: Check(name, path, site.mutants()[index])
        for path in files()
        for name, site, index in _found(path)[1]
    }


def mutated(check: Check) -> ast.Module:
    """The source of the check's module without the check."""
    tree, checks = _found(check.path)
    for name, site, index in checks:
        if name == check.name:
            site.remove(index)
            return ast.fix_missing_locations(tree)
    raise LookupError(check.name)


def recording(path: str, numbers: dict[str, int]) -> ast.Module:
    """The source with every check reporting its number to ``RECORD`` when it refuses."""
    tree, checks = _found(path)
    for name, site, index in checks:
        if index == 0:
            site.record(numbers[name])
    return ast.fix_missing_locations(tree)


def numbered() -> dict[str, int]:
    """A number for every check; those of one condition follow each other."""
    return {name: i for i, name in enumerate(all_checks())}

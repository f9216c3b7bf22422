"""Finds every consistency check in the product's source, and makes the source without one of them.

What counts as a check:

- a call of ``check(condition, ...)``;
- a ``raise`` of one of the errors in ``REFUSALS``, or of what a function that returns one gives;
- a ``return`` of a text under an ``if``, in a function that returns ``str | None``: why something
  is not acceptable, or None;
- a message that a party ignores on purpose (``self._ignore(...)``);
- a call that is there for its refusal alone: a statement that calls ``check_...`` or one of
  ``CHECKING``, and a value passed through one of ``PASSING``.

The condition belongs to the check. Where it has several parts, joined by ``and``, ``or`` or a chain
of comparisons, each part is a check of its own: leaving one out is easier overlooked than leaving
out all.

``InternalError`` does not count: it guards against our own bugs, no message leads to it.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

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
    "mpcsim/vault.py",
)
"""Files and folders whose checks are accounted for."""

REFUSALS = frozenset(
    {
        "ApiError",
        "BadRequest",
        "CheckFailed",
        "InvalidEncoding",
        "MalformedVault",
        "Refused",
        "TokenError",
        "UnknownSigningKey",
        "UsageError",
        "ValueError",
        "WrongKey",
    }
)

CHECKING = frozenset({"finish", "known_curve", "_share_key"})
"""Functions whose name does not begin with ``check``, but whose call as a statement checks."""
PASSING = frozenset({"_consistent"})
"""Functions that check their first argument and return it."""

RECORD = "__mutation_record__"
RECORD_CALL = "__mutation_call__"
"""Built-in names of the functions that recording sources report to."""


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


@dataclass
class _Site:
    """Where a check is in a tree, with the means to edit the tree."""

    function: str
    text: str
    parts: list[ast.expr]
    """Of the condition: what must hold if ``holds``, else what is refused. Empty if none."""
    holds: bool
    set_condition: Callable[[ast.expr], None]
    replace: Callable[[list[ast.stmt]], None]
    """Puts other statements in the place of the refusing one."""
    statement: ast.stmt
    how: str

    def names(self) -> list[str]:
        """Of its checks, not yet told apart from others of the same function and text."""
        start = f"{self.function}: {self.text}"
        if len(self.parts) < 2:
            return [start]
        return [f"{start} [{ast.unparse(part)}]" for part in self.parts]

    def mutants(self) -> list[str]:
        if len(self.parts) < 2:
            return [self.how]
        return [f"without `{ast.unparse(part)}`" for part in self.parts]

    def remove(self, index: int) -> None:
        """Edit the tree: make one mutant of it."""
        left = self.parts[:index] + self.parts[index + 1 :]
        if left:
            self.set_condition(self._joined(left))
        elif self.parts and not self.holds:
            self.set_condition(ast.Constant(value=False))
        else:
            self.replace([ast.Pass()])

    def record(self, first: int) -> None:
        """Edit the tree: report which part refuses, by number."""
        if self.parts:
            parts = [
                ast.Call(
                    func=ast.Name(id=RECORD, ctx=ast.Load()),
                    args=[ast.Constant(value=first + i), part, ast.Constant(value=self.holds)],
                    keywords=[],
                )
                for i, part in enumerate(self.parts)
            ]
            self.set_condition(self._joined(parts))
            return
        call = ast.parse(f"{RECORD}({first}, True, False)").body[0]
        self.replace([call, self.statement])

    def _joined(self, parts: list[ast.expr]) -> ast.expr:
        if len(parts) == 1:
            return parts[0]
        return ast.BoolOp(op=ast.And() if self.holds else ast.Or(), values=list(parts))


@dataclass
class _CallSite:
    """The same for a check that is a call."""

    function: str
    text: str
    mutate: Callable[[], None]
    report: Callable[[int], None]

    def names(self) -> list[str]:
        return [f"{self.function}: {self.text}"]

    def mutants(self) -> list[str]:
        return ["call removed"]

    def remove(self, index: int) -> None:
        self.mutate()

    def record(self, first: int) -> None:
        self.report(first)


def conjuncts(condition: ast.expr) -> list[ast.expr]:
    """Expressions that must all be true for the condition to be true."""
    if isinstance(condition, ast.BoolOp) and isinstance(condition.op, ast.And):
        return [part for value in condition.values for part in conjuncts(value)]
    if isinstance(condition, ast.UnaryOp) and isinstance(condition.op, ast.Not):
        return [_negated(part) for part in disjuncts(condition.operand)]
    if isinstance(condition, ast.Compare) and len(condition.ops) > 1:
        values = [condition.left, *condition.comparators]
        return [
            ast.Compare(left=left, ops=[op], comparators=[right])
            for left, op, right in zip(values, condition.ops, values[1:], strict=False)
        ]
    return [condition]


def disjuncts(condition: ast.expr) -> list[ast.expr]:
    """Expressions of which one must be true for the condition to be true."""
    if isinstance(condition, ast.BoolOp) and isinstance(condition.op, ast.Or):
        return [part for value in condition.values for part in disjuncts(value)]
    if isinstance(condition, ast.UnaryOp) and isinstance(condition.op, ast.Not):
        return [_negated(part) for part in conjuncts(condition.operand)]
    return [condition]


def _negated(expression: ast.expr) -> ast.expr:
    if isinstance(expression, ast.UnaryOp) and isinstance(expression.op, ast.Not):
        return expression.operand
    return ast.UnaryOp(op=ast.Not(), operand=expression)


# --- finding ------------------------------------------------------------------------------------


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(
            f"{{{ast.unparse(v.value)}}}" if isinstance(v, ast.FormattedValue) else _text(v)
            for v in node.values
        )
    return ast.unparse(node)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _refusal_text(error: ast.expr) -> str:
    """What tells one refusal from another: its text, or else its reason, or else all of it."""
    if not isinstance(error, ast.Call) or not error.args:
        return ast.unparse(error)
    for argument in error.args:
        if _is_text(argument):
            return _text(argument)
    for argument in error.args:
        if isinstance(argument, ast.Attribute):
            return argument.attr
    return ast.unparse(error.args[0])


def _called(node: ast.expr | None) -> str:
    """Last part of the name of what is called."""
    target = node.func if isinstance(node, ast.Call) else node
    if isinstance(target, ast.Attribute):
        return target.attr
    return target.id if isinstance(target, ast.Name) else ""


def _ignored(statement: ast.stmt) -> ast.Call | None:
    """The call that ignores a message, if that is what the statement does."""
    value = statement.value if isinstance(statement, ast.Expr | ast.Return) else None
    is_it = isinstance(value, ast.Call) and ast.unparse(value.func) == "self._ignore"
    return value if is_it else None


class _Finder:
    """Walks one module's tree, in the order of the source."""

    def __init__(self, makers: frozenset[str]) -> None:
        self.raised = REFUSALS | makers
        self.sites: list[_Site | _CallSite] = []

    def walk(self, node: ast.AST, function: str, why_function: bool, above: list[ast.AST]) -> None:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            function = f"{function}.{node.name}".lstrip(".")
            if not isinstance(node, ast.ClassDef):
                why_function = node.returns is not None and ast.unparse(node.returns) == "str | None"
        if isinstance(node, ast.stmt):
            self.look(node, function, why_function, above)
        elif isinstance(node, ast.Call) and _called(node) in PASSING:
            self.add_call(node, function, passes=True)
        for child in ast.iter_child_nodes(node):
            self.walk(child, function, why_function, [*above, node])

    def look(
        self, node: ast.stmt, function: str, why_function: bool, above: list[ast.AST]
    ) -> None:
        if isinstance(node, ast.Expr) and isinstance(call := node.value, ast.Call):
            if ast.unparse(call.func) == "check":
                self.add_check(node, call, function, above)
                return
            if _called(call).startswith("check") or _called(call) in CHECKING:
                self.add_call(call, function)
                return
        if isinstance(node, ast.Raise) and node.exc and _called(node.exc) in self.raised:
            self.add_guarded(node, _refusal_text(node.exc), function, above)
        elif (ignored := _ignored(node)) is not None:
            self.add_guarded(node, f"ignored, {_text(ignored.args[1])}", function, above)
        elif why_function and isinstance(node, ast.Return) and node.value is not None:
            if _is_text(node.value):
                self.add_guarded(node, _text(node.value), function, above)

    def add_check(
        self, node: ast.Expr, call: ast.Call, function: str, above: list[ast.AST]
    ) -> None:
        def set_condition(condition: ast.expr) -> None:
            call.args[0] = condition

        reason = call.args[1]
        text = reason.attr if isinstance(reason, ast.Attribute) else ast.unparse(reason)
        parts = conjuncts(call.args[0])
        replace = _replacer(node, above)
        self.sites.append(
            _Site(function, text, parts, True, set_condition, replace, node, "call removed")
        )

    def add_call(self, call: ast.Call, function: str, *, passes: bool = False) -> None:
        result = "value" if passes else "None"
        nothing = ast.parse(f"lambda value=None, *_, **__: {result}", mode="eval").body

        def mutate() -> None:
            call.func = nothing

        def record(number: int) -> None:
            call.args[:0] = [ast.Constant(value=number), call.func]
            call.func = ast.Name(id=RECORD_CALL, ctx=ast.Load())

        text = f"{ast.unparse(call.func)}(...)"
        self.sites.append(_CallSite(function, text, mutate, record))

    def add_guarded(
        self, node: ast.stmt, text: str, function: str, above: list[ast.AST]
    ) -> None:
        guard = _guard(node, above)
        parts: list[ast.expr] = []
        how = f"`{'raise' if isinstance(node, ast.Raise) else 'return'}` removed"

        def set_condition(condition: ast.expr) -> None:
            assert isinstance(guard, ast.If)
            guard.test = condition

        if isinstance(guard, ast.If):
            parts, how = disjuncts(guard.test), "condition made false"
        elif isinstance(guard, ast.ExceptHandler):
            how = "error let pass"
        replace = _replacer(node, above)
        self.sites.append(_Site(function, text, parts, False, set_condition, replace, node, how))


def _replacer(node: ast.stmt, above: list[ast.AST]) -> Callable[[list[ast.stmt]], None]:
    def replace(statements: list[ast.stmt]) -> None:
        for block in ("body", "orelse", "finalbody"):
            body = getattr(above[-1], block, [])
            if node in body:
                at = body.index(node)
                body[at : at + 1] = statements
                return
        raise AssertionError("the statement is not where it was found")

    return replace


def _guard(node: ast.stmt, above: list[ast.AST]) -> ast.If | ast.ExceptHandler | None:
    """The ``if`` whose body leads to the statement, or the handler it is in; None if neither."""
    inner: ast.AST = node
    for parent in reversed(above):
        if isinstance(parent, ast.If):
            return parent if inner in parent.body else None
        if isinstance(parent, ast.ExceptHandler):
            return parent
        if not isinstance(parent, ast.With):
            return None
        inner = parent
    return None


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
    return frozenset(
        node.name
        for package in ("mpcsim", "node")
        for path in sorted((ROOT / package).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
        and isinstance(node.returns, ast.Name)
        and node.returns.id in REFUSALS
    )


def _found(path: str) -> tuple[ast.Module, list[tuple[str, _Site | _CallSite, int]]]:
    """A fresh tree of the file, and its checks: name, site in the tree, index of the part."""
    tree = ast.parse(_parsed(path))
    finder = _Finder(_makers())
    finder.walk(tree, "", False, [])
    seen: Counter[str] = Counter()
    checks = []
    for site in finder.sites:
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


def call_recorder(note: Callable[[int], None]) -> Callable[..., object]:
    """What ``RECORD_CALL`` must mean: makes the call, and notes when it raises."""

    def call(number: int, function: Callable[..., object], *args: object, **named: object) -> object:
        try:
            return function(*args, **named)
        except Exception:
            note(number)
            raise

    return call


def recorder(note: Callable[[int], None]) -> Callable[[int, object, bool], object]:
    """What ``RECORD`` must mean while recording sources run: passes the part's value on."""

    def record(number: int, value: object, holds: bool) -> object:
        if bool(value) is not holds:
            note(number)
        return value

    return record


def iterate(checks: dict[str, Check], names: list[str]) -> Iterator[Check]:
    """The named checks; a name may be cut short at the front or the back.

    Raises:
        LookupError: a name fits no check.
    """
    for name in names:
        fitting = [check for check in checks.values() if name in check.name]
        if not fitting:
            raise LookupError(f"no check is called {name!r}")
        yield from fitting

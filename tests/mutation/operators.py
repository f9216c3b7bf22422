"""Small mistakes that a careful reviewer fears: where a module's tree has room for them.

An operator looks at one node and says what else might stand there. Not mutated: annotations,
decorators, docstrings, the texts of errors and logs, `assert`, and guards against our own bugs
(`InternalError`, `NotImplementedError`), of which nothing can be seen from outside.
"""

import ast
import copy
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

EDGES = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
OPPOSITES = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE,
    ast.GtE: ast.Lt, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
ARITHMETIC = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.LShift: ast.RShift,
    ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitOr,
}  # fmt: skip
NAMES = {"any": "all", "all": "any", "min": "max", "max": "min"}
BINDING = re.compile(
    r"hash|mac$|digest|challenge|context|xof|hkdf|derive|statement|sign$|verif", re.I
)
"""Calls whose arguments must all tell: what they return is bound to each."""
UNSEEN = (None, "strict", "detail")
"""Keyword arguments against our own bugs, and texts."""
SILENT = re.compile(r"(^|\.)_?(LOG|log|logger)\.\w+$|warn$")
OWN_BUGS = frozenset({"InternalError", "NotImplementedError", "AssertionError"})


@dataclass
class Place:
    """A node in a tree, and how to put another in its stead."""

    node: ast.AST
    function: str
    """Qualified name; empty outside of functions and classes."""
    lines: Sequence[int]
    """Its own; of a module's constant, also those that use it."""
    put: Callable[[Any], None]
    late: bool
    """It runs when its function is called, not while the module is imported."""
    assigned: str
    """The constant that it is a part of, if it is."""
    branch: Sequence[int]
    """Lines that are run if the condition holds that it is a part of."""


@dataclass(frozen=True)
class Variant:
    """One operator's mutant at one place."""

    operator: str
    change: str
    """The fragment as it is, and what becomes of it."""
    place: Place
    new: Any

    @property
    def lines(self) -> Sequence[int]:
        """Lines of which a test runs one, if it can notice."""
        test = getattr(self.new, "test", None)
        if isinstance(self.new, ast.If) and isinstance(test, ast.Constant) and not test.value:
            return _lines(self.new.body[0])
        return self.place.lines


def find(tree: ast.Module) -> Iterator[Variant]:
    """Yield every variant, in the order of the source."""
    uses: dict[str, list[int]] = defaultdict(list)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            uses[node.id].append(node.lineno)
    for place in _places(tree, "", False, range(0), "", ()):
        if not place.late:
            place.lines = [*place.lines, *uses[place.assigned]]
        for operator, change, new in _variants(place.node):
            yield Variant(operator, change, place, new)


def _text(node: Any, limit: int = 70) -> str:
    text = ast.unparse(node).strip()
    if isinstance(getattr(node, "body", None), list):
        text = text.partition("\n")[0]
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 3]}..."


def _called(node: ast.Call | ast.expr) -> str:
    return ast.unparse(node.func if isinstance(node, ast.Call) else node)


def _raised(node: ast.Raise) -> str:
    return _called(node.exc).split(".")[-1] if node.exc else ""


def _skipped(node: ast.AST) -> bool:
    if isinstance(node, ast.Assert | ast.JoinedStr | ast.Import | ast.ImportFrom | ast.Global):
        return True
    if isinstance(node, ast.Expr):
        value = node.value
        return isinstance(value, ast.Constant) or (
            isinstance(value, ast.Call) and bool(SILENT.search(_called(value)))
        )
    if isinstance(node, ast.If):
        if "TYPE_CHECKING" in (test := ast.unparse(node.test)) or "__name__" in test:
            return True
        first = node.body[0]
        return isinstance(first, ast.Raise) and _raised(first) in OWN_BUGS
    return isinstance(node, ast.Raise) and _raised(node) in OWN_BUGS


SKIPPED_FIELDS = frozenset(
    {"annotation", "returns", "decorator_list", "type_params", "exc", "slice_"}
)


def _lines(node: Any) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _places(
    node: ast.AST,
    function: str,
    late: bool,
    lines: Sequence[int],
    assigned: str,
    branch: Sequence[int],
) -> Iterator[Place]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        function = f"{function}.{node.name}".lstrip(".")
    for name, value in ast.iter_fields(node):
        if name in SKIPPED_FIELDS:
            continue
        inside = late
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and name == "body":
            inside = True
        for i, child in enumerate(value if isinstance(value, list) else [value]):
            if not isinstance(child, ast.AST) or _skipped(child):
                continue

            def put(new: Any, value: Any = value, name: str = name, i: int = i) -> None:
                if isinstance(value, list):
                    value[i] = new
                else:
                    setattr(node, name, new)

            here, constant, then = lines, assigned, branch
            if isinstance(child, ast.stmt | ast.ExceptHandler | ast.expr):
                here = _lines(child)
            if isinstance(child, ast.stmt):
                then = ()
            if isinstance(node, ast.If | ast.While) and name == "test":
                then = _lines(node.body[0])
            if isinstance(child, ast.Assign | ast.AnnAssign):
                target = child.targets[0] if isinstance(child, ast.Assign) else child.target
                constant = target.id if isinstance(target, ast.Name) else ""
            if here:
                yield Place(child, function, here, put, inside, constant, then)
            yield from _places(child, function, inside, here, constant, then)


def _variants(node: ast.AST) -> Iterator[tuple[str, str, Any]]:
    for operator in (_compared, _joined, _tests, _calculated, _constants, _calls, _statements):
        for name, old, new in operator(node):
            after = "removed" if isinstance(new, ast.Pass) else f"`{_text(new)}`"
            yield name, f"`{_text(old)}` -> {after}", new


Variants = Iterator[tuple[str, ast.AST, Any]]


def _with(node: Any, **fields: Any) -> Any:
    new = copy.copy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new


def _without(items: list[Any], i: int) -> list[Any]:
    return items[:i] + items[i + 1 :]


def _compared(node: ast.AST) -> Variants:
    if isinstance(node, ast.Compare):
        for i, op in enumerate(node.ops):
            for name, table in (("boundary", EDGES), ("comparison", OPPOSITES)):
                if type(op) in table:
                    ops = [*node.ops[:i], table[type(op)](), *node.ops[i + 1 :]]
                    yield name, node, _with(node, ops=ops)


def _joined(node: ast.AST) -> Variants:
    if isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield "and/or", node, _with(node, op=other)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "not", node, node.operand


def _tests(node: ast.AST) -> Variants:
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        for value in (False,) if isinstance(node, ast.While) else (True, False):
            yield "condition", node, _with(node, test=ast.Constant(value=value))
    if isinstance(node, ast.comprehension):
        for i in range(len(node.ifs)):
            yield "condition", node, _with(node, ifs=_without(node.ifs, i))


def _calculated(node: ast.AST) -> Variants:
    if isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in ARITHMETIC:
        yield "arithmetic", node, _with(node, op=ARITHMETIC[type(node.op)]())


def _constants(node: ast.AST) -> Variants:
    if isinstance(node, ast.keyword) and node.arg in UNSEEN and node.arg:
        return
    for name, value in ast.iter_fields(node):
        for i, child in enumerate(value if isinstance(value, list) else [value]):
            if name in SKIPPED_FIELDS or not isinstance(child, ast.Constant):
                continue
            if isinstance(child.value, bool):
                others: list[Any] = [not child.value]
            elif isinstance(child.value, int | float):
                others = [child.value + 1, child.value - 1]
            else:
                continue
            for other in others:
                new: Any = ast.Constant(value=other)
                if isinstance(value, list):
                    new = [*value[:i], new, *value[i + 1 :]]
                yield "constant", node, _with(node, **{name: new})


def _calls(node: ast.AST) -> Variants:
    if not isinstance(node, ast.Call):
        return
    if isinstance(node.func, ast.Name):
        name = node.func.id
        if name in NAMES:
            yield "any/all, min/max", node, _with(node, func=ast.Name(NAMES[name], ast.Load()))
        if name in ("sorted", "reversed") and node.args:
            back = ast.Call(ast.Name("reversed", ast.Load()), [node], [])
            order = back if name == "sorted" else node.args[0]
            yield "order", node, ast.Call(ast.Name("list", ast.Load()), [order], [])
    for i, keyword in enumerate(node.keywords):
        if keyword.arg not in UNSEEN:
            yield "keyword dropped", node, _with(node, keywords=_without(node.keywords, i))
    if BINDING.search(_called(node)):
        for i, argument in enumerate(node.args):
            nothing = ast.Constant(value=b"")
            yield "bound", node, _with(node, args=_without(node.args, i))
            if not isinstance(argument, ast.Constant | ast.Starred):
                args = [*node.args[:i], nothing, *node.args[i + 1 :]]
                yield "bound", node, _with(node, args=args)


def _statements(node: ast.AST) -> Variants:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.Await):
        yield "statement", node, ast.Pass()
    if isinstance(node, ast.Assign | ast.AugAssign | ast.Delete):
        targets = node.targets if not isinstance(node, ast.AugAssign) else [node.target]
        if any(isinstance(target, ast.Attribute | ast.Subscript) for target in targets):
            yield "statement", node, ast.Pass()
    if isinstance(node, ast.Raise):
        yield "statement", node, ast.Pass()
    if isinstance(node, ast.Return) and not (
        node.value is None or (isinstance(node.value, ast.Constant) and node.value.value is None)
    ):
        yield "return", node, _with(node, value=None)
    if isinstance(node, ast.ExceptHandler):
        if isinstance(node.type, ast.Tuple):
            for i in range(len(node.type.elts)):
                kinds = _with(node.type, elts=_without(node.type.elts, i))
                yield "except", node, _with(node, type=kinds)
        elif node.type is not None and not isinstance(node.body[0], ast.Raise):
            yield "except", node, _with(node, type=ast.Tuple([], ast.Load()))

"""Where the checks of one module are: finds them in its tree, and edits the tree.

What counts as a check:

- a call of ``check(condition, ...)``;
- a ``raise`` of one of the errors in ``REFUSALS``, or of what a function that returns one gives;
- a ``return`` of a text under an ``if``, in a function that returns ``str | None``, or of a member
  in one that returns ``Ignored | None``: why something is not acceptable, or None;
- a message that a party ignores on purpose (``self._ignore(...)``);
- in the functions of ``VERDICTS``: a ``return`` of nothing or False under an ``if`` or in a
  handler, and the condition that is returned;
- a call that is there for its refusal alone: a statement that calls ``check_...`` or one of
  ``CHECKING``, and a value passed through one of ``PASSING``.

The condition belongs to the check. Where it has several parts, joined by ``and``, ``or`` or a chain
of comparisons, each part is a check of its own: leaving one out is easier overlooked than leaving
out all.

``InternalError`` does not count: it guards against our own bugs, no message leads to it.
"""

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeGuard

REFUSALS = frozenset(
    (
        *("StaleBoot", "StaleGrant", "ApiError", "BadRequest", "CheckFailed", "GrantRefused"),
        *("RecordError",),
        *("InvalidEncoding", "MalformedVault", "NodeFailed", "NotFound", "StaleUpdate", "Refused"),
        *("TokenError", "Unauthorized", "UnknownSigningKey", "UnsignedRecord", "UntrustedNode"),
        *("UsageError", "ValueError", "WrongKey"),
    )
)

CHECKING = frozenset({"finish", "known_curve", "_share_key", "sign_once"})
"""Functions whose name does not begin with ``check``, but whose call as a statement checks."""
PASSING = frozenset({"_consistent"})
"""Functions that check their first argument and return it."""
VERDICTS = frozenset(
    (
        *("_follows", "_learn", "_is_newer", "_deliver_notice", "authenticate", "has_vote_of"),
        *("is_authentic", "is_authenticated_by", "is_hello_authentic", "is_signed_by"),
        *("matches_shares", "open_notice", "verifies", "voted"),
    )
)
"""Functions that say whether something is believed, or take it in only then."""


@dataclass
class Site:
    """Where a check is in a tree, with the means to edit the tree."""

    function: str
    text: str
    parts: list[ast.expr]
    """Of the condition: what must hold if ``holds``, else what is refused. Empty if none."""
    holds: bool
    set_condition: Callable[[ast.expr], None]
    replace: Callable[[list[ast.stmt]], None]
    """Puts other statements in the place of the refusing one; makes a call do nothing."""
    statement: ast.stmt | ast.expr
    """What refuses: a test that does not run it cannot notice that the check is gone."""

    @property
    def lines(self) -> range:
        return _lines(self.statement)

    def names(self) -> list[str]:
        """Of its checks, not yet told apart from others of the same function and text."""
        start = f"{self.function}: {self.text}"
        if len(self.parts) < 2:
            return [start]
        return [f"{start} [{ast.unparse(part)}]" for part in self.parts]

    def remove(self, index: int) -> None:
        """Edit the tree: make one mutant of it."""
        left = self.parts[:index] + self.parts[index + 1 :]
        if left:
            self.set_condition(self._joined(left))
        elif self.parts and not self.holds:
            self.set_condition(ast.Constant(value=False))
        else:
            self.replace([ast.Pass()])

    def _joined(self, parts: list[ast.expr]) -> ast.expr:
        if len(parts) == 1:
            return parts[0]
        return ast.BoolOp(op=ast.And() if self.holds else ast.Or(), values=list(parts))


def _lines(node: ast.stmt | ast.expr) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


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
    if _is_member(node):
        return node.attr
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(
            f"{{{ast.unparse(v.value)}}}" if isinstance(v, ast.FormattedValue) else _text(v)
            for v in node.values
        )
    return ast.unparse(node)


def _is_text(node: ast.expr | None) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _is_member(node: ast.expr | None) -> TypeGuard[ast.Attribute]:
    """Whether it looks like a member of an enum."""
    return isinstance(node, ast.Attribute) and node.attr.isupper()


def _refusal_text(error: ast.expr) -> str:
    """What tells one refusal from another: its text, or else its reason, or else all of it."""
    if not isinstance(error, ast.Call) or not error.args:
        return ast.unparse(error)
    for argument in error.args:
        if _is_text(argument):
            return _text(argument)
    for argument in error.args:
        if _is_member(argument):
            return _text(argument)
    return ast.unparse(error.args[0])


def _called(node: ast.expr | None) -> str:
    """Last part of the name of what is called."""
    target = node.func if isinstance(node, ast.Call) else node
    if isinstance(target, ast.Attribute):
        return target.attr
    return target.id if isinstance(target, ast.Name) else ""


def _returns(above: list[ast.AST]) -> str:
    """What the innermost function is said to return."""
    for node in reversed(above):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            return "" if node.returns is None else ast.unparse(node.returns)
    return ""


def _ignored(statement: ast.stmt) -> ast.Call | None:
    """The call that ignores a message, if that is what the statement does."""
    value = statement.value if isinstance(statement, ast.Expr | ast.Return) else None
    is_it = isinstance(value, ast.Call) and ast.unparse(value.func) == "self._ignore"
    return value if is_it else None


class _Finder:
    """Walks one module's tree, in the order of the source."""

    def __init__(self, makers: frozenset[str]) -> None:
        self.raised = REFUSALS | makers
        self.sites: list[Site] = []

    def walk(self, node: ast.AST, function: str, why_function: bool, above: list[ast.AST]) -> None:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            function = f"{function}.{node.name}".lstrip(".")
            if not isinstance(node, ast.ClassDef):
                why_function = _returns([node]) in ("str | None", "Ignored | None")
        if isinstance(node, ast.stmt):
            self.look(node, function, why_function, above)
        elif isinstance(node, ast.Call) and _called(node) in PASSING:
            self.add_call(node, function, passes=True)
        for child in ast.iter_child_nodes(node):
            self.walk(child, function, why_function, [*above, node])

    def look(self, node: ast.stmt, function: str, why_function: bool, above: list[ast.AST]) -> None:
        if isinstance(node, ast.Expr) and isinstance(call := node.value, ast.Call):
            if ast.unparse(call.func) == "check":
                self.add_check(node, call, function, above)
                return
            if _called(call).lstrip("_").startswith("check") or _called(call) in CHECKING:
                self.add_call(call, function)
                return
        if isinstance(node, ast.Raise) and node.exc and _called(node.exc) in self.raised:
            self.add_guarded(node, _refusal_text(node.exc), function, above)
        elif (ignored := _ignored(node)) is not None:
            self.add_guarded(node, f"ignored, {_text(ignored.args[1])}", function, above)
        elif (
            why_function
            and isinstance(node, ast.Return)
            and (_is_text(node.value) or _is_member(node.value))
        ):
            self.add_guarded(node, _text(node.value), function, above)
        elif isinstance(node, ast.Return) and function.split(".")[-1] in VERDICTS:
            self.add_verdict(node, function, above)

    def add_verdict(self, node: ast.Return, function: str, above: list[ast.AST]) -> None:
        if node.value is None or (isinstance(node.value, ast.Constant) and not node.value.value):
            self.add_guarded(node, "not believed", function, above)
        elif _returns(above) == "bool" and not isinstance(node.value, ast.Constant):
            expression = node.value

            def set_condition(condition: ast.expr) -> None:
                node.value = condition

            def replace(_: list[ast.stmt]) -> None:
                node.value = ast.Constant(value=True)

            text = f"return {ast.unparse(expression)}"
            parts = conjuncts(expression)
            self.sites.append(Site(function, text, parts, True, set_condition, replace, node))

    def add_check(
        self, node: ast.Expr, call: ast.Call, function: str, above: list[ast.AST]
    ) -> None:
        def set_condition(condition: ast.expr) -> None:
            call.args[0] = condition

        reason = call.args[1]
        text = _text(reason)
        parts = conjuncts(call.args[0])
        replace = _replacer(node, above)
        self.sites.append(Site(function, text, parts, True, set_condition, replace, node))

    def add_call(self, call: ast.Call, function: str, *, passes: bool = False) -> None:
        result = "value" if passes else "None"
        nothing = ast.parse(f"lambda value=None, *_, **__: {result}", mode="eval").body

        def replace(_: list[ast.stmt]) -> None:
            call.func = nothing

        text = f"{ast.unparse(call.func)}(...)"
        self.sites.append(Site(function, text, [], True, lambda _: None, replace, call))

    def add_guarded(self, node: ast.stmt, text: str, function: str, above: list[ast.AST]) -> None:
        guard = _guard(node, above)
        parts: list[ast.expr] = []

        def set_condition(condition: ast.expr) -> None:
            assert isinstance(guard, ast.If)
            guard.test = condition

        if isinstance(guard, ast.If):
            parts = disjuncts(guard.test)
        replace = _replacer(node, above)
        self.sites.append(Site(function, text, parts, False, set_condition, replace, node))


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


def find(tree: ast.Module, makers: frozenset[str]) -> list[Site]:
    """Every check of a module, in the order of the source.

    Args:
        makers: names of functions that return an error to raise.
    """
    finder = _Finder(makers)
    finder.walk(tree, "", False, [])
    return finder.sites

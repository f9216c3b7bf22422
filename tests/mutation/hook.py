"""Compiles a module's mutated source where the module would be imported.

Where it is imported already, its functions get the mutated code instead. Nothing is written,
neither source nor byte code. Only this process, and processes forked from it, see the mutant.
"""

from __future__ import annotations

import ast
import builtins
import gc
import sys
from collections.abc import Callable, Collection, Iterator
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, FunctionType

from tests.mutation import mutants
from tests.mutation.sites import RECORD, RECORD_CALL


class _Loader(SourceFileLoader):
    """Loads a module from a tree instead of its file."""

    def __init__(self, name: str, path: str, tree: Callable[[], ast.Module]) -> None:
        super().__init__(name, path)
        self._tree = tree

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._tree(), self.path, "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    def __init__(self, trees: dict[str, Callable[[], ast.Module]]) -> None:
        self.trees = trees

    def find_spec(self, fullname: str, path=None, target=None) -> ModuleSpec | None:
        tree = self.trees.get(fullname)
        spec = PathFinder.find_spec(fullname, path, target) if tree else None
        if tree is None or spec is None or spec.origin is None:
            return None
        spec.loader = _Loader(fullname, spec.origin, tree)
        return spec


def _install(trees: dict[str, Callable[[], ast.Module]]) -> None:
    if early := sorted(trees.keys() & sys.modules.keys()):
        raise RuntimeError(f"already imported: {', '.join(early)}")
    sys.meta_path.insert(0, _Finder(trees))


def install_mutant(name: str) -> None:
    """From now on the module of that check is imported without it.

    Raises:
        LookupError: no check has that name.
        RuntimeError: its module is already imported.
    """
    check = mutants.all_checks().get(name)
    if check is None:
        raise LookupError(f"no check is called {name!r}")
    _install({check.module: lambda: mutants.mutated(check)})


class Patches:
    """The functions of some files that are imported, to be given other code."""

    def __init__(self, paths: Collection[str]) -> None:
        """Look for them; before the garbage collector is told to forget about them."""
        self._functions: dict[str, list[FunctionType]] = {path: [] for path in paths}
        path_of = {str(mutants.ROOT / path): path for path in paths}
        for found in gc.get_objects():
            if isinstance(found, FunctionType):
                path = path_of.get(found.__code__.co_filename)
                if path is not None:
                    self._functions[path].append(found)

    def mutate(self, name: str) -> None:
        """From now on that check is missing.

        Raises:
            LookupError: no such check, or its function is not among those imported.
            ValueError: the code without it needs other variables from around it.
        """
        check = mutants.all_checks()[name]
        self._give(check.path, mutants.mutated(check))

    def renew(self) -> None:
        """The same code as before, compiled anew."""
        for path in self._functions:
            self._give(path, ast.parse((mutants.ROOT / path).read_text(encoding="utf-8")))

    def _give(self, path: str, tree: ast.Module) -> None:
        code = compile(tree, str(mutants.ROOT / path), "exec", dont_inherit=True)
        fresh = {(each.co_qualname, each.co_firstlineno): each for each in _inside(code)}
        for function in self._functions[path]:
            old = function.__code__
            function.__code__ = fresh[old.co_qualname, old.co_firstlineno]


def _inside(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _inside(constant)


def _call_recorder(note: Callable[[int], None]) -> Callable[..., object]:
    """What ``RECORD_CALL`` must mean: makes the call, and notes when it raises."""

    def call(
        number: int, function: Callable[..., object], *args: object, **named: object
    ) -> object:
        try:
            return function(*args, **named)
        except Exception:
            note(number)
            raise

    return call


def _recorder(note: Callable[[int], None]) -> Callable[[int, object, bool], object]:
    """What ``RECORD`` must mean while recording sources run: passes the part's value on."""

    def record(number: int, value: object, holds: bool) -> object:
        if bool(value) is not holds:
            note(number)
        return value

    return record


def install_recorder(note: Callable[[str], None]) -> None:
    """From now on every check reports its name when it refuses.

    Raises:
        RuntimeError: one of the modules with checks is already imported.
    """
    numbers = mutants.numbered()
    names = list(numbers)

    def by_number(number: int) -> None:
        note(names[number])

    setattr(builtins, RECORD, _recorder(by_number))
    setattr(builtins, RECORD_CALL, _call_recorder(by_number))
    trees = {
        mutants.module_name(path): (lambda path=path: mutants.recording(path, numbers))
        for path in mutants.files()
    }
    _install(trees)

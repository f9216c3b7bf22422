"""Compiles a module's mutated source where the module would be imported.

Where it is imported already, its functions get the mutated code instead. Nothing is written,
neither source nor byte code. Only this process, and processes forked from it, see the mutant.
"""

import ast
import gc
import sys
from collections import Counter
from collections.abc import Iterator
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from inspect import CO_OPTIMIZED
from types import CodeType, FunctionType

from tests.mutation import mutants


class _Loader(SourceFileLoader):
    """Loads a module from a tree instead of its file."""

    def __init__(self, name: str, path: str, tree: ast.Module) -> None:
        super().__init__(name, path)
        self._tree = tree

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._tree, self.path, "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    def __init__(self, module: str, tree: ast.Module) -> None:
        self.module, self.tree = module, tree

    def find_spec(self, fullname: str, path=None, target=None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if fullname == self.module else None
        if spec is None or spec.origin is None:
            return None
        spec.loader = _Loader(fullname, spec.origin, self.tree)
        return spec


def install_mutant(name: str) -> None:
    """From now on the mutant's module is imported with its change.

    Raises:
        LookupError: no mutant has that name.
        RuntimeError: its module is already imported.
    """
    tree = mutants.mutated(name)
    module = mutants.named(name).module
    if module in sys.modules:
        raise RuntimeError(f"already imported: {module}")
    sys.meta_path.insert(0, _Finder(module, tree))


class Patches:
    """The product's functions that are imported, to be given other code."""

    def __init__(self) -> None:
        """Look for them; before the garbage collector is told to forget about them."""
        self._functions: dict[str, list[FunctionType]] = {path: [] for path in mutants.files()}
        path_of = {str(mutants.ROOT / path): path for path in mutants.files()}
        gc.unfreeze()  # what the tests' own configuration has frozen is not listed
        for found in gc.get_objects():
            if isinstance(found, FunctionType):
                path = path_of.get(found.__code__.co_filename)
                if path is not None:
                    self._functions[path].append(found)

    def mutate(self, name: str) -> None:
        """From now on functions run the mutated code, those that differ by it.

        Raises:
            LookupError: no such mutant, or none of the functions imported is surely its own.
            ValueError: its code needs other variables from around it.
        """
        path = name.partition(" ")[0]
        old = _codes(mutants.parsed(path), path)
        new = _codes(mutants.mutated(name), path)
        changed = {key for key, code in old.items() if new.get(key) != code}
        count = Counter(_key(function.__code__) for function in self._functions[path])
        outermost = {key for key in changed if not any(_around(other, key) for other in changed)}
        if not changed or not all(count[key] for key in outermost):
            raise LookupError(f"{name}: not among the functions that are imported")
        for function in self._functions[path]:
            key = _key(function.__code__)
            if key in changed:
                if key not in new or old[key] is None or new[key] is None:
                    raise LookupError(f"{name}: two functions of a name on one line")
                function.__code__ = new[key]


Key = tuple[str, int]


def _key(code: CodeType) -> Key:
    return code.co_qualname, code.co_firstlineno


def _around(outer: Key, inner: Key) -> bool:
    return inner[0].startswith(f"{outer[0]}.<locals>.")


def _codes(tree: ast.Module, path: str) -> dict[Key, CodeType | None]:
    """The code of every function of a file; None for those that the key does not tell apart."""
    codes: dict[Key, CodeType | None] = {}
    for code in _inside(compile(tree, str(mutants.ROOT / path), "exec", dont_inherit=True)):
        codes[_key(code)] = None if _key(code) in codes else code
    return codes


def _inside(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if constant.co_flags & CO_OPTIMIZED:  # a function, not the body of a class
                yield constant
            yield from _inside(constant)

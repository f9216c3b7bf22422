"""Which names are for everybody."""

import ast
from importlib import import_module
from importlib.util import find_spec


def private_in(source: str) -> list[str]:
    """What an example uses that its readers could not, or should not."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if not open_to_all(alias.name)]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found += [name for name in names if not open_to_all(name)]
        elif isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            # What is a class's own or its base's, and what Jupyter asks for.
            own = isinstance(node.value, ast.Name) and node.value.id == "self"
            own |= node.attr == "__init__"
            if not own and not node.attr.startswith("_repr_"):
                found.append(node.attr)
    return found


def open_to_all(name: str) -> bool:
    first, *rest = name.split(".")
    if first == "tests":
        return rest[0] == "examples"
    if first not in ("mpcsim", "node"):
        return True
    if any(part.startswith("_") for part in rest):
        return False
    listed = getattr(import_module(name.rpartition(".")[0]), "__all__", None) if rest else None
    if first == "node":  # a program, but for the modules that say what of them is for everybody
        return listed is not None and rest[-1] in listed
    return listed is None or rest[-1] in listed or find_spec(name) is not None

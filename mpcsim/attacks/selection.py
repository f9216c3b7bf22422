"""Selection of the attacks to run: the gallery, some of it, or attacks from a file."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from mpcsim.attacks.catalogue import ATTACKS
from mpcsim.attacks.model import Attack
from mpcsim.errors import UsageError


def select_attacks(names: Iterable[str] = (), files: Iterable[Path] = ()) -> tuple[Attack, ...]:
    """Return the attacks of these names and in these files.

    Args:
        names: of entries (``O2a``), of rows of the table (``O2``: all its entries), or entries'
            names in words; none: everything in the files or, without files, the whole gallery.
        files: Python files with attacks of one's own.

    Raises:
        UsageError: an unknown name; a file that cannot be read or run, or has no attack; an id
            that is there twice.
    """
    own = [attack for file in files for attack in load_attacks(file)]
    known = [*ATTACKS, *own]
    _check_unique_ids(known)
    wanted = list(names)
    if not wanted:
        return tuple(own) or ATTACKS
    found: list[Attack] = []
    for name in wanted:
        fitting = [attack for attack in known if name.casefold() in _names(attack)]
        if not fitting:
            raise UsageError(_unknown_name(name, known))
        found += [attack for attack in fitting if attack not in found]
    return tuple(found)


def load_attacks(file: Path) -> tuple[Attack, ...]:
    """Return all attacks that a Python file defines, in its order, alone or in tuples and lists.

    The file is run, as ``python FILE`` would.

    Raises:
        UsageError: it cannot be read, an exception leaves it, or it has none.
    """
    # Not the file's own name: it may be that of a module which is loaded already.
    name = f"mpcsim_attacks_from_{file.stem}"
    spec = spec_from_file_location(name, file)
    if spec is None or spec.loader is None or not file.is_file():
        raise UsageError(f"{file} is no Python file")
    module = module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(file.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        lines = [
            at.lineno
            for at in traceback.extract_tb(error.__traceback__)
            if at.filename == str(file.absolute())
        ]
        where = f", line {lines[-1]}" if lines else ""
        raise UsageError(f"{file}{where}: {type(error).__name__}: {error}") from error
    finally:
        sys.path.pop(0)
    found: list[Attack] = []
    for value in vars(module).values():
        several = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
        found += [each for each in several if isinstance(each, Attack) and each not in found]
    found = [attack for attack in found if attack not in ATTACKS]  # what it has imported
    if not found:
        raise UsageError(f"{file} has no Attack (mpcsim.attacks.model)")
    return tuple(found)


def _names(attack: Attack) -> set[str]:
    return {each.casefold() for each in (attack.id, attack.name, *attack.rows)}


def _unknown_name(name: str, known: Sequence[Attack]) -> str:
    """Text of the error: ids alone say little, so that near ones come with their names."""
    wanted = name.casefold()
    near = [
        f"{attack.id} ({attack.name})"
        for attack in known
        if get_close_matches(wanted, _names(attack))
        or (wanted and wanted in attack.name.casefold())
    ]
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    return f"unknown attack {name!r}{hint} (known: {', '.join(each.id for each in known)})"


def _check_unique_ids(attacks: Iterable[Attack]) -> None:
    seen: set[str] = set()
    for attack in attacks:
        if attack.id.casefold() in seen:
            raise UsageError(f"attack {attack.id} is there twice: give one of them another id")
        seen.add(attack.id.casefold())

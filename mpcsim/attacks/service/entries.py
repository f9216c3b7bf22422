"""Entries of the compromise matrix: the data of ``entries.toml``, joined to the attacks' code.

An entry reads: the cells of the table that it belongs to (what the attacker controls, and its
goal), what it does, the check that refuses it and the refusal's words; neither where it succeeds.
The modules of ``cells`` have the code, and bind it to its entry with ``entry``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from mpcsim.attacks.service.attack_environment import AttackEnvironment
from mpcsim.attacks.service.builds import Part, ResearchBuild
from mpcsim.attacks.service.findings import Finding
from mpcsim.attacks.service.model import ServiceAttack
from mpcsim.attacks.service.table import Goal

Run = Callable[[AttackEnvironment], Finding]
R = TypeVar("R", bound=Run)

DATA: Final[Mapping[str, Any]] = tomllib.loads(
    Path(__file__).with_name("entries.toml").read_text(encoding="utf-8")
)
"""``named``, the attacks that must never go missing, and ``entries`` by family and id."""

_CODE: dict[str, tuple[Run, tuple[Part, ...]]] = {}


def entry(attack_id: str, *parts: Part) -> Callable[[R], R]:
    """Return a decorator that binds a function to an entry, as the code of its attack.

    Args:
        parts: replacements of the build without the check; none: there is no such build.
    """

    def bind(run: R) -> R:
        _CODE[attack_id] = run, parts
        return run

    return bind


def families() -> dict[str, tuple[ServiceAttack, ...]]:
    """Return every entry with its code, by family; all modules with code must be loaded.

    Raises:
        KeyError: an entry without code, or an unknown goal in it.
    """
    return {
        family: tuple(_attack(attack_id, **said) for attack_id, said in entries.items())
        for family, entries in DATA["entries"].items()
    }


def unknown_ids() -> set[str]:
    """Return the ids that code is bound to, and that no entry has."""
    return _CODE.keys() - {name for entries in DATA["entries"].values() for name in entries}


def _attack(
    attack_id: str, *, cells: list[str], does: str, covers: tuple[str, ...] = (), **more: Any
) -> ServiceAttack:
    run, parts = _CODE[attack_id]
    named = (cell.rpartition(": ") for cell in cells)
    return ServiceAttack(
        id=attack_id,
        cells=tuple((row, Goal[goal]) for row, _, goal in named),
        name=does,
        run=run,
        research=(lambda: ResearchBuild(*parts)) if parts else None,
        covers=tuple(covers),
        **more,
    )

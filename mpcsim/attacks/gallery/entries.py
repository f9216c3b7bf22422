"""Entries of the gallery: the data of ``entries.toml``, joined to the code of each attack.

An entry reads: name, source, step and message it strikes at, what the attacker controls, what it
does, which check stops it and how the honest party ends then, what it gains without the check. The
modules of this package have the code, and bind it to its entry with ``entry``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from mpcsim.attacks.model import Attack, Effect, Finding
from mpcsim.attacks.research import Build, ResearchBuild, Shape
from mpcsim.errors import Consequence, InRound, OnReceipt, Reason
from mpcsim.protocols.engine import Party

Run = Callable[[Build], Finding]
R = TypeVar("R", bound=Run)

DATA: Final[Mapping[str, Mapping[str, Any]]] = tomllib.loads(
    Path(__file__).with_name("entries.toml").read_text(encoding="utf-8")
)
"""Entries as they are written down: family, id, fields."""

_CODE: dict[str, tuple[Run, Callable[[], Build]]] = {}


def entry(
    attack_id: str,
    *,
    without: Collection[Reason] = (),
    replacing: Mapping[Any, Any] | None = None,
    shape: Shape | None = None,
    party: type[Party[Any, Any]] = Party,
    neglecting: Collection[str] = (),
) -> Callable[[R], R]:
    """Return a decorator that binds a function to an entry, as the code of its attack.

    Args:
        without, replacing, shape, party, neglecting: what the build without the check lacks; see
            ``ResearchBuild``.
    """

    def research() -> Build:
        return ResearchBuild(
            without=without, replacing=replacing, shape=shape, party=party, neglecting=neglecting
        )

    def bind(run: R) -> R:
        _CODE[attack_id] = run, research
        return run

    return bind


def families() -> dict[str, tuple[Attack, ...]]:
    """Return every entry with its code, by family; all modules with code must be loaded.

    Raises:
        KeyError: an entry without code, or an unknown word in it.
    """
    return {
        family: tuple(_attack(attack_id, said) for attack_id, said in entries.items())
        for family, entries in DATA.items()
    }


def unknown_ids() -> set[str]:
    """Return the ids that code is bound to, and that no entry has."""
    return _CODE.keys() - {attack_id for entries in DATA.values() for attack_id in entries}


def _attack(attack_id: str, said: Mapping[str, Any]) -> Attack:
    run, research = _CODE[attack_id]
    return Attack(
        id=attack_id,
        name=said["name"],
        reference=said["source"],
        step=said["step"],
        injection=f"{said['controls']}: {said['does']}",
        check=said["check"],
        run=run,
        research=research,
        expected_on=_finding(said["caught"]),
        expected_off=Finding.broken(Effect[said["gains"]]),
        also=tuple(said.get("also", ())),
    )


def _finding(caught: Any) -> Finding:
    """Return the finding that an entry's ``caught`` stands for."""
    if caught == "refused":
        return Finding.refused()
    if caught == "harmless":
        return Finding.harmless()
    if "waits_for" in caught:
        return Finding.waiting(caught["waits_for"])
    return Finding.aborted(
        Reason[caught["reason"]],
        InRound(*caught["round"]) if "round" in caught else OnReceipt(*caught["receipt"]),
        caught.get("culprits", ()),
        caught.get("suspects", ()),
        Consequence[caught["then"]] if "then" in caught else None,
    )

"""Deployments: the stores of a gateway and of its MPC nodes belong together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from itertools import combinations
from typing import Protocol

from mpcsim.errors import UsageError
from mpcsim.service.storage.database import Deployment, file_of


class Store(Protocol):
    """A registry or a share store, as far as it matters whose it is."""

    def deployment(self) -> Deployment | None: ...
    def join(self, deployment: Deployment) -> None: ...


def check_same_deployment(store: Store, role: str, deployment: str) -> None:
    """Check that a store is of a deployment; one that knows of none joins it.

    Raises:
        UsageError: it is of another one, or another role's; nothing has changed.
    """
    found = _deployment(store, role)
    if found is None:
        store.join(Deployment(deployment, role))
    elif found.id != deployment:
        raise UsageError(
            f"{file_of(role)} is of another deployment than the .link files beside it: put back "
            "files that belong together"
        )


def join_deployment(stores: Mapping[str, Store], make_id: Callable[[], str]) -> str:
    """Check that all stores are of one deployment; those that know of none join it.

    Args:
        stores: by role.

    Returns:
        Its id.

    Raises:
        UsageError: they are not; nothing has changed.
    """
    known = {role: _deployment(store, role) for role, store in stores.items()}
    alien: dict[str, list[str]] = defaultdict(list)
    for one, other in combinations(stores, 2):
        mine, theirs = known[one], known[other]
        if mine and theirs and mine.id != theirs.id:
            alien[one].append(other)
            alien[other].append(one)
    if alien:
        odd = max(alien, key=lambda role: len(alien[role]))
        others = " and ".join(map(file_of, alien[odd]))
        raise UsageError(
            f"{file_of(odd)} is of another deployment than {others}: put back files that belong "
            "together"
        )
    ours = next((found.id for found in known.values() if found), None) or make_id()
    for role, found in known.items():
        if found is None:
            stores[role].join(Deployment(ours, role))
    return ours


def _deployment(store: Store, role: str) -> Deployment | None:
    found = store.deployment()
    if found and found.role != role:
        raise UsageError(
            f"{file_of(role)} is a copy of {file_of(found.role)}: put the right one back"
        )
    return found

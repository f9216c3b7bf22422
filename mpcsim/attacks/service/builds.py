"""RESEARCH BUILDS OF THE SERVICE: parts of it replaced, to show what its checks are for.

Never for anything of value. Nothing in product code can be switched: a build takes a service that
has just been put together, in this process and for one attack, and puts other objects in the place
of some of its parts. The product's modules, functions and classes are not touched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from node.local import LocalService


class Build:
    """The product as it is; a research build is a subclass that replaces parts."""

    def weaken(self, service: LocalService) -> None:
        """Replace what this build has otherwise; called at every start of the service."""

    def __repr__(self) -> str:
        return "the product"


PRODUCT: Final = Build()


@dataclass(frozen=True)
class Part:
    """One thing that is otherwise in a research build."""

    name: str
    """What it is: "an MPC node that accepts any grant"."""
    replace: Callable[[LocalService], None]


class ResearchBuild(Build):
    """The service with parts replaced. Its name says so."""

    def __init__(self, *parts: Part) -> None:
        self.parts = parts

    def weaken(self, service: LocalService) -> None:
        for part in self.parts:
            part.replace(service)

    def __repr__(self) -> str:
        return f"RESEARCH: {'; '.join(part.name for part in self.parts)}"

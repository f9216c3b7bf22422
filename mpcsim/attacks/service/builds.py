"""RESEARCH BUILDS OF THE SERVICE: parts of it replaced, to show the purpose of its checks.

Never for anything of value. Nothing in product code can be switched: a build takes a service that
has just been put together, in this process and for one attack, and puts other objects in the place
of some of its parts. The product's modules, functions and classes are not touched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from node.local import LocalService


class Build:
    """The product as it is; a research build is a subclass that replaces parts."""

    def weaken(self, service: LocalService) -> None:
        """Replace this build's parts; called at every start of the service."""

    def __repr__(self) -> str:
        return "the product"


PRODUCT: Final = Build()


@dataclass(frozen=True)
class Part:
    """Replacement of one part of the service in a research build."""

    name: str
    """Description, such as "MPC nodes that accept any grant"."""
    replace: Callable[[LocalService], None]


def part(name: str) -> Callable[[Callable[[LocalService], None]], Part]:
    """Return a decorator that makes a part of a function which replaces something in a service."""
    return lambda replace: Part(name, replace)


def node_part(name: str) -> Callable[[Callable[[Any], None]], Part]:
    """Return a decorator as ``part``, for a function that replaces something in an MPC node."""

    def decorate(weaken: Callable[[Any], None]) -> Part:
        def weaken_both(service: LocalService) -> None:
            for link in service.gateway.links.values():
                weaken(link.node)

        return Part(name, weaken_both)

    return decorate


class ResearchBuild(Build):
    """The service with parts replaced. Its repr says so."""

    def __init__(self, *parts: Part) -> None:
        self.parts = parts

    def weaken(self, service: LocalService) -> None:
        for part in self.parts:
            part.replace(service)

    def __repr__(self) -> str:
        return f"RESEARCH: {'; '.join(part.name for part in self.parts)}"

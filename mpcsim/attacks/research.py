"""RESEARCH BUILDS: protocols with named checks switched off, to show the purpose of each check.

Never for anything of value. Nothing outside ``mpcsim.attacks`` imports this module (a test sees to
it), and nothing here changes the product: there is no switch in product code that could be set.

A research build is a *private copy*. The product's round functions, and every function of the
protocol layers below them, are made anew from the same code objects, but with a namespace of their
own, in which a few names mean something else: ``check`` lets the named reasons pass, or a function
is replaced by a weaker one. The product's modules, functions, classes and ``Definition`` objects
are not touched, and results leave without anything of the copy in them.

>>> weak = ResearchBuild(without=[Reason.COMMITMENT_OPENING])
>>> weak.definition(dkg.DKG).name
'dkg [RESEARCH: without COMMITMENT_OPENING]'
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from types import FunctionType, ModuleType
from typing import Any, TypeVar, cast

import mpcsim.protocols.signing  # noqa: F401 (so that all protocols are there to be copied)
from mpcsim.crypto.encoding import WireContext
from mpcsim.crypto.mta.base import Mta
from mpcsim.crypto.mta.schemes import mta_scheme
from mpcsim.errors import Reason, UsageError, check
from mpcsim.ids import PartyId
from mpcsim.protocols.dkg.rounds import DealingSetup
from mpcsim.protocols.ecdsa.products import SignerSetup
from mpcsim.protocols.engine import Definition, Party, Round, RoundOutput, View
from mpcsim.protocols.frost.rounds import FrostSetup
from mpcsim.protocols.key_share import Guard, KeyShare
from mpcsim.protocols.presign.presignature import Use

F = TypeVar("F", bound=Callable[..., Any])

COPIED = (
    *(f"mpcsim.crypto.{name}" for name in ("bip32", "commitment", "schnorr", "zero_share")),
    *("mpcsim.crypto.ot", "mpcsim.crypto.mta"),
    *(f"mpcsim.protocols.engine.{name}" for name in ("channel", "echo", "transcript")),
    *(f"mpcsim.protocols.{name}" for name in ("dkg", "ecdsa", "frost", "presign", "presigned")),
    *("mpcsim.protocols.reshare", "mpcsim.protocols.signing"),
)
"""Packages and modules whose functions a research build has copies of."""

_WITH_METHODS = (Mta, DealingSetup, SignerSetup, FrostSetup)
"""Classes whose methods make checks, or lead to functions that do. Messages and all other data
stay the product's own: they check nothing."""


class Build:
    """The product as it is; a research build is a subclass that gives out copies instead."""

    def definition(self, of: Definition[Any, Any]) -> Definition[Any, Any]:
        """Return the protocol as this build runs it."""
        return of

    def function(self, of: F) -> F:
        """Return a function of the protocol layers as this build runs it."""
        return of

    def party(self, *arguments: Any, **keywords: Any) -> Party[Any, Any]:
        """Makes the party of an honest participant (arguments as for ``Party``)."""
        return Party(*arguments, **keywords)

    def fulfils(self, duty: str) -> bool:
        """Return whether the driver of the parties fulfils a duty that the protocol leaves to
        it."""
        return True

    def __repr__(self) -> str:
        return "the product"


PRODUCT = Build()


@dataclass(frozen=True)
class ResearchDefinition(Definition[Any, Any]):
    """A protocol with checks switched off. Its name says so wherever it shows up."""

    switched_off: tuple[str, ...] = ()


@dataclass(frozen=True)
class Shape:
    """Differences of a build's protocol definitions from the product's."""

    wire: Callable[[WireContext], WireContext] | None = None
    """Wire context to decode messages with, in place of the product's."""
    setup_check: bool = True
    """Whether set-ups are checked before a session begins."""
    sealing: bool = True
    """Whether messages are sealed end to end."""
    number: int | None = None
    """Protocol number that all protocols get."""
    rounds: Callable[[Round], Round] | None = None
    """Changes every round (applied last)."""
    definitions: Mapping[str, Definition[Any, Any]] = field(default_factory=dict)
    """Protocols of another shape, by the name of the one they stand in for."""


class ResearchBuild(Build):
    """A private copy of the protocols, with some checks off. See the module's text."""

    def __init__(
        self,
        *,
        without: Collection[Reason] = (),
        replacing: Mapping[Any, Any] | None = None,
        shape: Shape | None = None,
        party: type[Party[Any, Any]] = Party,
        neglecting: Collection[str] = (),
        others: Collection[Definition[Any, Any]] = (),
    ) -> None:
        """Make the copy, with some checks off.

        Args:
            without: reasons for which ``check`` no longer aborts.
            replacing: product functions (or classes) and what stands in for them.
            shape: how the protocols' definitions are otherwise.
            party: class of the honest parties.
            neglecting: duties of the driver that it does not do; see ``fulfils``.
            others: protocols from elsewhere, to be copied as well: all functions in the packages
                that their round functions are in.

        Raises:
            UsageError: nothing copied refers to something to be replaced.
        """
        self._replaced = dict(replacing or {})
        self._shape = shape = shape or Shape()
        self._rounds = shape.rounds or (lambda round_: round_)
        self._party = party
        self._neglected = frozenset(neglecting)
        self.switched_off = tuple(
            [reason.name for reason in without]
            + [f"{original.__name__} as it is" for original in self._replaced]
            + ["strict decoding"] * (shape.wire is not None)
            + ["set-up check"] * (not shape.setup_check)
            + ["sealing"] * (not shape.sealing)
            + ["protocol numbers"] * (shape.number is not None)
            + [f"the shape of {name}" for name in shape.definitions]
            + [text for text in [getattr(shape.rounds, "__doc__", None)] if text]
            + [f"{Party.__name__} as it is"] * (party is not Party)
            + list(neglecting)
        )
        self._copies: dict[Any, Any] = {}
        self._spaces = _namespaces({*COPIED, *(home for of in others for home in _packages_of(of))})
        held = [value for space in self._spaces.values() for value in space.values()]
        unknown = [f for f in self._replaced if not any(f is value for value in held)]
        if unknown:
            raise UsageError(f"nothing copied refers to {unknown}: replacing it does nothing")
        self._replaced[check] = _check_without(frozenset(without))
        for space in self._spaces.values():
            for name, value in list(space.items()):
                space[name] = self._copy(value)

    # ------------------------------------------------------------------ what a build gives out

    def definition(self, of: Definition[Any, Any]) -> ResearchDefinition:
        """Return a new definition; ``of`` itself stays as it is.

        Raises:
            UsageError: a protocol from elsewhere that this build has no copy of.
        """
        if any(run.__module__ not in self._spaces for run in _round_functions(of)):
            raise UsageError(f"{of.name} is not copied, all its checks are on: name it in others")
        own = self._shape
        shape = own.definitions.get(of.name, of)
        sends = [
            tuple(replace(s, sealed=s.sealed and own.sealing) for s in round_.sends)
            for round_ in shape.rounds
        ]
        rounds = [
            self._rounds(replace(round_, run=self._run(round_), sends=sent))
            for round_, sent in zip(shape.rounds, sends, strict=True)
        ]
        wire = own.wire
        return ResearchDefinition(
            name=f"{of.name} [RESEARCH: without {', '.join(self.switched_off)}]",
            number=of.number if own.number is None else own.number,
            rounds=tuple(rounds),
            setup=shape.setup,
            roles=shape.roles,
            wire=shape.wire if wire is None else lambda setup: wire(shape.wire(setup)),
            pair_secrets=shape.pair_secrets if own.sealing else lambda setup: {},
            check=shape.check if own.setup_check else lambda setup, me: None,
            hedge=shape.hedge,
            adapt=shape.adapt,
            largest=shape.largest,
            switched_off=self.switched_off,
        )

    def function(self, of: F) -> F:
        """Return the private copy of a function."""
        return cast(F, self._copy(of))

    def party(self, *arguments: Any, **keywords: Any) -> Party[Any, Any]:
        """Return an honest participant, of the class that this build uses."""
        return self._party(*arguments, **keywords)

    def fulfils(self, duty: str) -> bool:
        """Return whether the duty is not among those neglected."""
        return duty not in self._neglected

    def __repr__(self) -> str:
        return f"RESEARCH without {', '.join(self.switched_off)}"

    # ------------------------------------------------------------------ copying

    def _run(self, round_: Round) -> Callable[[Any, Any, Any], RoundOutput]:
        run = self._copy(round_.run)

        def run_round(view: View[Any], keep: Any, inbox: Any) -> RoundOutput:
            setup = self._adapt_setup(view.setup)
            output: RoundOutput = run(replace(view, setup=setup), keep, inbox)
            prepared, result = map(_with_product_mta, (output.prepared, output.result))
            return replace(output, prepared=prepared, result=result)

        return run_round

    def _adapt_setup(self, setup: Any) -> Any:
        """Return the set-up with the copied methods; those that attackers made are theirs alone."""
        made = self._copy(type(setup))
        if made is type(setup):
            return setup
        values = {name: getattr(setup, name) for name, _ in setup.CODECS}
        share = values.get("share")
        scheme = self._copy(type(getattr(share, "mta", None)))
        if share is not None and scheme is not type(share.mta):
            values["share"] = replace(share, mta=scheme(share.mta.parameters, share.mta.kernel))
        return made(**values)

    def _copy(self, value: Any) -> Any:
        """Return the private counterpart of a module, function or class; anything else as it is."""
        if isinstance(value, ModuleType):
            return _Namespace(self, value) if value.__name__ in self._spaces else value
        if not isinstance(value, (FunctionType, type, functools._lru_cache_wrapper)):
            return value
        if value in self._replaced:
            return self._replaced[value]
        if value not in self._copies:
            self._copies[value] = self._make_copy(value)
        return self._copies[value]

    def _make_copy(self, value: Any) -> Any:
        if value.__module__ not in self._spaces:
            return value
        if isinstance(value, FunctionType):
            return self._rebound(value)
        if isinstance(value, type):
            return self._subclass(value) if issubclass(value, _WITH_METHODS) else value
        return self._rebound(value.__wrapped__)  # a cached function, without the product's cache

    def _rebound(self, function: FunctionType) -> FunctionType:
        copy = FunctionType(
            function.__code__,
            self._spaces[function.__module__],
            function.__name__,
            function.__defaults__,
            function.__closure__,
        )
        copy.__kwdefaults__ = function.__kwdefaults__
        copy.__qualname__ = f"research copy of {function.__qualname__}"
        return copy

    def _subclass(self, of: type) -> type:
        members: dict[str, Any] = {}
        for base in reversed(of.__mro__):
            if base.__module__ not in self._spaces:
                continue
            for name, member in vars(base).items():
                if name.startswith("__"):
                    continue
                if isinstance(member, FunctionType):
                    members[name] = self._rebound(member)
                elif isinstance(member, property) and member.fget is not None:
                    members[name] = property(self._rebound(cast(FunctionType, member.fget)))
        return type(f"Research{of.__name__}", (of,), members)


def without(definition: Definition[Any, Any], *reasons: Reason) -> ResearchDefinition:
    """Return a new definition of the protocol, in which these checks let everything pass."""
    return ResearchBuild(without=reasons, others=[definition]).definition(definition)


class _Namespace:
    """Stands for a module inside the copy."""

    def __init__(self, build: ResearchBuild, module: ModuleType) -> None:
        self._space = build._spaces[module.__name__]

    def __getattr__(self, name: str) -> Any:
        try:
            return self._space[name]
        except KeyError:
            raise AttributeError(name) from None


def _packages_of(definition: Definition[Any, Any]) -> set[str]:
    """Return the packages that the round functions of a protocol are in; a module outside any is
    one."""
    modules = {run.__module__ for run in _round_functions(definition)}
    return {module.rpartition(".")[0] or module for module in modules}


def _round_functions(definition: Definition[Any, Any]) -> list[FunctionType]:
    """Return the round functions of a protocol, but for those that a cheater put in."""
    return [round_.run for round_ in definition.rounds if isinstance(round_.run, FunctionType)]


def _namespaces(roots: Collection[str]) -> dict[str, dict[str, Any]]:
    """Return a copy of the namespace of every module in these packages."""

    def copied(name: str) -> bool:
        return any(name == root or name.startswith(f"{root}.") for root in roots)

    return {name: dict(vars(sys.modules[name])) for name in tuple(sys.modules) if copied(name)}


def _check_without(off: frozenset[Reason]) -> Callable[..., None]:
    def lenient_check(condition: bool, reason: Reason, *args: Any, **options: Any) -> None:
        """``check``, but for the reasons that are off."""
        check(condition or reason in off, reason, *args, **options)

    return lenient_check


def _with_product_mta(result: Any) -> Any:
    """Return a result with the product's own multiplication scheme in it, not the copy's."""
    if isinstance(result, KeyShare) and result.mta is not None:
        return replace(result, mta=mta_scheme(result.mta.identifier))
    return result


# ---------------------------------------------------------------------- neglectful drivers

DISCARD = "discarding OT state after a failed check"
USE_ONCE = "using a presignature once"
ONE_GUARD = "one guard for all open sessions of a share"
KEEP_BOTH = "keeping the old and the prepared share until the end"
RESTORE_LATEST = "restoring nothing but the latest snapshot"
FRESH_RANDOMNESS = "fresh randomness after a stall"


class ForgetfulGuard(Guard):
    """A guard on which nothing stays: what a driver has that stores no ``KeyShare.after_abort``."""

    def discard(self, *peers: PartyId) -> None:
        """Forget it at once."""


class ForgetfulUse(Use):
    """A presignature's mark that does not stay."""

    def spend(self) -> None:
        """Forget it at once."""

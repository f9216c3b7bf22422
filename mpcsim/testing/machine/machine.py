"""State machine of the kit: Hypothesis makes runs through the API, and shrinks failures.

    check_wallet_service(HttpTarget("http://127.0.0.1:9091", token=my_tokens))

It speaks to any service of the specification. A failure is reported as a sequence of steps, with
the seed and code that does the same without Hypothesis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar, Final

from hypothesis import Phase
from hypothesis import seed as with_seed
from hypothesis import settings as hypothesis_settings
from hypothesis.errors import Flaky
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from mpcsim.crypto.rng import SystemRng
from mpcsim.testing.api_sequence import BrokenInvariant, Call, is_broken_invariant
from mpcsim.testing.backend.known_deviations import KnownDeviations
from mpcsim.testing.backend.target import Target
from mpcsim.testing.invariants import Invariant, check_invariants
from mpcsim.testing.machine.api_steps import ApiRun
from mpcsim.testing.machine.api_steps.base import NOTHING
from mpcsim.testing.machine.rules import Rule, rules
from mpcsim.testing.machine.shrink import shrink
from mpcsim.testing.profile import QUICK, Profile, Progress

__tracebackhide__ = is_broken_invariant

UNSTEADY: Final = "The same steps have not failed every time."


class WalletMachine(RuleBasedStateMachine):
    """State machine of runs through one service. ``machine_for`` gives it a target and its
    rules."""

    target: ClassVar[Target]
    rules_by_name: ClassVar[Mapping[str, Rule]]
    extra_invariants: ClassVar[Sequence[Invariant[...]]] = ()
    """Invariants beside the kit's."""
    known_deviations: ClassVar[KnownDeviations]
    progress: ClassVar[Progress | None] = None
    failures: ClassVar[list[BrokenInvariant]]
    """All failures met while searching and shrinking."""

    def __init__(self) -> None:
        super().__init__()
        self.api = ApiRun(self.target, self.extra_invariants, self.known_deviations)
        self._failed = False

    def take(self, name: str, drawn: dict[str, Any]) -> None:
        """Follow one rule."""
        self._record_failure(lambda: self.rules_by_name[name].act(self.api, **drawn))

    def teardown(self) -> None:
        """Restore the service for the next run."""
        try:
            if not self._failed:
                self._record_failure(self.api.end)
        finally:
            _restore_service(self.api)
            if self.progress is not None:
                self.progress.step(self.api.calls, self.api.races)

    def _record_failure(self, act: Callable[[], None]) -> None:
        try:
            act()
        except BrokenInvariant as broken:
            self._failed = True
            self.failures.append(broken)
            raise


def machine_for(
    target: Target,
    profile: Profile = QUICK,
    progress: Progress | None = None,
    invariants: Iterable[Invariant[...]] = (),
    known_deviations: KnownDeviations | Mapping[str, str] = NOTHING,
) -> type[WalletMachine]:
    """Return a state machine class for one target, with a rule for every step that the target
    allows.

    For those who run state machines themselves: ``TestOurs = machine_for(target).TestCase``.
    ``invariants`` and ``known_deviations`` are as for ``check_wallet_service``.
    """
    by_name = rules(target, profile.both_curves)
    body: dict[str, Any] = {name: _as_rule(name, found) for name, found in by_name.items()}
    body |= {"target": target, "rules_by_name": by_name, "progress": progress, "failures": []}
    body |= {
        "extra_invariants": check_invariants(invariants),
        "known_deviations": ApiRun.to_known_deviations(known_deviations),
    }
    made: type[WalletMachine] = type("WalletMachine", (WalletMachine,), body)
    made.TestCase.settings = profile.settings(profile.examples)
    return made


def _as_rule(name: str, found: Rule) -> Callable[..., None]:
    def take(self: WalletMachine, **drawn: Any) -> None:
        self.take(name, drawn)

    take.__name__ = name
    draw: dict[str, Any] = dict(found.draw)
    as_rule: Any = rule(**draw)
    made: Callable[..., None] = as_rule(take)
    return made


def check_wallet_service(
    target: Target,
    profile: Profile = QUICK,
    *,
    seed: int | None = None,
    progress: Progress | None = None,
    invariants: Iterable[Invariant[...]] = (),
    known_deviations: KnownDeviations | Mapping[str, str] = NOTHING,
) -> int:
    """Run through a service until the budget is used up; returns the number of runs.

    Args:
        seed: the same seed takes the same steps; by default another one each time (0 under a
            Hypothesis profile that is derandomised).
        invariants: your own, beside the kit's (``invariant`` has an example); each is given the
            run after every step.
        known_deviations: deliberate deviations of the service, with reasons
            (``mpcsim.testing.backend.known_deviations``).

    Raises:
        BrokenInvariant: an invariant does not hold; its text is the shortest failing sequence
            found.
        UsageError: something among ``invariants`` is none, or a waiver names nothing.
    """
    more, waived = check_invariants(invariants), ApiRun.to_known_deviations(known_deviations)
    first = fresh_seed() if seed is None else seed
    counted = progress or Progress("runs")
    machine = partial(machine_for, target, profile, counted, more, waived)
    try:
        for number, examples in enumerate(profile.rounds()):
            # A time budget repeats seeds one after the other: each round is a run of its own.
            _round(machine(), profile, examples, first + number)
    finally:
        counted.close()
    return counted.done


def _round(made: type[WalletMachine], profile: Profile, examples: int, seed: int) -> None:
    """Make ``examples`` runs with one seed."""
    machine = with_seed(seed)(made)
    settings = hypothesis_settings(profile.settings(examples), phases=(Phase.generate,))
    flaky = False
    try:
        run_state_machine_as_test(machine, settings=settings)
        return
    except (BrokenInvariant, Flaky) as error:
        if not machine.failures:
            raise
        flaky = isinstance(error, Flaky)
    # Out here the first failure is forgotten: it would be printed before the short one.
    found = _shortest(machine, machine.failures[0])
    if found.failure is not None:
        found.failure.seed = seed
        found.failure.budget = f"{examples} runs, {profile.steps} rules each"
        if flaky and UNSTEADY not in found.failure.notes:
            found.failure.notes.append(UNSTEADY)
    raise found


def _shortest(machine: type[WalletMachine], broken: BrokenInvariant) -> BrokenInvariant:
    """Return the failure of the shortest and plainest run found, repeated once to be sure."""

    def attempt(calls: Sequence[Call]) -> BrokenInvariant | None:
        api = ApiRun(machine.target, machine.extra_invariants, machine.known_deviations)
        found: BrokenInvariant | None = None
        try:
            api.play(calls)
            api.end()
        except BrokenInvariant as error:
            found = error
        _restore_service(api)
        return found if type(found) is type(broken) else None

    if broken.failure is None:
        return _without_traceback(broken)
    found = shrink(broken.failure.calls, broken, attempt)
    for tried in (found, broken):
        # A longer run that fails again is worth more than a short one that does not.
        if tried.failure is not None and (again := attempt(tried.failure.calls)) is not None:
            return _without_traceback(again)
    if found.failure is not None:
        found.failure.notes.append(UNSTEADY)
    return _without_traceback(found)


def _without_traceback(broken: BrokenInvariant) -> BrokenInvariant:
    """Return the failure without traceback and Hypothesis's notes: its own text says it better."""
    broken.__notes__ = []
    broken.__context__ = None
    return broken.with_traceback(None)


def _restore_service(api: ApiRun) -> None:
    """Undo all outages for the next run, even if the service is broken otherwise."""
    with suppress(BrokenInvariant):
        api.end()


def fresh_seed() -> int:
    """Return a seed for this run."""
    if hypothesis_settings().derandomize:
        return 0
    return int.from_bytes(SystemRng().bytes(4), "big")

"""Steps in which parts of the system fail and come back, and messages get lost."""

from __future__ import annotations

from mpcsim.testing.api_sequence import is_broken_invariant
from mpcsim.testing.backend import service_checks as checks
from mpcsim.testing.backend.target import LosesMessages, Outages, Part, Restarts
from mpcsim.testing.machine.api_steps.base import Skipped, step
from mpcsim.testing.machine.api_steps.keys import KeySteps
from mpcsim.testing.machine.api_steps.registered import RegisteredSteps

__tracebackhide__ = is_broken_invariant


class OutageSteps(KeySteps, RegisteredSteps):
    """Steps that disturb the service, and restore it."""

    @step
    def stop(self, part: Part) -> None:
        """Make a part of the system unreachable."""
        if not isinstance(self.target, Outages) or part in self._outages:
            raise Skipped
        self._describe_step(f"the {part} went down")
        self.target.stop(part)
        self._outages[part] = None

    @step
    def start(self, part: Part) -> None:
        """Make a part reachable again; requests refused meanwhile have changed nothing."""
        if not isinstance(self.target, Outages) or part not in self._outages:
            raise Skipped
        self._describe_step(f"the {part} came back")
        self.target.start(part)
        del self._outages[part]
        self._check_registry()

    @step
    def restart(self, part: Part) -> None:
        """Kill a part of the system and start it again: everything is still there."""
        if not isinstance(self.target, Restarts) or part in self._outages:
            raise Skipped
        self._describe_step(f"the {part} was killed and started again")
        self.target.restart(part)
        self._check_registry()

    @step
    def lose(self, nth: int) -> None:
        """Start to lose the nth message between the parties."""
        if not isinstance(self.target, LosesMessages) or "messages" in self._outages:
            raise Skipped
        self._describe_step(f"the network began to lose message {nth} of what came then")
        self.target.lose(nth)
        self._outages["messages"] = None

    @step
    def lose_nothing(self) -> None:
        """Stop losing messages; sessions that hung have expired."""
        if not isinstance(self.target, LosesMessages) or "messages" not in self._outages:
            raise Skipped
        self._describe_step("the network lost no more messages")
        self.target.lose_nothing()
        del self._outages["messages"]
        self._check_registry()

    @step
    def all_list_keys(self) -> None:
        """Compare what is registered for everybody with the model."""
        self._describe_step("everybody listed the keys")
        self._check_registry()

    def _check_registry(self) -> None:
        """Check that the registered keys are those of the model, whatever failed meanwhile; after a
        502 or 504, either is right."""
        if self._outages:
            return
        self._unsettled = False
        self._settle_doubts()
        for who in self.model.users.values():
            answer = self._get(who, "key")
            if self._expect(answer, [200]):
                problem = self._keys_problem(who, answer.document)
                checks.failed_request_changes_nothing(
                    f"{who.name} listed the keys: {problem}" if problem else None
                )

    def end(self) -> None:
        """Undo all outages of the run, and check once more.

        Raises:
            BrokenInvariant: as the steps do.
        """
        for name in list(self._outages):
            if name == "messages":
                self.lose_nothing()
            else:
                self.start(name)  # type: ignore[arg-type]
        if self._unsettled:
            self.all_list_keys()

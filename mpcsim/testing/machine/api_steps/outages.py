"""Parts of the system fail and come back, and messages get lost."""

from __future__ import annotations

from mpcsim.testing.api_sequence import is_broken_invariant
from mpcsim.testing.backend import service_checks as checks
from mpcsim.testing.backend.target import LosesMessages, Outages, Part, Restarts
from mpcsim.testing.machine.api_steps.base import Skipped, step
from mpcsim.testing.machine.api_steps.keys import KeySteps
from mpcsim.testing.machine.api_steps.registered import RegisteredSteps

__tracebackhide__ = is_broken_invariant


class OutageSteps(KeySteps, RegisteredSteps):
    """Disturb the service, and put it in order."""

    @step
    def stop(self, part: Part) -> None:
        """Let a part of the system be unreachable."""
        if not isinstance(self.target, Outages) or part in self._outages:
            raise Skipped
        self._tell(f"the {part} went down")
        self.target.stop(part)
        self._outages[part] = None

    @step
    def start(self, part: Part) -> None:
        """Let it come back; what was refused meanwhile has changed nothing."""
        if not isinstance(self.target, Outages) or part not in self._outages:
            raise Skipped
        self._tell(f"the {part} came back")
        self.target.start(part)
        del self._outages[part]
        self._check_registry()

    @step
    def restart(self, part: Part) -> None:
        """Kill a part of the system and start it again: everything is still there."""
        if not isinstance(self.target, Restarts) or part in self._outages:
            raise Skipped
        self._tell(f"the {part} was killed and started again")
        self.target.restart(part)
        self._check_registry()

    @step
    def lose(self, nth: int) -> None:
        """Lose the nth message between the parties from now on."""
        if not isinstance(self.target, LosesMessages) or "messages" in self._outages:
            raise Skipped
        self._tell(f"the network began to lose message {nth} of what came then")
        self.target.lose(nth)
        self._outages["messages"] = None

    @step
    def lose_nothing(self) -> None:
        """Let every message arrive again; sessions that hung have expired."""
        if not isinstance(self.target, LosesMessages) or "messages" not in self._outages:
            raise Skipped
        self._tell("the network lost no more messages")
        self.target.lose_nothing()
        del self._outages["messages"]
        self._check_registry()

    @step
    def all_list_keys(self) -> None:
        """Compare what is registered for everybody with the model."""
        self._tell("everybody listed the keys")
        self._check_registry()

    def _check_registry(self) -> None:
        """What is registered is what the model has, whatever failed meanwhile; where a 502 or 504
        left that open, whichever it is."""
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
        """Put everything in order that the run has put out of order, and check once more.

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

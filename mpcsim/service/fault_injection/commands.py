"""Commands of fault injection, as data.

The command line, the HTTP interface and the guide follow from this.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mpcsim.errors import UsageError, unknown

PARTS: Final = ("operator", "institution", "gateway", "node")
"""Processes of a service, in the order of their start."""

_EVERYWHERE: Final = ("401", "500", "502", "504", "hang")
_LIMITED: Final = ("401", "429", "500", "502", "504", "hang")
_BUSY: Final = ("401", "409", "429", "500", "502", "504", "hang")
ENDPOINTS: Final[Mapping[str, tuple[str, str, tuple[str, ...]]]] = {
    "generate": ("POST", "/v3/wallet/generate", _BUSY),
    "recover": ("POST", "/v3/wallet/recover", _BUSY),
    "sign": ("POST", "/v3/wallet/sign", _BUSY),
    "presign": ("POST", "/v3/wallet/presign", _BUSY),
    "publickey": ("POST", "/v3/wallet/publickey", _LIMITED),
    "validate/password": ("POST", "/v3/wallet/validate/password", _LIMITED),
    "validate/share": ("POST", "/v3/wallet/validate/share", _EVERYWHERE),
    "wallet": ("GET", "/v3/wallet", _EVERYWHERE),
    "key": ("GET", "/v3/wallet/key", _EVERYWHERE),
    "user": ("GET", "/v3/wallet/user", _EVERYWHERE),
    "token": ("GET", "/v3/wallet/token", _EVERYWHERE),
}
"""Endpoints of the node, by name: method, path, and the answers that can be injected."""


@dataclass(frozen=True)
class Argument:
    """Argument of a control command."""

    name: str
    text: str
    read: Callable[[object], Any]
    """Function that parses a value; raises ValueError for anything else. A number may be given as
    text."""
    wanted: str
    """Description of valid values, after "must be"."""
    optional: bool = False
    choices: tuple[str, ...] = ()
    flag: bool = False

    @property
    def is_positional(self) -> bool:
        """Whether the command line knows it by its place, not by its name."""
        return not self.flag and (not self.optional or self.name == "scenario")


@dataclass(frozen=True)
class ControlCommand:
    """Command of the control interface: injects a fault, undoes one, or reports."""

    name: str
    text: str
    layer: str
    """Place where it acts."""
    result: str
    """Effect at the node, as a backend sees it."""
    undo: str
    arguments: tuple[Argument, ...] = ()

    @property
    def usage(self) -> str:
        """Usage line as on the command line."""
        words = [self.name]
        for each in self.arguments:
            name = each.name.upper()
            if each.flag:
                words.append(f"[--{each.name}]")
            elif each.is_positional:
                words.append(f"[{name}]" if each.optional else name)
            else:
                words.append(f"[--{each.name} {name}]")
        return " ".join(words)

    def parse_arguments(self, said: object) -> dict[str, Any]:
        """Arguments as they are meant; those that are missing are left out.

        Raises:
            UsageError: one is unknown, missing or out of range; says which.
        """
        if not isinstance(said, Mapping):
            raise UsageError(f"{self.name}: what it is told must be an object")
        known = {each.name: each for each in self.arguments}
        for name in said:
            if name not in known:
                if not known:
                    raise UsageError(f"{self.name} takes no arguments")
                raise UsageError(f"{self.name}: {unknown('argument', str(name), known)}")
        found = {}
        for name, each in known.items():
            if said.get(name) is None:
                if not each.optional:
                    raise UsageError(f"{self.name}: {name} is missing: {each.wanted}")
                continue
            try:
                found[name] = each.read(said[name])
            except (ValueError, OverflowError):
                if each.choices:
                    why = unknown(name, str(said[name]), each.choices)
                    raise UsageError(f"{self.name}: {why}") from None
                raise UsageError(f"{self.name}: {name} must be {each.wanted}") from None
        return found


def _choice(name: str, text: str, among: Iterable[str]) -> Argument:
    choices = tuple(among)

    def read(said: object) -> str:
        if (found := str(said)) not in choices:
            raise ValueError
        return found

    return Argument(name, text, read, "one of " + ", ".join(choices), choices=choices)


def _number(name: str, text: str, low: float, high: float) -> Argument:
    def read(said: object) -> float:
        if isinstance(said, bool) or not isinstance(said, int | float | str):
            raise ValueError
        found = float(said)
        if not low <= found <= high or math.isnan(found):
            raise ValueError
        return found

    return Argument(name, text, read, f"a number from {low:g} to {high:g}")


def _count(name: str, text: str, low: int, high: int) -> Argument:
    def read(said: object) -> int:
        if isinstance(said, bool) or not isinstance(said, int | str):
            raise ValueError
        found = int(said)
        if not low <= found <= high:
            raise ValueError
        return found

    return Argument(name, text, read, f"a whole number from {low} to {high}", optional=True)


def _flag(name: str, text: str) -> Argument:
    def read(said: object) -> bool:
        if not isinstance(said, bool):
            raise ValueError
        return said

    return Argument(name, text, read, "true or false", optional=True, flag=True)


def _scenario(said: object) -> str:
    if not isinstance(said, str):
        raise ValueError
    return said


_PART: Final = _choice("part", "which process", PARTS)
_NETWORK: Final = Argument(
    "scenario",
    "the text of a network or scenario file (TOML); on the command line FILE.toml or a preset, "
    "as for --network",
    _scenario,
    "the text of a network or scenario file",
    optional=True,
)

COMMANDS: Final[Mapping[str, ControlCommand]] = {
    each.name: each
    for each in (
        ControlCommand(
            "down",
            "stop a process at once, and leave it so",
            "processes (SIGKILL)",
            "MPC node: 500 `Upstream returned 503 Service Unavailable: the operator's MPC node "
            "cannot be reached`. Gateway: 502. Node: nobody listens",
            "`up PART`",
            (_PART,),
        ),
        ControlCommand(
            "up",
            "start a process that is down",
            "processes",
            "as before: what was stored is there, sessions and presignatures are not",
            "`down PART`",
            (_PART,),
        ),
        ControlCommand(
            "kill",
            "kill a process, and start it again",
            "processes (SIGKILL)",
            "calls under way: as for `down`. Afterwards as before; presignatures are void, and "
            "`sign` goes the longer way",
            "none needed",
            (_PART,),
        ),
        ControlCommand(
            "slow",
            "have a process answer every request later",
            "around its application",
            "as before, later; of an MPC node, once for each of its requests. Too late for the "
            "node's GATEWAY_TIMEOUT_S: 504",
            "`slow PART 0`",
            (_PART, _number("ms", "milliseconds", 0, 600_000)),
        ),
        ControlCommand(
            "cut",
            "cut a process off: what is sent to it, or by it, does not arrive",
            "around its application",
            "MPC node: 500 `Upstream returned 504 Gateway Timeout: the operator's MPC node did "
            "not answer in time`, after the gateway's --link-timeout (20 s). Gateway: 504, after "
            "the node's GATEWAY_TIMEOUT_S (30 s). Node: no answer",
            "`mend PART`: what is still waited for arrives then",
            (_PART,),
        ),
        ControlCommand(
            "mend",
            "undo cut",
            "around its application",
            "as before",
            "`cut PART`",
            (_PART,),
        ),
        ControlCommand(
            "network",
            "put a network in force on the links of the gateway, with its faults",
            "the gateway's links",
            "as before, later. Where a message is lost: 500 `MPC session ended in round 2 (offer) "
            "without a message from party 2 (operator)`, then 500 with Retry-After (`Upstream "
            "returned 409 Conflict: ...`) until the gateway's --lease is over",
            "`network` alone: as it was started",
            (_NETWORK,),
        ),
        ControlCommand(
            "expire",
            "the next access tokens that the gateway issues have expired when they arrive",
            "the gateway's clock, for its login",
            '401 `Authentication failed: {"code":757,"message":"JWT_EXPIRED"}`, until a newer '
            "token is shown",
            "`expire --times 0`",
            (_count("times", "how many tokens (default 1)", 0, 1000),),
        ),
        ControlCommand(
            "clock",
            "have gateway, node and both MPC nodes look at a clock that is ahead, or behind",
            "the clocks of all four",
            "401 JWT_EXPIRED for tokens that are over by then; timestamps are of that time. "
            "Sessions and presignatures do not age",
            "`clock 0`; tokens issued meanwhile hold until then",
            (_number("seconds", "how far ahead", -(10.0**9), 10.0**9),),
        ),
        ControlCommand(
            "fail",
            "have the next calls of an endpoint fail",
            "around the node's application",
            "the status, with the body that it really has. 409 of `sign` and `presign` is 500 "
            "`Upstream returned 409 Conflict: a signing session for this key is in progress; "
            "with the gateway's --queue, calls wait`. With --done the call is carried out, and its "
            "answer lost. `hang`: no answer",
            "`fail ENDPOINT ANSWER --times 0`; what hangs goes on then, if it is still waited for",
            (
                _choice("endpoint", "of the node", ENDPOINTS),
                _choice("answer", "status, or hang", _BUSY),
                _count("times", "how many calls (default 1)", 0, 1000),
                _flag("done", "carry the call out first"),
            ),
        ),
        ControlCommand(
            "reset-users",
            "empty the stores: no users, no keys; API key, secret and identities stay",
            "stores, gateway and MPC nodes started again",
            "with tokens of before, lists are empty and all else is 404; the gateway's login is "
            "400 until the user signs up again",
            "none",
        ),
        ControlCommand(
            "demo-users",
            "sign users up and make their keys through the API; prints passwords and strings",
            "callers",
            "demo-1 and so on have a key on both curves. One who has it is recovered: strings of "
            "before are void",
            "`reset-users`",
            (_count("count", "how many (default 3)", 1, 100),),
        ),
        ControlCommand(
            "status",
            "what is switched on",
            "none",
            "as before",
            "none needed",
        ),
        ControlCommand(
            "reset",
            "undo all that can be undone",
            "all",
            "as before",
            "none needed",
        ),
    )
}


def find_command(name: str) -> ControlCommand:
    """Return a command by its name.

    Raises:
        UsageError: there is none.
    """
    if name not in COMMANDS:
        raise UsageError(unknown("switch", name, COMMANDS))
    return COMMANDS[name]


def check_answer(endpoint: str, answer: str) -> None:
    """Check that an endpoint can be made to give an answer.

    Raises:
        UsageError: it never does.
    """
    answers = ENDPOINTS[endpoint][2]
    if answer not in answers:
        raise UsageError(
            f"{endpoint} never answers {answer}; it can be made to: " + ", ".join(answers)
        )


def markdown_table() -> str:
    """The table of the guide."""
    rows = ["| switch | layer | HTTP result at the node | undo |", "|---|---|---|---|"]
    rows += [
        f"| `{each.usage}`: {each.text} | {each.layer} | {each.result} | {each.undo} |"
        for each in COMMANDS.values()
    ]
    return "\n".join(rows)

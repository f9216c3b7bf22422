"""Configuration of one side: a signing call and its network; also as Python code."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache, reduce
from typing import Any, Final, NamedTuple

from mpcsim.errors import UsageError
from mpcsim.sim.network import presets
from mpcsim.sim.network.topology import Network
from mpcsim.sim.replay import MessageGraph, Replay
from node.calls import Signing, signing_call

LINE: Final = 88
"""Longest line of Python code that can be broken."""
MOST_LOSS: Final = 0.5
"""Largest loss: with more, a call takes days."""
RATES: Final = (0.01, 100_000.0)
"""Bounds of bandwidths in Mbit/s."""
_LAST_MILE: Final = ("client", "gateway")


class _FunctionCall(NamedTuple):
    """Function call, to be made or to be written as code."""

    name: str
    values: tuple[object, ...]
    named: Mapping[str, object]

    def text(self, indent: str = "", taken: int = 0) -> str:
        """Return Python code, on several lines if it is long.

        Args:
            taken: characters before it on its line.
        """
        parts = [*map(_literal, self.values)]
        parts += [f"{name}={_literal(value)}" for name, value in self.named.items()]
        line = f"{self.name}({', '.join(parts)})"
        if len(indent) + taken + len(line) <= LINE:
            return line
        inner = "".join(f"{indent}    {part},\n" for part in parts)
        return f"{self.name}(\n{inner}{indent})"


@dataclass(frozen=True)
class Configuration(Signing):
    """Signing call and its network: that of ``Network.preset``, with changes.

    Regions and access networks are those of ``mpcsim.sim.network.presets``; None: at the caller.
    """

    region: str = "seoul"
    """Region of the caller."""
    gateway: str | None = None
    operator: str | None = None
    institution: str | None = "frankfurt"
    access: str = "lte"
    loss: float | None = None
    """Probability that a packet is lost on the caller's line, one way; None: the access
    network's."""
    up_mbit_per_s: float | None = None
    """Bandwidth of the caller's line; None: the access network's."""
    down_mbit_per_s: float | None = None
    cold: bool = False
    """Whether connections are opened anew."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("region", "gateway", "operator", "institution"):
            if (where := getattr(self, name)) is not None or name == "region":
                object.__setattr__(self, name, presets.region(_text(name, where)))
        access = presets.access(_text("access", self.access))
        object.__setattr__(self, "access", access.name)
        _check_range("loss", self.loss, 0.0, MOST_LOSS)
        for name in ("up_mbit_per_s", "down_mbit_per_s"):
            _check_range(name, getattr(self, name), *RATES)
        if not isinstance(self.cold, bool):
            raise UsageError(f"cold is {self.cold!r}: True or False")

    @property
    def network(self) -> Network:
        """Network of the call."""
        first, *more = self._network_calls()
        made = Network.preset(*first.values, **first.named)  # type: ignore[arg-type]

        def apply_call(network: Network, call: _FunctionCall) -> Network:
            change: Callable[..., Network] = getattr(network, call.name.removeprefix("."))
            return change(*call.values, **call.named)

        return reduce(apply_call, more, made)

    @property
    def graph(self) -> MessageGraph:
        """Message graph of the call."""
        return signing_call(**self._arguments_of(Signing))

    def replay(self, samples: int, seed: int = 0) -> Replay:
        """Return the call's simulated times, explained; cached.

        Raises:
            UsageError: bad number of samples; every call fails.
        """
        found = _cached_replay(self, samples, seed)
        if found.failed == samples:
            raise UsageError("every call fails: TCP or the service gives it up")
        return found

    def python(self, name: str, samples: int, seed: int = 0) -> str:
        """Return a statement that assigns the same replay to ``name``."""
        defaults = {f.name: f.default for f in fields(Signing)}
        changes = {k: v for k, v in self._arguments_of(Signing).items() if v != defaults[k]}
        call = _FunctionCall("signing_call", (), changes).text(taken=len(name) + len(" = .replay("))
        network = "\n    ".join(each.text("    ") for each in self._network_calls())
        arguments = [network, f"{samples:_}", *([f"seed={seed}"] if seed else []), "explain=True"]
        line = f"    {', '.join(arguments)}\n"
        if len(line) > LINE or "\n" in network:
            line = "".join(f"    {each},\n" for each in arguments)
        return f"{name} = {call}.replay(\n{line})\n"

    def _network_calls(self) -> list[_FunctionCall]:
        """Return the calls that make the network."""
        given = {
            "gateway": self.gateway,
            "operator": self.operator,
            "institution": self.institution,
            "access": self.access,
            "loss": self.loss,
        }
        given = {name: value for name, value in given.items() if value is not None}
        calls = [_FunctionCall("Network.preset", (self.region,), given)]
        rates = {"mbit_per_s": self.up_mbit_per_s, "back_mbit_per_s": self.down_mbit_per_s}
        rates = {name: rate for name, rate in rates.items() if rate is not None}
        if rates:
            calls.append(_FunctionCall(".with_link", _LAST_MILE, rates))
        if self.cold:
            calls.append(_FunctionCall(".with_connection", (), {"cold": True}))
        return calls

    def _arguments_of(self, of: type[Signing]) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(of)}


@lru_cache(maxsize=64)
def _cached_replay(configuration: Configuration, samples: int, seed: int) -> Replay:
    return configuration.graph.replay(configuration.network, samples, seed=seed, explain=True)


def _literal(value: object) -> str:
    return json.dumps(value) if isinstance(value, str) else repr(value)


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise UsageError(f"{name} is {value!r}: not a name")
    return value


def _check_range(name: str, value: object, low: float, high: float) -> None:
    """Refuse a value that is not a number between two others; None is accepted."""
    if value is None:
        return
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not low <= value <= high:  # type: ignore[operator]
        raise UsageError(f"{name} is {value!r}: not a number from {low:g} to {high:g}")

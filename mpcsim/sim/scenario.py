"""Scenarios: network, faults, policy and tasks of a simulation, as one value and one TOML file.

    run = ["generate", { task = "sign", signers = [1, 3] }]
    seed = 1

    [preset]                    # or the tables of a network file: sites, links, placement, ...
    region = "seoul"
    institution = "frankfurt"
    access = "lte"
    loss = 0.01

    [connection]                # of the network, in whichever form it is written
    cold = true

    [[faults]]
    fault = "drop"              # drop, delay or duplicate messages; partition; crash
    kind = "Commit"
    nth = 1

    [policy]
    timeout_ms = 5_000
    attempts = 2

A network is written in one of five forms (``mpcsim.sim.network.network_specification``): three of
five signers are

    run = [{ task = "generate", threshold = 3 }, "sign"]

    [hub]
    parties = 5
    latency = 20.0

Tasks are ``generate``, ``sign``, ``presign``, ``sign presigned`` and ``recover``. Without
``signers`` the first holders sign: of a wallet, the caller and the operator. A signature with a
presignature, to compare with an ordinary one, is

    run = ["generate", "presign", "sign presigned"]

Keys are the fields of ``Scenario``, of the tasks (``mpcsim.sim.tasks``), faults and ``Policy``;
omitted keys have their defaults. ``compute`` is ``free``, ``measured``, or a table:
``[compute.frost]`` with milliseconds by round. A ``message`` is text, or bytes in hexadecimal:
``0x...``. A network file is a scenario, too: one that generates a key and signs. An error begins
with the path of its entry."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal

from mpcsim.errors import UsageError, unknown
from mpcsim.ids import ROLES
from mpcsim.sim.network import network_specification
from mpcsim.sim.network.files import tables, toml
from mpcsim.sim.network.files.toml import key_path
from mpcsim.sim.network.topology import Network
from mpcsim.sim.network.transport import is_whole_number
from mpcsim.sim.run.compute import Compute, Declared, Free, Measured
from mpcsim.sim.run.engine import check_resend
from mpcsim.sim.run.faults import Crash, Effect, Fault, MessageFault, Partition
from mpcsim.sim.tasks import TASKS, Generate, Sign, Task

_EFFECTS: Final = {effect.name.lower(): effect for effect in Effect}
_FAULTS: Final[Mapping[str, type[Partition | Crash]]] = {"partition": Partition, "crash": Crash}
_FREE: Final = Free()
_COMPUTE: Final[Mapping[str, Compute]] = {"free": _FREE, "measured": Measured()}
_HEX: Final = "0x"


@dataclass(frozen=True)
class Policy:
    """Policy of retries: deadline of a session, number of attempts, retransmission of messages."""

    timeout_ms: float = math.inf
    """Deadline of one session."""
    attempts: int = 1
    """Most sessions. A further one follows only where a retry is safe: not after a valid or an
    invalid result, and not where a party is to be banned."""
    resend_ms: float = math.inf
    """Interval at which a waiting party sends all its messages again, so that messages may be lost
    and parties may crash; never by default. Needs a timeout."""

    def __post_init__(self) -> None:
        if not self.timeout_ms > 0:
            raise UsageError(f"policy timeout_ms is {self.timeout_ms}: not above 0")
        if not is_whole_number(self.attempts, 1):
            raise UsageError(f"policy attempts is {self.attempts}: not a whole number from 1 on")
        check_resend("policy", self.resend_ms, self.timeout_ms)


SECRET_MARK: Final = "SECRET: every key and nonce of this run follows from its secrets_seed"
"""Comment in scenario files that have a seed of the secrets."""


@dataclass(frozen=True)
class Scenario:
    """Input of a simulation: network, tasks, faults, policy; ``load(save(x)) == x``."""

    network: Network = field(default_factory=Network.star)
    run: tuple[Task, ...] = (Generate(), Sign())
    """Tasks, run one after the other with the same key."""
    faults: tuple[Fault, ...] = ()
    policy: Policy = Policy()
    compute: Compute = _FREE
    """Compute model in virtual time; by default computation takes no time, and runs repeat."""
    clock: Literal["virtual", "real"] = "virtual"
    seed: int = 0
    """Seed of latencies, losses and random faults."""
    secrets_seed: str | None = field(default=None, repr=False)
    """Seed of REPRODUCIBLE SECRETS for experiments; by default the operating system's
    randomness."""

    @classmethod
    def load(cls, path: str | Path) -> Scenario:
        """Read the scenario in a TOML file; a network file is one, too.

        Raises:
            UsageError: not TOML, or an entry that is unknown, missing or out of range: says which.
            OSError: the file cannot be read.
        """
        return _located(toml.read(path), str(path))

    @classmethod
    def loads(cls, text: str, source: str = "scenario") -> Scenario:
        """Parse the scenario in a TOML text, as ``load`` does."""
        return _located(toml.loads(text, source), source)

    def save(self, path: str | Path, note: str = "") -> None:
        """Write a file that ``load`` reads as this scenario.

        A file with a seed of the secrets is marked as secret, and its owner's alone (mode 0600).

        Args:
            note: comes first, as a comment.

        Raises:
            UsageError: a latency or compute is of a class that files do not know.
            OSError: the file cannot be written.
        """
        path, text = Path(path), self.dumps(note)
        if self.secrets_seed is not None:
            path.touch(mode=0o600)
            path.chmod(0o600)
        path.write_text(text, encoding="utf-8")

    def dumps(self, note: str = "") -> str:
        """Return the TOML text that ``save`` writes."""
        own = tables.encode(self, _written, leave_out=frozenset({"network"}), defaults=False)
        marks = [] if self.secrets_seed is None else [SECRET_MARK]
        return toml.text(own | self.network.table(), "\n".join([*marks, *note.splitlines()]))

    def __str__(self) -> str:
        return self.dumps()

    def check_service(self, *, in_process: bool = True) -> None:
        """Refuse a scenario that a running service cannot have: its keys are 2 of 3, of its
        holders.

        Args:
            in_process: whether its MPC nodes are in the gateway's process, which alone can have
                them crash.

        Raises:
            UsageError: says what is otherwise.
        """
        if self.network.placement.keys() != ROLES.keys():
            parties = ", ".join(map(str, self.network.placement)) or "nobody"
            raise UsageError(
                f"the parties of a service are {', '.join(ROLES.values())} (1, 2 and 3), those of "
                f"this scenario {parties}"
            )
        for task in self.run:
            if isinstance(task, Generate) and task.threshold != 2:
                raise UsageError(f"the keys of a service are 2 of 3, not {task.threshold}")
        if not in_process and any(isinstance(fault, Crash) for fault in self.faults):
            raise UsageError("no network crashes a process: mpcsim control kill does")


# ---------------------------------------------------------------------- reading


def _located(table: Mapping[str, Any], source: str) -> Scenario:
    try:
        return _scenario(table)
    except UsageError as error:
        raise UsageError(f"{source}: {error}") from None


def _scenario(table: Mapping[str, Any]) -> Scenario:
    own = {name: value for name, value in table.items() if name in _OWN}
    rest = {name: value for name, value in table.items() if name not in own}
    known = (*_OWN, *network_specification.KEYS)
    for name in rest:
        if name not in known:
            raise UsageError(f"{key_path('', name)}: {unknown('entry', name, known)}")
    network = network_specification.parse_network(rest) if rest else Network.star()
    return tables.decode(Scenario, own, "", _SPECIAL, network=network)


def _run(value: Any, at: str) -> tuple[Task, ...]:
    def task(each: Any, at: str) -> Task:
        name, arguments = (
            (each, {}) if isinstance(each, str) else tables.split_kind(each, "task", at, TASKS)
        )
        if name not in TASKS:
            raise UsageError(f"{at}: {unknown('task', name, TASKS)}")
        make: Callable[..., Task] = TASKS[name]
        return tables.decode(make, arguments, at, {bytes: _message})

    return tables.decode_list(value, at, task)


def _faults(value: Any, at: str) -> tuple[Fault, ...]:
    def fault(each: Any, at: str) -> Fault:
        name, arguments = tables.split_kind(each, "fault", at, (*_EFFECTS, *_FAULTS))
        if name in _EFFECTS:
            return tables.decode(MessageFault, arguments, at, {}, effect=_EFFECTS[name])
        make: Callable[..., Fault] = _FAULTS[name]
        return tables.decode(make, arguments, at, {})

    return tables.decode_list(value, at, fault)


def _message(value: object, at: str) -> bytes:
    if not isinstance(value, str):
        raise UsageError(f"{at}: {value!r} is not a text")
    if not value.startswith(_HEX):
        return value.encode()
    try:
        return bytes.fromhex(value.removeprefix(_HEX))
    except ValueError:
        raise UsageError(f"{at}: {value!r} is not hexadecimal") from None


def _compute(value: object, at: str) -> Compute:
    if isinstance(value, str):
        try:
            return compute_model(value)
        except UsageError as error:
            raise UsageError(f"{at}: {error}") from None
    costs: dict[tuple[str, str], float] = {}
    for protocol, rounds in tables.as_table(value, at).items():
        for name, ms in tables.as_table(rounds, key_path(at, protocol)).items():
            if isinstance(ms, bool) or not isinstance(ms, int | float):
                where = key_path(key_path(at, protocol), name)
                raise UsageError(f"{where}: {ms!r} is not a number of milliseconds")
            costs[protocol, name] = ms
    return Declared(costs)


def compute_model(compute: Compute | str) -> Compute:
    """Return a compute model, given as one or by its name in scenario files.

    Raises:
        UsageError: neither a model nor a known name.
    """
    if not isinstance(compute, str):
        if not hasattr(compute, "round_ms"):
            raise UsageError(f"compute: expected a model or a name of {', '.join(_COMPUTE)}")
        return compute
    if compute not in _COMPUTE:
        raise UsageError(unknown("compute", compute, _COMPUTE))
    return _COMPUTE[compute]


_OWN: Final = tuple(each.name for each in fields(Scenario) if each.name != "network")
_SPECIAL: Final[tables.Special] = {
    tuple[Task, ...]: _run,
    tuple[Fault, ...]: _faults,
    Compute: _compute,
}


# ---------------------------------------------------------------------- writing


def _written(value: Any) -> Any:
    match value:
        case tuple():
            found = [_written(each) for each in value]
            if any(isinstance(each, dict) for each in found):  # then all of them
                return [{"task": each} if isinstance(each, str) else each for each in found]
            return found
        case frozenset():
            return sorted(value)
        case bytes():
            return _text(value)
        case MessageFault():
            own = tables.encode(value, leave_out=frozenset({"effect"}), defaults=False)
            return {"fault": value.effect.name.lower()} | own
        case Partition() | Crash():
            name = next(name for name, of in _FAULTS.items() if of is type(value))
            return {"fault": name} | tables.encode(value, _written, defaults=False)
        case Policy():
            return tables.encode(value, defaults=False)
        case Free() | Measured() | Declared():
            return _costs(value)
        case _ if type(value) in TASKS.values():
            name = next(name for name, of in TASKS.items() if of is type(value))
            own = tables.encode(value, _written, defaults=False)
            return {"task": name} | own if own else name
        case str() | int() | float():
            return value
    raise UsageError(f"{type(value).__name__} has no place in a scenario file")


def _text(message: bytes) -> str:
    try:
        text = message.decode()
    except UnicodeDecodeError:
        return _HEX + message.hex()
    return _HEX + message.hex() if text.startswith(_HEX) else text


def _costs(compute: Compute) -> Any:
    for name, each in _COMPUTE.items():
        if compute == each:
            return name
    if not isinstance(compute, Declared) or compute != Declared(compute.costs_ms):
        raise UsageError(f"compute {compute.name} has no place in a scenario file")
    costs: dict[str, dict[str, float]] = {}
    for (protocol, name), ms in compute.costs_ms.items():
        costs.setdefault(protocol, {})[name] = ms
    return costs

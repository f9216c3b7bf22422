"""Parameter sweeps: one function over a grid of parameters, on all cores, into one tidy table.

    >>> from mpcsim.sim import signing_point, sweep
    >>> grid = {"network": ["seoul", "frankfurt"], "signers": [(1, 2), (1, 3)]}
    >>> table = sweep(grid, signing_point, repeats=20)

The table has one row per point and repeat: the parameters, the repeat, the seed, the results. Each
row's seed follows from its parameters, its repeat and the sweep's seed alone: neither the order nor
the number of processes matters, and a larger grid contains the rows of a smaller one.
``mpcsim.sim.figures.heat_map(table, "network", "signers")`` shows it.

By default the points run in fresh (spawned) processes, one for each core. Then ``run`` must be
importable by them: a function at the top level of a module, or a ``functools.partial`` of one, and
a script needs ``if __name__ == "__main__":`` around the call. Any ``concurrent.futures.Executor``
takes their place: a ``ThreadPoolExecutor`` or Dask's also run functions defined in a notebook.

    >>> from dask.distributed import Client
    >>> with Client("scheduler:8786") as client:
    ...     table = sweep(grid, signing_point, executor=client.get_executor())

With ``resume`` every finished point is written to a file at once, and a sweep that was interrupted
goes on where it stopped. Each row knows what it was computed of: the contents of the function and
of all its arguments, files that they name included, and the version of the package.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import pickle
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, as_completed
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from mpcsim.errors import MpcError, UsageError, check_type, needs_extra
from mpcsim.processes import Processes
from mpcsim.sim.experiments.digests import digest
from mpcsim.sim.network.transport import is_whole_number
from mpcsim.sim.rich_display import counted
from mpcsim.sim.traces.frame import load_pandas

if TYPE_CHECKING:
    import pandas as pd

Plain = str | int | float | bool | None
Run = Callable[..., Mapping[str, Any]]
"""``run(**parameters, seed=seed)`` gives the results of one point: names to plain values."""

FORMAT: Final = "mpcsim sweep 2"
SEEDS: Final = "mpcsim sweep 1"
"""Label in the derivation of seeds: that of the first format, so that old tables repeat."""
RESERVED: Final = ("repeat", "seed")
"""Columns of the table that are neither parameters nor results."""
SEED_BYTES: Final = 6
"""Length of a seed in bytes: below 2^48, every file format holds it exactly."""


class PointFailed(MpcError):
    """The function raised at one point of the grid; the text names the point.

    The traceback is attached as a note.
    """


@dataclass(frozen=True)
class _Point:
    """Point of the grid, and one of its repeats: a row to be computed."""

    parameters: Mapping[str, Any]
    """Arguments of the function."""
    shown: Mapping[str, Any]
    """Values in the table: the arguments, or their labels."""
    repeat: int
    seed: int

    @property
    def key(self) -> str:
        return _canonical([self.shown, self.repeat])

    def __str__(self) -> str:
        parts = [f"{name}={value!r}" for name, value in self.shown.items()]
        return ", ".join([*parts, f"repeat {self.repeat}, seed {self.seed}"])


@dataclass(frozen=True)
class _Failure:
    """Exception of a point, as text: not every exception can be pickled between processes."""

    what: str
    where: str


def sweep(
    grid: Mapping[str, Sequence[Any] | Mapping[str, Any]],
    run: Run,
    *,
    repeats: int = 1,
    seed: int = 0,
    executor: Executor | None = None,
    progress: bool = True,
    resume: str | Path | None = None,
) -> pd.DataFrame:
    """Run a function at every point of a grid.

    Args:
        grid: parameter names to their values, in the order of the rows; the last one varies
            fastest. Values are numbers, texts, booleans, None or tuples of them. Anything else (a
            network, say) needs a label: give a mapping of labels to values. The table shows the
            labels, and the seeds follow from them.
        run: called as ``run(**parameters, seed=seed)``; returns names and plain values, such as
            ``signing_point``. It should take all its randomness from the seed.
        repeats: rows per point, each with a seed of its own.
        seed: of the whole sweep.
        executor: where the points run; by default a process for each core. Not shut down.
        progress: show a progress bar.
        resume: a JSON Lines file of the finished points. If it exists, its points are not run
            again; it may hold fewer or more repeats. Points that were computed of something else
            (other contents of an argument, another version) are computed anew, with a warning.

    Returns:
        A table with a row for each point and repeat, in the order of the grid;
        ``table.attrs["parameters"]`` names the columns that are parameters.

    Raises:
        UsageError: bad grid, function or results, or a file of another sweep; pandas or tqdm are
            not installed.
        PointFailed: the function raised; what had begun is finished and kept, and no more begins.
        OSError: the file cannot be read or written.
    """
    load_pandas("a sweep")
    points = _points(grid, repeats, seed)
    finished: dict[str, Mapping[str, Plain]] = {}
    with ExitStack() as stack:
        journal: _Journal | None = None
        if resume is not None:
            digests = _digests(points, run)
            journal = stack.enter_context(_Journal(Path(resume), _header(grid, run, seed), digests))
            finished.update(journal.finished)
            _warn_of_others(journal)
        pending = [point for point in points if point.key not in finished]
        bar = stack.enter_context(_bar(len(points), len(points) - len(pending), progress))
        if pending:
            _check_parameters(pending[0], run)
            if executor is None:
                _check_importable(run)
                executor = stack.enter_context(Processes(len(pending)))
            for point, results in _run_all(executor, run, pending):
                finished[point.key] = results
                if journal is not None:
                    journal.add(point, results)
                bar.update()
    return _table(grid, points, finished)


# ---------------------------------------------------------------------- the points of a grid


def _points(grid: Mapping[str, Any], repeats: int, seed: int) -> list[_Point]:
    if not is_whole_number(repeats, 1):
        raise UsageError(f"sweep repeats is {repeats}: not a whole number from 1 on")
    if not is_whole_number(seed, 0):
        raise UsageError(f"sweep seed is {seed}: not a whole number from 0 on")
    check_type("grid", grid, Mapping)
    axes = {name: _axis(name, values) for name, values in grid.items()}
    points = []
    for combination in product(*(axis.items() for axis in axes.values())):
        shown = {name: label.value for name, (label, _) in zip(axes, combination, strict=True)}
        parameters = {name: value for name, (_, value) in zip(axes, combination, strict=True)}
        for repeat in range(repeats):
            derived = _seed(seed, shown, repeat)
            points.append(_Point(parameters, shown, repeat, derived))
    return points


@dataclass(frozen=True)
class _Label:
    """Value as the table shows it; labels are equal if their canonical texts are."""

    text: str
    value: Any

    def __hash__(self) -> int:
        return hash(self.text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Label) and self.text == other.text


def _axis(name: Any, values: Any) -> dict[_Label, Any]:
    if not isinstance(name, str) or not name.isidentifier() or name in RESERVED:
        raise UsageError(f"sweep grid: {name!r} cannot be the name of a parameter")
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise UsageError(f"sweep grid: {name} is {values!r}: it must be a list of values")
    pairs = values.items() if isinstance(values, Mapping) else [(value, value) for value in values]
    axis: dict[_Label, Any] = {}
    for shown, value in pairs:
        try:
            plain = _plain(shown)
        except TypeError:
            raise UsageError(
                f"sweep grid: {name} has {shown!r}, which is neither plain nor has a label: "
                "give a mapping of labels to values"
            ) from None
        label = _Label(_canonical(plain), plain)
        if label in axis:
            raise UsageError(f"sweep grid: {name} has {shown!r} twice")
        axis[label] = value if isinstance(values, Mapping) else plain
    if not axis:
        raise UsageError(f"sweep grid: {name} has no values")
    return axis


def _plain(value: Any) -> Any:
    """Return a parameter value without NumPy's types; TypeError if it is not plain."""
    if isinstance(value, list | tuple):
        return tuple(_plain(item) for item in value)
    return _scalar(value)


def _scalar(value: Any) -> Plain:
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:  # numpy
        value = value.item()
    if value is None or isinstance(value, str | bool | int | float):
        if isinstance(value, float) and math.isnan(value):
            raise TypeError("not a number")
        return value
    raise TypeError(f"{type(value).__name__} is not plain")


def _canonical(value: Any) -> str:
    """Return the canonical JSON text of a value; sequences are lists."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _seed(seed: int, shown: Mapping[str, Any], repeat: int) -> int:
    digest = hashlib.sha256(_canonical([SEEDS, int(seed), shown, repeat]).encode()).digest()
    return int.from_bytes(digest[:SEED_BYTES], "big")


def _check_parameters(point: _Point, run: Run) -> None:
    """Refuse, before anything runs, a function that does not take the grid's parameters."""
    try:
        signature = inspect.signature(run)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(**point.parameters, seed=point.seed)
    except TypeError as error:
        raise UsageError(f"sweep run: {_name(run)}{signature}: {error}") from None


# ---------------------------------------------------------------------- running


def _run_all(
    pool: Executor, run: Run, pending: Iterable[_Point]
) -> Iterator[tuple[_Point, Mapping[str, Plain]]]:
    """Yield results as they are computed; after an error, start no further point."""
    futures: dict[Future[Mapping[str, Any] | _Failure], _Point] = {}
    failed: PointFailed | UsageError | None = None
    try:
        for point in pending:
            futures[pool.submit(_compute, run, dict(point.parameters), point.seed)] = point
        for future in as_completed(list(futures)):
            point = futures.pop(future)
            if future.cancelled():
                continue
            try:
                results = _results(point, _outcome(point, future))
            except (PointFailed, UsageError) as error:
                failed = failed or error
                for other in futures:
                    other.cancel()
            else:
                yield point, results
    finally:
        for future in futures:
            future.cancel()
    if failed is not None:
        raise failed


def _outcome(point: _Point, future: Future[Mapping[str, Any] | _Failure]) -> Mapping[str, Any]:
    error = future.exception()
    if error is not None:
        what = f"{type(error).__name__}: {error}"
        raise PointFailed(f"sweep point {point}: {what}") from error
    found = future.result()
    if isinstance(found, _Failure):
        failed = PointFailed(f"sweep point {point}: {found.what}")
        failed.add_note(found.where)
        raise failed
    return found


def _compute(run: Run, parameters: dict[str, Any], seed: int) -> Mapping[str, Any] | _Failure:
    """Compute one point, in this process or a worker."""
    try:
        return run(**parameters, seed=seed)
    except Exception as error:
        return _Failure(f"{type(error).__name__}: {error}", traceback.format_exc())


def _results(point: _Point, found: Any) -> Mapping[str, Plain]:
    if not isinstance(found, Mapping):
        raise UsageError(f"sweep point {point}: {found!r} is no mapping of names to results")
    results: dict[str, Plain] = {}
    for name, value in found.items():
        if name in point.shown or name in RESERVED:
            raise UsageError(f"sweep point {point}: a result has the name of a parameter, {name}")
        try:
            results[str(name)] = math.nan if value != value else _scalar(value)
        except TypeError as error:
            raise UsageError(f"sweep point {point}: result {name}: {error}") from None
    return results


def _check_importable(run: Run) -> None:
    hint = (
        "define it at the top level of a module, or pass an executor that can take it, such as a "
        "ThreadPoolExecutor"
    )
    try:
        pickle.dumps(run)
    except Exception as error:
        raise UsageError(f"sweep run: {run!r} cannot go elsewhere ({error}): {hint}") from None
    main = sys.modules["__main__"]
    if _innermost(run).__module__ == "__main__" and not hasattr(main, "__file__"):
        raise UsageError(f"sweep run: other processes cannot import {run!r} from here: {hint}")


def _innermost(run: Any) -> Any:
    while isinstance(run, partial):
        run = run.func
    return run if hasattr(run, "__qualname__") else type(run)


def _name(run: Run) -> str:
    inner = _innermost(run)
    return f"{inner.__module__}.{inner.__qualname__}"


class _Bar(Protocol):
    def update(self) -> object: ...


class _NoBar:
    def update(self) -> None:
        """Show nothing."""


def _bar(total: int, done: int, progress: bool) -> AbstractContextManager[_Bar]:
    if not progress:
        return nullcontext(_NoBar())
    with needs_extra("workbench", "a progress bar"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about notebook widgets that are not installed
        from tqdm.auto import tqdm
    bar: AbstractContextManager[_Bar] = tqdm(total=total, initial=done, unit="point", desc="sweep")
    return bar


# ---------------------------------------------------------------------- the file of finished points


def _header(grid: Mapping[str, Any], run: Run, seed: int) -> dict[str, Any]:
    """Return the header that a resumed file must share with the sweep."""
    axes = {name: [label.value for label in _axis(name, axis)] for name, axis in grid.items()}
    return {
        "format": FORMAT,
        "run": _name(run),
        "seed": int(seed),
        "grid": list(axes.items()),
    }


def _digests(points: Iterable[_Point], run: Run) -> dict[str, str]:
    """Return the digest of each point's function and arguments, by the point's key."""
    common = digest([FORMAT, version("mpcsim"), run])
    known: dict[int, str] = {}

    def of(value: Any) -> str:
        # Points share their values, which live as long as they do.
        if id(value) not in known:
            known[id(value)] = digest(value)
        return known[id(value)]

    return {
        point.key: digest(
            [common, {name: of(value) for name, value in point.parameters.items()}, point.seed]
        )
        for point in points
    }


def _warn_of_others(journal: _Journal) -> None:
    if journal.others:
        warnings.warn(
            f"{journal.path}: {counted(journal.others, 'point')} computed anew: what the file has "
            f"was computed of other contents of run or its arguments, or not by mpcsim "
            f"{version('mpcsim')}",
            stacklevel=3,
        )


class _Journal:
    """Journal of finished points as JSON Lines: the header, then a line for each point."""

    def __init__(self, path: Path, header: Mapping[str, Any], digests: Mapping[str, str]) -> None:
        """
        Args:
            digests: of each point's function and arguments, by the point's key.
        """
        self.finished: dict[str, Mapping[str, Plain]] = {}
        self.path = path
        self._digests = digests
        other: set[str] = set()
        self._header = header
        data = path.read_bytes() if path.exists() else b""
        # A line without its end was being written when the sweep was interrupted.
        good = data.rfind(b"\n") + 1
        lines = data[:good].split(b"\n")[:-1]
        first = (_canonical(header) + "\n").encode()
        if lines:
            self._check_header(lines[0])
        elif not first.startswith(data):
            raise UsageError(f"{path} is not a file of a sweep")
        for number, line in enumerate(lines[1:], start=2):
            try:
                entry = json.loads(line)
                key, results = _canonical([entry["point"], entry["repeat"]]), entry["results"]
                of = entry["of"]
                if not isinstance(results, dict):
                    raise TypeError
            except (ValueError, KeyError, TypeError):
                if number == len(lines):
                    good -= len(line) + 1
                    break
                raise UsageError(f"{path}, line {number}: not a finished point") from None
            if key not in digests or digests[key] == of:
                self.finished[key] = results
            else:
                other.add(key)
        self.others = len(other - self.finished.keys())
        """Number of points that the file has only as results of other contents."""
        self._file = path.open("r+b" if path.exists() else "w+b")
        self._file.truncate(good)
        self._file.seek(good)
        if not lines:
            self._write(first)

    def _check_header(self, line: bytes) -> None:
        try:
            found = json.loads(line)
        except ValueError:
            found = None
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise UsageError(f"{self.path} is not a file of a sweep")
        for name, value in self._header.items():
            if _canonical(found.get(name)) != _canonical(value):
                raise UsageError(
                    f"{self.path} belongs to another sweep: its {name} is "
                    f"{_canonical(found.get(name))}, not {_canonical(value)}"
                )

    def add(self, point: _Point, results: Mapping[str, Plain]) -> None:
        """Append a finished point to the file."""
        entry = {
            "point": point.shown,
            "repeat": point.repeat,
            "seed": point.seed,
            "of": self._digests[point.key],
            "results": results,
        }
        text = json.dumps(entry, separators=(",", ":"), ensure_ascii=False)
        self._write((text + "\n").encode())

    def _write(self, line: bytes) -> None:
        self._file.write(line)
        self._file.flush()

    def __enter__(self) -> _Journal:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()


# ---------------------------------------------------------------------- the table


def _table(
    grid: Mapping[str, Any], points: Sequence[_Point], finished: Mapping[str, Mapping[str, Plain]]
) -> pd.DataFrame:
    rows = [
        {**point.shown, "repeat": point.repeat, "seed": point.seed, **finished[point.key]}
        for point in points
    ]
    columns = dict.fromkeys([*grid, *RESERVED])
    for row in rows:
        columns.update(dict.fromkeys(row))
    table: pd.DataFrame = load_pandas("a sweep").DataFrame(rows, columns=list(columns))
    table.attrs["parameters"] = list(grid)
    return table

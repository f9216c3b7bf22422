"""Layout of a table of round trips: the meaning of its columns, by words of their headings.

- The ends: ``from`` and ``to``, ``source`` and ``target``, ``client`` and ``server`` ...; or one
  alone (``target``, ``host``, ``dst``).
- The times: ``rtt_ms``, ``ping``, ``latency_us``; or a column a target (``rtt_fra`` and
  ``rtt_sin``, or ``time,fra,sin``); or ``min_ms``, ``avg_ms``, ``max_ms`` and maybe ``std_ms``.
- When: ``time``, ``timestamp``, ``date``.

Other columns are ignored, and listed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from mpcsim.errors import UsageError
from mpcsim.sim.network.columns import ROUND_TRIP, UNITS, WORDS, Column
from mpcsim.sim.network.measured.tables.cells import is_lost, number
from mpcsim.sim.network.measured.tables.tables import Row, Table

_FROM: Final = {"from", "source", "src", "a", "client", "origin", "vantage", "probe"}
_TO: Final = {"to", "target", "destination", "dest", "dst", "b", "server", "peer", "remote"}
_QUALIFIERS: Final = {"name", "host", "hostname", "ip", "addr", "address", "region", "site"} | {
    *("city", "node", "zone", "country", "id", "location", "domain", "endpoint")
}
_WEAK: Final = _QUALIFIERS - {"id", "country", "zone"}
"""Words of a heading that names an end only if no other heading does."""
_WHEN: Final = {"time", "times", "timestamp", "timestamps", "at", "when", "date", "datetime"} | {
    *("epoch", "starttime", "endtime", "start", "utc", "zeit", "datum", "zeitpunkt")
}
_STATISTICS: Final[dict[str, set[str]]] = {
    "least": {"min", "minimum", "best", "least", "lowest"},
    "mean": {"avg", "mean", "average"},
    "most": {"max", "maximum", "worst", "wrst", "most", "highest"},
    "std": {"std", "stdev", "stddev", "mdev", "dev", "sd", "deviation"},
}
_OTHER_STATISTICS: Final = {"median", "p", "pct", "percentile", "quantile", "var", "variance"}
_COUNTS: Final[dict[str, set[str]]] = {
    "sent": {"sent", "snt", "transmitted", "xmt", "probes", "packets"},
    "received": {"received", "rcv", "rcvd", "recv", "replies", "answers"},
}
_NO_TIME: Final = {"count", "loss", "lost", "id", "seq", "size", "bytes", "ttl", "port"} | {
    *("jitter", "rate", "mbit", "mbps", "throughput", "bandwidth", "cpu", "load", "mem", "n"),
    *("hop", "hops", "status", "code", "user", "users", "percent", "retransmits", "version"),
    *("calls", "requests", "value", "x", "y", "z", "up", "down", "upload", "download", "speed"),
    *("bps", "kbps", "bits", "lat", "lon", "latitude", "longitude", "memory", "score", "mss"),
}
_INDEX: Final = {"n", "nr", "no", "number", "id", "index", "seq", "sample", "run", "row", "count"}
"""Words of columns that only number the rows."""
_OTHER_TIMES: Final[dict[str, str]] = {
    "starttransfer": "curl's time to the first byte, with the server's time in it",
    "ttfb": "the time to the first byte, with the server's time in it",
    "firstbyte": "the time to the first byte, with the server's time in it",
    "total": "the time of a whole call",
    "duration": "the time of a whole call",
    "elapsed": "the time of a whole call",
    "response": "the time of a whole call",
    "connect": "curl's time to the connection, with the looking up of the name in it",
    "appconnect": "curl's time until TLS is through",
    "pretransfer": "curl's time before the request",
    "starttls": "the time of a TLS handshake",
    "ssl": "the time of a TLS handshake",
    "tls": "the time of a TLS handshake",
    "handshake": "the time of a handshake",
    "namelookup": "the looking up of a name",
    "dns": "the looking up of a name",
    "jitter": "the scatter of round trips",
    "redirect": "curl's time of redirections",
}
_PROTOCOLS: Final = {"tcp", "udp", "icmp", "http", "https", "tls", "quic", "v4", "v6"}
"""Words that cannot be a target's name."""
_LATENCY: Final = {"latency", "latencies", "delay", "delays"}


class Statistics(NamedTuple):
    """Columns of minimum, mean and maximum."""

    least: int
    mean: int
    most: int
    std: int | None
    sent: int | None
    received: int | None


@dataclass(frozen=True)
class Layout:
    """Columns of a table, and their meanings."""

    columns: Sequence[Column]
    times: Sequence[int]
    """Columns of round trips: one, or one a target; empty where there are statistics."""
    targets: Sequence[str] = ()
    """Names, as many, where each column is of a target."""
    ends: tuple[int | None, int | None] = (None, None)
    when: int | None = None
    statistics: Statistics | None = None
    has_headings: bool = True
    notes: Sequence[str] = field(default=())

    def body(self, table: Table) -> list[Row]:
        """Return the rows under the headings."""
        return table.rows[self.has_headings :]


def choose_columns(table: Table, path: str, column: str | None) -> Layout:
    """Determine the meaning of each column of a table.

    Args:
        column: heading of the round trips, where that is not clear.

    Raises:
        UsageError: no or several columns may be the round trips, or several the ends: names them.
    """
    first = table.rows[0].cells
    if any(number(cell, ".") or number(cell, ",") for cell in first):
        if len(first) > 1:
            raise UsageError(
                f"{path}, line {table.rows[0].line}: {len(first)} columns without headings: which "
                "are the round trips? Write a heading (rtt_ms) above them"
            )
        return Layout([Column(path, "", {})], [0], has_headings=False)
    return _ColumnChooser(table, path).layout(column)


class _ColumnChooser:
    """Chooser of columns, by headings and the cells under them."""

    def __init__(self, table: Table, path: str) -> None:
        self.path = path
        self.line = table.rows[0].line
        self.columns = [Column(path, cell, {}) for cell in table.rows[0].cells]
        self.words = [set(each.words) for each in self.columns]
        self.cells = [
            [row.cells[at] for row in table.rows[1:] if at < len(row.cells)]
            for at in range(len(self.columns))
        ]
        self.numeric = [
            any(number(cell, ".") or number(cell, ",") for cell in cells if not is_lost(cell))
            or (bool(cells) and all(map(is_lost, cells)))
            for cells in self.cells
        ]
        self.ends = self._ends()

    def layout(self, column: str | None) -> Layout:
        """Return the meaning of each column."""
        statistics: Statistics | None = None
        targets: Sequence[str] = ()
        if column is not None:
            times = [at for at, each in enumerate(self.columns) if each.name == column]
            if len(times) != 1:
                raise UsageError(
                    f"{self.path} has no column {column!r}, or several; it has "
                    f"{self._list_columns()}"
                )
        else:
            times, targets, statistics = self._times()
        used = {*times, *self.ends, *(statistics or ())}
        whens = [at for at, words in enumerate(self.words) if words & _WHEN and at not in used]
        when = whens[0] if whens else None
        left = [
            each.name
            for at, each in enumerate(self.columns)
            if at not in {*used, when} and each.name
        ]
        notes = [f"left alone: {', '.join(map(repr, left))}"] if left else []
        return Layout(self.columns, times, targets, self.ends, when, statistics, True, notes)

    def _times(self) -> tuple[list[int], Sequence[str], Statistics | None]:
        """Return the columns of round trips, their targets if each has one, or statistics."""
        others = [at for at in range(len(self.columns)) if at not in self.ends and self.numeric[at]]
        plain = [at for at in others if not self.words[at] & self._statistic_words()]
        by_name: list[Callable[[int], bool]] = [
            lambda at: self.columns[at].is_round_trip and not self.words[at] & _NO_TIME,
            lambda at: (
                bool(self.words[at] & _LATENCY or self.columns[at].is_one_way)
                and not self.words[at] & _NO_TIME
            ),
        ]
        for nth, is_named in enumerate(by_name):
            found = [at for at in plain if is_named(at)]
            if not found and nth == 0 and (statistics := self._statistics(others)) is not None:
                return [], (), statistics
            if len(found) == 1:
                return found, (), None
            if found:
                targets = [self._target(at) for at in found]
                if self.ends == (None, None) and "" not in targets:
                    return found, self._check_distinct(found, targets), None
                raise self._unclear_columns()
        alone = [at for at in others if "".join(self.columns[at].words) in UNITS]
        if len(alone) == 1:
            return alone, (), None
        return self._columns_by_target(others)

    def _columns_by_target(self, others: Sequence[int]) -> tuple[list[int], Sequence[str], None]:
        """Return one column a target, if the headings name targets."""
        values = [
            at
            for at in others
            if not self.words[at] & _WHEN
            and not (self.words[at] and self.words[at] <= _INDEX | {"icmp"})
        ]
        means = [at for at in values if self.words[at] & _STATISTICS["mean"]]
        if len(means) == 1 and not self.words[means[0]] & (_NO_TIME | _OTHER_TIMES.keys()):
            return means, (), None
        odd = [
            at
            for at in values
            if self.words[at] & (_NO_TIME | self._statistic_words() | _OTHER_TIMES.keys())
        ]
        texts = any(
            not self.numeric[at] and not self.words[at] & _WHEN
            for at in range(len(self.columns))
            if at not in self.ends
        )
        if len(values) > 1 and not odd and not texts:
            targets = [self._target(at) for at in values]
            if "" not in targets and self.ends == (None, None):
                return values, self._check_distinct(values, targets), None
        raise self._unclear_columns()

    def _check_distinct(self, found: Sequence[int], targets: Sequence[str]) -> Sequence[str]:
        if len(set(targets)) < len(targets) or _PROTOCOLS & {each.lower() for each in targets}:
            raise self._unclear_columns()
        return targets

    def _statistics(self, others: Sequence[int]) -> Statistics | None:
        """Return minimum, mean and maximum, if there is one each."""
        found: dict[str, int] = {}
        for name, words in _STATISTICS.items():
            fits = [at for at in others if self.words[at] & words]
            if len(fits) == 1:
                found[name] = fits[0]
        if not {"least", "mean", "most"} <= found.keys():
            return None
        for name, words in _COUNTS.items():
            fits = [at for at in others if self.words[at] & words and at not in found.values()]
            if len(fits) == 1:
                found[name] = fits[0]
        std, sent, received = (found.get(name) for name in ("std", "sent", "received"))
        return Statistics(found["least"], found["mean"], found["most"], std, sent, received)

    @staticmethod
    def _statistic_words() -> set[str]:
        return set().union(*_STATISTICS.values(), _OTHER_STATISTICS)

    def _target(self, at: int) -> str:
        """Return the rest of a heading without words for times and units."""
        drop = ROUND_TRIP | _LATENCY | {"round", "trip", "trips", "time", "to"} | UNITS.keys()
        parts = re.split(r"[\s_()\[\]]+", self.columns[at].name)
        kept = [
            part
            for part in parts
            if part and not set(Column("", part, {}).words) <= (drop | WORDS.keys())
        ]
        return "_".join(kept)

    def _ends(self) -> tuple[int | None, int | None]:
        """Return the columns of the two ends; None for an end without a column."""
        found: list[int | None] = []
        for known in (_FROM, _TO):
            named = [at for at, words in enumerate(self.words) if self._is_end(words, known)]
            found.append(self._distinguishing_column(named))
        weak = [
            at
            for at, words in enumerate(self.words)
            if words and words <= _WEAK and not self.numeric[at]
        ]
        if found[1] is None and weak:
            found[1] = self._distinguishing_column([at for at in weak if at != found[0]])
        return found[0], found[1]

    @staticmethod
    def _is_end(words: set[str], known: set[str]) -> bool:
        return len(words & known) == 1 and words - known <= _QUALIFIERS

    def _distinguishing_column(self, named: Sequence[int]) -> int | None:
        """Return the first of the columns, if it distinguishes all rows that the others do.

        Raises:
            UsageError: the others distinguish more: names them.
        """
        if not named:
            return None
        for other in named[1:]:
            pairs = set(zip(self.cells[named[0]], self.cells[other], strict=False))
            if len(pairs) > len(set(self.cells[named[0]])):
                names = " or ".join(repr(self.columns[at].name) for at in named)
                raise UsageError(
                    f"{self.path}, line {self.line}: which column is the end, {names}? Call it to "
                    "(or from), and the others something else"
                )
        return named[0]

    def _list_columns(self) -> str:
        return ", ".join(repr(each.name) for each in self.columns)

    def _unclear_columns(self) -> UsageError:
        hints = {
            f"{each.name!r} may be {_OTHER_TIMES[word]}"
            for each, words in zip(self.columns, self.words, strict=True)
            for word in sorted(words & _OTHER_TIMES.keys())
        }
        if any(words & _WHEN and UNITS.keys() & words for words in self.words):
            hints.add("a time may be when something was, or how long it took")
        hint = f" ({'; '.join(sorted(hints))})" if hints else ""
        return UsageError(
            f"{self.path}, line {self.line}: which of the columns {self._list_columns()} has the "
            f"round trips? Call it rtt_ms, or say --column{hint}"
        )

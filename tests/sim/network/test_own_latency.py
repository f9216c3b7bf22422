"""A latency family of one's own: simulated, replayed, in files once it has a kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpcsim import Network, Simulation
from mpcsim.errors import UsageError
from mpcsim.sim import Latency, register_latency
from mpcsim.sim.network.files import latencies
from mpcsim.sim.network.latency import Constant
from mpcsim.sim.replay import DrawTable, record


@dataclass(frozen=True)
class TwoPaths(Latency):
    """Mostly the short way, sometimes the long one."""

    short_ms: float
    long_ms: float
    share: float = 0.1
    """Of the long way."""

    def _sample(self, generator: np.random.Generator, n: int) -> Any:
        return np.where(generator.random(n) < self.share, self.long_ms, self.short_ms)

    @property
    def mean_ms(self) -> float:
        return self.short_ms + self.share * (self.long_ms - self.short_ms)

    @property
    def std_ms(self) -> float:
        between = self.long_ms - self.short_ms
        return float(between * (self.share * (1 - self.share)) ** 0.5)

    def scaled(self, factor: float) -> TwoPaths:
        return replace(self, short_ms=self.short_ms * factor, long_ms=self.long_ms * factor)

    def shifted(self, ms: float) -> TwoPaths:
        return replace(self, short_ms=self.short_ms + ms, long_ms=self.long_ms + ms)


@pytest.fixture(autouse=True)
def kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latencies, "KINDS", dict(latencies.KINDS))


NETWORK = Network.star(TwoPaths(10.0, 80.0), 1.0, 1.0)


def test_it_is_simulated_and_replayed() -> None:
    sim = Simulation(NETWORK, seed=3, secrets_seed="own")
    assert sim.generate("ed25519").ok
    signed = sim.sign()
    assert signed.ok
    graph = record(signed.trace)
    found = graph.replay(NETWORK, 2000, seed=1).finished_ms
    assert found.min() < 30 < 80 < found.max()
    assert (found == graph.replay(NETWORK, 2000, seed=1).finished_ms).all()
    table = DrawTable(10, seed=1)
    assert len(graph.replay(NETWORK, 10, draws=table).finished_ms) == 10


def test_with_a_kind_it_is_in_files(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="class TwoPaths has no kind in files: register_latency"):
        NETWORK.save(tmp_path / "x.toml")
    assert register_latency("two-paths", TwoPaths) is TwoPaths
    assert register_latency("two-paths", TwoPaths) is TwoPaths  # again
    path = tmp_path / "network.toml"
    NETWORK.save(path)
    assert 'kind = "two-paths"' in path.read_text()
    assert Network.load(path) == NETWORK
    path.write_text(path.read_text().replace("short_ms", "shrt_ms"))
    with pytest.raises(UsageError, match=r"latency\.shrt_ms: unknown key 'shrt_ms'; did you mean"):
        Network.load(path)


def test_what_cannot_be_registered() -> None:
    class Other(TwoPaths):
        pass

    @dataclass(frozen=True)
    class Tables(TwoPaths):
        table: Sequence[float] = ()

    Tables.__init__.__annotations__["table"] = Sequence[float]
    for kind, family, message in (
        ("mine", float, "is no subclass of Latency"),
        ("mine", TwoPaths(1.0, 2.0), "is no subclass of Latency"),
        ("", Other, "its kind is empty"),
        ("uniform", Other, "latency kind 'uniform' is that of the class Uniform"),
        ("steady", Constant, "latency class Constant has the kind 'constant' already"),
        ("mine", Tables, "Tables: parameter table cannot be in a file"),
    ):
        with pytest.raises(UsageError, match=message):
            register_latency(kind, family)  # type: ignore[arg-type]
    register_latency("two-paths", TwoPaths)
    with pytest.raises(UsageError, match="is that of the class TwoPaths"):
        register_latency("two-paths", Other)
    assert register_latency("two-paths", Other, replace=True) is Other


@pytest.mark.parametrize(
    "drawn",
    [
        lambda n: np.full(n, -1.0),
        lambda n: np.full(n, np.nan),
        lambda n: np.full(n, np.inf),
        lambda n: np.zeros(n + 1),
        lambda n: np.zeros((n, 1)),
        lambda n: np.zeros(n, dtype=int),
        lambda n: [1.0] * n,
        lambda n: 1.0,
    ],
    ids=["negative", "nan", "infinite", "too many", "a column", "whole", "a list", "a number"],
)
def test_draws_that_are_no_latencies_are_refused(drawn: Any) -> None:
    class Wrong(TwoPaths):
        def _sample(self, generator: np.random.Generator, n: int) -> Any:
            return drawn(n)

    with pytest.raises(UsageError, match=r"Wrong\._sample: "):
        Wrong(1.0, 2.0).sample(np.random.default_rng(1), 5)

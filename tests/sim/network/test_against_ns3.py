"""The profile ``ns3`` beside ns-3 3.37 itself (``tests/vectors/ns3``, whose README says how)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers import exchanges
from tests.helpers.repo import ROOT
from tests.vectors import quantiles

DATA = ROOT / "tests" / "vectors" / "ns3"
LOSSY = sorted(DATA.glob("lossy_*.csv.gz"))
COUNT = 40_000


@pytest.mark.parametrize(
    ("name", "hops", "lines"), [("loss_free", 1, 126), ("loss_free_relay", 2, 30)]
)
def test_without_losses(name: str, hops: int, lines: int) -> None:
    seen = 0
    for row in quantiles.rows(DATA / f"{name}.csv"):
        one_way, rate = float(row["one_way_ms"]), float(row["mbit_per_s"])
        connection = exchanges.bare("ns3", row["algorithm"])
        network = exchanges.row(connection, hops, one_way, rate)
        ours = exchanges.loss_free(network, one_way, int(row["up"]), int(row["down"]))
        assert ours == pytest.approx((float(row["first_ms"]), float(row["second_ms"])), rel=1e-5), (
            row
        )
        seen += 1
    assert seen == lines


def compared(path: Path) -> Iterator[tuple[str, float, quantiles.Comparison]]:
    """The columns of a file beside ours."""
    reference = quantiles.load(path)
    connection = exchanges.bare("ns3", reference.parameters["algorithm"])
    loss = reference.number("loss")
    ours = {}
    for clean in (False, True):
        times = exchanges.lossy(
            connection,
            reference.number("one_way_ms"),
            reference.number("mbit_per_s"),
            (int(reference.number("up")), int(reference.number("down"))),
            loss,
            count=COUNT,
            seed=7 + clean,
            clean=clean,
        )
        if clean:
            ours["clean"] = times[:, 1]
        else:
            ours["first"], ours["second"] = times.T
    for name, column in reference.columns.items():
        assert column.count >= 19_000
        yield name, loss, quantiles.compare(column, ours[name])


@pytest.mark.soak  # it compiles a loop of its own, for half a minute
@pytest.mark.parametrize("path", LOSSY, ids=lambda path: path.name.removesuffix(".csv.gz"))
def test_with_losses(path: Path) -> None:
    for name, loss, found in compared(path):
        assert abs(found.mean) <= (0.03 if loss < 0.02 else 0.05), (name, found)
        assert 0.94 <= found.p95 <= 0.96, (name, found)
        assert 0.985 <= found.p99 <= 0.994, (name, found)
        assert found.wasserstein <= 0.04, (name, found)

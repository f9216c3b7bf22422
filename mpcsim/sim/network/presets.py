"""Network presets from public measurements: round trips between cloud regions, access networks.

They are orders of magnitude to start from, not a forecast: replace them by measurements of your own
(``latency.Empirical``) where it matters. Times are milliseconds, bandwidths Mbit/s.

Round trips between regions
    Rounded medians over the year to July 2025 of AWS's inter-region latency as published by
    CloudPing (https://www.cloudping.co, ``p_50`` of ``1Y``), the mean of both directions. It times
    TCP connections from functions, which adds 2 to 3 ms to a bare ping: within a region it shows 3
    to 5 ms. Directions differ by less than 8 ms, but for Hong Kong - Ireland (35 ms: routes changed
    in that year).
Within a region
    0.8 ms. The least of 50 pings is 0.25 ms within an AWS availability zone, 3.4 ms between two
    (https://www.xkyle.com/Measuring-AWS-Region-and-AZ-Latency/, 2020).
Access networks
    Each entry of ``ACCESS`` names its sources above it. They measure to the nearest test server,
    which we take for the nearest region. Few sources publish how single packets scatter: unless
    stated, floors and sigmas are our choice, and so is loss where no source is named.

Jitter between regions
    A one-way latency is half the round trip: a floor of 95% of that, plus a log-normal part of
    median 5% and sigma 0.5. The sum of two then has its 90th percentile 3.1% above its median;
    CloudPing's year has 3.3% (median over the pairs), slow route changes included. A caller whose
    gateway is in another region has the jitter of the access network, too (``line_latency``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from mpcsim.errors import UsageError, check_type, unknown
from mpcsim.sim.network.latency import Latency, LogNormal

__all__ = [
    "ACCESS",
    "CLOUD_REGIONS",
    "COORDINATES",
    "REGIONS",
    "Access",
    "access",
    "great_circle_km",
    "light_round_trip_ms",
    "region",
    "region_latency",
    "round_trip_ms",
    "jittered_latency",
    "latency_between",
    "line_latency",
]

INTRA_REGION_ROUND_TRIP_MS: Final = 0.8
"""Round trip between two machines of one region."""

REGION_FLOOR: Final = 0.95
"""Share of a one-way latency between regions that is propagation and never varies."""

REGION_SIGMA: Final = 0.5
"""Sigma of the log-normal part above that floor."""

_MILLISECONDS: Final = re.compile(r"(\d{1,6}(?:\.\d{1,6})?) ?ms")

EARTH_RADIUS_KM: Final = 6371.0
LIGHT_IN_FIBRE_KM_PER_MS: Final = 299.792458 * 2 / 3
"""Speed of light in glass, about two thirds of that in vacuum."""

# CloudPing, medians of the year to July 2025, milliseconds, rounded. Row and column order are the
# same; the matrix is symmetric, so the upper half is left out.
_ROUND_TRIPS: Final = """
seoul
tokyo       36
hongkong    39  52
singapore   74  71  37
sydney     146 106 128  95
mumbai     135 134  98  64 155
frankfurt  231 227 194 161 251 129
stockholm  250 247 213 181 271 149  23
paris      250 219 200 167 280 109  12  32
london     243 213 204 170 266 117  18  31  11
ireland    233 202 242 179 256 126  27  40  20  14
capetown   386 357 350 315 409 273 155 174 146 150 159
virginia   180 150 199 219 200 191  93 112  84  78  70 227
ohio       166 136 187 204 188 202 104 123  95  88  80 238  16
california 134 108 155 170 139 232 153 173 144 148 130 287  64  53
oregon     124  98 145 161 141 222 143 155 135 129 118 274  64  51  22
montreal   176 147 200 215 198 192  93 106  86  79  69 224  17  27  80  61
saopaulo   290 259 312 328 312 301 205 223 196 187 178 338 115 126 175 175 126
"""


def _matrix(table: str) -> Mapping[str, Mapping[str, float]]:
    matrix: dict[str, dict[str, float]] = {}
    for line in table.split("\n")[1:-1]:
        name, *cells = line.split()
        row = dict(zip(matrix, map(float, cells), strict=True))
        for other, ms in row.items():
            matrix[other][name] = ms
        matrix[name] = {**row, name: INTRA_REGION_ROUND_TRIP_MS}
    return MappingProxyType(matrix)


_MATRIX: Final = _matrix(_ROUND_TRIPS)

REGIONS: Final[tuple[str, ...]] = tuple(_MATRIX)
"""Names of the regions: cities, or the state or country they are known by."""

CLOUD_REGIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "seoul": "ap-northeast-2",
        "tokyo": "ap-northeast-1",
        "hongkong": "ap-east-1",
        "singapore": "ap-southeast-1",
        "sydney": "ap-southeast-2",
        "mumbai": "ap-south-1",
        "frankfurt": "eu-central-1",
        "stockholm": "eu-north-1",
        "paris": "eu-west-3",
        "london": "eu-west-2",
        "ireland": "eu-west-1",
        "capetown": "af-south-1",
        "virginia": "us-east-1",
        "ohio": "us-east-2",
        "california": "us-west-1",
        "oregon": "us-west-2",
        "montreal": "ca-central-1",
        "saopaulo": "sa-east-1",
    }
)
"""The AWS region behind each name."""

COORDINATES: Final[Mapping[str, tuple[float, float]]] = MappingProxyType(
    {
        "seoul": (37.57, 126.98),
        "tokyo": (35.68, 139.69),
        "hongkong": (22.32, 114.17),
        "singapore": (1.35, 103.82),
        "sydney": (-33.87, 151.21),
        "mumbai": (19.08, 72.88),
        "frankfurt": (50.11, 8.68),
        "stockholm": (59.33, 18.07),
        "paris": (48.86, 2.35),
        "london": (51.51, -0.13),
        "ireland": (53.35, -6.26),  # Dublin
        "capetown": (-33.92, 18.42),
        "virginia": (39.04, -77.49),  # Ashburn
        "ohio": (39.96, -83.00),  # Columbus
        "california": (37.34, -121.89),  # San Jose
        "oregon": (45.84, -119.70),  # Boardman
        "montreal": (45.50, -73.57),
        "saopaulo": (-23.55, -46.63),
    }
)
"""Latitude (north) and longitude (east) of each region in degrees."""


@dataclass(frozen=True)
class Access:
    """Access network: the path from a machine to its nearest region."""

    name: str
    latency: LogNormal
    """Latency one way, the same in both directions."""
    up_mbit_per_s: float
    down_mbit_per_s: float
    loss: float
    """Probability that a packet is lost, one way."""

    def __post_init__(self) -> None:
        where = f"access network {self.name}"
        for rate in ("up_mbit_per_s", "down_mbit_per_s"):
            value = getattr(self, rate)
            if not 0 < value < math.inf:
                raise UsageError(f"{where}: {rate} is {value}: it must be above 0 and finite")
        if not 0 <= self.loss < 1:
            raise UsageError(f"{where}: loss is {self.loss}: it must be from 0 to below 1")

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.latency}, {self.up_mbit_per_s:g} Mbit/s up, "
            f"{self.down_mbit_per_s:g} Mbit/s down, loss {self.loss:.2%}"
        )


_ACCESS: Final = (
    # Round trip 0.1 ms: pings within a zone, IBM Cloud's published tables of 2024 (0.08 to 0.10 ms,
    # https://cloud.ibm.com/docs/vpc?topic=vpc-network-latency-dashboard). An ordinary 1 Gbit/s
    # port; no loss.
    Access("datacentre", LogNormal(0.05, 0.25, floor_ms=0.04), 1000.0, 1000.0, 0.0),
    # Round trip 9 ms: Ookla, median of Verizon (mostly fibre), USA, Q2 2020. Rates: Ookla, medians
    # of Verizon, USA, Q2 2022 (112.36 up, 171.01 down). Loss: choice, far below the best class of
    # the FCC's Measuring Broadband America reports (less than 0.4%).
    Access("fibre", LogNormal(4.5, 0.4, floor_ms=3.5), 112.0, 171.0, 0.0005),
    # Fibre, plus a Wi-Fi hop of 10 ms there and back, the median of a tuned access point; sigma
    # between a quiet home and that study's busy campus (median 20 ms, a tenth above 100 ms): Pei et
    # al., "WiFi can be the weakest link of round trip network latency in the wild", INFOCOM 2016.
    # Rates: Ookla, global medians of fixed broadband, Q3 2023 (38.32 up, 83.95 down). Loss: 0.1% to
    # 0.2% in Codavel's table of typical conditions
    # (https://blog.codavel.com/performance-report-defining-use-cases).
    Access("wifi", LogNormal(9.5, 1.0, floor_ms=4.5), 38.0, 84.0, 0.002),
    # Round trip 30 ms: operators' averages from 18.3 to 23.7 ms in the UK (Ofcom, Mobile Matters
    # 2024), national ones of 30.7 (Singapore) and 42.2 ms (Korea) (Opensignal, Q1 2019). Rates: UK
    # averages (Ofcom, Mobile Matters 2023). Loss: 0.2% to 0.5% in Codavel's table.
    Access("lte", LogNormal(15.0, 0.7, floor_ms=10.0), 7.6, 29.5, 0.003),
    # Round trip 20 ms: operators' averages from 16.3 to 21.4 ms in the UK (Ofcom, Mobile Matters
    # 2024). Rates: UK averages (Ofcom, Mobile Matters 2023). Korea's are eight times higher (down
    # 1,025 Mbit/s: Ministry of Science and ICT, 2024).
    Access("5g", LogNormal(10.0, 0.6, floor_ms=7.0), 14.7, 129.9, 0.002),
    # Round trip 63.5 ms: average of five UK towns (Ofcom, Measuring mobile broadband performance,
    # Q4 2014). Rates: UK averages (Ofcom, Mobile Matters 2023).
    Access("3g", LogNormal(31.75, 0.7, floor_ms=20.0), 2.0, 5.9, 0.01),
    # Starlink (low orbit; a geostationary satellite takes 600 ms and more). Round trip 45 ms and
    # rates: Ookla, medians of the USA, Q1 and Q2 2025. Floor and sigma from pings of early 2022 in
    # Belgium: at least 20 ms, quartiles 40, 50 and 60 ms
    # (https://blog.apnic.net/2022/11/28/fact-checking-starlinks-performance-figures). Loss: choice;
    # in truth it comes in bursts at handovers ("A browser-side view of Starlink connectivity",
    # IMC 2022).
    Access("satellite", LogNormal(22.5, 0.7, floor_ms=10.0), 14.8, 104.7, 0.01),
)

ACCESS: Final[Mapping[str, Access]] = MappingProxyType({each.name: each for each in _ACCESS})
"""Access networks by name."""


def region(name: str) -> str:
    """Return the region's name as in ``REGIONS``; case, spaces and hyphens do not matter.

    Raises:
        UsageError: unknown; lists the near matches and all regions.
    """
    return _find("region", name, REGIONS)


def access(name: str) -> Access:
    """Return the access network of that name; case, spaces and hyphens do not matter.

    Raises:
        UsageError: unknown; lists the near matches and all access networks.
    """
    return ACCESS[_find("access network", name, ACCESS)]


def round_trip_ms(a: str, b: str) -> float:
    """Return the median round trip between two regions, or within one, in milliseconds.

    Raises:
        UsageError: unknown region.
    """
    return _MATRIX[region(a)][region(b)]


def region_latency(a: str, b: str) -> LogNormal:
    """Return the one-way latency between two regions, or within one; symmetric.

    Its median is half the median round trip; 95% of that is a floor, and the rest varies with
    sigma 0.5 (see the module's text).

    Raises:
        UsageError: unknown region.
    """
    return jittered_latency(round_trip_ms(a, b))


def latency_between(a: str, b: str) -> Latency:
    """Return the one-way latency from a region to another one, or to a site whose median round
    trip is given as text, such as ``120ms``.

    Raises:
        UsageError: unknown region.
    """
    if given := _MILLISECONDS.fullmatch(b.strip()):
        return jittered_latency(float(given[1]))
    return region_latency(a, b)


def line_latency(line: Access, home: str, hub: str) -> LogNormal:
    """Return the one-way latency over an access network at one region to another region.

    Both parts vary independently; the log-normal has the mean, standard deviation and floor of
    their sum (Fenton, IRE Transactions on Communications Systems 8, 1960). Within a region, which
    hardly varies, its mean is added.

    Raises:
        UsageError: unknown region.
    """
    last, between = line.latency, region_latency(home, hub)
    if region(home) == region(hub):
        return last.shifted(between.mean_ms)
    return LogNormal.with_mean(
        last.mean_ms + between.mean_ms,
        math.hypot(last.std_ms, between.std_ms),
        last.floor_ms + between.floor_ms,
    )


def jittered_latency(median_round_trip_ms: float) -> LogNormal:
    """Return a one-way latency around half a round trip, with the jitter between regions.

    Raises:
        UsageError: negative or not finite.
    """
    median_ms = median_round_trip_ms / 2
    return LogNormal(median_ms, REGION_SIGMA, floor_ms=REGION_FLOOR * median_ms)


def great_circle_km(a: str, b: str) -> float:
    """Return the great-circle distance between two regions in kilometres.

    Raises:
        UsageError: unknown region.
    """
    (lat_a, lon_a), (lat_b, lon_b) = (
        tuple(map(math.radians, COORDINATES[region(name)])) for name in (a, b)
    )
    haversine = (
        math.sin((lat_b - lat_a) / 2) ** 2
        + math.cos(lat_a) * math.cos(lat_b) * math.sin((lon_b - lon_a) / 2) ** 2
    )
    return 2 * EARTH_RADIUS_KM * math.asin(min(1.0, math.sqrt(haversine)))


def light_round_trip_ms(a: str, b: str) -> float:
    """Return light's round trip in fibre along the great circle in milliseconds, a lower bound.

    Raises:
        UsageError: unknown region.
    """
    return 2 * great_circle_km(a, b) / LIGHT_IN_FIBRE_KM_PER_MS


def _find(what: str, name: str, known: Iterable[str]) -> str:
    check_type(what, name, str)
    names = tuple(known)
    plain = name.lower().replace(" ", "").replace("-", "").replace("_", "")
    if plain in names:
        return plain
    raise UsageError(unknown(what, name, names))

"""Interpretation of ``connect`` in HAR files: whether it includes ``ssl``.

HAR 1.2 says that it does. Chromium, WebKit, Playwright and BrowserMob write it so; Firefox (since
it times the handshake) and mitmproxy put the handshake beside the connection. For other writers the
numbers decide: a TLS handshake takes a round trip or more, and so does a TCP connection. Inside,
``ssl`` is at least half of ``connect`` and less than the whole; beside, it is at least as long.

Source: HAR 1.2 (``ssl``: "the time is also included in the connect field"); mitmproxy 10
(``addons/savehar.py``: ``timestamp_tls_setup - timestamp_tcp_setup``); BrowserMob
(``HttpConnectTiming``); Playwright (``harTracer.ts``).
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Final, NamedTuple

INSIDE: Final = (
    "webinspector",
    "webkit web inspector",
    "playwright",
    "browsermob proxy",
    "browserup proxy",
    "chrome-har",
    "webpagetest",
)
BESIDE: Final = ("mitmproxy",)
TOO_SHORT: Final = 0.45
"""Share of ssl in connect below which an included handshake would take less than a round trip."""
UNCLEAR: Final = 0.9
"""Median of ssl / connect from which on, up to 1, neither interpretation fits."""


class ConnectMeaning(NamedTuple):
    """Meaning of ``connect`` in a file, and how that is known."""

    ssl_inside: bool | None
    """Whether ``connect`` includes ``ssl``; None: not known."""
    why: str


def connect_meaning(
    creator: str, version: str, pairs: Sequence[tuple[float, float]]
) -> ConnectMeaning:
    """Determine whether ``connect`` includes ``ssl``.

    Args:
        pairs: ``connect`` and ``ssl`` of the connections that have both.
    """
    name = creator.lower()
    writer = f"{creator} {version}".strip() or "an unnamed program"
    if name.startswith(INSIDE):
        return ConnectMeaning(True, f"connect has ssl inside, as {writer} writes it")
    if name.startswith(BESIDE):
        said = f"connect has ssl beside it, as {writer} writes it; looking up the name may be in it"
        return ConnectMeaning(False, said)
    if not pairs:
        return ConnectMeaning(True, f"written by {writer}; no connection has an ssl phase")
    share = median(ssl / connect for connect, ssl in pairs)
    if share >= 1:
        return ConnectMeaning(
            False,
            f"connect has ssl beside it: ssl is {share:.2f} times as long, as {writer} writes it",
        )
    if TOO_SHORT <= share < UNCLEAR:
        return ConnectMeaning(
            True,
            "connect has ssl inside, as HAR 1.2 says: beside it, a TLS handshake would take less "
            f"than a round trip (written by {writer})",
        )
    if name.startswith("firefox"):
        return ConnectMeaning(False, f"connect has ssl beside it, as {writer} writes it")
    return ConnectMeaning(
        None,
        f"the median of ssl is {share:.2f} of connect: inside or beside it, a TLS handshake would "
        f"not take one or two round trips (written by {writer}, which is not known)",
    )

"""The report of ``mtr --json``: for each hop a summary, no samples.

``report.mtr`` has ``src`` and ``dst``; ``report.hubs`` the hops in order, each with ``host``,
``Loss%``, ``Snt`` and, in milliseconds, ``Last``, ``Avg``, ``Best``, ``Wrst`` and ``StDev``. The
last hop is taken for the destination. Up to version 0.92 ``count`` is a text.

Source: mtr 0.95 (``ui/report.c``).
"""

from __future__ import annotations

from mpcsim.sim.network.measured import located
from mpcsim.sim.network.measured.series import (
    CLIENT_SITE,
    GATEWAY_SITE,
    ICMP_WARNING,
    LONGEST_MS,
    Probe,
    Series,
    Summary,
)
from mpcsim.sim.rich_display import counted


def recognises(text: str) -> bool:
    """Whether it is an object with the keys of a report."""
    return text.lstrip().startswith("{") and '"hubs"' in text and '"report"' in text


def read(text: str, path: str) -> list[Series]:
    """The summary of the last hop.

    Raises:
        UsageError: a key is missing or no number, or the times contradict each other; nobody
            answered at the last hop: names line and path.
    """
    report = located.parse(text, path)["report"]
    hubs = report["hubs"].items()
    if not hubs:
        raise report["hubs"].wrong("no hop in the report")
    last = hubs[-1]
    names = ("Best", "Avg", "Wrst", "StDev")
    best, mean, worst, std = (last[name].number() for name in names)
    sent, percent = last["Snt"].number(), last["Loss%"].number()
    if not 0 <= percent <= 100 or sent < 0:
        raise last.wrong(f"Loss% is {percent:g} of {sent:g} probes")
    if percent == 100 or worst == 0:
        raise last.wrong(
            f"the last hop, {last['host'].text()}, never answered: there is no round trip"
        )
    if not 0 < best <= mean <= worst or std < 0 or worst > LONGEST_MS:
        raise last.wrong(
            f"Best {best:g}, Avg {mean:g}, Wrst {worst:g} and StDev {std:g} ms do not fit each "
            "other, or are not in milliseconds"
        )
    lost = round(sent * percent / 100)
    about = report["mtr"]
    warnings = [ICMP_WARNING + " (mtr --tcp; a report does not say which it was)"]
    destination = about.get("dst")
    if destination is not None and last["host"].text() == "???":
        warnings.append("the last hop has no name: it may not be the destination")
    for hub in hubs[:-1]:
        if hub["Loss%"].number() > percent:
            warnings.append(
                "hops on the way lose more than the last one: they limit their answers, which "
                "says nothing of the link"
            )
            break
    understood = [
        f"{counted(len(hubs), 'hop')}, the last is {last['host'].text()}; mtr gives no samples, so "
        "the fit is to least, mean and standard deviation"
    ]
    return [
        Series(
            CLIENT_SITE,
            GATEWAY_SITE,
            "mtr --json",
            Probe.ICMP,
            (),
            (last.line,),
            sent=int(sent),
            lost=lost,
            summary=Summary(int(sent) - lost, best, mean, worst, std),
            understood=tuple(understood),
            warnings=tuple(warnings),
        )
    ]

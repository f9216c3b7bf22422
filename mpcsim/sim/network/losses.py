"""Burst losses: two-state Markov models of a link (Gilbert 1960, Elliott 1963).

The state changes by packet (``GilbertElliott``) or by time (``TimedGilbertElliott``). By packet,
the state stands still while nothing is sent. That is right where packets follow each other closely;
but a sender that backs off finds the link as it left it: with bursts of 4 packets, each
retransmission is lost with a probability of 3/4, whether it comes after 0.2 or after 120 s. Mean
times then consist mostly of waits of minutes, up to TCP's user timeout. By time, the chain goes on
meanwhile: after a wait much longer than a burst the link is bad as often as in the long run, and
long waits are as rare as with independent losses."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from mpcsim.errors import UsageError
from mpcsim.sim.rich_display import percentage

__all__ = ["GilbertElliott", "Loss", "TimedGilbertElliott"]


@dataclass(frozen=True)
class GilbertElliott:
    """Gilbert-Elliott model by packet: a link is good or bad, and may change before every packet.

        >>> Link("client", "gateway", 40.0, loss=GilbertElliott.of(0.01, packets=4))

    A fresh link is bad as often as it is in the long run. Whether a packet changes the state, and
    whether it is lost then, follows from its message and segment like any loss.
    """

    to_bad: float
    """Probability that a good link turns bad (p)."""
    to_good: float
    """Probability that a bad link turns good (r)."""
    bad_loss: float = 1.0
    """Probability that a bad link loses a packet (1 - h)."""
    good_loss: float = 0.0
    """Probability that a good link loses a packet (1 - k)."""

    def __post_init__(self) -> None:
        for name in ("to_bad", "to_good", "bad_loss", "good_loss"):
            if not 0 <= getattr(self, name) <= 1:
                raise UsageError(f"{name} is {getattr(self, name)}: not from 0 to 1")
        if not self.to_good > 0:
            raise UsageError(f"to_good is {self.to_good}: not above 0, a bad link would stay bad")
        if not self.mean < 1:
            raise UsageError("everything is lost: the mean loss must be below 1")

    @classmethod
    def of(cls, loss: float, packets: float) -> GilbertElliott:
        """Return losses of a mean rate, in bursts: none between bursts and all within.

        Args:
            loss: share of the packets that get lost, in the long run.
            packets: mean length of a burst, 1 or more; with 1 / (1 - loss) losses are independent.

        Raises:
            UsageError: not a share below 1, or bursts so short that there is no such link.
        """
        if not 0 <= loss < 1:
            raise UsageError(f"loss is {loss}: it must be at least 0 and below 1")
        if not packets >= 1:
            raise UsageError(f"bursts of {packets} packets: at least 1")
        to_bad = loss / (1 - loss) / packets
        if to_bad > 1:
            raise UsageError(
                f"bursts of {packets:g} packets cannot make a loss of {loss:.0%}: they must be "
                f"{loss / (1 - loss):.3g} packets long, or longer"
            )
        return cls(to_bad, 1 / packets)

    @property
    def bad_share(self) -> float:
        """Share of the packets that meet a bad link, in the long run."""
        return self.to_bad / (self.to_bad + self.to_good)

    @property
    def mean(self) -> float:
        """Share of the packets that get lost, in the long run."""
        return self.bad_share * self.bad_loss + (1 - self.bad_share) * self.good_loss

    def with_mean(self, loss: float) -> Loss:
        """Return losses of another mean rate with bursts as long; independent ones if
        impossible."""
        if not self.good_loss < loss < self.bad_loss:
            return loss
        to_bad = (loss - self.good_loss) / (self.bad_loss - loss) * self.to_good
        return replace(self, to_bad=to_bad) if to_bad <= 1 else loss

    def __str__(self) -> str:
        return f"{percentage(self.mean)} in bursts of {1 / self.to_good:.3g}"


@dataclass(frozen=True)
class TimedGilbertElliott:
    """Gilbert-Elliott model by time: a link is good and bad for exponentially distributed times.

        >>> Link("client", "gateway", 40.0, loss=TimedGilbertElliott.of(0.01, burst_ms=30))

    A packet is subject to the state at the time when it leaves. If the link is bad in a share b of
    the time, then t ms after a packet that met it bad it is bad with probability b + (1 - b) exp(-t
    (1/good_ms + 1/bad_ms))."""

    good_ms: float
    """Mean time in which the link is good."""
    bad_ms: float
    """Mean time in which the link is bad."""
    bad_loss: float = 1.0
    """Probability that a bad link loses a packet."""
    good_loss: float = 0.0
    """Probability that a good link loses a packet."""

    def __post_init__(self) -> None:
        for name in ("good_ms", "bad_ms"):
            if not 0 < getattr(self, name) < math.inf:
                raise UsageError(f"{name} is {getattr(self, name)}: not above 0, or not finite")
        for name in ("bad_loss", "good_loss"):
            if not 0 <= getattr(self, name) <= 1:
                raise UsageError(f"{name} is {getattr(self, name)}: not from 0 to 1")
        if not self.mean < 1:
            raise UsageError("everything is lost: the mean loss must be below 1")

    @classmethod
    def of(cls, loss: float, burst_ms: float) -> TimedGilbertElliott:
        """Return losses of a mean rate, in bursts: none between bursts and all within.

        Args:
            loss: share of the packets that get lost, in the long run.
            burst_ms: mean length of a burst.

        Raises:
            UsageError: not a share between 0 and 1, or a length that is none.
        """
        if not 0 < loss < 1:
            raise UsageError(f"loss is {loss}: it must be above 0 and below 1")
        if not 0 < burst_ms < math.inf:
            raise UsageError(f"burst_ms is {burst_ms}: not above 0, or not finite")
        return cls(burst_ms * (1 - loss) / loss, burst_ms)

    @property
    def bad_share(self) -> float:
        """Share of the time in which the link is bad, in the long run."""
        return self.bad_ms / (self.good_ms + self.bad_ms)

    @property
    def mean(self) -> float:
        """Share of the packets that get lost, in the long run."""
        return self.bad_share * self.bad_loss + (1 - self.bad_share) * self.good_loss

    def with_mean(self, loss: float) -> Loss:
        """Return losses of another mean rate with bursts as long; independent ones if
        impossible."""
        if not self.good_loss < loss < self.bad_loss:
            return loss
        good_ms = self.bad_ms * (self.bad_loss - loss) / (loss - self.good_loss)
        return replace(self, good_ms=good_ms)

    def __str__(self) -> str:
        return f"{percentage(self.mean)} in bursts of {self.bad_ms:.3g} ms"


Loss = float | GilbertElliott | TimedGilbertElliott
"""Losses of a link: probability of independent losses, or a model of bursts."""


def mean_loss(loss: Loss) -> float:
    """Share of the packets that get lost, in the long run."""
    return loss.mean if isinstance(loss, GilbertElliott | TimedGilbertElliott) else loss


def describe_loss(loss: Loss) -> str:
    """Return the text of a loss for tables."""
    return percentage(loss) if isinstance(loss, int | float) else str(loss)

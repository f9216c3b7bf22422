"""Losses that come in bursts."""

from __future__ import annotations

from dataclasses import dataclass

from mpcsim.errors import UsageError

__all__ = ["GilbertElliott"]


@dataclass(frozen=True)
class GilbertElliott:
    """A link is good or bad, and may change before every packet (Gilbert 1960, Elliott 1963).

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
    """Probability that a good one does (1 - k)."""

    def __post_init__(self) -> None:
        for name, least in (("to_bad", 0), ("to_good", 0), ("bad_loss", 0), ("good_loss", 0)):
            if not least <= getattr(self, name) <= 1:
                raise UsageError(f"{name} is {getattr(self, name)}: not from 0 to 1")
        if not self.to_good > 0:
            raise UsageError(f"to_good is {self.to_good}: not above 0, a bad link would stay bad")
        if not self.mean < 1:
            raise UsageError("everything is lost: the mean loss must be below 1")

    @classmethod
    def of(cls, loss: float, packets: float) -> GilbertElliott:
        """Losses of a mean rate, in bursts: nothing is lost between them and all within.

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

    def __str__(self) -> str:
        return f"{self.mean:.2%} in bursts of {1 / self.to_good:.3g}"


def mean_loss(loss: float | GilbertElliott) -> float:
    """Share of the packets that get lost, in the long run."""
    return loss.mean if isinstance(loss, GilbertElliott) else loss


def described(loss: float | GilbertElliott) -> str:
    """A loss for tables."""
    return str(loss) if isinstance(loss, GilbertElliott) else f"{loss:.2%}"

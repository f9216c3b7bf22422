"""The attacks of the gallery, one file for each part of the protocols."""

from mpcsim.attacks.gallery import ot, state
from mpcsim.attacks.gallery.dkg import cheating_dealer, honest_dealer
from mpcsim.attacks.gallery.frost import MESSAGE, WANTED, cheating_signer, signer

__all__ = [
    "MESSAGE",
    "WANTED",
    "cheating_dealer",
    "cheating_signer",
    "honest_dealer",
    "ot",
    "signer",
    "state",
]

"""The attack gallery: famous attacks on threshold wallets, run against this package's protocols.

Every entry runs twice, with the same attack code. *Check on*: against the product as it is, which
must end at the right step, name the right culprit and say what to do. *Check off*: against a
research build (``mpcsim.attacks.research``) in which the check that defeats it is missing; there
the attack must demonstrably succeed.

``catalogue`` lists the entries, and what of the table of known attacks does not apply here and why;
``report`` runs them all and prints the matrix. The families: ``ot``, ``signing`` (ECDSA), ``dkg``,
``resharing``, ``frost``, ``transport``, ``state`` (snapshots and restarts) and ``encoding``.
"""

from mpcsim.attacks import catalogue, report
from mpcsim.attacks.model import Attack, aborted
from mpcsim.attacks.picture import at_a_glance, words
from mpcsim.attacks.report import perform
from mpcsim.attacks.research import PRODUCT, ForgetfulGuard, ResearchBuild, without
from mpcsim.attacks.stage import CHEATER, DIGEST, HONEST, end_of, party, play, solve, watched

__all__ = [
    "CHEATER",
    "DIGEST",
    "HONEST",
    "PRODUCT",
    "Attack",
    "ForgetfulGuard",
    "ResearchBuild",
    "aborted",
    "at_a_glance",
    "catalogue",
    "end_of",
    "party",
    "perform",
    "play",
    "report",
    "solve",
    "watched",
    "without",
    "words",
]

"""The attack gallery: famous attacks on threshold wallets, run against this package's protocols.

Every entry runs twice, with the same attack code. *Check on*: against the product as it is, which
must end at the right step, name the right culprit and say what to do. *Check off*: against a
research build (``mpcsim.attacks.research``) in which the check that defeats it is missing; there
the attack must demonstrably succeed.

``gallery/entries.toml`` has what there is to say of each entry: name, source, what the attacker
controls, what it does, which check stops it, what it gains without. The modules beside it have the
code: ``ot``, ``signing`` (ECDSA), ``presigning``, ``dkg``, ``resharing``, ``frost``, ``transport``,
``state`` (snapshots and restarts) and ``encoding``; ``harness`` runs parties against a cheater.
``catalogue`` joins both, with what of the table of known attacks does not apply here and why;
``report`` runs them all and prints the matrix. ``public_record.md`` goes through what was
published, and says of each attack which entry runs it, or why none does.
"""

from mpcsim.errors import needs_extra

with needs_extra("workbench", "the attack gallery"):
    from mpcsim.attacks import catalogue, report
    from mpcsim.attacks.harness import (
        CHEATER,
        DIGEST,
        HONEST,
        finding_of,
        honest_party,
        record_rounds,
        solve_linear,
    )
    from mpcsim.attacks.model import Attack, Finding
    from mpcsim.attacks.picture import matrix_chart, short_text
    from mpcsim.attacks.report import perform
    from mpcsim.attacks.research import PRODUCT, Build, ForgetfulGuard, ResearchBuild, without

__all__ = [
    "CHEATER",
    "DIGEST",
    "HONEST",
    "PRODUCT",
    "Attack",
    "Build",
    "Finding",
    "ForgetfulGuard",
    "ResearchBuild",
    "matrix_chart",
    "catalogue",
    "finding_of",
    "honest_party",
    "perform",
    "record_rounds",
    "report",
    "solve_linear",
    "without",
    "short_text",
]

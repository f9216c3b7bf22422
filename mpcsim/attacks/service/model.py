"""Data model of the compromise matrix: an attack on the service, and the findings of its runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from mpcsim.attacks.service.attack_environment import AttackEnvironment
from mpcsim.attacks.service.builds import PRODUCT, Build, ResearchBuild
from mpcsim.attacks.service.findings import Finding, Refusal, Verdict
from mpcsim.attacks.service.table import BY_ID, Goal, Row
from mpcsim.ids import MPC_NODES, OPERATOR, ROLES, PartyId
from node.local import GATEWAY_ADDRESS
from node.process.settings import Settings


@dataclass(frozen=True, kw_only=True)
class ServiceAttack:
    """Entry of the matrix: an attack on the service by a holder of corrupt components."""

    id: str
    cells: tuple[tuple[str, Goal], ...]
    """Cells of the table that it belongs to: row (what the attacker controls) and goal."""
    name: str
    """Action of the attacker, in words."""
    run: Callable[[AttackEnvironment], Finding] = field(repr=False)
    """Attack code, the same against any build. A ``Refusal`` ends it."""
    check: str = ""
    """Check that refuses it; empty: it succeeds, and the table says so."""
    says: str = ""
    """Part of the refusal's words, which identifies this check."""
    research: Callable[[], ResearchBuild] | None = field(default=None, repr=False)
    """Build without the check, in which the attack succeeds."""
    each_node: bool = False
    """Whether it runs with the operator corrupt, and again with the institution corrupt."""
    on_disk: bool = False
    """Whether it needs stores in files."""
    covers: tuple[str, ...] = ()
    """Names in ``catalogue.NAMED`` that it executes."""
    pinned: bool = True
    """Whether the REST node knows the MPC nodes' identities from its settings."""
    policy: str = "both"
    """Vault policy of the REST node."""
    both_ways: bool = False
    """Whether it runs, too, against a REST node that first opens the vault and then begins to
    sign."""

    @property
    def refused(self) -> bool:
        """Whether a check must refuse it."""
        return bool(self.check)

    @property
    def rows(self) -> tuple[Row, ...]:
        return tuple(BY_ID[row] for row, _ in self.cells)


@dataclass(frozen=True)
class Cell:
    """Entry in one build: the service as it is, or a research build."""

    entry: ServiceAttack
    build: Build
    findings: tuple[Finding, ...]
    """Findings: one for each corrupt MPC node, and for each way to sign, where that matters."""

    @property
    def as_it_is(self) -> bool:
        """Whether the build is the product."""
        return self.build is PRODUCT

    @property
    def observed(self) -> Finding:
        """Finding that matters most: one that is not as it must be, if there is one."""
        return next((f for f in self.findings if not self._right(f)), self.findings[0])

    @property
    def as_expected(self) -> bool:
        """Whether the service does what the table says; of a research build, whether the attack
        succeeds there."""
        return all(map(self._right, self.findings))

    def _right(self, found: Finding) -> bool:
        if self.as_it_is and self.entry.refused:
            return found.verdict is Verdict.REFUSED and self.entry.says in found.shown
        return found.verdict is Verdict.POSSIBLE

    def __str__(self) -> str:
        if not self.as_expected:
            return f"NOT AS DOCUMENTED: {self.observed}"
        return str(self.observed) + ("" if self.entry.refused else ", as documented")


def run_cell(entry: ServiceAttack, build: Build = PRODUCT) -> Cell:
    """Run one entry in one build; an exception in it makes an unexpected cell."""
    ways = (True, False) if entry.both_ways else (True,)
    found = (_found(entry, build, party, way) for way in ways for party in _parties(entry))
    return Cell(entry, build, tuple(found))


def _parties(entry: ServiceAttack) -> tuple[PartyId, ...]:
    return MPC_NODES if entry.each_node else (OPERATOR,)


def _found(entry: ServiceAttack, build: Build, party: PartyId, early: bool) -> Finding:
    try:
        settings = Settings(
            waas_api_url=GATEWAY_ADDRESS, early_requests=early, vault_policy=entry.policy
        )
        env = AttackEnvironment(
            build, corrupt=party, on_disk=entry.on_disk, pinned=entry.pinned, settings=settings
        )
        with env:
            return entry.run(env)
    except Refusal as refusal:
        return Finding(Verdict.REFUSED, str(refusal))
    except Exception as error:
        return Finding(Verdict.ERROR, f"{ROLES[party]}: {type(error).__name__}: {error}")

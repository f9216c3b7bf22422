"""Whether a gateway's registry and its MPC nodes' stores fit, key by key; a registry is repaired.

It runs on the gateway's machine, beside a gateway or without one: it reads the gateway's registry
and link files, lists what the MPC nodes hold, and has each sign what it holds of a key
(``diagnosis`` makes of that what is the matter). It asks MPC nodes for nothing else, and never
opens a share store.

A repair writes only to the registry: what both MPC nodes have signed and hold, as the gateway
itself would, and users under the names that are given. A running gateway sees it with its next look
at the registry. Everything may be done again.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mpcsim.crypto.rng import Rng, SystemRng
from mpcsim.errors import InvalidEncoding, UsageError
from mpcsim.ids import BOOT_BYTES, MPC_NODES, ROLES, PartyId
from mpcsim.service.errors import UNAVAILABLE, LinkFailed, Refused
from mpcsim.service.gateway.activation.activation import share_inventory
from mpcsim.service.gateway.defaults import LINK_TIMEOUT_S
from mpcsim.service.gateway.diagnosis import (
    Case,
    Finding,
    NodeStatement,
    Problem,
    ProblemKind,
    diagnose,
    identities_in,
)
from mpcsim.service.gateway.links.links import Link, decode_answer
from mpcsim.service.gateway.registry import KeyChanged, KeyExists, Registry, UsernameTaken
from mpcsim.service.operations.composition import mpc_node_at
from mpcsim.service.operations.data_folder import read_keyring, store_file
from mpcsim.service.operations.deployment import check_same_deployment
from mpcsim.service.precis import enforce_username
from mpcsim.service.rpc.activation_messages import PREPARED
from mpcsim.service.rpc.grants import GrantIssuer, Scope
from mpcsim.service.rpc.statements import (
    GetReconciliationStatement,
    SignedReconciliationStatement,
    is_hello_authentic,
    is_signed_by,
)
from mpcsim.service.storage.database import StoreFailed, file_of
from mpcsim.service.storage.roles import REGISTRY
from mpcsim.sim.simulated_network import SimulatedNetwork

UserCurve = tuple[str, str]
"""User and curve."""

PAUSE_S: Final = 1.0
"""Between two looks at a key that does not fit: what is under way has come to its end by then."""


@dataclass(frozen=True)
class KeyReport:
    """A key that has been looked at."""

    finding: Finding
    repaired: bool = False
    """Whether the registry has been put right for it just now."""


class Doctor:
    """Examination of a deployment, key by key. For one event loop."""

    def __init__(
        self,
        registry: Registry,
        links: Mapping[PartyId, Link],
        *,
        rng: Rng,
        pause_s: float = PAUSE_S,
    ) -> None:
        """
        Args:
            rng: draws what makes the MPC nodes' statements fresh.
        """
        self._registry = registry
        self._links = links
        self._rng = rng
        self._pause_s = pause_s
        self._identities: dict[PartyId, bytes] = {}
        self._seal_numbers: dict[PartyId, int] = {}
        self._recorded_identities: dict[PartyId, bytes] = {}
        self.keys: set[UserCurve] = set()
        """Keys of which an MPC node holds a share that has been voted for, at least."""
        self._empty: set[PartyId] = set()
        self.unavailable: dict[PartyId, Problem] = {}
        """Parts that cannot be asked, and why."""

    async def begin(self) -> None:
        """Hear who the MPC nodes are, and of which keys they hold shares."""
        for party, link in self._links.items():
            try:
                hello = await link.hello(fresh=True)
                if hello.party != party or not is_hello_authentic(hello):
                    self.unavailable[party] = _wrong_node_problem(party)
                    continue
                self._identities[party] = hello.identity
                self._seal_numbers[party] = hello.seal_number
                held = await share_inventory(link)
            except LinkFailed as failed:
                self.unavailable[party] = _link_problem(party, failed)
            except Refused as refused:
                self.unavailable[party] = _refusal_problem(party, refused)
            else:
                self.keys |= {(h.user_id, h.curve) for h in held if h.state != PREPARED}
                if not held:
                    self._empty.add(party)

    # ------------------------------------------------------------------ users

    def user_id(self, user: str) -> str:
        """Return the identifier of the user that has this name or identifier.

        Raises:
            UsageError: nobody's.
        """
        known = self._registry.user_by_name(user) or self._registry.user(user)
        if known is not None:
            return known.user_id
        if any(user == user_id for user_id, _ in self.keys):
            return user
        raise UsageError(f"no user has the name or the identifier {user!r}")

    def sign_up(self, names: Mapping[str, str]) -> None:
        """Make users whom the registry does not know any more, under the identifiers that they had.
        Those that it knows by that name stay as they are.

        Args:
            names: by identifier.

        Raises:
            UsageError: no MPC node knows of such a user, or the name is none, or another user's;
                nobody has been signed up.
        """
        new, held = {}, {user_id for user_id, _ in self.keys}
        for user_id, given in names.items():
            name = enforce_username(given)
            known, holder = self._registry.user(user_id), self._registry.user_by_name(name)
            if known is not None and known.username != name:
                raise UsageError(f"user {user_id} is registered as {known.username!r}")
            if holder is not None and holder.user_id != user_id:
                raise UsageError(f"the name {name!r} is that of user {holder.user_id}")
            if known is None and user_id not in held:
                raise UsageError(f"no MPC node that was heard holds a share of user {user_id!r}")
            if known is None:
                new[user_id] = name
        if len({*new.values()}) < len(new):
            raise UsageError("one name for two users")
        for user_id, name in new.items():
            try:
                self._registry.sign_up(name, user_id)
            except UsernameTaken:  # a moment ago
                raise UsageError(f"the name {name!r} is another user's") from None

    # ------------------------------------------------------------------ keys

    async def examine(
        self, user_id: str | None = None, *, repair: bool = False
    ) -> AsyncIterator[KeyReport]:
        """Look at every key: first come those that fit, then the others, which are looked at twice.

        Args:
            user_id: look at this user's alone.
            repair: put the registry right where it lacks what both MPC nodes have signed.
        """
        registered = self._registered()
        suspended = self._suspended()
        odd = []
        wanted = [at for at in self.keys | registered if user_id in (None, at[0])]
        for at in sorted(wanted, key=self._sort_key):
            finding = await self._diagnose(at, suspended)
            if finding.problems:
                odd.append(at)
            else:
                yield KeyReport(finding)
        if odd:
            await asyncio.sleep(self._pause_s)
        suspended = self._suspended()
        for at in odd:
            finding = await self._diagnose(at, suspended)
            repaired = repair and self._repair(finding)
            if repaired:
                finding = await self._diagnose(at, suspended)
            yield KeyReport(finding, repaired)

    def _repair(self, finding: Finding) -> bool:
        """Make the registry follow both MPC nodes; return whether it has changed."""
        if finding.newer is None or finding.username is None:
            return False
        try:
            self._registry.put(finding.newer)
        except (KeyExists, KeyChanged, InvalidEncoding):
            # A running gateway was quicker, or it is another key, or none: both nodes may lie.
            return False
        return True

    def _registered(self) -> set[UserCurve]:
        """The registry's keys; and whom all of their records name is remembered."""
        found = {(key.user_id, key.curve) for key in self._registry.all_keys()}
        identities: dict[PartyId, set[bytes]] = defaultdict(set)
        for at in found:
            for party, identity in identities_in(self._registry.key(*at)).items():
                identities[party].add(identity)
        self._recorded_identities = {
            party: one for party, (one, *more) in identities.items() if not more
        }
        return found

    def _suspended(self) -> Mapping[str, frozenset[str]]:
        """Key ids that the registry remembers as suspended, by user."""
        found: dict[str, set[str]] = defaultdict(set)
        for notice in self._registry.suspension_notices():
            found[notice.at.user_id].add(notice.at.key_id.hex())
        return {user_id: frozenset(key_ids) for user_id, key_ids in found.items()}

    async def _diagnose(self, at: UserCurve, suspended: Mapping[str, frozenset[str]]) -> Finding:
        nodes = await asyncio.gather(*(self._query_node(party, at) for party in MPC_NODES))
        return diagnose(
            Case(
                *at,
                self._username(at[0]),
                self._registry.key(*at),
                suspended.get(at[0], frozenset()),
                dict(zip(MPC_NODES, nodes, strict=True)),
                self._empty,
                self._recorded_identities,
            )
        )

    def _username(self, user_id: str) -> str | None:
        user = self._registry.user(user_id)
        return None if user is None else user.username

    def _sort_key(self, at: UserCurve) -> tuple[str, str, str]:
        """Return a sort key: by user name, users without one last."""
        return self._username(at[0]) or chr(sys.maxunicode), *at

    async def _query_node(self, party: PartyId, at: UserCurve) -> NodeStatement | Problem:
        """Return what an MPC node states about a key, or the problem that keeps it from
        answering."""
        if party in self.unavailable:
            return self.unavailable[party]
        link, nonce = self._links[party], self._rng.bytes(BOOT_BYTES)
        try:
            reply = await link.ask(Scope("testify", at[0]), GetReconciliationStatement(*at, nonce))
            said = decode_answer(SignedReconciliationStatement, party, reply)
        except LinkFailed as failed:
            self.unavailable[party] = _link_problem(party, failed)
            return self.unavailable[party]
        except Refused as refused:
            return _refusal_problem(party, refused)
        statement, identity = said.statement, self._identities[party]
        asked = (
            statement.party,
            statement.nonce,
            statement.user_id,
            statement.curve_name,
        )
        if asked != (party, nonce, *at) or not is_signed_by(identity, statement, said.signature):
            return _forgery_problem(party)
        return NodeStatement(identity, statement, self._seal_numbers[party])


@asynccontextmanager
async def open_doctor(
    folder: Path,
    addresses: Mapping[PartyId, str],
) -> AsyncIterator[Doctor]:
    """Yield the doctor of a deployment, on the gateway's machine; a gateway may run there, too.

    Args:
        folder: the data folder; of it, the gateway's own is used.
        addresses: of the MPC nodes.

    Raises:
        UsageError: there is no registry, or a link is missing, or they are of different
            deployments, or cannot be read; or an address is none.
    """
    rng, now = SystemRng(), time.time
    path = store_file(folder, REGISTRY)
    if not (path.is_file() and path.stat().st_size):
        raise UsageError(
            f"{path} is missing: put a backup of it back, or start the gateway, which makes an "
            "empty one that --repair --name can fill from what the MPC nodes hold"
        )
    ends = {party: read_keyring(folder, REGISTRY, party) for party in MPC_NODES}
    try:
        with closing(Registry(path, rng=rng, now=now)) as registry:
            for deployment, _ in ends.values():
                check_same_deployment(registry, REGISTRY, deployment)
            links = {
                party: Link(
                    mpc_node_at(party, addresses[party], LINK_TIMEOUT_S),
                    GrantIssuer(party, keys, rng, now),
                    SimulatedNetwork(),
                    timer=time.perf_counter,
                )
                for party, (_, keys) in ends.items()
            }
            try:
                found = Doctor(registry, links, rng=rng)
                await found.begin()
                yield found
            finally:
                for link in links.values():
                    await link.port.close()
    except StoreFailed as error:
        raise UsageError(str(error)) from error


# ---------------------------------------------------------------------- who is not heard


def _link_problem(party: PartyId, failed: LinkFailed) -> Problem:
    role = ROLES[party]
    variables = f"{role.upper()}_URL and {role.upper()}_PORT"
    advice = (
        f"start it, or correct {variables}; then ask again. If it does not start because its seal "
        f"key is lost: mpcsim rotate seal-key {role} --lost, on its machine"
    )
    return Problem(ProblemKind.UNHEARD, str(failed), advice)


def _refusal_problem(party: PartyId, refused: Refused) -> Problem:
    role = ROLES[party]
    if refused.status == UNAVAILABLE:
        advice = f"see to its disk, or put a whole backup of {file_of(role)} back"
    else:
        advice = (
            f"either its clock differs by over a minute, or {role}.link beside {file_of(REGISTRY)} "
            "is not the one that it has as gateway.link: put back what belongs together"
        )
    return Problem(ProblemKind.UNHEARD, str(refused), advice)


def _wrong_node_problem(party: PartyId) -> Problem:
    role = ROLES[party]
    text = f"what answers at the {role}'s address is not the {role}"
    return Problem(ProblemKind.UNHEARD, text, f"correct {role.upper()}_URL or {role.upper()}_PORT")


def _forgery_problem(party: PartyId) -> Problem:
    role = ROLES[party]
    text = f"the {role} has not signed what it says of this key, or signed something else"
    advice = f"find out who answers at {role.upper()}_URL; nothing that it says counts"
    return Problem(ProblemKind.FORGED, text, advice)

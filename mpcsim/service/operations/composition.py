"""Composition of a gateway: stores, tokens, MPC nodes, links, application."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mpcsim.crypto.rng import Drbg, Rng, SystemRng
from mpcsim.errors import UsageError
from mpcsim.ids import MPC_NODES, ROLES, PartyId
from mpcsim.service.gateway import limits
from mpcsim.service.gateway.activation.activation import Activation
from mpcsim.service.gateway.activation.attestations import Attestations
from mpcsim.service.gateway.activation.suspensions import Suspensions
from mpcsim.service.gateway.api.smart_accounts import SmartAccounts, embedded
from mpcsim.service.gateway.api.token_keys import TokenKeys
from mpcsim.service.gateway.gateway import Gateway, GatewayParts
from mpcsim.service.gateway.introduction import NodeIntroduction
from mpcsim.service.gateway.links.links import Link
from mpcsim.service.gateway.links.mpc_nodes import InProcess, MpcNodePort, OverHttp
from mpcsim.service.gateway.registry import Credentials, Registry
from mpcsim.service.gateway.sessions.routing import MessageRouter
from mpcsim.service.gateway.sessions.sessions import Sessions
from mpcsim.service.gateway.sessions.streaming import Streaming
from mpcsim.service.mpc_node.app import create_app as create_mpc_node_app
from mpcsim.service.mpc_node.node import MpcNode
from mpcsim.service.mpc_node.store import ShareStore
from mpcsim.service.operations.data_folder import (
    LinkSecret,
    claim_folder,
    prepare,
    read_keyring,
    store_file,
)
from mpcsim.service.operations.deployment import check_same_deployment
from mpcsim.service.operations.options import DEFAULTS, GatewayOptions
from mpcsim.service.operations.request_forwarding import RequestForwarding
from mpcsim.service.rpc.grants import GrantIssuer, Keyring
from mpcsim.service.storage.database import IN_MEMORY, StoreFailed
from mpcsim.service.storage.expiry import periodic_expiry
from mpcsim.service.storage.roles import REGISTRY
from mpcsim.service.web.http import App
from mpcsim.service.web.request_records import RequestRecorder
from mpcsim.service.web.transport import HttpTransport, Limits
from mpcsim.sim.simulated_network import SimulatedNetwork

if TYPE_CHECKING:
    from mpcsim.service.metrics.exposition import MetricsSource


@dataclass
class RunningGateway:
    """A gateway that answers, and what an experiment may want to reach into."""

    app: App
    """The HTTP interface, for any ASGI server or client."""
    gateway: Gateway
    issuer: TokenKeys
    token_lifetime_s: float
    links: dict[PartyId, Link] = field(repr=False)
    smart_accounts: SmartAccounts = field(repr=False)
    """The smart-account flow; its chain is there once it has been asked for."""
    network: SimulatedNetwork = field(repr=False)
    """Networks and faults; change them at any time."""
    _opened: ExitStack = field(repr=False)

    @property
    def credentials(self) -> Credentials:
        """API key and secret with which callers log in."""
        return self.gateway.registry.credentials()

    def token(self, username: str, lifetime_s: float | None = None) -> str:
        """An access token for a user, who is signed up first if need be.

        Args:
            lifetime_s: seconds it holds; by default as others. A rotation of the signing key may
                end a longer one.

        Raises:
            UsageError: the name is none (``mpcsim.service.precis``).
        """
        registry = self.gateway.registry
        user = registry.user_by_name(username) or registry.sign_up(username)
        return self.issuer.issue_access(
            user.user_id, user.username, lifetime_s or self.token_lifetime_s
        )

    def metrics_source(self) -> MetricsSource:
        """Return its metrics and probes; call this before it serves."""
        # Imported here: few processes expose metrics.
        from mpcsim.service.operations.metrics import gateway_metrics_source

        here = [link.node for link in self.links.values() if isinstance(link.port, InProcess)]
        return gateway_metrics_source(self.app, self.gateway, here)

    def close(self) -> None:
        """Close the stores."""
        self._opened.close()


def open_gateway(
    folder: Path | str | None = None, options: GatewayOptions = DEFAULTS
) -> RunningGateway:
    """A gateway with the operator's and the institution's MPC nodes.

    Args:
        folder: where the three services have their folders (``data_folder``), made if need be;
            None keeps everything in memory. Where the MPC nodes are in other processes it has to be
            there, and only the gateway's own is used.

    Raises:
        UsageError: the folder cannot be used, another gateway uses it, a file in it is something
            else or damaged, or the files are of different deployments (``store_consistency``).
    """
    # Imported here: an MPC node needs no models of the gateway.
    from mpcsim.service.gateway.api.app import create_app

    rng, now = options.rng or SystemRng(), options.now
    with _store_errors_as_usage_errors(), ExitStack() as opened:
        data = None if folder is None else Path(folder)
        if data is not None and options.mpc_nodes is None:
            prepare(data, _service_rng(rng, "links"))
        registry = Registry(
            _claim_store(opened, data, REGISTRY), rng=_service_rng(rng, "gateway"), now=now
        )
        opened.callback(registry.close)
        if data is None:
            fresh = {
                p: LinkSecret.generate(_service_rng(rng, f"{ROLES[p]} link")) for p in MPC_NODES
            }
            rings = {party: Keyring(secret.keys) for party, secret in fresh.items()}
        else:
            rings = {}
            for party in MPC_NODES:
                deployment, rings[party] = read_keyring(data, REGISTRY, party)
                check_same_deployment(registry, REGISTRY, deployment)
        simulated = SimulatedNetwork(options.network, options.faults, options.seed)
        carrier = options.carrier or simulated
        links: dict[PartyId, Link] = {}
        for party, own in rings.items():
            port: MpcNodePort
            if options.mpc_nodes is None:
                node_options = replace(options, rng=_service_rng(rng, ROLES[party]))
                end = (None, own) if data is None else read_keyring(data, ROLES[party], party)
                mpc_node = _build_mpc_node(opened, data, party, end, node_options)
                port = InProcess(mpc_node, _recorder(ROLES[party], options))
            else:
                port = mpc_node_at(party, options.mpc_nodes[party], options.link_timeout_s)
            grants = GrantIssuer(party, own, _service_rng(rng, f"{ROLES[party]} grants"), now)
            links[party] = Link(
                port, grants, carrier, timer=options.timer, timeout_s=options.link_timeout_s
            )
        sessions = Sessions(
            links,
            clock=options.clock,
            queue=options.queue,
            signing_s=options.signing_s,
            making_s=options.making_s,
            lease_s=options.lease_s,
            making_limit=options.making_limit,
            making_queue=options.making_queue,
            making_wait_s=options.making_wait_s,
        )
        activation = Activation(registry, links, sessions)
        attestations = Attestations(links, options.clock)
        introduction = NodeIntroduction(links, activation, attestations, options.clock)
        if options.mpc_nodes is None:
            _run_to_completion(introduction.introduce())
        router = MessageRouter(sessions, links, carrier, attestations.deliver_after_abort)
        suspensions = Suspensions(registry, links, sessions, options.clock, now)
        parts = GatewayParts(
            sessions,
            router=router,
            streaming=Streaming(
                sessions, links, carrier, attestations.deliver_after_abort, options.forwarding
            ),
            activation=activation,
            suspensions=suspensions,
            introduction=introduction,
            attestations=attestations,
        )
        limited = limits.limits_by_verb(
            options.clock,
            guesses=options.limit_guesses,
            recoveries=options.limit_recoveries,
            signatures=options.limit_signatures,
        )
        gateway = Gateway(registry, links, parts, limits=limited)
        registry.set_token_lifetime(options.token_lifetime_s)
        registry.forget_signing_keys()
        if data is not None:
            opened.enter_context(periodic_expiry(REGISTRY, registry.sweep))
        keys = TokenKeys(registry, "gateway", now)
        accounts = SmartAccounts(
            options.smart_accounts or embedded(_service_rng(rng, "chain"), now)
        )
        opened.callback(accounts.close)
        app = create_app(
            gateway,
            keys,
            token_lifetime_s=options.token_lifetime_s,
            extra_routes=lambda authorize: [accounts.route(authorize)],
            most_of_user=options.most_of_user,
            recorder=_recorder(REGISTRY, options),
        )
        app.add_middleware(RequestForwarding, carrier=carrier)
        return RunningGateway(
            app,
            gateway,
            keys,
            options.token_lifetime_s,
            links,
            accounts,
            simulated,
            opened.pop_all(),
        )


@dataclass
class RunningMpcNode:
    """An MPC node that answers, in a process of its own."""

    app: App
    node: MpcNode
    _opened: ExitStack = field(repr=False)

    def metrics_source(self) -> MetricsSource:
        """Return its metrics and probes; call this before it serves."""
        # Imported here: few processes expose metrics.
        from mpcsim.service.operations.metrics import mpc_node_metrics_source

        return mpc_node_metrics_source(self.app, self.node)

    def close(self) -> None:
        """Close its store."""
        self._opened.close()


def open_mpc_node(
    folder: Path | str, party: PartyId, options: GatewayOptions = DEFAULTS
) -> RunningMpcNode:
    """The operator's or the institution's MPC node alone; its gateway is in another process.

    Args:
        folder: the data folder; of it, the node's own folder is used, and there has to be a link
            (``data_folder.prepare``).
        options: those that are about MPC nodes count.

    Raises:
        UsageError: there is no link, or as for ``open_gateway``.
    """
    data = Path(folder)
    with _store_errors_as_usage_errors(), ExitStack() as opened:
        node = _build_mpc_node(
            opened, data, party, read_keyring(data, ROLES[party], party), options
        )
        app = create_mpc_node_app(node, _recorder(ROLES[party], options))
        return RunningMpcNode(app, node, opened.pop_all())


def _build_mpc_node(
    opened: ExitStack,
    data: Path | None,
    party: PartyId,
    link: tuple[str | None, Keyring],
    options: GatewayOptions,
) -> MpcNode:
    """An MPC node with its store.

    Args:
        link: the deployment, if it has files, and the keys at this end.
    """
    deployment, keys = link
    store = ShareStore(_claim_store(opened, data, ROLES[party]), options.now)
    opened.callback(store.close)
    if deployment is not None:
        check_same_deployment(store, ROLES[party], deployment)
    node = MpcNode(
        party,
        store,
        keys,
        clock=options.clock,
        now=options.now,
        rng=options.rng,
        listener=options.listener,
        signing_s=options.signing_s,
        making_s=options.making_s,
    )
    if data is not None:
        opened.enter_context(periodic_expiry(ROLES[party], node.sweep))
    return node


def _recorder(role: str, options: GatewayOptions) -> RequestRecorder:
    """Return the recorder of a service's requests."""
    return RequestRecorder(
        role, options.log, clock=options.timer, now=options.log_now or options.now
    )


def mpc_node_at(party: PartyId, address: str, timeout_s: float) -> OverHttp:
    """An MPC node at an address.

    Raises:
        UsageError: it is none.
    """
    try:
        # The link itself gives up first.
        return OverHttp(party, HttpTransport(address, Limits(total_s=timeout_s + 1)))
    except ValueError as error:
        raise UsageError(f"{address!r}, where the {ROLES[party]} is to be: {error}") from None


def _run_to_completion(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine to its end in a thread of its own; the caller may be in an event loop
    itself."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, work).result()


def _claim_store(opened: ExitStack, data: Path | None, role: str) -> Path | str:
    """Claim a service's folder for this process and return the path of its store."""
    if data is None:
        return IN_MEMORY
    opened.enter_context(claim_folder(data / role))
    return store_file(data, role)


@contextmanager
def _store_errors_as_usage_errors() -> Iterator[None]:
    try:
        yield
    except StoreFailed as error:
        raise UsageError(str(error)) from error


def _service_rng(rng: Rng, label: str) -> Rng:
    """A service's own randomness, so that what others draw at the same time does not change it."""
    return rng.fork(label) if isinstance(rng, Drbg) else rng

"""Pinned identities of the MPC nodes: those that ``MPC_NODE_KEYS`` names, or the first ones
shown."""

from __future__ import annotations

from collections.abc import Mapping

from mpcsim.ids import ROLES, PartyId
from mpcsim.service.rpc import pinned_identities
from mpcsim.service.rpc.statements import is_hello_authentic
from mpcsim.service.rpc.wire import Hello
from node.errors import UntrustedNode
from node.process.logs import logger


class PinnedIdentities:
    """Identities of the MPC nodes, as far as they are known."""

    def __init__(self, identities: Mapping[PartyId, bytes] | None) -> None:
        """
        Args:
            identities: None: those that the gateway shows first.
        """
        self._identities = identities
        self._given = identities is not None

    def check(self, hellos: Mapping[PartyId, Hello]) -> None:
        """Check that these are the pinned MPC nodes; where none were given, the first ones are
        pinned.

        Raises:
            UntrustedNode: one of them is another one, or shows a seal key that is not its own.
        """
        for party, hello in hellos.items():
            if not is_hello_authentic(hello):
                raise UntrustedNode(
                    f"The {ROLES[party]}'s seal key does not bear its identity's signature"
                )
        shown = {party: hello.identity for party, hello in hellos.items()}
        if self._identities is None:
            self._identities = shown
            logger.info(
                "the MPC nodes' identities are taken from the gateway; to take no others, set "
                f"{pinned_identities.VARIABLE}={pinned_identities.format_identities(shown)}"
            )
        for party, identity in self._identities.items():
            if shown[party] != identity:
                raise UntrustedNode(self._another(ROLES[party]))

    def _another(self, role: str) -> str:
        if self._given:
            return f"The {role} has another identity than {pinned_identities.VARIABLE} says"
        return (
            f"The {role} has another identity than when this node first met it; if it is to be "
            "trusted, restart the node"
        )

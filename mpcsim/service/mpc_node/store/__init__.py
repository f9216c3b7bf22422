"""Store of an MPC node: ``share_store`` (shares, start here), ``rows``, ``signatures`` (votes and
aborts), ``merging`` (after a restore), ``own_keys``, ``schema``."""

from mpcsim.service.mpc_node.store.merging import ActiveShare, NodeStatement, UnmergedReason
from mpcsim.service.mpc_node.store.own_keys import KeyLost
from mpcsim.service.mpc_node.store.rows import HistoryLost, StaleUpdate, StoredShare
from mpcsim.service.mpc_node.store.share_store import ShareStore
from mpcsim.service.mpc_node.store.signatures import ENTERED, SIGNED

__all__ = [
    "ENTERED",
    "SIGNED",
    "HistoryLost",
    "NodeStatement",
    "ActiveShare",
    "KeyLost",
    "UnmergedReason",
    "StaleUpdate",
    "ShareStore",
    "StoredShare",
]

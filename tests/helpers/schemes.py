"""Shares of multiplication schemes that are not the package's own."""

from dataclasses import replace

from mpcsim.crypto.mta.base import Mta
from mpcsim.protocols.key_share import KeyShare


def with_scheme(share: KeyShare, scheme: Mta) -> KeyShare:
    """The same share, of a scheme whose set-up is empty."""
    peers = {
        i: replace(state, multiplication=scheme.PairSetup()) for i, state in share.peers.items()
    }
    return replace(share, mta=scheme, peers=peers)

"""Records of keys, as the registry keeps them."""

from mpcsim.ids import MPC_NODES
from mpcsim.service.mpc_node.identity import Identity
from mpcsim.service.rpc.statements import KeyRecord, LogHead, SignedRecord, Vote


def said_to_be_signed(
    user_id: str, key_id: str, curve: str, public_key: bytes, number: int = 0
) -> SignedRecord:
    """A record as the registry keeps it, signed by MPC nodes of which nobody has heard."""
    signer = Identity(bytes(32))
    identities = dict.fromkeys(MPC_NODES, signer.public)
    record = KeyRecord(
        user_id, curve, public_key, bytes.fromhex(key_id), None, number, bytes(32), identities
    )
    head = LogHead(0, bytes(32))
    signature = signer.sign(Vote(record, head, 0))
    return SignedRecord(record, *(dict.fromkeys(MPC_NODES, each) for each in (head, signature, 0)))

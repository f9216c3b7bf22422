"""Key records: what the gateway says of a user's keys is believed where both MPC nodes have signed
it, and not otherwise."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from mpcsim.errors import InvalidEncoding
from mpcsim.ids import PartyId
from mpcsim.service.rpc.statements import KeyRecord, RecordError, SignedRecord
from node.errors import UntrustedNode

REMEMBERED: Final = 1024
"""Records whose signatures are not verified again; some 1400 bytes each."""


class UnsignedRecord(UntrustedNode):
    """500: a key record that is not this user's, or that the MPC nodes have not both signed."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The gateway's record of the key cannot be believed: {reason}")


class RecordVerifier:
    """Checks records, and remembers which are genuine: that does not change."""

    def __init__(self) -> None:
        self._genuine: OrderedDict[bytes, KeyRecord] = OrderedDict()

    def check(
        self,
        data: bytes,
        identities: Mapping[PartyId, bytes],
        user_id: str,
        *,
        curve: str | None = None,
        key_id: str | None = None,
    ) -> KeyRecord:
        """The record of a user's key.

        Args:
            data: a ``SignedRecord``.
            identities: of the MPC nodes.
            curve: None: any; ``key_id`` likewise.

        Raises:
            UnsignedRecord: it is another's, or proves nothing.
        """
        record = self._genuine.get(data)
        if record is None or record.identities != identities:
            try:
                record = SignedRecord.from_bytes(data).check(identities)
            except InvalidEncoding:
                raise UnsignedRecord("it is none") from None
            except RecordError as error:
                raise UnsignedRecord(str(error)) from None
            self._genuine[data] = record
            if len(self._genuine) > REMEMBERED:
                self._genuine.popitem(last=False)
        self._genuine.move_to_end(data)
        if record.user_id != user_id:
            raise UnsignedRecord("it is another user's")
        if curve not in (None, record.curve_name):
            raise UnsignedRecord("it is of another curve")
        if key_id not in (None, record.key_id):
            raise UnsignedRecord("it is of other shares")
        return record

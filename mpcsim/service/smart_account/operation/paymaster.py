"""Fee sponsorship by a VerifyingPaymaster: its signer signs the operation it will pay for."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Final

from eth_abi.abi import encode
from eth_account.messages import encode_defunct
from eth_account.signers.local import LocalAccount
from eth_typing import ChecksumAddress
from eth_utils.address import to_canonical_address

from mpcsim.service.smart_account.chain import contracts
from mpcsim.service.smart_account.chain.chain import Chain
from mpcsim.service.smart_account.operation.operation import UserOperation

VALIDITY_S: Final = 3600
"""Seconds for which a sponsorship is valid."""

ANY_TIME: Final = 0
"""Start of a sponsorship's validity: at once, even where a chain's clock is behind."""


class Sponsor:
    """The signer of one paymaster."""

    def __init__(self, chain: Chain, address: ChecksumAddress, signer: LocalAccount) -> None:
        self._chain = chain
        self._address = address
        self._signer = signer
        self._filler = _without_zero_bytes(signer)

    def placeholder(self) -> bytes:
        """Paymaster data of the final length, with a signature over something else.

        Its calldata costs no less than the final one's.
        """
        return self._data(self._until(), self._filler)

    def sign(self, operation: UserOperation) -> UserOperation:
        """The operation with the data that makes the paymaster pay for it.

        The paymaster's hash covers every field but the operation's signature and this one; the
        contract itself computes it. Where the signature begins is covered too, so it is asked with
        data of the final length.
        """
        until = self._until()
        unsigned = replace(operation, paymaster_and_data=self._data(until, self._filler))
        covered = contracts.paymaster().abi.view(
            self._chain, self._address, "getHash", unsigned.abi_tuple(), until, ANY_TIME
        )
        signature = _sign(self._signer, covered)
        return replace(operation, paymaster_and_data=self._data(until, signature))

    def _until(self) -> int:
        return self._chain.timestamp() + VALIDITY_S

    def _data(self, until: int, signature: bytes) -> bytes:
        window = encode(("uint48", "uint48"), (until, ANY_TIME))
        return to_canonical_address(self._address) + window + signature


def _sign(signer: LocalAccount, message: bytes) -> bytes:
    return bytes(signer.sign_message(encode_defunct(primitive=message)).signature)


def _without_zero_bytes(signer: LocalAccount) -> bytes:
    """A signature by ``signer`` without a zero byte; three in four have none."""
    tries = (_sign(signer, counter.to_bytes(32, "big")) for counter in itertools.count())
    return next(signature for signature in tries if 0 not in signature)

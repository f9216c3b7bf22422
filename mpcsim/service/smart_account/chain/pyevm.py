"""py-evm, without what importing it does to the process.

It raises the interpreter's recursion limit, as py_ecc does (see ``__init__``). Here the limit is
put back; ``embedded`` refuses calls that nest too deeply for it.
"""

import sys

_limit = sys.getrecursionlimit()
try:
    from eth.abc import ReceiptAPI, SignedTransactionAPI
    from eth.chains.base import MiningChain
    from eth.db.atomic import AtomicDB
    from eth.typing import AccountDetails, HeaderParams
    from eth.vm.forks.cancun import CancunVM
    from eth.vm.spoof import SpoofTransaction
finally:
    sys.setrecursionlimit(_limit)

__all__ = [
    "AccountDetails",
    "AtomicDB",
    "CancunVM",
    "HeaderParams",
    "MiningChain",
    "ReceiptAPI",
    "SignedTransactionAPI",
    "SpoofTransaction",
]

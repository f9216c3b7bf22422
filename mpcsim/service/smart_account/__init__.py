"""Smart accounts: the ERC-4337 flow (EntryPoint v0.6) on a real EVM.

``service`` does what the endpoints promise, over a ``chain``: ``embedded``, an EVM in this process,
``anvil``, a node in a process of its own, or ``jsonrpc``, any node. ``client`` runs the six steps
of an operation; ``http`` makes routes of the service. The contracts are the published ones
(``install``, ``deployment``).

To look at it: ``anatomy`` takes a digest apart, ``tables`` and ``figures`` show what happened.
"""

import sys

# py_ecc, which the Ethereum libraries import, raises the interpreter's recursion limit to 100,000.
# With that, deep recursion anywhere in the process, such as a nested JSON body, is no longer a
# RecursionError but a crash.
_limit = sys.getrecursionlimit()
try:
    import py_ecc  # noqa: F401
finally:
    sys.setrecursionlimit(_limit)

from mpcsim.service.smart_account import setup  # noqa: E402
from mpcsim.service.smart_account.deployment import deploy_token, mint  # noqa: E402
from mpcsim.service.smart_account.endpoints import Endpoint  # noqa: E402
from mpcsim.service.smart_account.setup import give_coins  # noqa: E402

__all__ = [
    "Endpoint",
    "deploy_token",
    "give_coins",
    "mint",
    "setup",
]

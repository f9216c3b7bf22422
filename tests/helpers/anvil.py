"""A local node of an EVM chain, where it is installed."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mpcsim.errors import UsageError
from mpcsim.service.operations.supervisor import free_port
from mpcsim.service.smart_account.chain.anvil import executable
from mpcsim.service.smart_account.chain.jsonrpc import JsonRpcChain
from mpcsim.service.smart_account.errors import ChainUnavailable

# The first account of every anvil: funded there, and known to everybody.
ANVIL_KEY = bytes.fromhex("ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80")


def _installed() -> str | None:
    try:
        return str(executable())
    except UsageError:
        return None


ANVIL = _installed()
needs_anvil = pytest.mark.skipif(ANVIL is None, reason="anvil is not installed for this platform")


@contextmanager
def anvil(*arguments: str, port: int | None = None) -> Iterator[str]:
    """A node with an empty chain; its address."""
    if ANVIL is None:
        pytest.skip("anvil is not installed: no npm package of it for this platform")
    port = port or free_port()
    command = [ANVIL, "--port", str(port), "--hardfork", "cancun", "--silent", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(200):
            try:
                JsonRpcChain(url).close()
                break
            except ChainUnavailable:
                assert process.poll() is None, "anvil ended by itself"
                time.sleep(0.05)
        yield url
    finally:
        process.terminate()
        process.wait(10)

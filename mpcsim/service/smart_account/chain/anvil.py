"""Chain of the gateway's own, in a process of its own: Foundry's anvil, reached by JSON-RPC.

An operation of a stranger's contract may compute for as long as its gas allows, and its logs and
storage stay. In a process of its own that costs the gateway nothing: whatever the chain does,
signatures are routed. Bounds, per process:

=============  =====================================================================================
memory         transactions, logs, receipts and traces of the last ``KEPT_BLOCKS`` blocks, or of so
               many as have used ``KEPT_FULL_BLOCKS`` of gas; a user's transactions have
               ``GAS_OF_USER`` a day; one state; and ``MEMORY_BYTES`` in all (Linux), at which the
               process ends
time           ``jsonrpc.TIMEOUT_S`` for a call, as gas bounds what it computes; a process that then
               answers nothing else either in ``ALIVE_S`` is ended
cores          one, at a lower priority than everybody else's
=============  =====================================================================================

A process that ended is started again with the next call, as an empty chain; the service deploys its
contracts there anew (``NoContract``). Nothing on it is worth anything.
"""

from __future__ import annotations

import platform
import subprocess
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final

import httpx
from eth_typing import ChecksumAddress

from mpcsim.errors import UsageError
from mpcsim.service.process.process_lifetime import program_ending_with_parent
from mpcsim.service.smart_account.chain import contracts
from mpcsim.service.smart_account.chain.chain import DEFAULT_CHAIN_ID, Check
from mpcsim.service.smart_account.chain.jsonrpc import JsonRpcChain
from mpcsim.service.smart_account.errors import ChainTimeout, ChainUnavailable

HOST: Final = "127.0.0.1"
KEPT_BLOCKS: Final = 512
"""A block holds one transaction, or none."""
BLOCK_S: Final = 60
"""Between two blocks, if nobody sends anything: old ones make way in nine hours."""
GAS_OF_USER: Final = 30_000_000
"""Gas that each user's transactions may use in a day: some hundred operations. Their traces take up
to six bytes a unit of gas (calls that do nothing), so 180 MB of a day."""
KEPT_FULL_BLOCKS: Final = 4.0
"""Full blocks, of 30 million gas, whose gas the kept ones may have used in all: 720 MB of traces.
Beyond that empty blocks push the oldest out, whoever's they are: users together could otherwise use
up the memory, and with it everybody's accounts."""
MEMORY_BYTES: Final = 1 << 30
NICE: Final = 10
ALIVE_S: Final = 10.0
"""Seconds for an answer that takes no computing.

One caller who asks for much at a time must not end the chain of all others.
"""
STARTING_S: Final = 30.0
ENDING_S: Final = 10.0

_OPTIONS: Final = (
    *("--host", HOST, "--port", "0", "--no-cors"),
    *("--accounts", "0", "--hardfork", "cancun", "--threads", "1"),
    *("--mixed-mining", "--block-time", str(BLOCK_S)),
    *("--prune-history", "1", "--transaction-block-keeper", str(KEPT_BLOCKS)),
)


def executable() -> Path:
    """Return where anvil is installed (``mpcsim.service.smart_account.install``).

    Raises:
        UsageError: there is none for this platform.
    """
    packages = contracts.INSTALLED / "node_modules" / "@foundry-rs"
    found = sorted(packages.glob("anvil-*/bin/anvil"))
    if not found:
        raise UsageError(
            f"no chain: anvil is not installed ({platform.system()} {platform.machine()}); "
            "`make install` installs it, or CHAIN_RPC_URL and CHAIN_BUNDLER_KEY name another node"
        )
    return found[0]


class AnvilChain(JsonRpcChain):
    """The chain; for any number of threads.

    Raises:
        UsageError: anvil is not installed.
        ChainUnavailable: from any method: the process ended meanwhile.
        ChainTimeout: from any method: no answer in ``timeout_s``.
    """

    def __init__(
        self,
        balances: Mapping[ChecksumAddress, int],
        *,
        address_file: Path | None = None,
        **options: Any,
    ) -> None:
        """
        Args:
            balances: of an empty chain's accounts, in wei.
            address_file: file that names the process's address while it runs, for the faucet.
            options: of ``JsonRpcChain``.
        """
        self._command = [str(executable()), *_OPTIONS, "--chain-id", str(DEFAULT_CHAIN_ID)]
        self._balances = dict(balances)
        self._address_file = address_file
        self._process: subprocess.Popen[str] | None = None
        self._starting = threading.Lock()
        self._closed = False
        super().__init__("", **options)

    def request(self, method: str, *params: object) -> Any:
        process = self._ensure_running()
        try:
            return super().request(method, *params)
        except ChainTimeout:
            if not self._is_responsive():
                self._end(process)
            raise

    def send_raw(self, raw: bytes, check: Check | None = None) -> bytes:
        self._make_room()
        return super().send_raw(raw, check)

    def _make_room(self) -> None:
        """Push old blocks out until those that are kept, and a full next one, have used no more gas
        than they may."""
        ratios = self._ask(_gas_ratios, "eth_feeHistory", hex(KEPT_BLOCKS), "latest", [])
        used = 1.0
        for age, ratio in enumerate(reversed(ratios)):
            used += ratio
            if used > KEPT_FULL_BLOCKS and ratio:
                self.request("anvil_mine", hex(KEPT_BLOCKS - age))
                return

    def _is_responsive(self) -> bool:
        """Return whether the process answers anything; if so it is busy, no more."""
        try:
            self._post({"jsonrpc": "2.0", "id": 0, "method": "eth_chainId"}, ALIVE_S)
        except httpx.HTTPError:
            return False
        return True

    def close(self) -> None:
        """End the process. Any later call raises ``ChainUnavailable``."""
        with self._starting:
            self._closed = True
            process, self._process = self._process, None
        if process is not None:
            self._end(process)
            if self._address_file is not None:
                self._address_file.unlink(missing_ok=True)
        super().close()

    def _ensure_running(self) -> subprocess.Popen[str]:
        """Return the process, started if need be."""
        with self._starting:
            if self._closed:
                raise ChainUnavailable("the chain is closed")
            process = self._process
            if process is not None and process.poll() is not None:
                self._end(process)  # closes its pipes
                process = None
            if process is None:
                process = self._process = self._start()
            return process

    def _start(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            program_ending_with_parent(self._command, NICE, MEMORY_BYTES),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert process.stdout is not None
        impatient = threading.Timer(STARTING_S, self._end, [process])
        impatient.start()
        try:
            for line in process.stdout:
                if line.startswith("Listening on "):
                    self._url = "http://" + line.removeprefix("Listening on ").strip()
                    break
            else:
                self._end(process)
                raise ChainUnavailable("the chain's process does not start")
        finally:
            impatient.cancel()
        threading.Thread(target=_drain, args=[process.stdout], daemon=True).start()
        for address, balance in self._balances.items():
            super().request("anvil_setBalance", address, hex(balance))
        if self._address_file is not None:
            with suppress(OSError):  # a full disk takes no more than the faucet
                self._address_file.write_text(self._url)
        return process

    @staticmethod
    def _end(process: subprocess.Popen[str]) -> None:
        """End a process and wait until it is gone."""
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(ENDING_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _gas_ratios(history: Mapping[str, Any]) -> list[float]:
    """Return the shares of their gas that blocks have used, the oldest first."""
    return [float(ratio) for ratio in history["gasUsedRatio"]]


def _drain(output: IO[str]) -> None:
    """Read what anvil prints of each request, so that it never waits for a reader."""
    with output:
        for _ in output:
            pass

"""Benchmark of memory: a signing party in a process of its own."""

from __future__ import annotations

import subprocess
import sys

_PEAK = """
def peak():
    try:  # getrusage would count the parent's memory from before exec
        lines = open("/proc/self/status").read().splitlines()
        return next(line.split()[1] for line in lines if line.startswith("VmHWM"))
    except OSError:
        import resource
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
"""

_BASELINE = _PEAK + "print(peak())"

# One process holds one party; the other signer runs in the same process, so the figure is an
# upper bound. Key generation happens before, in another process.
_PARTY = (
    _PEAK
    + """
import sys
from mpcsim.protocols.key_share import KeyShare
from mpcsim.protocols import ecdsa
from mpcsim.protocols.local_run import results, run

shares = [KeyShare.from_bytes(bytes.fromhex(line)) for line in sys.stdin.read().split()]
print(peak())
for n in range(20):
    sid = bytes([n]) * 32
    results(run([ecdsa.party(ecdsa.setup(s, (1, 2), sid), session_id=sid) for s in shares]))
print(peak())
"""
)


def _run(script: str, text: str = "") -> list[float]:
    done = subprocess.run(
        [sys.executable, "-c", script], input=text, capture_output=True, text=True, check=True
    )
    return [int(line) / 1024 for line in done.stdout.split()]


def memory_figures(shares: tuple[bytes, bytes]) -> dict[str, float]:
    """Measure megabytes of peak resident memory.

    ``signing_memory_mb``: memory that twenty signatures add to a process that has imported the
    package and loaded its shares (both signers in it); ``import_memory_mb``: memory that importing
    adds to a bare interpreter, NumPy and the cryptographic libraries included.
    """
    (bare,) = _run(_BASELINE)
    loaded, signed = _run(_PARTY, "\n".join(share.hex() for share in shares))
    return {"signing_memory_mb": signed - loaded, "import_memory_mb": loaded - bare}

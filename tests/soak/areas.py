"""Areas of `make soak`: what each runs, and after which change to run it."""

from dataclasses import dataclass

CHROMIUM = "chromium"
NAMESPACES = "network namespaces"
ENGINE = "container engine"


@dataclass(frozen=True)
class Area:
    """Deep tests that belong together."""

    paths: tuple[str, ...] = ()
    """Test files and folders: their tests marked `soak`, and their Hypothesis tests."""
    command: tuple[str, ...] = ()
    """Or a module of Python with arguments, given `--minutes` and `--seed` besides."""
    after: str = ""
    """The changes after which to run it."""
    needs: str = ""
    """A part of the machine without which its tests are skipped."""
    alone: bool = False
    """Its tests share what one of them sets up: they run in one process."""
    outside: tuple[str, ...] = ()
    """Files in `paths` that are another area's."""


BROWSER = ("tests/lab/explorer/test_browser.py", "tests/lab/what_if/test_browser.py")
TCP = ("tests/sim/network",)

AREAS: dict[str, Area] = {
    "crypto": Area(
        ("tests/crypto", "tests/service/vault", "tests/test_errors.py"),
        after="groups, hashing, encoding, OT, MtA, vault",
    ),
    "protocols": Area(
        ("tests/protocols", "tests/property", "tests/examples"),
        after="rounds, messages, the party, snapshots",
    ),
    "attacks": Area(("tests/attacks",), after="a check, a trust boundary, the gallery itself"),
    "mpc_node": Area(
        ("tests/service/mpc_node", "tests/service/rpc"), after="an MPC node, its store, the wire"
    ),
    "gateway": Area(("tests/service/gateway",), after="sessions, activation, suspension, routing"),
    "service": Area(
        (
            *("tests/cli", "tests/service/process", "tests/service/operations"),
            *("tests/service/fault_injection", "tests/service/metrics"),
            *("tests/service/request_traces", "tests/service/test_error_codes.py"),
            *("tests/service/test_refusals_cost_no_more.py", "tests/service/test_precis.py"),
        ),
        after="start and stop, backup and restore, rotation, fault injection, logs, metrics",
    ),
    "campaign": Area(("tests/campaign",), after="whatever must survive kills, pauses, full disks"),
    "node": Area(("tests/node",), outside=BROWSER, after="the REST API and what it calls"),
    "smart_account": Area(
        ("tests/service/smart_account",), after="the ERC-4337 flow and its chain"
    ),
    "network": Area(
        TCP, after="TCP, links, presets, measured networks (ns-3, Linux)", needs=NAMESPACES
    ),
    "sim": Area(
        ("tests/sim", "tests/bench"), outside=TCP, after="runs, traces, replay, figures, sweeps"
    ),
    "capacity": Area(("tests/capacity",), after="the capacity model, its kernel, its costs"),
    "lab": Area(
        ("tests/lab", "tests/testing", "tests/notebooks", "tests/repo"),
        outside=BROWSER,
        after="explorer, test kit, documents",
    ),
    "browser": Area(BROWSER, after="widgets: explorer, what-if panel", needs=CHROMIUM),
    "containers": Area(
        ("tests/containers",),
        after="Dockerfile, compose.yml, an image's lock",
        needs=ENGINE,
        alone=True,
    ),
    "mutation": Area(command=("tests.mutation",), after="a check, or tests that were cut or moved"),
}

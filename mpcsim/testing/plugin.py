"""pytest plugin: options, fixtures and reports of tests of a wallet service.

    pytest -p mpcsim.testing.plugin --pyargs mpcsim.testing.suite \\
        --wallet-target http://127.0.0.1:9091 --wallet-gateway http://127.0.0.1:9090

The access tokens come from the gateway (with ``WAAS_API_KEY`` and ``WAAS_API_SECRET``), or from a
function of your own: ``--wallet-tokens package.module:function`` gets a user's name and returns a
token.

Own tests take the fixtures. To test another target than the address on the command line, override
``wallet_target``; without either, tests that take it are skipped. (The tests of the suite are not:
a user who names it wants something tested.) ::

    @pytest.fixture
    def wallet_target():
        with AsgiTarget(our_app, our_tokens, loggers=("our_app",)) as target:
            yield target

    def test_our_service(wallet_target, check_service):
        check_service(wallet_target, invariants=[ours])  # beside the kit's; see ``invariant``

What a service does otherwise on purpose goes into a file, each with its reason
(``known_deviations`` says what can be named), and is neither tested nor forgotten:
``--wallet-waivers waivers.toml``. ::

    health = "ours is a page for people"
    "sign_nonsense/answer_is_as_specified" = "we answer 422"

At the end of its report pytest says what was done: runs through the API, calls (requests), races
(several of them at the same time), and the seed that takes the same steps again; and how often each
waiver was needed.

A test in which an invariant breaks is reported by its steps, with a command that finds it again;
``--full-trace`` shows pytest's traceback and all captured output instead. Shares, tokens and
passwords are masked in the service's answers; passwords in the code that reproduces a failure are
those that the run was given, and the kit draws its own.

For tests of a backend there is a whole service with fault injection, the fixture ``wallet_service``
(``mpcsim.testing.wallet_plugin``).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NoReturn, Protocol, TextIO, cast

import pytest

from mpcsim.errors import UsageError
from mpcsim.service.error_codes import HEADER, Code
from mpcsim.testing.api_sequence import BrokenInvariant, is_broken_invariant
from mpcsim.testing.backend import known_deviations
from mpcsim.testing.backend.known_deviations import KnownDeviations
from mpcsim.testing.backend.service import Request
from mpcsim.testing.backend.target import HttpTarget, Target, TokenProvider, gateway_tokens
from mpcsim.testing.invariants import Invariant
from mpcsim.testing.machine.api_steps import ApiRun
from mpcsim.testing.machine.machine import check_wallet_service, fresh_seed
from mpcsim.testing.profile import PROFILES, QUICK, ROUND, Profile, Progress
from mpcsim.testing.report import again, replace_traceback

pytest_plugins = ["mpcsim.testing.wallet_plugin"]
__tracebackhide__ = is_broken_invariant

LONG_S: Final = 20.0
"""Longest budget without a progress bar."""
LONG_EXAMPLES: Final = 100
SHRINKING_S: Final = 600.0
"""Time for shrinking: Hypothesis takes 300 s at most."""

SUITE: Final = Path(__file__).resolve().with_name("suite.py")
NO_TARGET: Final = (
    "there is nothing to test: give the service's address with --wallet-target URL, and its users' "
    "tokens with --wallet-tokens MODULE:FUNCTION, or with --wallet-gateway URL and both "
    "WAAS_API_KEY and WAAS_API_SECRET in the environment; or override the fixture wallet_target"
)
DONE: Final = "wallet service"
"""Property of a test with its number of runs and calls, for the end of pytest's report."""
WAIVED: Final = "waived"
"""Property of a test with the known deviations that it needed, and how often."""

SET_UP: Final = pytest.StashKey[bool]()
"""Whether the service at the address has been called in this run."""

Note = Callable[[str, object], None]
"""pytest's ``record_property``."""


class CheckService(Protocol):
    """``check_wallet_service`` with profile, budget and seed of the command line."""

    def __call__(self, target: Target, invariants: Sequence[Invariant[...]] = ()) -> int: ...


Script = Callable[[], AbstractContextManager[ApiRun]]
"""Context manager of a run whose steps are written down in the test."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    group = parser.getgroup("wallet", "property-based tests of a wallet service")
    group.addoption(
        "--wallet-profile",
        choices=sorted(PROFILES),
        default=QUICK.name,
        help="how thoroughly to test (default %(default)s)",
    )
    group.addoption("--wallet-target", metavar="URL", help="base address of the service to test")
    group.addoption(
        "--wallet-gateway", metavar="URL", help="base address of the gateway that issues tokens"
    )
    group.addoption(
        "--wallet-tokens",
        metavar="MODULE:FUNCTION",
        help="a function from a user's name to an access token, in place of a gateway",
    )
    group.addoption("--wallet-examples", metavar="N", type=int, help="budget: runs through the API")
    group.addoption("--wallet-seconds", metavar="S", type=float, help="budget: time, in seconds")
    group.addoption(
        "--wallet-seed", metavar="N", type=int, help="take the steps of an earlier run again"
    )
    group.addoption(
        "--wallet-waivers",
        metavar="FILE",
        help='what the service does otherwise on purpose: a TOML file, NAME = "reason" a line',
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Raise the time limit of pytest-timeout for a long budget."""
    known_deviations_of(config)  # so that a mistake in them is reported at once
    seconds = profile_of(config).seconds
    if seconds is None or not config.pluginmanager.hasplugin("timeout"):
        return
    for item in items:
        if "check_service" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(seconds * 2 + SHRINKING_S))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Report a broken invariant by its steps, in place of a traceback."""
    report = yield
    error = call.excinfo.value if call.excinfo else None
    if isinstance(error, BrokenInvariant) and not item.config.getoption("fulltrace"):
        replace_traceback(item, report, error)
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the number of runs of the tests that passed, and the known deviations they needed."""
    said = [
        f"{report.location[2]}: {text}"
        for report in terminalreporter.getreports("passed")
        for name, text in report.user_properties
        if name == DONE
    ]
    needed = [
        met
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", "") == "teardown"
        for name, met in report.user_properties
        if name == WAIVED
    ]
    if needed:
        reasons = known_deviations_of(terminalreporter.config).reasons
        said += known_deviations.report_lines(reasons, sum(map(Counter, needed), Counter()))
    if said:
        terminalreporter.section(DONE)
    for line in said:
        terminalreporter.line(line)


def profile_of(config: pytest.Config) -> Profile:
    """Return the profile that the options choose.

    Raises:
        pytest.UsageError: a budget of nothing.
    """
    chosen = PROFILES[config.getoption("--wallet-profile")]
    try:
        return chosen.with_budget(
            config.getoption("--wallet-examples"), config.getoption("--wallet-seconds")
        )
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None


def known_deviations_of(config: pytest.Config) -> KnownDeviations:
    """Return the known deviations of the command line.

    Raises:
        pytest.UsageError: the file cannot be read, or one of them names nothing or has no reason.
    """
    path: str | None = config.getoption("--wallet-waivers")
    try:
        return ApiRun.to_known_deviations(known_deviations.read(path) if path else {})
    except (UsageError, OSError) as error:
        raise pytest.UsageError(f"--wallet-waivers {path}: {error}") from None


def tokens_of(config: pytest.Config) -> TokenProvider:
    """Return the token provider of the options.

    Raises:
        pytest.UsageError: the options name none, or wrongly.
    """
    named: str | None = config.getoption("--wallet-tokens")
    if named:
        module, _, function = named.partition(":")
        try:
            return cast(TokenProvider, getattr(import_module(module), function))
        except (ImportError, AttributeError, ValueError) as error:
            raise pytest.UsageError(f"--wallet-tokens {named}: {error}") from None
    gateway: str | None = config.getoption("--wallet-gateway")
    key, secret = os.environ.get("WAAS_API_KEY"), os.environ.get("WAAS_API_SECRET")
    if gateway and key and secret:
        return gateway_tokens(gateway, key, secret)
    raise pytest.UsageError(
        "--wallet-target needs tokens: --wallet-tokens MODULE:FUNCTION, or --wallet-gateway URL "
        "with WAAS_API_KEY and WAAS_API_SECRET in the environment"
    )


def stop(why: str) -> NoReturn:
    """End the whole run, for the reason that would fail each of its tests."""
    pytest.exit(why, pytest.ExitCode.USAGE_ERROR)


def check_is_set_up(target: HttpTarget, config: pytest.Config) -> None:
    """Call the service once in a run; end the run if it does not answer or lacks a setting."""
    if config.stash.get(SET_UP, False):
        return
    config.stash[SET_UP] = True
    try:
        token = target.token("probe")
    except UsageError as error:
        stop(str(error))
    (answer,) = target.ask([Request("GET", "/v3/wallet/user", token=token)])
    if not answer.status:
        stop(f"the service does not answer: {answer.text}")
    if answer.headers.get(HEADER.lower()) == Code.NOT_CONFIGURED.value:
        stop(f"the service lacks a setting: {answer.error}")


@pytest.fixture
def wallet_profile(request: pytest.FixtureRequest) -> Profile:
    """Profile of the command line."""
    return profile_of(request.config)


@pytest.fixture
def wallet_seed(request: pytest.FixtureRequest) -> int:
    """Seed of the command line, or another one each time."""
    given: int | None = request.config.getoption("--wallet-seed")
    return fresh_seed() if given is None else given


@pytest.fixture
def wallet_target(request: pytest.FixtureRequest) -> Iterator[Target]:
    """Service at the address of the command line. Override it.

    Without an address it skips, but for the tests of the suite: they end the run.
    """
    address: str | None = request.config.getoption("--wallet-target")
    if not address:
        if request.path.resolve() == SUITE:
            stop(NO_TARGET)
        pytest.skip("no --wallet-target")
    try:
        tokens = tokens_of(request.config)
    except pytest.UsageError as error:
        stop(str(error))
    with HttpTarget(address, tokens) as target:
        check_is_set_up(target, request.config)
        yield target


@pytest.fixture
def wallet_known_deviations(
    request: pytest.FixtureRequest, record_property: Note
) -> Iterator[KnownDeviations]:
    """Known deviations of the command line, for ``ApiRun``."""
    found = known_deviations_of(request.config)
    yield found
    if found.reasons:
        record_property(WAIVED, dict(found.use_counts))


@pytest.fixture
def wallet_script(
    wallet_target: Target, wallet_known_deviations: KnownDeviations, record_property: Note
) -> Script:
    """An ``ApiRun`` at the target, for steps that are written down."""

    @contextmanager
    def script() -> Iterator[ApiRun]:
        api = ApiRun(wallet_target, known_deviations=wallet_known_deviations)
        yield api
        made = Progress("runs")
        made.step(api.calls, api.races)
        record_property(DONE, str(made))

    return script


@pytest.fixture
def check_service(
    request: pytest.FixtureRequest,
    wallet_profile: Profile,
    wallet_seed: int,
    wallet_known_deviations: KnownDeviations,
    record_property: Note,
) -> CheckService:
    """``check_wallet_service`` with profile, budget, seed and known deviations of the command
    line."""

    def check(target: Target, invariants: Sequence[Invariant[...]] = ()) -> int:
        progress = _progress(request, wallet_profile)
        try:
            check_wallet_service(
                target,
                wallet_profile,
                seed=wallet_seed,
                progress=progress,
                invariants=invariants,
                known_deviations=wallet_known_deviations,
            )
        except BrokenInvariant as broken:
            if (failure := broken.failure) is not None and failure.seed is not None:
                runs = wallet_profile.examples if wallet_profile.seconds is None else ROUND
                budget = [f"--wallet-examples={runs}"]
                failure.notes.append(again(request, failure.seed, budget))
            raise
        seed = f"--wallet-seed={wallet_seed}"
        again_with = f"the same steps again: {seed}, with the same profile and budget"
        record_property(DONE, f"{progress}; {again_with}")
        return progress.done

    return check


def _progress(request: pytest.FixtureRequest, profile: Profile) -> Progress:
    """Return a progress bar on the terminal, past pytest's capturing, if the run will be long."""
    terminal: Any = request.config.get_terminal_writer()
    if not _is_long(profile) or not terminal.isatty:
        return Progress("runs")
    total = profile.examples if profile.seconds is None else None
    return Progress("runs", total, cast(TextIO, _Terminal(terminal)))


def _is_long(profile: Profile) -> bool:
    if profile.seconds is not None:
        return profile.seconds > LONG_S
    return profile.examples > LONG_EXAMPLES


class _Terminal:
    """Stream over pytest's terminal writer, as far as tqdm needs one."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def write(self, text: str) -> None:
        self._writer.write(text, flush=True)

    def flush(self) -> None:
        self._writer.flush()

    def isatty(self) -> bool:
        return bool(self._writer.isatty)

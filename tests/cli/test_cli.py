"""The ``mpcsim`` command, and the system it starts."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, nullcontext
from functools import partial
from pathlib import Path

import click
import httpx
import pytest

from mpcsim.cli import main, ports, program
from mpcsim.cli.command import Command, Options
from mpcsim.cli.service import gateway as gateway_command
from mpcsim.cli.service import serve as serve_command
from mpcsim.cli.simulate.demo import life
from mpcsim.errors import UsageError
from mpcsim.ids import CLIENT, ROLES
from mpcsim.platforms import require_posix
from mpcsim.service.operations import HOST, free_port, open_gateway
from mpcsim.service.operations.supervisor import gateway_program
from mpcsim.service.process.http_limits import listen
from mpcsim.service.rpc.tokens import TokenVerifier
from tests.helpers.processes import PORTS
from tests.helpers.reviewed import check_reviewed
from tests.node.harness import running as in_process

COPY = Path(__file__).with_name("options.txt")
TOLD = (
    *("metavar", "default", "param_type", "func", "min", "min_open", "max", "max_open", "nargs"),
    *("required", "multiple", "is_flag", "exists", "file_okay", "dir_okay", "writable"),
)
CHOSEN = (
    *("--queue=3", "--token-lifetime=7", "--lease=9", "--link-timeout=4", "--making-limit=2"),
    *("--making-queue=7", "--making-wait=3.5", "--limit-guesses=5", "--limit-recoveries=3/86400s"),
    *("--limit-signatures=20/0.5s", "--forwarding=stream", "--network=seoul,loss=0.1"),
)
LIFE = ["generate", *["sign"] * 3, "recover", *["sign"] * 3]
SLOW, FAST = ("secp256k1", "sign"), ("ed25519", "sign")


def test_the_help_and_completions_load_neither_the_service_nor_the_simulator():
    """As options' defaults come from small modules, and the rest is imported when it is run."""
    heavy = ("aiohttp", "fastapi", "httpx", "jwt", "matplotlib", "numba", "pandas", "sqlite3")
    code = f"""
import os, sys
from mpcsim.cli import main, program
assert main(["--help"]) == 0
os.environ |= {{"_MPCSIM_COMPLETE": "bash_complete", "COMP_CWORD": "1", "COMP_WORDS": "mpcsim c"}}
main([])
del os.environ["_MPCSIM_COMPLETE"]
print(*[m for m in sys.modules if m.startswith(("numpy", "mpcsim.service"))], file=sys.stderr)
for name in program().entries:
    assert main([name, "--help"]) == 0
loaded = [m for m in sys.modules if m.startswith(("mpcsim.", "node."))]
print(*(set({heavy}) & set(sys.modules)), *loaded[220:], file=sys.stderr)"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stderr == "\n\n"
    completions = "\nplain,credentials\nplain,compare\nplain,capacity\nplain,control\n"
    assert f"{completions}plain,calibrate\n" in ended.stdout


def test_serve_passes_on_every_option_of_the_gateway():
    options = gateway_command.gateway_options()

    def parsed(words: list[str]) -> Options:
        context = click.Command("gateway", params=options, add_help_option=False)
        return Options(**context.make_context("gateway", words).params)

    chosen, default = parsed(["--host=::1", *CHOSEN]), parsed([])
    assert all(vars(chosen)[name] != value for name, value in vars(default).items())
    assert parsed(["--host=::1", *gateway_command.given(chosen)]) == chosen


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Address and data folder of a gateway in this process, behind a socket."""
    data = tmp_path_factory.mktemp("served")
    with closing(open_gateway(data)) as gateway, in_process(gateway.app) as api:
        yield str(api.client.base_url), data


def test_token_prints_the_token_alone(served, capsys, monkeypatch):
    address, data = served
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    tokens = []
    for _ in range(2):  # the second time the user is there already
        assert main(["token", "carol", "--gateway", address, "--data", str(data)]) == 0
        out, err = capsys.readouterr()
        assert not err
        tokens.append(out.removesuffix("\n"))
        assert re.fullmatch(r"[\w-]+\.[\w-]+\.[\w-]+", tokens[-1])
    jwks = httpx.get(f"{address}/.well-known/jwks.json", trust_env=False).json()
    claims = [TokenVerifier(jwks, "node").verify(token) for token in tokens]
    assert {claim.username for claim in claims} == {"carol"}
    assert len({claim.user_id for claim in claims}) == 1


def test_credentials_print_a_log_in_that_works(served, capsys):
    address, data = served
    assert main(["credentials", "--gateway", address, "--data", str(data)]) == 0
    script = capsys.readouterr().out.replace(address, f"--noproxy '*' {address}")
    said = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout
    signed_up, logged_in = said.replace("}{", "}\n{").splitlines()
    assert json.loads(signed_up)["username"] == "alice"
    assert json.loads(logged_in)["access_token"].count(".") == 2
    assert main(["credentials", "--format=env", "--data", str(data)]) == 0
    assert [line.partition("=")[0] for line in capsys.readouterr().out.splitlines()] == [
        *("WAAS_API_KEY", "WAAS_API_SECRET")
    ]


@pytest.mark.parametrize("trouble", ["guessed", "of another gateway", "of one that is gone"])
def test_credentials_that_give_no_token(served, tmp_path, monkeypatch, capsys, trouble):
    address, data = served
    told = {"guessed": ["login"], "of one that is gone": ["gateway at http", "does it run"]}
    if trouble == "guessed":
        monkeypatch.setenv("WAAS_API_KEY", "somebody")
        monkeypatch.setenv("WAAS_API_SECRET", "guesses")
    elif trouble == "of one that is gone":
        address = f"http://{HOST}:{free_port()}"
    else:
        data = tmp_path
        open_gateway(data).close()
    assert main(["token", "carol", "--gateway", address, "--data", str(data)]) == 2
    err = capsys.readouterr().err
    for word in told.get(trouble, [address, "data folder", "MPCSIM_DATA"]):
        assert word in err


@pytest.mark.parametrize(
    "command", ["from mpcsim.cli import main", "from node.__main__ import main"]
)
def test_windows_is_refused_in_one_sentence(command):
    """Before anything is imported that is not there."""
    windows = "sys.platform = 'win32'; sys.modules |= {'fcntl': None, 'uvloop': None}"
    program = [sys.executable, "-c", f"import click, sys; {windows}; {command}; sys.exit(main())"]
    ended = subprocess.run(program, capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode in (1, 2)
    assert re.fullmatch(r"(mpcsim: error|node): [^\n]*Linux and macOS[^\n]*\n", ended.stderr)


def test_an_error_before_any_command_is_one_sentence(monkeypatch, capsys):
    monkeypatch.setattr("mpcsim.cli.require_posix", partial(require_posix, "win32"))
    assert main(["sim"]) == 2
    assert re.fullmatch(r"mpcsim: error: .*WSL\n", capsys.readouterr().err)


def test_a_negative_number_is_a_value():
    given = []
    number = click.Argument(["number"], nargs=-1)
    command = Command("add", lambda options: given.append(options.number) or 0, [number])
    for words in (["1", "-60"], ["-.5"]):
        with command.make_context("add", words) as context:
            command.invoke(context)
    assert given == [("1", "-60"), ("-.5",)]
    with pytest.raises(click.NoSuchOption):
        command.make_context("add", ["1", "--sixty"])


@pytest.mark.parametrize(("text", "right"), [("0", 0), ("1", 1), ("65535", 1), ("65536", 0)])
def test_a_port_is_a_number_from_1_to_65535(text, right, monkeypatch):
    monkeypatch.setenv("GATEWAY_PORT", text)
    with nullcontext() if right else pytest.raises(UsageError, match="GATEWAY_PORT"):
        assert ports.gateway_port() == int(text)


def test_serve_says_which_ports_are_taken(monkeypatch, capsys, tmp_path):
    names = ("GATEWAY_PORT", "APP_PORT", "METRICS_PORT", "--control")
    with ExitStack() as open_sockets:
        for variable in PORTS:
            monkeypatch.setenv(variable, str(free_port()))
        sockets = [open_sockets.enter_context(listen(HOST, 0)) for _ in names]
        ports = {name: each.getsockname()[1] for name, each in zip(names, sockets, strict=True)}
        for variable, port in ports.items():
            monkeypatch.setenv(variable, str(port))
        control = f"--control={ports['--control']}"
        assert main(["serve", "--metrics", control, "--data", str(tmp_path)]) == 2
    err = capsys.readouterr().err
    for variable, port in ports.items():
        assert f"port {port}: Address already in use; {variable}=... picks" in err


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "http://127.0.0.1:9"),
        ("0.0.0.0", "http://127.0.0.1:9"),
        ("::", "http://[::1]:9"),
        ("192.0.2.1", "http://192.0.2.1:9"),
    ],
)
def test_where_a_program_is_reached(host, address):
    assert gateway_program(9, "data", host=host).address == address


@pytest.mark.soak
def test_demo_goes_through_a_wallets_life(capsys):
    assert main(["demo", "--network", "seoul", "--signer", "institution"]) == 0
    out = capsys.readouterr().out
    assert "signing with the institution" in out
    rows = re.findall(r"^(secp256k1|ed25519) +(generate|sign|recover)((?: +[\d.]+)+)$", out, re.M)
    assert [what for _, what, _ in rows] == 2 * LIFE
    # call, vault, compute, and as many rounds as the protocols have
    assert {len(ms.split()) for curve, what, ms in rows if (curve, what) == SLOW} == {5}
    assert {len(ms.split()) for curve, what, ms in rows if (curve, what) == FAST} == {4}
    assert "seoul" in out


def test_the_demo_signs_with_whom_it_is_told_to():
    asked = []

    def answer(request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        asked.append((request.url.path, body.get("signer"), body.get("message")))
        share = ("key_id", "encrypted_share", "secret_store", "public_key")
        return httpx.Response(200, json=dict.fromkeys(share, ""))

    with httpx.Client(transport=httpx.MockTransport(answer), base_url="http://node") as http:
        life(http, "ed25519", "institution")
    signed = [each for path, *each in asked if path.endswith("/sign")]
    assert [signer for signer, _ in signed] == ["institution"] * 6
    assert len({message for _, message in signed}) == 3


def options() -> Iterator[str]:
    """Every command with its arguments and options: how they are read, not their help."""
    found = [click.Context(program(), info_name="mpcsim")]
    for context in found:
        if isinstance(group := context.command, click.Group):
            found += [
                click.Context(group.get_command(context, name), context, info_name=name)
                for name in group.list_commands(context)
            ]
        assert context.command.help, context.command_path
        yield f"{context.command_path} {' '.join(context.command.collect_usage_pieces(context))}"
        for each in context.command.params:
            assert isinstance(each, click.Argument) or each.help, f"{context.command_path} {each}"
            told = each.to_info_dict()
            told |= told.pop("type") | {"metavar": each.make_metavar(context)}
            shown = ", ".join(
                f"{name} {getattr(told[name], '__name__', told[name])}"
                for name in TOLD
                if told.get(name) is not None and told[name] is not False
            )
            yield f"  {' '.join([*each.opts, *each.secondary_opts])}: {shown}"


def test_options_are_as_written_down():
    check_reviewed(options(), COPY)


def test_the_ports_are_those_that_the_help_says(monkeypatch):
    for name in ("GATEWAY", "OPERATOR", "INSTITUTION"):
        monkeypatch.delenv(f"{name}_PORT", raising=False)
    assert f"Port to listen on. Default: {ports.gateway_port()}." in gateway_command.VARIABLES
    for party, name in ROLES.items():
        if party != CLIENT:
            said = f"{name.upper()}_PORT ({ports.mpc_node_port(party)})"
            assert said in " ".join(gateway_command.VARIABLES.split())


def test_metrics_ports_are_nobodys_unless_asked_for(monkeypatch):
    monkeypatch.delenv("METRICS_PORT", raising=False)
    asked, unasked = (Options(metrics=metrics) for metrics in (True, False))
    assert serve_command._metrics_ports(unasked) == {}
    names = ["node", "gateway", "operator", "institution"]
    assert serve_command._metrics_ports(asked) == dict(zip(names, range(9100, 9104), strict=True))
    monkeypatch.setenv("METRICS_PORT", "65532")
    assert [*serve_command._metrics_ports(unasked).values()] == [*range(65532, 65536)]

"""Chain in a process of its own: bounded, ended, and started again."""

import os
import signal
from pathlib import Path

import pytest

from mpcsim.cli import main
from mpcsim.crypto.rng import SeededRng
from mpcsim.service.operations import chain_file
from mpcsim.service.operations.supervisor import free_port
from mpcsim.service.smart_account import setup
from mpcsim.service.smart_account.chain import anvil, contracts
from mpcsim.service.smart_account.chain.transactions import TransactionSender
from mpcsim.service.smart_account.client.client import ServiceTransport, SmartAccountClient
from mpcsim.service.smart_account.endpoints import Endpoint
from mpcsim.service.smart_account.errors import ChainTimeout, ChainUnavailable, NoContract
from tests.helpers.anvil import needs_anvil
from tests.helpers.processes import until

RICH = setup.account(SeededRng("rich").bytes(32))
SOMEBODY = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"

pytestmark = needs_anvil


@pytest.fixture
def chain():
    made = anvil.AnvilChain({RICH.address: 10**20})
    yield made
    made.close()


def test_a_call_that_is_not_answered_ends_the_process(chain, monkeypatch):
    monkeypatch.setattr(anvil, "ALIVE_S", 0.3)
    before = chain._process
    pid = _pid_of_anvil(chain)
    os.kill(pid, signal.SIGSTOP)
    until(lambda: "(stopped)" in Path(f"/proc/{pid}/status").read_text())
    chain._timeout_s = 0.3
    with pytest.raises(ChainTimeout):
        chain.fees()
    assert before.poll() is not None
    chain._timeout_s = 10.0
    assert chain.fees().priority > 0
    assert chain._process is not before


def test_a_call_that_computes_for_long_ends_nothing(chain):
    """Else whoever asks for much at a time takes the chain from everybody."""
    # Until the gas is used up: MODEXP (address 5) of one byte, with an exponent of 512.
    lengths = b"".join(n.to_bytes(32, "big") for n in (1, 512, 1))
    data = lengths + b"\xff" * 514
    code = bytes.fromhex("61026260165f395b5f5f6102625f60055afa50600756") + data
    sender = TransactionSender(chain, RICH)
    made = sender.execute(None, bytes.fromhex("61027880600a5f395ff3") + code, gas=3_000_000)
    before, chain._timeout_s = chain._process, 0.1
    with pytest.raises(ChainTimeout):
        chain.call(made.contract_address, b"")
    chain._timeout_s = 10.0
    assert chain.code(made.contract_address) == code
    assert chain._process is before


def test_a_closed_chain_has_no_process(chain):
    pid = _pid_of_anvil(chain)
    chain.close()
    until(lambda: not os.path.exists(f"/proc/{pid}"))
    with pytest.raises(ChainUnavailable, match="closed"):
        chain.fees()


def test_a_service_goes_on_with_an_empty_chain(new_owner):
    service = setup.over_own_process(rng=SeededRng("service on anvil"))
    try:
        owner = new_owner("owner on anvil")
        client = SmartAccountClient(ServiceTransport(service))
        flow = client.begin(owner.address, to=SOMEBODY, value=0, sponsored=True)
        assert client.run(flow, owner.sign)["status"] == "included"
        os.kill(_pid_of_anvil(service.chain), signal.SIGKILL)
        until(lambda: service.chain._process.poll() is not None)
        with pytest.raises(NoContract):
            service.answer(Endpoint.NONCE, {"address": owner.address})
        renewed = service.renew()  # with what has been spent, since it may have been begun often
        assert renewed._budget._spent == service._budget._spent != {}
        assert renewed._gas_budget._spent == service._gas_budget._spent != {}
        assert renewed._gas_budget.wei == anvil.GAS_OF_USER
        assert renewed.answer(Endpoint.NONCE, {"address": owner.address}) == {"nonce": "0x0"}
    finally:
        service.chain.close()


@pytest.mark.parametrize(("blocks", "full"), [(4, 4.0), (512, 1.0021)])
def test_old_blocks_are_given_up(chain, monkeypatch, blocks, full):
    """What a chain keeps of the past is a matter of a number of blocks, and of the gas that they
    have used: some three transfers', however many users' they are."""
    chain.close()
    monkeypatch.setattr(anvil, "_OPTIONS", (*anvil._OPTIONS[:-1], str(blocks)))
    monkeypatch.setattr(anvil, "KEPT_FULL_BLOCKS", full)
    kept = anvil.AnvilChain({RICH.address: 10**20})
    try:
        sender = TransactionSender(kept, RICH)
        hashes = [sender.pay(SOMEBODY, 1).transaction_hash for _ in range(12)]
        assert [kept.receipt(each) is None for each in hashes[:8]] == [True] * 8
        assert kept.receipt(hashes[-1]) is not None
        assert kept.balance(SOMEBODY) == 12
    finally:
        kept.close()


def test_the_faucet_gives_coins_on_this_chain_alone(tmp_path, capsys):
    file = chain_file(tmp_path)
    file.parent.mkdir()
    ask = ["faucet", SOMEBODY, "--data", str(tmp_path), "--coins"]
    chain = anvil.AnvilChain({}, address_file=file)
    for coins in ("2", "0.5"):
        assert main([*ask, coins]) == 0
    assert chain.balance(SOMEBODY) == 25 * 10**17
    assert main(["faucet", "0x12", "--data", str(tmp_path)]) == 2
    chain.close()
    assert main([*ask, "1"]) == 2
    file.write_text(f"http://127.0.0.1:{free_port()}")  # of one that was killed
    assert main([*ask, "1"]) == 2
    said = capsys.readouterr()
    assert said.out == f"{SOMEBODY} has 2 coins\n{SOMEBODY} has 2.5 coins\n"
    assert "address: not an address" in said.err
    assert said.err.count(f"no gateway of {file.parent} runs a chain of its own") == 2


def test_without_anvil_it_is_said_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setattr(contracts, "INSTALLED", tmp_path)
    with pytest.raises(Exception, match="CHAIN_RPC_URL"):
        anvil.executable()


def _pid_of_anvil(chain):
    """The node itself is the child of the process that ends with its starter."""
    pid = chain._process.pid
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])

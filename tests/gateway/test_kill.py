"""The gateway's process is killed at random moments and started again on the same folder."""

import asyncio
import random

import httpx
import pytest

from mpcsim.cli.token import credentials
from mpcsim.system import access_token, free_port, gateway_program, running
from tests.helpers.gateway import Client

USERS = 8


class Wallet:
    """A user, and what may be relied on: a key that was there once is there for ever."""

    def __init__(self, name, curve):
        self.name = name
        self.curve = curve
        self.given = []
        self.public_key = None

    def client(self, http, token):
        client = Client(http, token)
        client.given = self.given
        return client

    async def work(self, client):
        """Generate or recover; the gateway goes away under way, or has just come to an end."""
        share = await (client.recover if self.public_key else client.generate)(self.curve)
        self.public_key = share.public_key.encode()


async def until_killed(processes, wallets, address, tokens, kill_after_s):
    """All wallets work at once. Some come to an end before the process is killed."""
    async with httpx.AsyncClient(base_url=address, trust_env=False, timeout=30) as http:
        clients = [
            wallet.client(http, token) for wallet, token in zip(wallets, tokens, strict=True)
        ]
        works = [
            asyncio.create_task(wallet.work(client))
            for wallet, client in zip(wallets, clients, strict=True)
        ]
        await asyncio.sleep(kill_after_s)
        processes.kill("gateway")
        ends = await asyncio.gather(*works, return_exceptions=True)
    for end in ends:
        assert end is None or isinstance(end, httpx.TransportError), end
    return sum(end is None for end in ends)


async def check(wallets, address, tokens):
    """Every user has a working key or can make one; never a false 409, never a lost key."""
    async with httpx.AsyncClient(base_url=address, trust_env=False, timeout=30) as http:

        async def check_one(wallet, token):
            client = wallet.client(http, token)
            share = await client.check_consistent(wallet.curve, wallet.public_key)
            wallet.public_key = share.public_key.encode()

        await asyncio.gather(*map(check_one, wallets, tokens))


def kill_again_and_again(folder, kills, seed, curves, horizon_s):
    """Kill ``kills`` times, after ``horizon_s`` at most; how many users had finished, each time."""
    rng = random.Random(seed)
    wallets, finished = [], []
    with running() as processes:
        for number in range(kills + 1):
            program = gateway_program(free_port(), ["--data", str(folder)])
            processes.start(program, quiet=True)
            known = credentials(folder)

            def tokens(program=program, known=known):
                for wallet in wallets:
                    yield access_token(
                        program.address, known.api_key, known.api_secret, wallet.name
                    )

            asyncio.run(check(wallets, program.address, list(tokens())))
            if not wallets or rng.random() < 0.6:  # the others recover
                names = [f"user {number} {n}" for n in range(USERS)]
                wallets = [Wallet(name, rng.choice(curves)) for name in names]
            work = until_killed(
                processes, wallets, program.address, list(tokens()), rng.uniform(0, horizon_s)
            )
            finished.append(asyncio.run(work))
    return finished


def test_killed_at_random_moments(tmp_path):
    """Every kill strikes eight users at moments of their own."""
    kill_again_and_again(tmp_path, 4, seed=1, curves=["ed25519"], horizon_s=0.4)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("curves", "horizon_s"), [(["ed25519"], 0.4), (["secp256k1"], 4.0)])
def test_killed_many_times(tmp_path, curves, horizon_s):
    finished = kill_again_and_again(tmp_path, 40, 2, curves, horizon_s)
    assert any(0 < users < USERS for users in finished), "kills strike under way"

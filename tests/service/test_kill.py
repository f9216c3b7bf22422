"""Gateway and MPC nodes are killed at random moments and started again on the same folder."""

import asyncio
import random

import httpx
import pytest

from mpcsim.cli.token import credentials
from mpcsim.system import access_token, backend, running
from tests.helpers.gateway import Client

pytestmark = pytest.mark.soak  # Processes are started and killed: seconds each.

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


async def until_killed(processes, wallets, address, tokens, answers, delay_s):
    """All wallets work at once. The process is killed ``delay_s`` after so many answers, or when
    nobody has anything left to do."""
    to_come, enough = answers, asyncio.Event()

    async def count(response):
        nonlocal to_come
        to_come -= 1
        if to_come <= 0:
            enough.set()

    hooks = {"response": [count]}
    async with httpx.AsyncClient(
        base_url=address, trust_env=False, timeout=60, event_hooks=hooks
    ) as http:
        works = [
            asyncio.create_task(wallet.work(wallet.client(http, token)))
            for wallet, token in zip(wallets, tokens, strict=True)
        ]
        waiting = asyncio.create_task(enough.wait())
        everything = asyncio.gather(*works, return_exceptions=True)
        await asyncio.wait([waiting, everything], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        await asyncio.sleep(delay_s)
        for name in ("gateway", "operator", "institution"):
            processes.kill(name)
        for end in await everything:
            assert end is None or isinstance(end, httpx.TransportError), end


async def check(wallets, address, tokens):
    """Every user has a working key or can make one; never a false 409, never a lost key."""
    async with httpx.AsyncClient(base_url=address, trust_env=False, timeout=30) as http:

        async def check_one(wallet, token):
            client = wallet.client(http, token)
            share = await client.check_consistent(wallet.curve, wallet.public_key)
            wallet.public_key = share.public_key.encode()

        await asyncio.gather(*map(check_one, wallets, tokens))


def logged_in(wallets, folder, program):
    """A token for every wallet's user."""
    known = credentials(folder)
    return [
        access_token(program.address, known.api_key, known.api_secret, wallet.name)
        for wallet in wallets
    ]


def kill_again_and_again(folder, kills, seed, curve):
    rng = random.Random(seed)
    wallets = []
    with running() as processes:
        for number in range(kills + 1):
            *mpc_nodes, program = backend(folder)
            processes.start(*mpc_nodes, program, quiet=True)
            asyncio.run(check(wallets, program.address, logged_in(wallets, folder, program)))
            if number == kills:
                break
            if not wallets or rng.random() < 0.6:  # the others recover
                wallets = [Wallet(f"user {number} {n}", curve) for n in range(USERS)]
            tokens = logged_in(wallets, folder, program)
            # Making a key takes four requests at most.
            answers, delay_s = rng.randrange(4 * USERS + 1), rng.uniform(0, 0.02)
            work = until_killed(processes, wallets, program.address, tokens, answers, delay_s)
            asyncio.run(work)


def test_killed_at_random_moments(tmp_path):
    """Every kill strikes eight users at moments of their own."""
    kill_again_and_again(tmp_path, 2, seed=1, curve="ed25519")


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("curve", "kills"), [("ed25519", 10), ("secp256k1", 5)])
def test_killed_many_times(tmp_path, curve, kills):
    kill_again_and_again(tmp_path, kills, 2, curve)

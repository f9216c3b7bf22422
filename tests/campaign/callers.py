"""Those who call the service: each for one key, over HTTP, and no answer goes unchecked."""

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Iterable, Sequence
from contextlib import asynccontextmanager

import httpx

from tests.campaign.model import Key, Share, Violation
from tests.campaign.service import ALL, NODE, Service

LEASE_S = 5.0
"""How long a caller who has vanished may keep others from a key; the gateway's default."""
ALLOWANCE_S = 6.0
"""For a machine that has other things to do."""
STUCK_S = LEASE_S + 1.0 + ALLOWANCE_S
"""Nobody is stuck for longer, once the service answers again."""
LATER_S = 0.1
"""How long after a call's end something goes wrong, at most: others are in the middle of theirs."""
LATEST_S = 10.0
"""When something goes wrong at the latest, however few calls have succeeded."""
PAUSE_S = 0.2
"""Between two attempts."""
PATIENCE_S = 60.0
"""How long a caller waits for an answer, unless something else is said."""
SIGNERS = ("operator", "institution")


class Caller:
    """A backend that calls for one key."""

    def __init__(self, http: httpx.AsyncClient, token: str, key: Key) -> None:
        self.key = key
        self.password = f"password {os.urandom(8).hex()}"
        self.patience_s = PATIENCE_S
        self.done = 0
        """Calls that have succeeded since this work was begun."""
        self.in_doubt = 0
        """Makings of which nobody told how they ended."""
        self.token = token
        self.under_way: Counter[str] = Counter()
        """Calls that have been sent and not been answered, by path."""
        self._http = http

    # ------------------------------------------------------------------ calls

    async def make(self) -> httpx.Response | None:
        """Generate the key, or recover it; None if the answer is lost.

        A 502 or 504 leaves the outcome open; any other error is that of a call that came to
        nothing.
        """
        known = self.key.public_key is not None
        making = self.key.begin()
        body = {"curve": self.key.curve, "password": self.password}
        answer = await self.call("POST", "/recover" if known else "/generate", body)
        if answer is None or answer.status_code in (502, 504):
            self.key.unknown()
            self.in_doubt += 1
        elif answer.is_success:
            self.key.received(making, answer.json())
        elif answer.status_code not in (409, 500):
            raise self._unexpected(answer)
        return answer

    async def sign(self, share: Share, signer: str | None = None) -> httpx.Response | None:
        """Sign anything with a share; None if the answer is lost."""
        message, retired = os.urandom(32), share["key_id"] in self.key.retired
        members = ("key_id", "encrypted_share", "secret_store", "curve")
        body = {name: share[name] for name in members} | {"message": message.hex()}
        answer = await self.call("POST", "/sign", body | ({"signer": signer} if signer else {}))
        if answer is not None and answer.is_success:
            self.key.signed(share["key_id"], retired, message, answer.json()["signature"])
        return answer

    async def call(
        self, method: str, path: str, body: dict[str, str] | None = None
    ) -> httpx.Response | None:
        """Any call, with the token; None if the answer is lost. Errors have their one form."""
        self.under_way[path] += 1
        try:
            answer = await self._http.request(
                method,
                f"/v3/wallet{path}",
                json=body,
                headers={"Authorization": f"Bearer {self.token}"},
                timeout=self.patience_s,
            )
        except httpx.TransportError:
            return None
        finally:
            self.under_way[path] -= 1
        if not answer.is_success:
            said = answer.json()
            if list(said) != ["error"] or not said["error"] or "\n" in said["error"]:
                raise self._unexpected(answer)
        return answer

    # ------------------------------------------------------------------ while things go wrong

    async def work(self, rng: random.Random, over: asyncio.Event) -> None:
        """One call after the other, of those that make sense."""
        while not over.is_set():
            if not self.key.shares or rng.random() < 0.6:
                answer = await self.make()
            else:
                answer = await self.sign(list(self.key.shares.values())[-1])
            if answer is not None and answer.status_code in (400, 401):
                raise self._unexpected(answer)
            if answer is not None and answer.is_success:
                self.done += 1
            else:
                await asyncio.sleep(PAUSE_S / 10)

    # ------------------------------------------------------------------ once all is well again

    async def check(self, *, anew: bool = False) -> None:
        """The key signs with both MPC nodes before anybody is stuck; nothing replaced does.

        If nobody has the share in force, it is recovered; if there is no key, it is made.

        Args:
            anew: recover it, or make it, in any case.
        """
        deadline = time.monotonic() + STUCK_S
        signers = list(SIGNERS)
        while signers:
            listed = await self.call("GET", "/key")
            if listed is None or not listed.is_success:
                raise self._unexpected(listed)
            share = self.key.registered(self.of_curve(listed))
            if share is None or anew:
                answer = await self.make()
                anew = anew and not (answer and answer.is_success)
            else:
                answer = await self.sign(share, signers[0])
                if answer is not None and answer.is_success:
                    signers.pop(0)
            if answer is None or not (answer.is_success or _in_the_way(answer)):
                raise self._unexpected(answer)
            if not answer.is_success:
                if time.monotonic() > deadline:
                    raise Violation(f"{self.key.user} is stuck: {answer.text}")
                await asyncio.sleep(PAUSE_S)
        for old in [s for k, s in self.key.shares.items() if k in self.key.retired]:
            answer = await self.sign(old)
            if answer is None or answer.status_code != 404:
                raise self._unexpected(answer)

    def of_curve(self, listed: httpx.Response) -> Share | None:
        """This key's entry in an answer to ``GET /v3/wallet/key``."""
        keys = listed.json()["keys"]
        return next((key for key in keys if key["curve"] == self.key.curve), None)

    def _unexpected(self, answer: httpx.Response | None) -> Violation:
        said = "no answer" if answer is None else f"{answer.status_code} {answer.text}"
        return Violation(f"{self.key.curve} key of {self.key.user}: {said}")


def _in_the_way(answer: httpx.Response) -> bool:
    """Whether somebody else is at it, or has just been."""
    upstream = answer.status_code == 500 and "Upstream returned 409" in answer.text
    return upstream or answer.status_code in (404, 409)


class Crowd:
    """All callers of a service, old and new."""

    def __init__(self, service: Service, http: httpx.AsyncClient, rng: random.Random) -> None:
        self.service = service
        self.rng = rng
        self.callers: list[Caller] = []
        self.struck: Counter[str] = Counter()
        """Calls that were under way when processes were ended, by path."""
        self._http = http

    def join(self, curve: str, number: int) -> list[Caller]:
        """New users, each with a caller."""
        begin = len(self.callers)
        names = [f"user-{n}" for n in range(begin, begin + number)]
        new = [Caller(self._http, self.service.token(name), Key(name, curve)) for name in names]
        self.callers += new
        return new

    @asynccontextmanager
    async def at_work(
        self, callers: Sequence[Caller], patience_s: float = PATIENCE_S
    ) -> AsyncIterator[None]:
        """Two calls at a time for each key. The block begins at a random moment, with calls under
        way; no others begin then, and these have ended when it is left."""
        enough, delay_s = self.rng.randrange(2 * len(callers)), self.rng.uniform(0, LATER_S)
        print(f"after {enough} calls and {delay_s:.3f} s")
        over = asyncio.Event()
        for caller in callers:
            caller.patience_s, caller.done = patience_s, 0
        works = [caller.work(self.rng, over) for caller in callers for _ in range(2)]
        working = asyncio.ensure_future(together(works))
        try:
            latest = time.monotonic() + LATEST_S
            while sum(caller.done for caller in callers) < enough and time.monotonic() < latest:
                await asyncio.sleep(0.002)
            await asyncio.sleep(delay_s)
            over.set()
            yield
        finally:
            over.set()
            await working
            for caller in callers:
                caller.patience_s = PATIENCE_S

    async def strike(
        self, callers: Sequence[Caller], victims: Sequence[str], *, gently: bool = False
    ) -> None:
        """Processes are killed, or asked to end, while callers are at work; then they are started
        again."""
        end = self.service.terminate if gently else self.service.kill
        async with self.at_work(callers):
            for caller in callers:
                self.struck += caller.under_way
            await asyncio.to_thread(end, *victims)
        await asyncio.to_thread(self.service.start, *victims)

    async def check(self, callers: Iterable[Caller] | None = None, *, anew: bool = False) -> None:
        """All of them, or these, at once: nobody's key is lost, nobody is stuck."""
        await together(caller.check(anew=anew) for caller in callers or self.callers)


@asynccontextmanager
async def crowd(service: Service, rng: random.Random) -> AsyncIterator[Crowd]:
    """Callers, as yet none; in the end no log may show what is theirs alone."""
    async with httpx.AsyncClient(
        base_url=service.address(NODE), trust_env=False, limits=httpx.Limits(max_connections=None)
    ) as http:
        made = Crowd(service, http, rng)
        yield made
    logs = "".join(service.log(name) for name in ALL)
    for caller in made.callers:
        secrets = [caller.password, caller.token.rpartition(".")[2]]
        for share in caller.key.shares.values():
            secrets += [share["encrypted_share"][-40:], share["secret_store"][-40:]]
        assert not [secret for secret in secrets if secret in logs], "a secret is in a log"


async def together(works: Iterable[Awaitable[object]]) -> None:
    """Wait for all; then raise the first error."""
    for result in await asyncio.gather(*works, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result

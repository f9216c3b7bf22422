"""What is under test: a service, tokens for its users, and what can be done to it from outside.

Only ``ask`` and ``token`` are needed. The other protocols are abilities that a target may have; a
target has one if it has the methods, and whatever needs an ability it lacks is left out::

    class Ours(HttpTarget):
        def expired_token(self, user: str) -> str: ...      # ExpiresTokens
        def logs(self) -> str: ...                          # ShowsLogs
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final, Literal, Protocol, Self, runtime_checkable

import httpx

from mpcsim.service.operations.supervisor import access_token
from mpcsim.testing.backend.service import Answer, Request, Service, service_of

Part = Literal["gateway", "operator", "institution"]
"""What can fail behind a node."""
PARTS: Final[tuple[Part, ...]] = ("gateway", "operator", "institution")

TokenProvider = Callable[[str], str]
"""From a user's name to a fresh access token; signs the user up if need be."""


class Target(Protocol):
    """A service that speaks the node's API."""

    def ask(self, requests: Sequence[Request]) -> list[Answer]:
        """Send all requests at the same time; their answers in the same order."""
        ...

    def token(self, user: str) -> str:
        """An access token for a user, who is signed up first if need be."""
        ...


@runtime_checkable
class ExpiresTokens(Protocol):
    """Can make tokens that are no longer good."""

    def expired_token(self, user: str) -> str:
        """A token of this user that was genuine and has expired."""
        ...


@runtime_checkable
class Outages(Protocol):
    """Parts of the system can be stopped and started."""

    @property
    def stoppable(self) -> Sequence[Part]:
        """Which ones."""
        ...

    def stop(self, part: Part) -> None:
        """From now on it cannot be reached."""
        ...

    def start(self, part: Part) -> None:
        """It is back."""
        ...


@runtime_checkable
class Restarts(Protocol):
    """Parts of the system can be killed and come back with what they had stored."""

    @property
    def restartable(self) -> Sequence[Part]:
        """Which ones."""
        ...

    def restart(self, part: Part) -> None:
        """Kill it and start it again; returns when it answers."""
        ...


@runtime_checkable
class LosesMessages(Protocol):
    """Messages between the parties of the protocols can be lost."""

    def lose(self, nth: int) -> None:
        """Lose the nth message (from 1) between parties from now on."""
        ...

    def lose_nothing(self) -> None:
        """No more losses; sessions that hang have expired when this returns."""
        ...


@runtime_checkable
class ShowsLogs(Protocol):
    """Its logs can be read."""

    def logs(self) -> str:
        """What was logged since the last call."""
        ...


@runtime_checkable
class ChoosesSigner(Protocol):
    """``sign`` takes a member ``signer``: which MPC node signs along."""

    @property
    def signers(self) -> Sequence[str]:
        """Its values."""
        ...


@runtime_checkable
class Presigns(Protocol):
    """There is ``presign``, and ``sign`` takes ``presignatures``."""

    @property
    def most_presignatures(self) -> int:
        """In one request."""
        ...


@runtime_checkable
class DerivesKeys(Protocol):
    """``sign``, ``publickey`` and the wallet query take a ``path``: child keys (BIP 32)."""

    @property
    def deepest(self) -> int:
        """The most steps of a path."""
        ...


@runtime_checkable
class Recipe(Protocol):
    """Can be made again."""

    @property
    def recipe(self) -> str:
        """Python statements that bind the name ``target``."""
        ...


class HttpTarget:
    """A service at a base address, or behind an httpx client. A context manager."""

    def __init__(
        self,
        where: str | httpx.Client | httpx.AsyncClient | Service,
        token: TokenProvider,
        *,
        recipe: str = "",
    ) -> None:
        """
        Args:
            where: base address, e.g. ``http://127.0.0.1:9091``, or a client that has one.
            token: makes an access token for a user's name.
            recipe: Python statements that make this target again, under the name ``target``; for
                the snippets of failures.
        """
        self.service = service_of(where)
        self._token = token
        self.recipe = recipe or _recipe(where)

    def ask(self, requests: Sequence[Request]) -> list[Answer]:
        """See ``Target``."""
        return self.service.ask(requests)

    def token(self, user: str) -> str:
        """See ``Target``."""
        return self._token(user)

    def close(self) -> None:
        self.service.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.close()


def gateway_tokens(gateway: str, api_key: str, api_secret: str) -> TokenProvider:
    """Tokens from a gateway: sign-up and login with the caller's API key and secret.

    Args:
        gateway: its base address.
    """
    return lambda user: access_token(gateway, api_key, api_secret, user)


def without_credentials(text: str) -> str:
    """The same text; of addresses in it, user and password are left out."""
    return re.sub(r"(?<=://)[^/@\s]+@", "...@", text)


def _recipe(where: object) -> str:
    place = repr(without_credentials(where)) if isinstance(where, str) else "..."
    return (
        "from mpcsim.testing import HttpTarget\n\n"
        f"target = HttpTarget({place}, token=...)  # as in your test"
    )

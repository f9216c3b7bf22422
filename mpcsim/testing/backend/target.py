"""Target under test: a service, tokens for its users, and abilities such as outages.

Only ``ask`` and ``token`` are needed. The other protocols are abilities that a target may have; a
target has one if it has the methods, and steps that need an ability it lacks are left out::

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
"""Part of the system behind a node that can fail."""
PARTS: Final[tuple[Part, ...]] = ("gateway", "operator", "institution")

TokenProvider = Callable[[str], str]
"""Function from a user's name to a fresh access token; it signs the user up if need be."""


class Target(Protocol):
    """A service that speaks the node's API."""

    def ask(self, requests: Sequence[Request]) -> list[Answer]:
        """Send all requests at the same time; return the answers in the same order."""
        ...

    def token(self, user: str) -> str:
        """Return an access token for a user, who is signed up first if need be."""
        ...


@runtime_checkable
class ExpiresTokens(Protocol):
    """Ability to make expired tokens."""

    def expired_token(self, user: str) -> str:
        """Return a token of this user that was genuine and has expired."""
        ...


@runtime_checkable
class Outages(Protocol):
    """Ability to stop and start parts of the system."""

    @property
    def stoppable(self) -> Sequence[Part]:
        """Parts that can be stopped."""
        ...

    def stop(self, part: Part) -> None:
        """Make a part unreachable."""
        ...

    def start(self, part: Part) -> None:
        """Make a part reachable again."""
        ...


@runtime_checkable
class Restarts(Protocol):
    """Ability to kill parts of the system and start them again with their stores."""

    @property
    def restartable(self) -> Sequence[Part]:
        """Parts that can be restarted."""
        ...

    def restart(self, part: Part) -> None:
        """Kill it and start it again; returns when it answers."""
        ...


@runtime_checkable
class LosesMessages(Protocol):
    """Ability to lose messages between the parties of the protocols."""

    def lose(self, nth: int) -> None:
        """Start to lose the nth message (from 1) between parties."""
        ...

    def lose_nothing(self) -> None:
        """Stop losing messages; sessions that hang have expired when this returns."""
        ...


@runtime_checkable
class ShowsLogs(Protocol):
    """Ability to read the logs."""

    def logs(self) -> str:
        """Return the lines logged since the last call."""
        ...


@runtime_checkable
class ChoosesSigner(Protocol):
    """Ability to choose the MPC node that signs along: ``sign`` takes a member ``signer``."""

    @property
    def signers(self) -> Sequence[str]:
        """Values of ``signer``."""
        ...


@runtime_checkable
class Presigns(Protocol):
    """Ability to presign: there is ``presign``, and ``sign`` takes ``presignatures``."""

    @property
    def most_presignatures(self) -> int:
        """Limit of presignatures in one request."""
        ...


@runtime_checkable
class DerivesKeys(Protocol):
    """Ability to derive child keys (BIP 32): ``sign``, ``publickey`` and the wallet query take a
    ``path``."""

    @property
    def deepest(self) -> int:
        """Limit of steps in a path."""
        ...


@runtime_checkable
class Recipe(Protocol):
    """Ability to be made again by code."""

    @property
    def recipe(self) -> str:
        """Python statements that bind the name ``target``."""
        ...


class HttpTarget:
    """Target that is a service at a base address, or behind an httpx client. A context manager."""

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
        """Send all requests at the same time; return the answers in the same order."""
        return self.service.ask(requests)

    def token(self, user: str) -> str:
        """Return an access token for a user."""
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
    """Return a token provider over a gateway: sign-up and login with an API key and its secret.

    Args:
        gateway: its base address.
    """
    return lambda user: access_token(gateway, api_key, api_secret, user)


def without_credentials(text: str) -> str:
    """Return the text without user and password in its addresses."""
    return re.sub(r"(?<=://)[^/@\s]+@", "...@", text)


def _recipe(where: object) -> str:
    place = repr(without_credentials(where)) if isinstance(where, str) else "..."
    return (
        "from mpcsim.testing import HttpTarget\n\n"
        f"target = HttpTarget({place}, token=...)  # as in your test"
    )

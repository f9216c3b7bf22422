"""Callers of a real service over persistent connections, with keys and requests for each operation.
Requests are plain bytes, so that mostly the service is timed, hardly its callers."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

import httptools

from mpcsim.capacity.model.operations import PRESIGNATURES
from mpcsim.capacity.model.workload import OPERATIONS
from mpcsim.errors import UsageError

PASSWORD: Final = "correct horse battery staple"


@dataclass
class Key:
    """Key of a user, ready for use."""

    token: str
    curve: str
    record: dict[str, str] = field(repr=False)
    presignatures: list[str] = field(default_factory=list, repr=False)

    def request_fields(self) -> dict[str, Any]:
        """Return the fields of the key in every request."""
        fields = {name: self.record[name] for name in ("key_id", "encrypted_share", "secret_store")}
        return {**fields, "curve": self.curve}

    def signing_request(self, n: int) -> dict[str, Any]:
        """Return the body of the n-th signing request; with a presignature if one is left."""
        message = hashlib.sha256(f"payment {n}".encode()).hexdigest()
        with_one = {"presignatures": [self.presignatures.pop()]} if self.presignatures else {}
        return {**self.request_fields(), "message": message, **with_one}


def build_request(operation: str, key: Key, n: int) -> tuple[str, dict[str, Any]]:
    """Return path and body of a request.

    Args:
        operation: of ``OPERATIONS``.
        n: a different number for every signature.

    Raises:
        UsageError: a presigned signature without presignatures.
    """
    asks = OPERATIONS[operation]
    verb, path = asks.verb, asks.endpoint
    match verb:
        case "sign" | "presigned":
            if (verb == "presigned") != bool(key.presignatures):
                raise UsageError(f"{operation}: {len(key.presignatures)} presignatures at hand")
            return path, {**key.signing_request(n), **asks.signer_field}
        case "presign":
            return path, {**key.request_fields(), "count": PRESIGNATURES}
        case "generate":
            return path, {"curve": key.curve, "password": PASSWORD}
        case "recover":
            return path, {**key.request_fields(), "password": PASSWORD}
        case "validate/password":
            return path, {"password": PASSWORD, "secret_store": key.record["secret_store"]}
    fields = {name: key.record[name] for name in ("encrypted_share", "secret_store")}
    return path, fields


def store_response(operation: str, key: Key, answer: Mapping[str, Any]) -> None:
    """Store what a response gives the caller to keep."""
    verb = OPERATIONS[operation].verb
    if verb == "presign":
        key.presignatures.extend(answer["presignatures"])
    elif verb in ("generate", "recover"):
        key.record = dict(answer)


def post(address: str, path: str, token: str, document: Mapping[str, Any]) -> bytes:
    """Return an HTTP request with a JSON body."""
    body = json.dumps(document).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {urlsplit(address).netloc}\r\n"
        f"Authorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Answer:
    """Response parser, for httptools."""

    def __init__(self) -> None:
        self.parser = httptools.HttpResponseParser(self)
        self.body = bytearray()
        self.complete = False

    @property
    def status(self) -> int:
        return self.parser.get_status_code()

    def on_body(self, data: bytes) -> None:
        self.body += data

    def on_message_complete(self) -> None:
        self.complete = True


class Callers:
    """Persistent connections to a node, each with one request at a time, opened as needed."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._idle: list[_Connection] = []
        self._all: list[_Connection] = []

    async def post(
        self, path: str, token: str, document: Mapping[str, Any]
    ) -> tuple[int, dict[str, Any]]:
        """Send a request, and return status and body of the response.

        Raises:
            UsageError: the node cannot be reached, or closes the connection.
        """
        status, body = await self.exchange(post(self.address, path, token, document))
        return status, json.loads(body)

    async def exchange(self, request: bytes) -> tuple[int, bytes]:
        """Send a request that is ready as bytes, and return status and body."""
        while self._idle and self._idle[-1].lost:
            self._idle.pop()
        connection = self._idle.pop() if self._idle else await self._open()
        found = await connection.exchange(request)
        self._idle.append(connection)
        return found

    async def _open(self) -> _Connection:
        parts = urlsplit(self.address)
        loop = asyncio.get_running_loop()
        try:
            _, made = await loop.create_connection(
                _Connection, parts.hostname or "", parts.port or 80
            )
        except OSError as error:
            raise UsageError(f"the node at {self.address}: {error}") from None
        self._all.append(made)
        return made

    def close(self) -> None:
        """Close all connections; the next requests open new ones."""
        for connection in self._all:
            connection.close()
        self._all.clear()
        self._idle.clear()


class _Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self.lost = False
        self._transport: asyncio.Transport | None = None
        self._answer = Answer()
        self._waiting: asyncio.Future[tuple[int, bytes]] | None = None

    async def exchange(self, request: bytes) -> tuple[int, bytes]:
        self._waiting = asyncio.get_running_loop().create_future()
        self._answer = Answer()
        assert self._transport is not None
        self._transport.write(request)
        return await self._waiting

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    # ------------------------------------------------------------------ asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        answer, waiting = self._answer, self._waiting
        answer.parser.feed_data(data)
        if answer.complete and waiting is not None and not waiting.done():
            waiting.set_result((answer.status, bytes(answer.body)))

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(UsageError("the node has closed the connection"))

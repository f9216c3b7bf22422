"""Faulty services: our own node behind something that makes one mistake."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, replace
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

OTHER_KEY = {
    # 2 G on either curve
    "secp256k1": "0x02c6047f9441ed7d6d3045406e95c07cd85c778e4b8cef3ca7abac09b95c709ee5",
    "ed25519": "0xc9a3f86aae465f0e56513864510f3997561fa2c9e85ea21dc2292309f3cd6022",
}


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    token: str
    body: bytes

    @property
    def operation(self) -> str:
        return self.path.removeprefix("/v3/wallet").removeprefix("/")

    @property
    def document(self) -> dict[str, Any]:
        try:
            found = json.loads(self.body)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    def with_body(self, **members: Any) -> Asked:
        return replace(self, body=json.dumps(self.document | members).encode())


@dataclass(frozen=True)
class Said:
    status: int
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)

    @classmethod
    def of(cls, status: int, document: Any) -> Said:
        return cls(status, json.dumps(document).encode())


class Faulty:
    """An ASGI application around another one; by itself it changes nothing."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def answer(self, asked: Asked) -> Said:
        """Answer a request; faults override this, or what it asks for, or what it says."""
        asked = self.asks(asked)
        return self.says(asked, await self.right(asked))

    def asks(self, asked: Asked) -> Asked:
        """Return what the service behind is asked for."""
        return asked

    def says(self, asked: Asked, said: Said) -> Said:
        """Return what is said in the place of an answer."""
        return said

    async def right(self, asked: Asked) -> Said:
        """What the service behind says."""
        headers = [(b"content-type", b"application/json")]
        if asked.token:
            headers.append((b"authorization", f"Bearer {asked.token}".encode()))
        path, _, query = asked.path.partition("?")
        scope = {**self._scope, "path": path, "query_string": query.encode(), "headers": headers}
        status, said = 0, b""

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": asked.body, "more_body": False}

        async def send(message: Any) -> None:
            nonlocal status, said
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                said += message.get("body", b"")

        await self.app(scope, receive, send)
        return Said(status, said)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope = {k: v for k, v in scope.items() if k not in ("state", "node.request")}
        headers = dict(scope["headers"])
        body = b""
        while (message := await receive())["type"] == "http.request":
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        query = scope["query_string"].decode()
        path = scope["path"] + (f"?{query}" if query else "")
        token = headers.get(b"authorization", b"").decode().removeprefix("Bearer ")
        said = await self.answer(Asked(scope["method"], path, token, body))
        kind = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": said.status, "headers": kind})
        await send({"type": "http.response.body", "body": said.body})


class Remembering(Faulty):
    """Keeps what it must not: everybody's records and tokens."""

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(app)
        self.records: dict[str, dict[str, Any]] = {}
        self.tokens: dict[str, str] = {}
        self.newest: dict[tuple[str, str], dict[str, Any]] = {}

    async def right(self, asked: Asked) -> Said:
        said = await super().right(asked)
        if asked.operation in ("generate", "recover") and said.status == 200:
            record = said.document
            self.records[record["key_id"]] = record
            self.tokens[record["key_id"]] = asked.token
            self.newest[asked.token, record["curve"]] = record
        return said


class OldShareSigns(Remembering):
    """A retired share is quietly replaced by the present one."""

    def asks(self, asked: Asked) -> Asked:
        record = self.records.get(asked.document.get("key_id", ""))
        if asked.operation == "sign" and record:
            newest = self.newest.get((asked.token, record["curve"]), record)
            mine = self.tokens[record["key_id"]] == asked.token
            names = ("key_id", "encrypted_share", "secret_store")
            if mine and all(asked.document[name] == record[name] for name in names):
                asked = asked.with_body(**{name: newest[name] for name in names})
        return asked


class LogsShares(Faulty):
    """A log line left over from debugging."""

    def asks(self, asked: Asked) -> Asked:
        if asked.operation == "validate/share":
            logging.getLogger("node").info("validating %s", asked.document.get("encrypted_share"))
        return asked


class ForgetsLock(Faulty):
    """Two requests for one key trip over each other."""

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(app)
        self.busy: dict[str, int] = {}
        self.clashed: set[str] = set()

    async def answer(self, asked: Asked) -> Said:
        key_id = asked.document.get("key_id", "")
        if asked.operation != "sign":
            return await self.right(asked)
        self.busy[key_id] = self.busy.get(key_id, 0) + 1
        if self.busy[key_id] > 1:
            self.clashed.add(key_id)
        said = await self.right(asked)
        self.busy[key_id] -= 1
        if key_id in self.clashed:
            if not self.busy[key_id]:
                self.clashed.remove(key_id)
            return Said.of(500, {"error": "Upstream returned 409 Conflict: busy"})
        return said


class RecoversAnotherKey(Faulty):
    """A recovery that is a key generation."""

    def says(self, asked: Asked, said: Said) -> Said:
        if asked.operation == "recover" and said.status == 200:
            other = OTHER_KEY[said.document["curve"]]
            return Said.of(200, said.document | {"public_key": other})
        return said


class PlainHealth(Faulty):
    """Says that it is well, in other words; everything else is right."""

    def says(self, asked: Asked, said: Said) -> Said:
        return Said.of(200, "fine") if asked.path == "/" else said


class ErrorsOfTheFramework(Faulty):
    """Errors as the web framework makes them."""

    def says(self, asked: Asked, said: Said) -> Said:
        if said.status == 400:
            return Said.of(422, {"detail": [{"msg": "Field required"}]})
        return said


class AnswersTooLate(Faulty):
    """A proxy gives up on what takes long, and the service does it all the same: no mistake."""

    late = False

    def says(self, asked: Asked, said: Said) -> Said:
        if self.late and asked.operation in ("generate", "recover"):
            return Said.of(504, {"error": "Gateway Timeout"})
        return said

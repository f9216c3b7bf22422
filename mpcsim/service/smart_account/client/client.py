"""The caller's side of the flow: six steps, in one call or one at a time.

``Flow`` is the sans-IO heart: it says what to ask or sign next, takes the answer, and shows every
intermediate value. ``SmartAccountClient`` drives it against the service object or over HTTP.

    >>> client = SmartAccountClient(ServiceTransport(service))
    >>> flow = client.begin(owner, to=recipient, value=10**18, sponsored=True)
    >>> client.step(flow, sign)  # once a step, or client.run(flow, sign)
    >>> flow.provenance["call_gas_limit"].purpose
    'paymaster sponsor query'

``sign`` gets the 32 bytes that ``personal_sign`` signs with ECDSA and returns 65: r, s, v.

The service is not believed: what is signed calls what the owner wished to call, from the owner's
account, is for this chain and EntryPoint, and costs the account no more than ``most_cost``; whoever
answers can have it fail. What has been signed may be sent at any time, whatever was answered: go on
with its flow, which sends the same again, before a new one is begun for the same wish.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol
from urllib.parse import quote

import httpx
from eth_abi.abi import encode
from eth_typing import ChecksumAddress
from eth_utils.crypto import keccak

from mpcsim.errors import UsageError
from mpcsim.service.smart_account.chain.chain import DEFAULT_CHAIN_ID, ZERO_ADDRESS
from mpcsim.service.smart_account.client.account import account_address
from mpcsim.service.smart_account.deployment import ENTRY_POINT
from mpcsim.service.smart_account.endpoints import Endpoint
from mpcsim.service.smart_account.errors import BadRequest, SmartAccountError
from mpcsim.service.smart_account.operation.fields import (
    SIGNED,
    Value,
    parse_address,
    parse_bytes,
    supplied_by,
    to_wire,
)
from mpcsim.service.smart_account.operation.operation import (
    UserOperation,
    bind,
    personal_hash,
    personal_message,
)
from mpcsim.service.smart_account.operation.receipts import PENDING
from mpcsim.service.smart_account.service import SmartAccountService

Signer = Callable[[bytes], bytes]

SIGNATURE_BYTES: Final = 65

MOST_COST: Final = 10**17
"""A tenth of a coin, in wei: what an operation may cost its account at the most, unless the owner
says otherwise. A service could name any gas and fees, and be paid them."""

_EXECUTE: Final = ("address", "uint256", "bytes")
_EXECUTE_SELECTOR: Final = keccak(b"execute(address,uint256,bytes)")[:4]
"""Selector of ``SimpleAccount.execute``. Written out here: the client checks the service, and needs
neither its contracts nor their installation."""
_COST: Final = (
    *("max_fee_per_gas", "call_gas_limit", "verification_gas_limit", "pre_verification_gas"),
)
"""Fields that bound what an account pays: the first, for each unit of the others."""

POLL_S: Final = 0.25
"""Between two receipt queries."""
PATIENCE_S: Final = 30.0


class RequestRefused(SmartAccountError):
    """The service refused a request; ``code`` is the HTTP status; None: the answer was wrong."""

    def __init__(self, endpoint: Endpoint, error: str, code: int | None = None) -> None:
        super().__init__(f"{endpoint.purpose}: {error}")
        self.endpoint = endpoint
        self.error = error
        self.code = code


@dataclass(frozen=True)
class Ask:
    """A request to make."""

    endpoint: Endpoint
    parameters: Mapping[str, str]
    """Path parameters."""
    body: Mapping[str, str] | None = None

    @property
    def path(self) -> str:
        parts = {name: quote(value, safe="") for name, value in self.parameters.items()}
        return self.endpoint.path.format(**parts)

    def __str__(self) -> str:
        return f"{self.endpoint.purpose}: {self.endpoint.method} {self.path}"


@dataclass(frozen=True)
class Sign:
    """A signature to make."""

    message_hash: bytes
    """The 32 bytes for ECDSA: EIP-191 over the digest."""

    def __str__(self) -> str:
        return f"owner signature over 0x{self.message_hash.hex()}"


@dataclass(frozen=True)
class Step:
    """Step taken in a flow: its number (1 to 6), the request or signing, and the answer."""

    number: int
    action: Ask | Sign
    answer: Mapping[str, Any] | bytes


@dataclass
class Flow:
    """Operation on its way from an owner's wish to a receipt.

    Fields are filled in as they are supplied, each by the endpoint that ``provenance`` names;
    change one between two steps, and the service or the account contract refuses it.
    """

    owner: ChecksumAddress
    to: ChecksumAddress
    value: int = 0
    """Amount in wei."""
    data: bytes = b""
    sponsored: bool = False
    separately: bool = False
    """Ask address, nonce and init calldata one by one, in place of the info query."""
    chain_id: int = DEFAULT_CHAIN_ID
    entry_point: ChecksumAddress = ENTRY_POINT
    most_cost: int = MOST_COST
    """Highest cost of the operation to the account, in wei."""
    account: ChecksumAddress | None = None
    """The owner's account; None: the one that the well-known factory makes."""

    fields: dict[str, Value] = field(default_factory=dict)
    provenance: dict[str, Endpoint] = field(default_factory=dict)
    result: str | None = None
    digest: bytes | None = None
    user_op_hash: str | None = None
    receipt: dict[str, Any] | None = None
    steps: list[Step] = field(default_factory=list)

    @property
    def operation(self) -> UserOperation:
        """The operation.

        Raises:
            UsageError: a field is still missing.
        """
        if missing := [name for name in SIGNED if name not in self.fields]:
            raise UsageError(f"not known yet: {', '.join(missing)}")
        return UserOperation.of(self.fields)

    @property
    def packed(self) -> bytes:
        """The encoding that is hashed: ten words of 32 bytes."""
        return self.operation.packed()

    @property
    def inner_hash(self) -> bytes:
        """Keccak-256 of ``packed``; the digest binds it to the EntryPoint and the chain."""
        return self.operation.inner_hash()

    @property
    def signed_message(self) -> bytes:
        """The digest in its EIP-191 form: what ``personal_sign`` hashes."""
        return personal_message(self._digest())

    @property
    def message_hash(self) -> bytes:
        """The 32 bytes that the owner's key signs."""
        return personal_hash(self._digest())

    @property
    def is_pending(self) -> bool:
        """Whether there is a receipt, and no block holds the operation yet."""
        return self.receipt is not None and self.receipt["status"] == PENDING

    def _digest(self) -> bytes:
        if self.digest is None:
            raise UsageError("the digest is not known yet")
        return self.digest

    def next(self) -> tuple[int, Ask | Sign] | None:
        """Return the next action, with the number of its step; None once there is a receipt."""
        owner = {"address": self.owner}
        for endpoint in (
            (Endpoint.ADDRESS, Endpoint.NONCE, Endpoint.INIT)
            if self.separately
            else (Endpoint.INFO,)
        ):
            if any(entry.name not in self.fields for entry in supplied_by(endpoint)):
                if endpoint is Endpoint.INIT:
                    return 1, Ask(endpoint, {}, {"owner": self.owner})
                return 1, Ask(endpoint, owner)
        if "call_data" not in self.fields:
            wish = {"to": self.to, "value": hex(self.value), "data": "0x" + self.data.hex()}
            return 2, Ask(Endpoint.EXECUTE, {}, wish)
        if self.result is None:
            return 3, Ask(Endpoint.SPONSOR if self.sponsored else Endpoint.GAS, {}, self._body())
        if self.digest is None:
            # Without a sponsor nobody supplies paymaster data: the digest query sets it to 0x.
            self.fields.setdefault("paymaster_and_data", b"")
            return 4, Ask(Endpoint.DIGEST, {}, self._body())
        if "signature" not in self.fields:
            return 5, Sign(self.message_hash)
        if self.user_op_hash is None:
            return 5, Ask(Endpoint.SEND, {}, self._body())
        if self.receipt is None or self.is_pending:
            return 6, Ask(Endpoint.RECEIPT, {"result": self.result})
        return None

    def _body(self) -> dict[str, str]:
        return {name: to_wire(value) for name, value in self.fields.items()}

    def take_signature(self, signature: bytes) -> None:
        """Take the owner's signature.

        Raises:
            UsageError: none is due, or it is not 65 bytes long.
        """
        number, action = self._next_action()
        if not isinstance(action, Sign):
            raise UsageError(f"no signature is due, but: {action}")
        if len(signature) != SIGNATURE_BYTES:
            raise UsageError(f"a signature of {len(signature)} bytes; r, s, v are 65")
        self.fields["signature"] = signature
        self.steps.append(Step(number, action, signature))

    def take_answer(self, reply: Mapping[str, Any]) -> None:
        """Take the answer to the request that ``next`` named.

        Raises:
            UsageError: no request is due.
            RequestRefused: the answer is not what the endpoint promises, or of another operation
                than the owner wished for: it must not be signed.
        """
        number, action = self._next_action()
        if not isinstance(action, Ask):
            raise UsageError(f"no answer is due, but: {action}")
        endpoint = action.endpoint
        try:
            supplied = {
                entry.name: entry.parse(entry.name, reply[entry.key(endpoint)])
                for entry in supplied_by(endpoint)
            }
            self._check(endpoint, supplied)
            self.fields |= supplied
            self.provenance |= dict.fromkeys(supplied, endpoint)
            match endpoint:
                case Endpoint.GAS | Endpoint.SPONSOR:
                    self.result = str(reply["result"])
                case Endpoint.DIGEST:
                    self.provenance.setdefault("paymaster_and_data", endpoint)
                    self.digest = self._check_digest(parse_bytes("digest", reply["digest"]))
                case Endpoint.SEND:
                    self.user_op_hash = reply["user_op_hash"]
                case Endpoint.RECEIPT:
                    self.receipt = {**reply, "status": reply["status"]}
        except (KeyError, BadRequest) as wrong:
            raise RequestRefused(endpoint, f"the answer does not make sense: {wrong}") from None
        self.steps.append(Step(number, action, reply))

    def _next_action(self) -> tuple[int, Ask | Sign]:
        due = self.next()
        if due is None:
            raise UsageError("the operation has its receipt: nothing is left to do")
        return due

    def _check(self, endpoint: Endpoint, supplied: Mapping[str, Value]) -> None:
        """Check that fields are of the operation that the owner wished for.

        Raises:
            RequestRefused: they are not.
        """
        account = self.account or account_address(self.owner)
        if supplied.get("sender", account) != account:
            raise RequestRefused(endpoint, f"the owner's account is {account}, and no other")
        if endpoint is Endpoint.EXECUTE:
            wish = _EXECUTE_SELECTOR + encode(_EXECUTE, (self.to, self.value, self.data))
            if supplied["call_data"] != wish:
                raise RequestRefused(endpoint, "the call data are of another call")
        elif endpoint is Endpoint.SPONSOR:
            paymaster = to_wire(supplied["paymaster_and_data"])[: len(ZERO_ADDRESS)]
            if paymaster in ("0x", ZERO_ADDRESS):
                raise RequestRefused(endpoint, "there is no paymaster: the account would pay")
        elif endpoint is Endpoint.GAS:
            fee, *gas = [value for name in _COST if isinstance(value := supplied[name], int)]
            if (cost := fee * sum(gas)) > self.most_cost:
                text = f"it may cost {cost} wei, and the owner pays up to {self.most_cost}"
                raise RequestRefused(endpoint, text)

    def _check_digest(self, digest: bytes) -> bytes:
        """Never sign a digest on another's word."""
        own = bind(self.inner_hash, self.entry_point, self.chain_id)
        if digest != own:
            raise RequestRefused(
                Endpoint.DIGEST,
                f"the digest 0x{digest.hex()} is not this operation's, 0x{own.hex()}",
            )
        return digest


class Transport(Protocol):
    """Carries requests to the service."""

    def send(self, ask: Ask) -> Mapping[str, Any]:
        """The answer.

        Raises:
            RequestRefused: the service refused the request.
        """
        ...


class ServiceTransport:
    """Asks the service object itself, in this process."""

    def __init__(self, service: SmartAccountService) -> None:
        self._service = service

    def send(self, ask: Ask) -> Mapping[str, Any]:
        try:
            return self._service.answer(ask.endpoint, {**(ask.body or {}), **ask.parameters})
        except SmartAccountError as refused:
            raise RequestRefused(ask.endpoint, str(refused), refused.status) from refused


class HttpTransport:
    """Asks over HTTP. Base address, bearer token and timeouts are the httpx client's."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    def send(self, ask: Ask) -> Mapping[str, Any]:
        return _read(ask, self._client.request(ask.endpoint.method, ask.path, json=ask.body))


def _read(ask: Ask, response: httpx.Response) -> Mapping[str, Any]:
    try:
        reply = response.json()
    except ValueError:
        reply = None
    if response.is_success and isinstance(reply, dict):
        return reply
    if response.is_success:
        status = f"{response.status_code} {response.reason_phrase}"
        raise RequestRefused(ask.endpoint, f"{status} without the JSON object that is due")
    error = reply.get("error") if isinstance(reply, dict) else None
    text = error if isinstance(error, str) else response.text[:200] or response.reason_phrase
    raise RequestRefused(ask.endpoint, text, response.status_code)


class SmartAccountClient:
    """Makes flows for operations on one chain, and drives them."""

    def __init__(
        self,
        transport: Transport,
        *,
        chain_id: int = DEFAULT_CHAIN_ID,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._transport = transport
        self._chain_id = chain_id
        self._sleep = sleep

    def begin(
        self,
        owner: str,
        *,
        to: str,
        value: int = 0,
        data: bytes = b"",
        sponsored: bool = False,
        separately: bool = False,
        most_cost: int = MOST_COST,
        account: str | None = None,
    ) -> Flow:
        """A new operation: ``owner``'s account calls ``to`` with ``value`` wei and ``data``.

        Args:
            most_cost: what it may cost the account at the most, in wei.
            account: the owner's, if another factory than the well-known one makes it.

        Raises:
            BadRequest: an address is malformed.
        """
        return Flow(
            parse_address("owner", owner),
            parse_address("to", to),
            value,
            data,
            sponsored,
            separately,
            self._chain_id,
            most_cost=most_cost,
            account=None if account is None else parse_address("account", account),
        )

    def step(self, flow: Flow, sign: Signer) -> Step | None:
        """Perform the next action; None if nothing is left.

        Raises:
            RequestRefused: the service refused it; the flow stays where it was.
        """
        match flow.next():
            case None:
                return None
            case (_, Sign(message_hash)):
                flow.take_signature(sign(message_hash))
            case (_, Ask() as ask):
                flow.take_answer(self._transport.send(ask))
        return flow.steps[-1]

    def run(self, flow: Flow, sign: Signer, *, patience_s: float = PATIENCE_S) -> dict[str, Any]:
        """Perform all actions that are left, and return the receipt.

        It is still ``pending`` if no block holds the operation after ``patience_s``.

        Raises:
            RequestRefused: the service refused a step; the flow stays where it was.
        """
        polls = 0
        while flow.receipt is None or (flow.is_pending and polls * POLL_S < patience_s):
            if flow.is_pending:
                self._sleep(POLL_S)
                polls += 1
            self.step(flow, sign)
        return flow.receipt

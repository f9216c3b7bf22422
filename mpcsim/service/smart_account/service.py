"""The smart-account service: what each endpoint of the flow does. No HTTP in here.

An operation comes into being at the gas step, when its last field is known: from then on its
userOpHash names it, and is the ``result`` that the gas step answers with. The digest query must
bring exactly these fields, and ``send`` exactly those of the digest query. Whatever is refused
leaves no trace.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from eth_account.messages import encode_defunct
from eth_account.signers.local import LocalAccount
from eth_typing import ChecksumAddress
from eth_utils.address import to_canonical_address, to_checksum_address

from mpcsim.service.smart_account.chain import contracts
from mpcsim.service.smart_account.chain.chain import Chain, Outcome, TransactionReceipt
from mpcsim.service.smart_account.chain.jsonrpc import JsonRpcError
from mpcsim.service.smart_account.chain.transactions import TransactionSender
from mpcsim.service.smart_account.deployment import DEFAULT_DEPOSIT, Deployment, deploy
from mpcsim.service.smart_account.endpoints import Endpoint
from mpcsim.service.smart_account.errors import (
    BadRequest,
    Inconsistent,
    NoContract,
    Refused,
    UnknownOperation,
)
from mpcsim.service.smart_account.operation import gas, limits, receipts
from mpcsim.service.smart_account.operation.fields import (
    GAS,
    UNPRICED,
    Value,
    abbreviate,
    parse_address,
    parse_bytes,
    parse_fields,
    parse_number,
    supplied_by,
    to_wire,
)
from mpcsim.service.smart_account.operation.limits import (
    DEFAULT_BUDGET,
    NO_BOUND,
    Budget,
    KnownOperation,
    KnownOperations,
)
from mpcsim.service.smart_account.operation.operation import UserOperation
from mpcsim.service.smart_account.operation.paymaster import Sponsor

Reply = dict[str, Any]

SALT: Final = 0
"""An owner has one account: the factory's salt is always this."""

BUNDLE_OVERHEAD_GAS: Final = 150_000
"""Gas of ``handleOps`` around one operation, its calldata apart."""


class SmartAccountService:
    """The flow over one chain, EntryPoint v0.6. Safe to call from several threads.

    Requests are answered side by side; only what the bundler sends goes one after the other.

    ``bundler`` pays for transactions and is paid by the operations; ``sponsor`` signs for the
    paymaster. The contracts that the chain lacks are deployed first.

    Raises:
        UsageError: the contracts are not installed.
        ChainUnavailable: the chain's node does not answer.
    """

    def __init__(
        self,
        chain: Chain,
        bundler: LocalAccount,
        sponsor: LocalAccount,
        *,
        deposit: int = DEFAULT_DEPOSIT,
        budget: int | None = None,
        gas_budget: int = NO_BOUND,
        now: Callable[[], float] = time.time,
    ) -> None:
        """
        Args:
            deposit: of the paymaster, in wei.
            budget: what is sponsored for each user in a day, in wei; as much may be lost by the
                bundler.
            gas_budget: what each user's transactions may use in a day, in units of gas.
            now: seconds since 1970 UTC.
        """
        self.chain = chain
        budget = DEFAULT_BUDGET if budget is None else budget
        self._made_with = bundler, sponsor, deposit, budget, gas_budget, now
        self.bundler = TransactionSender(chain, bundler)
        self.deployment: Deployment = deploy(self.bundler, sponsor, deposit=deposit)
        self._sponsor = Sponsor(chain, self.deployment.paymaster, sponsor)
        # Of the right form, and nobody's: what simulations carry.
        signed = bundler.sign_message(encode_defunct(primitive=bytes(32)))
        self._any_signature = bytes(signed.signature)
        self._known = KnownOperations()
        self._budget = Budget(budget, now)
        self._risk = Budget(budget, now, "bundler")
        self._gas_budget = Budget(gas_budget, now, "chain", "gas")
        self._lock = threading.Lock()
        """Lock of the known operations: held for a look at them, never while the chain is asked."""
        self._answers: Mapping[Endpoint, Callable[[Mapping[str, object], str], Reply]] = {
            Endpoint.ADDRESS: self._address,
            Endpoint.INFO: self._info,
            Endpoint.NONCE: self._nonce,
            Endpoint.INIT: self._init,
            Endpoint.EXECUTE: self._execute,
            Endpoint.GAS: self._gas,
            Endpoint.SPONSOR: self._sponsored_gas,
            Endpoint.DIGEST: self._digest,
            Endpoint.SEND: self._send,
            Endpoint.RECEIPT: self._receipt,
        }

    def answer(self, endpoint: Endpoint, request: Mapping[str, object], user_id: str = "") -> Reply:
        """Answer one request: path parameters and body members alike, by name.

        Args:
            user_id: whose request it is; operations are known and sponsored a user.

        Raises:
            SmartAccountError: it is refused; its class knows the HTTP status. ``NoContract``: this
                service is of no use any more, and ``renewed`` makes the one that is.
        """
        return self._answers[endpoint](request, user_id)

    def renew(self) -> SmartAccountService:
        """A service like this one, for when the chain was begun anew: what is missing is deployed,
        and nothing remembered but what has been spent for each user.

        Raises:
            UsageError, ChainUnavailable: as when this one was made.
        """
        bundler, sponsor, deposit, budget, gas_budget, now = self._made_with
        made = SmartAccountService(
            self.chain,
            bundler,
            sponsor,
            deposit=deposit,
            budget=budget,
            gas_budget=gas_budget,
            now=now,
        )
        made._budget, made._risk, made._gas_budget = self._budget, self._risk, self._gas_budget
        return made

    def owner_account(self, owner: ChecksumAddress) -> ChecksumAddress:
        """The address of an owner's account, deployed or not."""
        abi, factory = contracts.account_factory().abi, self.deployment.factory
        return to_checksum_address(abi.view(self.chain, factory, "getAddress", owner, SALT))

    # --- steps 1 and 2: the account, and what it shall do ----------------------------------------

    def _address(self, request: Mapping[str, object], user_id: str) -> Reply:
        return self._reply(Endpoint.ADDRESS, {"sender": self.owner_account(_owner(request))})

    def _info(self, request: Mapping[str, object], user_id: str) -> Reply:
        owner = _owner(request)
        sender = self.owner_account(owner)
        values: dict[str, Value] = {
            "sender": sender,
            "nonce": self._next_nonce(sender),
            "init_code": self._init_code(owner, sender),
        }
        return self._reply(Endpoint.INFO, values)

    def _nonce(self, request: Mapping[str, object], user_id: str) -> Reply:
        sender = self.owner_account(_owner(request))
        return self._reply(Endpoint.NONCE, {"nonce": self._next_nonce(sender)})

    def _init(self, request: Mapping[str, object], user_id: str) -> Reply:
        _only(request, ("owner",))
        owner = parse_address("owner", request["owner"])
        init_code = self._init_code(owner, self.owner_account(owner))
        return self._reply(Endpoint.INIT, {"init_code": init_code})

    def _execute(self, request: Mapping[str, object], user_id: str) -> Reply:
        _only(request, ("to", "value"), ("data",))
        call_data = contracts.account().abi.call(
            "execute",
            parse_address("to", request["to"]),
            parse_number("value", request["value"]),
            parse_bytes("data", request.get("data", "0x")),
        )
        return self._reply(Endpoint.EXECUTE, {"call_data": call_data})

    def _next_nonce(self, sender: ChecksumAddress) -> int:
        abi, entry_point = contracts.entry_point().abi, self.deployment.entry_point
        nonce: int = abi.view(self.chain, entry_point, "getNonce", sender, 0)
        return nonce

    def _init_code(self, owner: ChecksumAddress, sender: ChecksumAddress) -> bytes:
        if self.chain.code(sender):
            return b""
        create = contracts.account_factory().abi.call("createAccount", owner, SALT)
        return to_canonical_address(self.deployment.factory) + create

    # --- step 3: gas, and who pays ----------------------------------------------------------------

    def _gas(self, request: Mapping[str, object], user_id: str) -> Reply:
        operation, given = self._draft(request, ("paymaster_and_data", *GAS))
        return self._price(Endpoint.GAS, operation, given, user_id)

    def _sponsored_gas(self, request: Mapping[str, object], user_id: str) -> Reply:
        operation, given = self._draft(request, GAS)
        operation = replace(operation, paymaster_and_data=self._sponsor.placeholder())
        return self._price(Endpoint.SPONSOR, operation, given, user_id)

    def _draft(
        self, request: Mapping[str, object], optional: tuple[str, ...]
    ) -> tuple[UserOperation, dict[str, Value]]:
        """The operation with its fees and no gas limits yet, and the gas values the caller set."""
        values = parse_fields(request, UNPRICED, optional)
        given = {name: value for name, value in values.items() if name in GAS}
        fees = self.chain.fees()
        defaults: dict[str, Value] = {
            **dict.fromkeys(GAS, 0),
            "max_fee_per_gas": fees.maximum,
            "max_priority_fee_per_gas": fees.priority,
        }
        operation = UserOperation.of({**defaults, **values, "signature": self._any_signature})
        limits.check_fees(operation, fees)
        return operation, given

    def _price(
        self,
        endpoint: Endpoint,
        operation: UserOperation,
        given: Mapping[str, Value],
        user_id: str,
    ) -> Reply:
        priced = gas.estimate(self.chain, self.deployment.entry_point, operation, given)
        if endpoint is Endpoint.SPONSOR:
            priced = self._sponsor.sign(priced)
            # Before the signature leaves, and not if the chain has failed meanwhile. It stays
            # taken: whoever has the signature may hand the operation in.
            self._budget.spend(user_id, limits.most_cost(priced))
        priced = replace(priced, signature=b"")
        result = self._hash(priced)
        with self._lock:
            self._known.put(user_id, result, priced)
        return {**self._reply(endpoint, dict(priced.items())), "result": to_wire(result)}

    # --- steps 4 to 6: digest, send, receipt ------------------------------------------------------

    def _digest(self, request: Mapping[str, object], user_id: str) -> Reply:
        operation = UserOperation.from_request(request, signed=False)
        digest = self._hash(operation)
        with self._lock:
            known = self._known.get(user_id, digest)
            if known is None:
                own = self._known.of(user_id)
                self._raise_if_nearly_known(operation, own, "the digest query", "the gas step")
                raise UnknownOperation(
                    f"no gas step has answered for sender {operation.sender}, "
                    f"nonce {hex(operation.nonce)}"
                )
            known.digested = True
        return {"digest": to_wire(digest)}

    def _send(self, request: Mapping[str, object], user_id: str) -> Reply:
        operation = UserOperation.from_request(request, signed=True)
        user_op_hash = self._hash(operation)
        with self._lock:
            known = self._known.get(user_id, user_op_hash)
            if known is None or not known.digested:
                digested = (other for other in self._known.of(user_id) if other.digested)
                self._raise_if_nearly_known(operation, digested, "send", "the digest query")
                raise UnknownOperation(
                    f"no digest was queried for sender {operation.sender}, "
                    f"nonce {hex(operation.nonce)}"
                )
        # The gas step has priced a signature of 65 bytes; no hash binds the one that has come.
        gas.check_pre_verification_gas(operation, gas.pre_verification_gas(operation))
        with self.bundler.exclusive():
            if known.transaction is not None and self.chain.receipt(known.transaction) is None:
                raise Inconsistent(f"operation {to_wire(user_op_hash)} is on its way already")
            self._release_risk(user_id)
            used = _bundle_gas(operation)
            most = used * operation.max_fee_per_gas
            day = self._risk.spend(user_id, most)
            try:
                self._gas_budget.spend(user_id, used)
            except BaseException:
                self._risk.give_back(user_id, most, day)
                raise
            try:
                known.transaction = self._bundle(operation)
            except (BadRequest, Refused, JsonRpcError):  # nothing was sent
                self._gas_budget.give_back(user_id, used, day)
                self._risk.give_back(user_id, most, day)
                raise
            known.at_risk, known.gas, known.day = most, used, day
        return {"user_op_hash": to_wire(user_op_hash)}

    def _release_risk(self, user_id: str) -> None:
        """Give back what a user's transactions might have cost, but for what they did cost the
        bundler: all of a failed one, and what an operation paid too little."""
        with self._lock:
            open_ones = [known for known in self._known.of(user_id) if known.at_risk]
        for known in open_ones:
            receipt = self.chain.receipt(known.transaction) if known.transaction else None
            if receipt is not None:
                found = receipts.receipt_from_logs(
                    self._hash(known.operation), self.deployment.entry_point, receipt
                )
                paid = 0 if found is None else int(found["actual_gas_cost"], 16)
                lost = max(0, receipt.gas_used * receipt.effective_gas_price - paid)
                self._risk.give_back(user_id, known.at_risk - lost, known.day)
                self._gas_budget.give_back(user_id, known.gas - receipt.gas_used, known.day)
                known.at_risk = known.gas = 0

    def _receipt(self, request: Mapping[str, object], user_id: str) -> Reply:
        result = parse_bytes("result", request.get("result"))
        if len(result) != 32:
            raise BadRequest("result: not 32 bytes")
        entry_point = self.deployment.entry_point
        with self._lock:
            known = self._known.get(user_id, result)
        sent = self.chain.receipt(known.transaction) if known and known.transaction else None
        found = receipts.receipt_from_logs(result, entry_point, sent) if sent else None
        if found is None and (other := self._find(result)) is not None:
            # Another bundler's transaction, or one from before this service's memory.
            found = receipts.receipt_from_logs(result, entry_point, other)
        if found is not None:
            return found
        if known is None:
            raise UnknownOperation(f"no operation {to_wire(result)}")
        if sent is not None:
            return receipts.reverted_bundle_receipt(result, known.operation, entry_point, sent)
        if not self.chain.code(entry_point):
            raise NoContract(entry_point)
        return receipts.pending_receipt(result, known.operation, entry_point)

    def _find(self, result: bytes) -> TransactionReceipt | None:
        """The transaction that carried an operation, by the chain's logs."""
        topics = (contracts.entry_point().abi.topic("UserOperationEvent"), result)
        logs = self.chain.logs(self.deployment.entry_point, topics)
        return self.chain.receipt(logs[-1].transaction_hash) if logs else None

    def _bundle(self, operation: UserOperation) -> bytes:
        """Send the operation in a bundle of its own, if the EntryPoint would take it.

        Raises:
            Refused: it would not, or the call would revert.
        """
        limits.check_fees(operation, self.chain.fees())
        entry_point = self.deployment.entry_point
        abi = contracts.entry_point().abi
        handle = abi.call("handleOps", [operation.abi_tuple()], self.bundler.address)

        def check(outcome: Outcome) -> None:
            if not outcome.success:
                raise Refused(abi.reason(outcome.output))
            if outcome.events is None:
                gas.check_call(self.chain, entry_point, operation)
                return
            reason = receipts.call_failure(entry_point, outcome.events)
            if reason is not None:
                raise gas.call_reverts(self.chain, operation, reason)

        # Whatever the base fee becomes, the transaction pays no more a unit of gas than it is paid.
        paid = operation.max_fee_per_gas, operation.max_priority_fee_per_gas
        return self.bundler.send(
            entry_point, handle, gas=_bundle_gas(operation), check=check, most_fees=paid
        )

    # --- helpers ----------------------------------------------------------------------------------

    def _hash(self, operation: UserOperation) -> bytes:
        return operation.hash(self.deployment.entry_point, self.chain.chain_id)

    def _reply(self, endpoint: Endpoint, values: Mapping[str, Value]) -> Reply:
        """The reply of an endpoint: the fields that it supplies, in its spelling."""
        return {entry.key(endpoint): to_wire(values[entry.name]) for entry in supplied_by(endpoint)}

    @staticmethod
    def _raise_if_nearly_known(
        operation: UserOperation, candidates: Iterable[KnownOperation], here: str, there: str
    ) -> None:
        """Refuse an operation that is nearly one of the candidates, naming what differs.

        Raises:
            Inconsistent: there is a candidate with the same sender and nonce, or one that differs
                in a single field.
        """
        nearest: list[tuple[str, Value, Value]] | None = None
        for candidate in candidates:
            differences = operation.differences(candidate.operation)
            names = {name for name, _, _ in differences}
            related = not names & {"sender", "nonce"} or len(names) == 1
            # The latest of the nearest: a caller who asked twice means the second answer.
            if related and (nearest is None or len(differences) <= len(nearest)):
                nearest = differences
        if nearest:
            raise Inconsistent(
                "; ".join(
                    f"{name}: {abbreviate(mine)} in {here}, {abbreviate(theirs)} in {there}"
                    for name, mine, theirs in nearest
                )
            )


def _bundle_gas(operation: UserOperation) -> int:
    """Return the gas of the transaction that carries an operation.

    The EntryPoint wants both limits in hand after validation has used up to one of them, in a frame
    that receives 63/64 of the gas (EIP-150).
    """
    limit = (
        operation.call_gas_limit
        + 2 * operation.verification_gas_limit
        + operation.pre_verification_gas
        + BUNDLE_OVERHEAD_GAS
    )
    return limit + limit // 63


def _owner(request: Mapping[str, object]) -> ChecksumAddress:
    return parse_address("address", request.get("address"))


def _only(
    request: Mapping[str, object], required: tuple[str, ...], optional: tuple[str, ...] = ()
) -> None:
    """Refuse members that are missing or unknown."""
    for name in required:
        if name not in request:
            raise BadRequest(f"{name}: missing")
    if unknown := sorted(request.keys() - {*required, *optional}):
        raise BadRequest(f"{unknown[0]}: unknown field")

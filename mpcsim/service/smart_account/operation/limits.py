"""Limits of what one caller may cost the others, or the sponsor.

========================  ======================================  =================================
value that a caller sets  least                                   most
========================  ======================================  =================================
max_fee_per_gas           base fee, ``1 / HEADROOM`` of it, and   ``FEE_MULTIPLE`` times what the
                          the chain's priority fee                chain asks now
max_priority_fee_per_gas  the chain's priority fee, which the     max_fee_per_gas
                          bundler's transaction pays
pre_verification_gas      what the bundle costs                   that and ``gas.MARGIN``
call_gas_limit            what the call uses                      ``gas.MAX_CALL_GAS``
verification_gas_limit    what validation uses                    ``gas.MAX_VERIFICATION_GAS``
init_code, call_data      nothing                                 ``fields.MAX_BYTES`` each
sponsored operations      none                                    a budget a user and day
transactions that fail    none                                    a budget a user and day
gas that is used          none                                    a budget a user and day, of a
                                                                  chain of our own: it remembers
========================  ======================================  =================================

What the bundler risks (ERC-7562)
    Accounts and paymasters may be anybody's, and this bundler looks at what validation returns, not
    at how it runs: it checks none of the rules on opcodes, code, storage and stakes (OP, COD, STO,
    EREP), for which a node would have to trace the call. It needs none of them between operations,
    since each has a transaction to itself, and simulates each once more just before it is sent.
    What is left: validation that goes through in the simulation and not in the block, because it
    looked at the block, or because the state was changed in between. Then the transaction reverts
    and the bundler pays for it. In place of reputation by entity (EREP, UREP) that loss is bounded
    by user: the most that transactions on their way may cost is taken out of a user's budget of the
    day, and given back when they succeed.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from mpcsim.service.smart_account.chain.chain import Fees
from mpcsim.service.smart_account.errors import BadRequest, BudgetSpent
from mpcsim.service.smart_account.operation.operation import UserOperation

FEE_MULTIPLE: Final = 5
"""The base fee grows by an eighth a block: fourteen full blocks in a row use this up."""

HEADROOM: Final = 4
"""A transaction that offers the base fee of now waits as soon as that rises, and with it, since an
account's transactions go in order, everybody's after it. So an operation leaves room for a quarter
more: one full block's growth, and two where the priority fee is 2 % of the base fee. More would
refuse operations between their gas step and their sending: with its default, twice the base fee,
one may be sent after three full blocks. A base fee that rises by more within one block's time still
holds the account up until it falls."""

REMEMBERED_OF_USER: Final = 64
"""Operations of one user in memory; the oldest give way."""
REMEMBERED: Final = 4096
"""Operations of all users in memory, of 200 kB at most and 1 kB as a rule. The oldest of whoever
has most give way. Receipts outlive them: they are read from the chain's logs."""

PAYMASTER_VERIFICATIONS: Final = 3
"""EntryPoint v0.6 reserves so many times ``verification_gas_limit`` when a paymaster pays."""
DAY_S: Final = 86_400
DEFAULT_BUDGET: Final = 10**18
"""Budget of a user and day in wei, one coin: some two hundred sponsored operations at 3 gwei. As
much again may be lost in transactions that fail. A restart of the gateway begins it anew."""
NO_BOUND: Final = 1 << 256
"""Budget that nobody can spend."""


def check_fees(operation: UserOperation, fees: Fees) -> None:
    """Check that an operation pays what its transaction costs, and not much more.

    Raises:
        BadRequest: a fee is outside the table's bounds.
    """
    most = FEE_MULTIPLE * fees.maximum
    minimum = fees.base_fee + -(-fees.base_fee // HEADROOM) + fees.priority
    for name, value, least in (
        ("max_priority_fee_per_gas", operation.max_priority_fee_per_gas, fees.priority),
        ("max_fee_per_gas", operation.max_fee_per_gas, minimum),
    ):
        if value < least:
            raise BadRequest(f"{name}: below {least}, what the chain asks now")
        if value > most:
            raise BadRequest(f"{name}: above {most}, {FEE_MULTIPLE} times what the chain asks now")
    if operation.max_priority_fee_per_gas > operation.max_fee_per_gas:
        raise BadRequest("max_priority_fee_per_gas: above max_fee_per_gas")


def most_cost(operation: UserOperation) -> int:
    """Return what a sponsored operation costs its paymaster at the most, in wei."""
    gas = (
        operation.call_gas_limit
        + PAYMASTER_VERIFICATIONS * operation.verification_gas_limit
        + operation.pre_verification_gas
    )
    return gas * operation.max_fee_per_gas


class Budget:
    """Budget of each user and day; any thread may call."""

    def __init__(
        self,
        wei: int,
        now: Callable[[], float],
        spender: str = "paymaster",
        unit: str = "wei",
    ) -> None:
        """
        Args:
            wei: for each user and day; or as many of another unit.
            now: seconds since 1970 UTC; a day begins at midnight.
            spender: who pays, for the refusal's text.
        """
        self.wei = wei
        self._unit = unit
        self._now = now
        self._spender = spender
        self._day = 0
        self._spent: dict[str, int] = {}
        self._lock = threading.Lock()

    def spend(self, user_id: str, wei: int) -> int:
        """Take what an operation may cost out of a user's budget of the day; returns the day.

        Raises:
            BudgetSpent: that is more than what is left.
        """
        with self._lock:
            now = self._begin_day()
            left = self.wei - self._spent.get(user_id, 0)
            if wei > left:
                raise BudgetSpent(
                    f"{self._spender}: it would cost up to {wei} {self._unit}, and {left} of "
                    f"{self.wei} {self._unit} a day are left for this user",
                    max(1, int((self._day + 1) * DAY_S - now)),
                )
            self._spent[user_id] = self.wei - left + wei
            return self._day

    def give_back(self, user_id: str, wei: int, day: int) -> None:
        """Undo a part of what was taken, unless the day of that is over."""
        with self._lock:
            self._begin_day()
            if day == self._day:
                self._spent[user_id] -= wei

    def _begin_day(self) -> float:
        now = self._now()
        day = int(now // DAY_S)
        if day > self._day:
            self._day, self._spent = day, {}
        return now


@dataclass
class KnownOperation:
    """An operation that the gas step has answered."""

    operation: UserOperation
    digested: bool = False
    transaction: bytes | None = field(default=None, repr=False)
    at_risk: int = 0
    """Wei taken for its transaction out of its user's budget, until its receipt is there;"""
    gas: int = 0
    """The same in units of gas;"""
    day: int = 0
    """and on which day."""


class KnownOperations:
    """Operations by user and hash; a user's are nobody else's. Not for several threads at once."""

    def __init__(self) -> None:
        self._of: dict[str, OrderedDict[bytes, KnownOperation]] = {}
        self._count = 0

    def get(self, user_id: str, user_op_hash: bytes) -> KnownOperation | None:
        """Return a user's operation, if it is known."""
        own = self._of.get(user_id)
        return None if own is None else own.get(user_op_hash)

    def of(self, user_id: str) -> Iterator[KnownOperation]:
        """Yield a user's operations, the latest last."""
        if own := self._of.get(user_id):
            yield from own.values()

    def put(self, user_id: str, user_op_hash: bytes, operation: UserOperation) -> None:
        """Remember an operation as its user's latest; what is known of it already stays."""
        own = self._of.setdefault(user_id, OrderedDict())
        if user_op_hash not in own:
            own[user_op_hash] = KnownOperation(operation)
            self._count += 1
        own.move_to_end(user_op_hash)
        while len(own) > REMEMBERED_OF_USER:
            self._forget_oldest(user_id)
        if self._count > REMEMBERED:
            self._forget_oldest(max(self._of, key=lambda each: len(self._of[each])))

    def _forget_oldest(self, user_id: str) -> None:
        own = self._of[user_id]
        own.popitem(last=False)
        self._count -= 1
        if not own:
            del self._of[user_id]

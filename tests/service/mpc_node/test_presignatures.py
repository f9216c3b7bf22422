"""Presignatures that an MPC node keeps: used once on either side, bounded, gone with their key."""

from __future__ import annotations

from contextlib import suppress
from types import SimpleNamespace

import pytest

from mpcsim.crypto.rng import SeededRng
from mpcsim.service.errors import Refused
from mpcsim.service.mpc_node import presignatures
from mpcsim.service.mpc_node.presignatures import PresignatureShares, UsageTokens


class Keeping:
    """Parts or allowances: ``number`` names one of a key's."""

    def __init__(self, parts):
        self.kept = PresignatureShares() if parts else UsageTokens()
        self.parts = parts
        self.usage_tokens = {}

    def put(self, key_id, *numbers):
        for number in numbers:
            if self.parts:
                part = SimpleNamespace(id=bytes([number]))
                self.kept.keep(key_id, [part])
            else:
                self.usage_tokens[key_id, number] = self.kept.issue(key_id, 1, SeededRng(number))

    def take(self, key_id, number):
        if self.parts:
            self.kept.take(key_id, bytes([number]))
        else:
            self.kept.use(key_id, self.usage_tokens[key_id, number], 0)

    def there(self, key_id, *numbers):
        """Those that are there; afterwards they are not."""
        found = []
        for number in numbers:
            with suppress(Refused):
                self.take(key_id, number)
                found.append(number)
        return found


@pytest.fixture(params=[True, False], ids=["parts", "allowances"])
def keeping(request):
    return Keeping(request.param)


def test_each_is_used_once_and_of_its_own_key(keeping):
    keeping.put("a", 1, 2)
    keeping.usage_tokens["b", 1] = keeping.usage_tokens.get(("a", 1), b"")
    assert keeping.there("b", 1) == []
    assert keeping.there("a", 1, 1, 2, 2) == [1, 2]


def test_an_allowance_is_for_each_number_below_its_count():
    usage_tokens = UsageTokens()
    allowance = usage_tokens.issue("a", 2, SeededRng(1))
    for index in (0, 1):
        usage_tokens.use("a", allowance, index)
    for other in ((allowance, 2), (bytes(len(allowance)), 0)):
        with pytest.raises(Refused):
            usage_tokens.use("a", *other)


def test_of_one_key_the_oldest_go(keeping, monkeypatch):
    monkeypatch.setattr(presignatures, "MAX_OF_A_KEY", 3)
    for count, left in ((2, [0, 1]), (3, [0, 1, 2]), (4, [1, 2, 3])):
        keeping.put("other", 9)
        keeping.put("a", *range(count))
        assert keeping.there("a", *range(count)) == left
        assert keeping.there("other", 9) == [9]


def test_of_all_keys_that_one_goes_which_got_none_for_longest(keeping, monkeypatch):
    monkeypatch.setattr(presignatures, "MAX_OF_ALL", 5)
    for more, left in (([], [1, 2]), ([10], [1, 2]), ([10, 11], [])):
        keeping.put("a", 0)
        keeping.put("b", 1, 2)
        keeping.put("a", 3)
        keeping.put("c", *more)
        assert keeping.there("b", 1, 2) == left
        assert keeping.there("a", 0, 3) == [0, 3]
        assert keeping.there("c", *more) == more


def test_what_is_used_or_forgotten_makes_room(keeping, monkeypatch):
    monkeypatch.setattr(presignatures, "MAX_OF_ALL", 4)
    for _ in range(3):
        keeping.put("a", 1, 2)
        keeping.put("b", 3, 4)
        assert keeping.there("a", 1, 2) == [1, 2]
        keeping.kept.forget("b")
        assert keeping.there("b", 3, 4) == []
    keeping.put("a", 1, 2)
    keeping.kept.clear()
    keeping.put("b", 1, 2, 3, 4)
    assert keeping.there("a", 1, 2) == []
    assert keeping.there("b", 1, 2, 3, 4) == [1, 2, 3, 4]

"""Generators that draw what published vectors say was drawn, or what they will say."""

import hashlib


class Drawn:
    """Draws of ``size`` bytes are those given, one after the other; others come from ``rest``."""

    reproducible = True

    def __init__(self, size, given, rest=None):
        self.size, self.given, self.rest = size, iter(given), rest

    def bytes(self, n):
        return next(self.given) if n == self.size else self.rest.bytes(n)


class DrawnRoot:
    """A party's root generator whose first round draws what is given."""

    def __init__(self, size, given, root):
        self.size, self.given, self.root = size, given, root

    def fork(self, label):
        forked = self.root.fork(label)
        first = label.startswith("round 1 ")
        return Drawn(self.size, self.given, forked) if first else forked


class Stream:
    """Draws are the bytes of SHAKE-256 of a label, one after the other; all are noted."""

    reproducible = True

    def __init__(self, label):
        self.label = label
        self.draws = []

    def bytes(self, n):
        at = sum(map(len, self.draws))
        drawn = hashlib.shake_256(self.label.encode()).digest(at + n)[at:]
        self.draws.append(drawn)
        return drawn


class RoundRoot:
    """A party's root generator; each round has one of its own, whatever the party received."""

    def __init__(self, of_round):
        self.of_round = of_round
        self.rounds = {}

    def fork(self, label):
        what, number, *_ = label.split()
        if what != "round":
            return Stream(label)  # of a notice that the party has aborted
        self.rounds[int(number)] = self.of_round(int(number))
        return self.rounds[int(number)]

"""Generators that draw what published vectors say was drawn."""


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

"""A party has a colour of its own, that can be told apart and read, in every picture."""

from mpcsim.sim.colours import PALETTE, party_colour

SEVEN = [party_colour(i) for i in range(1, 8)]


def luminance(colour: str) -> float:
    """Relative luminance of a colour (WCAG 2.1)."""
    parts = [byte / 255 for byte in bytes.fromhex(colour[1:])]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(weight * p for weight, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def test_seven_parties_can_be_told_apart():
    assert len({c.line for c in SEVEN}) == len({c.on_light for c in SEVEN}) == 7
    assert len({c.on_dark for c in SEVEN}) == 7
    assert {c.line for c in SEVEN} <= set(PALETTE)
    assert party_colour(8) == SEVEN[0]


def test_text_on_them_can_be_read():
    for colour in SEVEN:
        assert contrast(colour.on_light, "#FFFFFF") >= 4.5
        assert contrast(colour.on_dark, "#111111") >= 4.5

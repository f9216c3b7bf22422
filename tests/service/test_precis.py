"""Names and passwords by RFC 8265: its own examples (3.5 and 4.3), and how they may be spelt."""

import unicodedata

import pytest

from mpcsim.errors import UsageError
from mpcsim.service.precis import enforce_password, enforce_username

NAMES = [
    *((same, same) for same in ("juliet@example.com", "fussball", "fu\xdfball", "\u03c0")),
    *((same, same) for same in ("\u03a3", "\u03c3", "\u03c2", "x" * 64, "\u05d0\u05d1")),
    *(("e\u0301", "\xe9"), ("\uff41\uff11", "a1"), ("\u212bke", "\xc5ke")),
    ("e\u0301" * 64, "\xe9" * 64),
]


@pytest.mark.parametrize(("text", "name"), NAMES)
def test_names(text, name):
    assert enforce_username(text) == enforce_username(name) == name


NO_NAMES = [
    *(("foo bar", "U+0020 spaces"), (" alice", "U+0020"), ("alice\u3000", "U+3000")),
    *(("", "not 1 to 64"), ("x" * 65, "not 1 to 64"), ("x" * 10**6, "not 1 to 64")),
    *(("henry\u2163", "U+2163 has compat"), ("\u265a", "U+265A symbols")),
    *(("a\nb", "U+000A controls"), ("a\u200db", "U+200D"), ("\ud800", "U+D800")),
    *(("\u05d0a", "bidi rule"), ("a\u200b", "U+200B"), ("a\u0378", "U+0378 unassigned")),
]


@pytest.mark.parametrize(("text", "why"), NO_NAMES)
def test_what_is_no_name_is_told_by_its_character(text, why):
    with pytest.raises(UsageError, match=f"^username: .*{why.replace('+', '.')}"):
        enforce_username(text)


PASSWORDS = [
    *((a, a) for a in ("correct horse battery staple", "\u03c0\xdf\xe5", " a ", "x" * 256)),
    *((a, a) for a in ("Correct Horse Battery Staple", "Jack of \u2666s", "\U0001f600")),
    *(("foo\u1680bar", "foo bar"), ("\xa0\u3000", "  "), ("e\u0301" * 256, "\xe9" * 256)),
    ("\uff41", "\uff41"),  # widths stay
]


@pytest.mark.parametrize(("text", "password"), PASSWORDS)
def test_passwords(text, password):
    assert enforce_password(text) == enforce_password(password) == password


NO_PASSWORDS = [
    *("", "x" * 257, "x" * 10**6, "e\u0301" * 257, "my cat is a \tby", "a\0", "\ud800"),
    *("\ue000", "\u200b", "\u0378", "\ufffe"),
]


@pytest.mark.parametrize("text", NO_PASSWORDS)
def test_what_is_no_password_is_not_shown(text):
    with pytest.raises(UsageError, match=r"^password: (not 1 to 256|refused by RFC)") as refused:
        enforce_password(text)
    assert refused.value.__suppress_context__ or refused.value.__context__ is None


@pytest.mark.parametrize(("enforce", "most"), [(enforce_username, 64), (enforce_password, 256)])
def test_the_longest_is_taken_however_many_characters_spell_it(enforce, most):
    """In Unicode, at most four make one."""
    longest = "\u1f82" * most
    spelt = unicodedata.normalize("NFD", longest)
    assert len(spelt) == 4 * most
    assert enforce(spelt) == longest

"""User names and passwords in their one spelling (PRECIS, RFC 8265), where they enter.

One name is one user, and one password opens what it sealed, however a keyboard spells a letter:
names by the profile ``UsernameCasePreserved``, passwords by ``OpaqueString``. What a profile
refuses is refused with a sentence; which characters there are is for Python's edition of Unicode.
"""

from __future__ import annotations

from typing import Final

from precis_i18n import get_profile

from mpcsim.errors import UsageError

MAX_USERNAME_CHARS: Final = 64
MAX_PASSWORD_CHARS: Final = 256
MOST_SPELT: Final = 4
"""Highest number of characters that one character of a normalised text was spelt with (of NFC in
NFD)."""

_USERNAME: Final = get_profile("UsernameCasePreserved")
_PASSWORD: Final = get_profile("OpaqueString")


def enforce_username(text: str) -> str:
    """Return the one spelling of a user's name: of equal width, in NFC, without spaces.

    Raises:
        UsageError: it is no name; the sentence says which character makes it none.
    """
    name = ""
    if 0 < len(text) <= MOST_SPELT * MAX_USERNAME_CHARS:
        try:
            name = _USERNAME.enforce(text)
        except UnicodeEncodeError as error:
            where = " and ".join(f"U+{ord(c):04X}" for c in error.object[error.start : error.end])
            why = error.reason.rpartition("/")[2].replace("_", " ")
            raise UsageError(
                f"username: {where} {why}: refused by RFC 8265, UsernameCasePreserved"
            ) from None
    if not 1 <= len(name) <= MAX_USERNAME_CHARS:
        raise UsageError(f"username: not 1 to {MAX_USERNAME_CHARS} characters")
    return name


def enforce_password(text: str) -> str:
    """Return the one spelling of a password: in NFC, every space a plain one.

    Raises:
        UsageError: it is none; nothing of it is shown.
    """
    password = ""
    if 0 < len(text) <= MOST_SPELT * MAX_PASSWORD_CHARS:
        try:
            password = _PASSWORD.enforce(text)
        except UnicodeEncodeError:
            raise UsageError("password: refused by RFC 8265, OpaqueString") from None
    if not 1 <= len(password) <= MAX_PASSWORD_CHARS:
        raise UsageError(f"password: not 1 to {MAX_PASSWORD_CHARS} characters")
    return password

"""Names of calls that make a key, so that they may be repeated: ``Idempotency-Key``.

The name goes from the caller to the REST node and on to the gateway, as it is; MPC nodes do not
hear of it. To the gateway the node says with it which call of its own it is for: a ``generate``
whose key turns out to be in force goes on as a recovery, and is still that ``generate``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self

from starlette.datastructures import Headers

from mpcsim.errors import UsageError

HEADER: Final = "Idempotency-Key"
VERB_HEADER: Final = "Idempotency-Verb"
MAX_CHARS: Final = 255
PATTERN: Final = r"^[ -~]{1,255}$"
EXPECTED: Final = f"1 to {MAX_CHARS} printable ASCII characters"

GENERATE, RECOVER = "generate", "recover"
MEANT_BY: Final = {GENERATE: (GENERATE,), RECOVER: (RECOVER, GENERATE)}
"""Verbs at the gateway, and what the caller of the node may have asked for."""


@dataclass(frozen=True)
class CallName:
    """A call's name, and what it asks for."""

    text: str
    verb: str

    def headers(self) -> dict[str, str]:
        """Return the headers of a request to the gateway."""
        return {HEADER: self.text, VERB_HEADER: self.verb}

    @classmethod
    def from_headers(cls, headers: Headers, verb: str) -> Self | None:
        """Return the call's name from the headers of a request to the gateway; None: it has none.

        Args:
            verb: that the request is for.

        Raises:
            UsageError: they say what cannot be.
        """
        if not (texts := headers.getlist(HEADER)):
            return None
        if len(texts) > 1 or re.fullmatch(PATTERN, texts[0]) is None:
            raise UsageError(f"{HEADER}: not {EXPECTED}")
        meant = headers.get(VERB_HEADER, verb)
        if meant not in MEANT_BY[verb]:
            raise UsageError(f"{VERB_HEADER}: not {' or '.join(MEANT_BY[verb])}")
        return cls(texts[0], meant)

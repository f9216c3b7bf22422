"""The id of a request: its header, and how one is made."""

from __future__ import annotations

import os
from typing import Final

HEADER: Final = "X-Request-Id"
IN_SCOPE: Final = "mpcsim.request_id"
"""Key in a request's ASGI scope, for a server that answers in the application's place."""
USER_IN_SCOPE: Final = "mpcsim.user_id"
"""Key of the user whose request it turned out to be, if that is known."""


def new_request_id() -> bytes:
    """Return an id for a request that came without one."""
    return os.urandom(8).hex().encode()

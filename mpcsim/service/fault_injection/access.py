"""Access to the control interface of a service: address and token, in a file of its data folder."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from mpcsim.errors import UsageError
from mpcsim.service.operations.data_folder import open_beside, remove_unfinished

FILE: Final = "control.json"


@dataclass(frozen=True)
class ControlAccess:
    """Access to the control interface."""

    address: str
    token: str = field(repr=False)


@contextmanager
def write_access(data: Path, access: ControlAccess) -> Iterator[None]:
    """Write the access file, for its owner only, and delete it at the end of the block.

    Raises:
        UsageError: it cannot be written, or a file is there that no service has written.
    """
    path = data / FILE
    if os.path.lexists(path):
        try:
            read_access(data)  # left by a service that was killed
        except UsageError:
            raise UsageError(f"{path} is no file of a service's: move it away") from None
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        remove_unfinished(path)
        opened, new = open_beside(path)
        with open(opened, "w") as file:
            json.dump(asdict(access), file)
        new.rename(path)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    try:
        yield
    finally:
        with suppress(UsageError):
            if read_access(data) == access:
                path.unlink()


def read_access(data: Path) -> ControlAccess:
    """Return the access of the service that keeps its data in a folder.

    Raises:
        UsageError: there is none.
    """
    path = data / FILE
    try:
        return ControlAccess(**json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise UsageError(
            f"no service that runs with --control keeps its data in {data} (--data names another "
            "folder)"
        ) from None
    except (OSError, ValueError, TypeError):
        raise UsageError(f"{path}: it cannot be read, or is damaged") from None

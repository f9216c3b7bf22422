"""Progress of long commands: a bar with an estimate on standard error, if that is a terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from tqdm import tqdm

FORM = "{desc}: {percentage:3.0f}%|{bar}| {elapsed}, {remaining} to go"


class ProgressBar:
    """Bar of a command, a context manager; nothing where there is no terminal, or no tqdm.

    It begins once something is done, so that an error stands alone.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._bar: tqdm[object] | None = None
        self._shown = sys.stderr.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def update(self, part: float, what: str = "") -> None:
        """Show which part of the work, from 0 to 1, is done, and what is being done."""
        if not self._shown:
            return
        if self._bar is None:
            try:
                from tqdm import tqdm
            except ModuleNotFoundError:
                self._shown = False
                return
            self._bar = tqdm(total=1.0, bar_format=FORM, leave=False)
        self._bar.set_description_str(what or self._what, refresh=False)
        self._bar.update(part - self._bar.n)

    def write(self, text: str) -> None:
        """Write results to standard output at once; the bar stays below them."""
        if self._bar is not None:
            self._bar.clear()
        sys.stdout.write(text)
        sys.stdout.flush()
        if self._bar is not None:
            self._bar.refresh()

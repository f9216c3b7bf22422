"""Settings of the log of all servers, apart from what writes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mpcsim.service.process.settings import ValueKind, setting

FORMATS: Final = ("text", "json")
VARIABLE: Final = "LOG_FORMAT"
FOLDER_VARIABLE: Final = "LOG_FOLDER"
NO_FILES: Final = "off"
SUPERVISED: Final = "MPCSIM_SUPERVISED"
"""Environment variable that is set if whoever started this process tells people that it runs."""


def _format(text: str) -> str:
    if text.lower() not in FORMATS:
        raise ValueError
    return text.lower()


def format_setting() -> str:
    """The dataclass field that says how lines are written."""
    return setting(
        "text",
        VARIABLE,
        ValueKind(_format, "text or json"),
        "How what is logged is written. text: short, for people. json: a JSON object a line, with "
        "whole ids, for programs.",
    )


def _folder(text: str) -> str | None:
    return None if text.lower() == NO_FILES else text


def folder_setting() -> str | None:
    """The dataclass field that says where log files are written."""
    return setting(
        None,
        FOLDER_VARIABLE,
        ValueKind(_folder, f"a folder, or {NO_FILES}"),
        "Where what is logged is written, too, with a line for each request; mpcsim logs reads it. "
        "A process's files are at most 5 of 10 MB. mpcsim serve sets it to DATA/logs.",
    )


@dataclass(frozen=True)
class LogSettings:
    """Logging settings of all servers."""

    log_format: str = format_setting()
    log_folder: str | None = folder_setting()

"""The node's settings, from environment variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar
from urllib.parse import urlsplit

LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR")

T = TypeVar("T")


class SettingsError(Exception):
    """A variable has a value that makes no sense; the message names it and fits on one line."""


@dataclass(frozen=True)
class Settings:
    """What a deployment can choose. Only the gateway's address has no default."""

    waas_api_url: str | None = None
    """``WAAS_API_URL``: base address of the gateway. Without it only the health check works."""
    app_port: int = 9091
    """``APP_PORT``."""
    app_host: str = "127.0.0.1"
    """``APP_HOST``: address to listen on. This machine alone by default, since whoever reaches the
    node can try tokens on it; a container sets 0.0.0.0 and leaves the restriction to its network.
    """
    build_type: str = "development"
    """``BUILD_TYPE``: shown in the health record."""
    gateway_timeout_s: float = 30.0
    """``GATEWAY_TIMEOUT_S``: how long one request to the gateway may take."""
    workers: int = 1
    """``WORKERS``: processes that share the port."""
    log_level: str = "INFO"
    """``LOG_LEVEL``: the lowest level that is logged."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Settings:
        """Read the variables; an empty one counts as unset.

        Raises:
            SettingsError: a variable has an impossible value.
        """

        def read(name: str, parse: Callable[[str], T], default: T, wanted: str) -> T:
            text = environment.get(name, "").strip()
            if not text:
                return default
            try:
                return parse(text)
            except ValueError:
                raise SettingsError(f"{name} must be {wanted}") from None

        return cls(
            waas_api_url=read(
                "WAAS_API_URL", _address, None, "an address such as https://gateway.example"
            ),
            app_port=read("APP_PORT", _port, cls.app_port, "a port number, 1 to 65535"),
            app_host=read("APP_HOST", str, cls.app_host, "an IP address"),
            build_type=read("BUILD_TYPE", str, cls.build_type, "a word"),
            gateway_timeout_s=read(
                "GATEWAY_TIMEOUT_S", _seconds, cls.gateway_timeout_s, "seconds above 0, up to 600"
            ),
            workers=read("WORKERS", _workers, cls.workers, "a number of processes, 1 to 64"),
            log_level=read("LOG_LEVEL", _level, cls.log_level, "one of " + ", ".join(LEVELS)),
        )


def _address(text: str) -> str | None:
    parts = urlsplit(text)
    unwanted = parts.query or parts.fragment or parts.username is not None
    if parts.scheme not in ("http", "https") or not parts.hostname or unwanted:
        raise ValueError
    _ = parts.port  # raises ValueError if it is none
    return text.rstrip("/")


def _port(text: str) -> int:
    return _within(int(text), 1, 65535)


def _workers(text: str) -> int:
    return _within(int(text), 1, 64)


def _within(number: int, low: int, high: int) -> int:
    if not low <= number <= high:
        raise ValueError
    return number


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds <= 600:
        raise ValueError
    return seconds


def _level(text: str) -> str:
    if text.upper() not in LEVELS:
        raise ValueError
    return text.upper()

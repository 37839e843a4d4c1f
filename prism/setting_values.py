"""Turns the text of one setting into its value, or raises ValueError with the rule that it breaks.

Pure; called by `prism.settings`.

The same function reads a flag and an environment variable, so both follow one rule.
"""

import math
import re
from collections.abc import Callable
from enum import StrEnum
from typing import TypeVar
from urllib.parse import SplitResult, urlsplit

from ipc.messages import DeviceChoice

_Choice = TypeVar("_Choice", bound=StrEnum)
_ON = ("1", "on", "true", "yes")
_OFF = ("0", "off", "false", "no")
_MAX_PORT = 65_535


class TemplateMode(StrEnum):
    """Which chat template renders a prompt: the model's own, one of ours by family, or the first that works."""

    AUTO = "auto"
    JINJA = "jinja"
    BUILTIN = "builtin"


class LogLevel(StrEnum):
    """How much the log says."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def whole_number(least: int, most: int | None = None) -> Callable[[str], int]:
    """Make a parser of whole numbers from `least` on."""
    rule = f"a whole number from {least} to {most}" if most is not None else f"a whole number, at least {least}"

    def parse(text: str) -> int:
        # int() would take "1_000" and digits of other scripts.
        if not re.fullmatch(r"[+-]?[0-9]{1,18}", text):
            raise ValueError(f"must be {rule}")

        value = int(text)

        if value < least or (most is not None and value > most):
            raise ValueError(f"must be {rule}")

        return value

    return parse


port_number = whole_number(0, _MAX_PORT)


def non_negative(unit: str) -> Callable[[str], float]:
    """Make a parser of finite numbers from 0 on."""

    def parse(text: str) -> float:
        try:
            value = float(text) if text.isascii() and "_" not in text else math.nan
        except ValueError:
            value = math.nan

        if not math.isfinite(value) or value < 0:
            raise ValueError(f"must be a number of {unit}, 0 or more")

        return value

    return parse


def one_of(kind: type[_Choice]) -> Callable[[str], _Choice]:
    """Make a parser of one of the enum's words, in any case."""

    def parse(text: str) -> _Choice:
        try:
            return kind(text.lower())
        except ValueError:
            raise ValueError(f"must be one of {', '.join(kind)}") from None

    return parse


device_choice = one_of(DeviceChoice)


def switch(text: str) -> bool:
    """Read on or off, in the words that people use for them."""
    word = text.lower()

    if word not in _ON + _OFF:
        raise ValueError(f"must be one of {', '.join(_ON + _OFF)}")

    return word in _ON


def prefill_chunk(text: str) -> int:
    """Read a number of tokens; `off` is 0, the whole prompt at once."""
    if text.lower() == "off":
        return 0

    try:
        return whole_number(0)(text)
    except ValueError:
        raise ValueError("must be a whole number of tokens, 0 or more, or `off`") from None


def host(text: str) -> str:
    """Read an address or name to listen on: no scheme, no port, no path. Square brackets around IPv6 are taken off."""
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    is_name = re.fullmatch(r"[A-Za-z0-9._-]+", bare) is not None
    is_ipv6 = re.fullmatch(r"[0-9A-Fa-f:.]*(%[A-Za-z0-9._-]+)?", bare) is not None and bare.count(":") > 1

    if not is_name and not is_ipv6:
        raise ValueError("must be an address or a host name, without scheme and port")

    return bare


def model_name(text: str) -> str | None:
    """Read a model's name; None for a blank one."""
    return text.strip() or None


def api_key(text: str) -> str:
    """Check that a key can be sent in an Authorization header."""
    if not text:
        raise ValueError("must not be empty (an empty key would leave the server open)")

    if not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError("must be printable ASCII without spaces")

    return text


def api_keys_of_file(content: str) -> tuple[str, ...]:
    """Read one key a line; blank lines and lines that begin with # are skipped. A file without a key is an error."""
    lines = [line.strip() for line in content.splitlines()]
    keys = tuple(api_key(line) for line in lines if line and not line.startswith("#"))

    if not keys:
        raise ValueError("holds no key (that would leave the server open)")

    return keys


def cors_origin(text: str) -> str:
    """Read `*` or an origin as browsers write it: scheme and host in lower case, a port unless it is the usual one."""
    if text == "*":
        return text

    parts = _http_url(text)

    if parts is None or parts.path not in ("", "/") or parts.query or parts.fragment or "@" in parts.netloc:
        raise ValueError("must be `*` or an origin such as http://localhost:3000")

    return f"{parts.scheme}://{parts.netloc.lower()}"


def base_url(text: str) -> str:
    """Read the address of a running server; a trailing slash is taken off."""
    if _http_url(text) is None:
        raise ValueError("must be a URL such as http://127.0.0.1:5272/v1")

    return text.rstrip("/")


def _http_url(text: str) -> SplitResult | None:
    """Return the parts of a URL with a host; None for anything else, a port that is no number included."""
    try:
        parts = urlsplit(text)
        has_host = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None

    return parts if has_host and text.isprintable() and " " not in text else None

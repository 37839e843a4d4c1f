"""Where the Ollama daemon is: reads OLLAMA_HOST by the daemon's own rules. Called by `prism.settings`. Pure."""

import ipaddress
import re
from typing import Final

DEFAULT_URL: Final = "http://127.0.0.1:11434"
_DEFAULT_PORT: Final = 11_434
_PORT_OF_SCHEME: Final = {"http": 80, "https": 443}
# What a daemon listens on, and what a client on the same machine has to say to reach it.
_REACHABLE: Final = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]+")
_MAX_PORT: Final = 65_535


def daemon_url(text: str) -> str:
    """Return the base URL, without a slash at its end, that a value of OLLAMA_HOST means.

    Taken are a host, `host:port`, `:port` and URLs, with a path if the daemon is behind a proxy; IPv6 with and without brackets. A host
    without a scheme gets port 11434, a URL without a port that of its scheme. A port that is none counts as not given, as for the daemon.
    Raises ValueError with the rule that is broken.
    """
    bare = text.strip().strip("\"'").strip()

    if not bare:
        return DEFAULT_URL

    scheme, is_url, rest = bare.partition("://")
    scheme, rest = (scheme.lower(), rest) if is_url else ("http", bare)
    usual_port = _PORT_OF_SCHEME.get(scheme) if is_url else _DEFAULT_PORT
    authority, _, path = rest.partition("/")

    if usual_port is None or not _is_plain_path(path):
        raise ValueError("must be a host, a host and a port, or an http or https URL, such as 127.0.0.1:11434")

    host, port_text = _divided(authority)
    return f"{scheme}://{_written(host)}:{_port(port_text, usual_port)}/{path}".rstrip("/")


def _divided(authority: str) -> tuple[str, str]:
    """Return host and port, both as text and perhaps empty. A bare IPv6 address has no port."""
    if authority.startswith("["):
        host, _, rest = authority[1:].partition("]")
        return host, rest.removeprefix(":")

    if authority.count(":") > 1:
        return authority, ""

    host, _, port = authority.partition(":")
    return host, port


def _written(host: str) -> str:
    host = _REACHABLE.get(host, host)

    if _NAME.fullmatch(host):
        return host

    try:
        return f"[{_reachable_ipv6(ipaddress.IPv6Address(host))}]"
    except ValueError:
        raise ValueError("must name a host, such as 127.0.0.1 or [::1]") from None


def _reachable_ipv6(address: ipaddress.IPv6Address) -> ipaddress.IPv6Address:
    return ipaddress.IPv6Address("::1") if address.is_unspecified else address


def _port(text: str, usual: int) -> int:
    is_port = text.isascii() and text.isdigit() and len(text) <= 5 and 0 < int(text) <= _MAX_PORT
    return int(text) if is_port else usual


def _is_plain_path(path: str) -> bool:
    return path.isascii() and path.isprintable() and not set(path) & set(" ?#\\")

"""Who may talk to the server: Host, Origin and key. Pure decisions; `prism.http.guard` applies them to each request.

A page in a browser can reach a server on loopback. Two things give it away: a Host header with the name of its own site (DNS rebinding),
and an Origin header. Both are refused before anything else is looked at.
"""

import hashlib
import hmac
import ipaddress
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

LOCALHOST = "localhost"
_LARGEST_PORT = 65_535
# Written out, since parsers of URLs forgive too much: one takes `[::1]evil.com` for ::1, and skips a tab inside a name.
_AUTHORITY = re.compile(
    r"(?:\[(?P<ipv6>[0-9a-f.]*:[0-9a-f:.]*)\]|(?P<name>[a-z0-9_-]+(?:\.[a-z0-9_-]+)*)\.?)(?::(?P<port>[0-9]{0,5}))?",
    re.IGNORECASE,
)


def is_loopback(host: str) -> bool:
    """Say whether a name or address means this machine and nobody else."""
    if host == LOCALHOST:
        return True

    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False

    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def host_of(header: str) -> str | None:
    """Return the host of a Host header or an authority, lower case, without port, brackets and trailing dot; None if it is none."""
    found = _AUTHORITY.fullmatch(header)

    if found is None or int(found["port"] or 0) > _LARGEST_PORT:
        return None

    host: str = found["ipv6"] or found["name"]
    return host.lower()


@dataclass(frozen=True, slots=True)
class AccessRules:
    """What a server lets in.

    bound_host: the address or name that it listens on. api_keys: any one opens it; empty when it is open.
    cors_origins: origins of pages that may use it; "*" for every page.
    """

    bound_host: str
    api_keys: tuple[str, ...] = ()
    cors_origins: tuple[str, ...] = ()

    @property
    def is_loopback_bind(self) -> bool:
        """Whether only this machine can connect."""
        return is_loopback(self.bound_host.lower())

    def allows_host(self, headers: Sequence[str], target: str = "") -> bool:
        """Judge the Host headers of a request. On other binds than loopback every name may be a right one.

        target: of the request line; one that is a whole URL names a host too.
        """
        if not self.is_loopback_bind:
            return True

        hosts = [host_of(authority) for authority in (*headers, *_authority_of(target))]
        return len(headers) == 1 and all(host is not None and is_loopback(host) for host in hosts)

    def allows_origin(self, origin: str, host_header: str) -> bool:
        """Judge the Origin header of a request: given by the operator, or this server's own."""
        if "*" in self.cors_origins or origin in self.cors_origins:
            return True

        split = _split_origin(origin)
        return split is not None and split == host_header.lower()

    def cors_origin(self, origin: str) -> str | None:
        """Return what Access-Control-Allow-Origin says to a page of this origin; None for no such header."""
        if "*" in self.cors_origins:
            return "*"

        return origin if origin in self.cors_origins else None

    def allows_key(self, authorization: str | None) -> bool:
        """Judge an Authorization header. Compares with every key, in time that does not depend on what is right about it."""
        if not self.api_keys:
            return True

        given = _bearer_token(authorization)
        found = False

        for key in self.api_keys:
            found |= hmac.compare_digest(given, key.encode())

        return found


class KeyScopes:
    """Names for those who send different keys, from which no key can be told. Another server gives other names."""

    def __init__(self) -> None:
        self._salt = secrets.token_bytes(32)

    def scope_of(self, authorization: str | None) -> str:
        """Return the name for the key of an Authorization header, empty for none. A server that asks for no key tells them apart too."""
        token = _bearer_token(authorization)
        return hmac.new(self._salt, token, hashlib.sha256).hexdigest() if token else ""


def _bearer_token(authorization: str | None) -> bytes:
    scheme, _, token = (authorization or "").strip().partition(" ")
    return token.strip().encode("utf-8", "surrogateescape") if scheme.lower() == "bearer" else b""


def _authority_of(target: str) -> tuple[str, ...]:
    """Return the authority of a request target that is a whole URL; () for the usual ones, which are paths."""
    scheme, separator, rest = target.partition("://")
    return (re.split(r"[/?#]", rest, maxsplit=1)[0],) if separator and scheme.isalnum() else ()


def _split_origin(origin: str) -> str | None:
    """Return the authority of an http origin as it stands in a Host header."""
    scheme, separator, authority = origin.partition("://")
    return authority.lower() if separator and scheme.lower() in ("http", "https") else None

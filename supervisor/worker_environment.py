"""The environment of a worker: what an engine may need, without our secrets and without a way to the network."""

import os
import re
from pathlib import Path

import ipc

# Names that a worker must not see: keys, proxies (a worker has no business on the network), and the ways to the service manager.
_WITHHELD = frozenset(
    {
        "CREDENTIALS_DIRECTORY",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "NOTIFY_SOCKET",
        "WATCHDOG_USEC",
        "WATCHDOG_PID",
    }
)
# Other people's secrets, by what such names have in common: PRISM_API_KEY, HF_TOKEN, AWS_SECRET_ACCESS_KEY, PIP_INDEX_URL with a password.
_SECRET_WORDS = frozenset({"key", "keys", "token", "tokens", "secret", "secrets", "password", "passwd", "credentials"})
_URL_WITH_PASSWORD = re.compile(r"://[^/?#@]*@")


def worker_environment() -> dict[str, str]:
    """Return a fresh copy of our environment, made fit for a worker."""
    environment = {name: value for name, value in os.environ.items() if not _is_withheld(name, value)}
    # The worker runs in "/", so a checkout that is not installed must still be found; safe path keeps "/" itself off the search path.
    places = [str(Path(ipc.__file__).parent.parent), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(place for place in places if place)
    environment["PYTHONSAFEPATH"] = "1"
    environment["ORT_DISABLE_TELEMETRY"] = "1"
    environment["HF_HUB_OFFLINE"] = "1"
    return environment


def _is_withheld(name: str, value: str) -> bool:
    is_secret = not _SECRET_WORDS.isdisjoint(name.lower().split("_"))
    return name in _WITHHELD or is_secret or _URL_WITH_PASSWORD.search(value) is not None

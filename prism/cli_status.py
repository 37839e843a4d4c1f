"""`prism status`: asks a running server how it is. Loads no model and starts nothing; waits a few seconds at most."""

import json
from collections.abc import Mapping

import click

from prism.cli_failure import CommandFailed, settings_failure
from prism.log_lines import printable
from prism.setting_source import SettingsError

_TIMEOUT_S = 5.0
_MAX_ANSWER_BYTES = 1 << 20


@click.command()
@click.option(
    "--url", metavar="URL", help="The server's base URL. [default: PRISM_BASE_URL, else where `prism serve` listens]"
)
@click.option("--json", "as_json", is_flag=True, help="Print the server's answer as it came.")
def status(url: str | None, as_json: bool) -> None:  # noqa: FBT001 - a flag is what the option is
    """Show what a running server does. Ends with 1 when none answers."""
    # Imported here because it reaches into another package, which `prism.cli` must be able to find broken.
    from prism.settings import load_server_url

    try:
        base_url = load_server_url(url)
    except SettingsError as error:
        raise settings_failure(error) from error

    health = _health(base_url)
    click.echo(json.dumps(health, indent=2) if as_json else _as_text(base_url, health))


def _health(base_url: str) -> Mapping[str, object]:
    # Imported here: `prism serve` needs no HTTP client.
    from http.client import HTTPConnection, HTTPException, HTTPSConnection
    from urllib.parse import urlsplit

    parts = urlsplit(base_url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=_TIMEOUT_S)

    try:
        connection.request("GET", f"{parts.path.removesuffix('/v1')}/health")
        answer = connection.getresponse()
        health = json.loads(answer.read(_MAX_ANSWER_BYTES))
    except OSError as error:
        raise CommandFailed(f"no server answers at {base_url}: {error.strerror or error}") from error
    except (HTTPException, ValueError, RecursionError) as error:
        raise CommandFailed(f"what answers at {base_url} is not a Prism server") from error
    finally:
        connection.close()

    if answer.status != 200 or not isinstance(health, dict) or "status" not in health:
        raise CommandFailed(f"what answers at {base_url} is not a Prism server (status {answer.status})")

    return health


def _as_text(base_url: str, health: Mapping[str, object]) -> str:
    rows = [
        ("server", f"{base_url} (Prism {health.get('version', 'of an unknown version')})"),
        ("state", str(health.get("state", health["status"]))),
        ("model", str(health.get("active_model") or "none is loaded")),
        ("device", str(health.get("active_device") or "-")),
    ]

    if health.get("fallback_reason"):
        rows.append(("fallback", str(health["fallback_reason"])))

    return "\n".join(f"{name:<9} {printable(value)}" for name, value in rows)

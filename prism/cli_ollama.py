"""What the command line asks of the Ollama daemon: its list of models, and to pull one. Imported only when a command needs it."""

import asyncio

import click

from prism.cli_failure import CommandFailed, settings_failure
from prism.cli_progress import ReportProgress, show_progress
from prism.ollama.ask_once import ask_for_models
from prism.ollama.daemon import OllamaDaemon
from prism.ollama.errors import DaemonRefused, DaemonUnreachable, OllamaError
from prism.ollama.inventory import InstalledModel
from prism.ollama.pull import pull_model
from prism.setting_source import SettingsError
from prism.settings import load_ollama_url


def installed_models(url: str) -> tuple[InstalledModel, ...]:
    """Return what the daemon has. Says on stderr why one that cannot be asked has nothing. Blocks for 2 s at most."""
    try:
        return ask_for_models(url)
    except OllamaError as error:
        click.echo(f"prism: models of Ollama are not shown: {error}", err=True)
        return ()


def pull_with_ollama(name: str) -> None:
    """Have the daemon bring a model, and show how far it is. Raises CommandFailed."""
    if not name:
        raise click.UsageError("name a model behind `ollama:`, such as ollama:nomic-embed-text")

    url = _url()

    try:
        with show_progress() as progress:
            asyncio.run(_pull(url, name, progress))
    except OllamaError as error:
        raise CommandFailed(f"{name} was not pulled: {_reason(url, error)}") from error

    click.echo(f"{name} is installed with Ollama; use it as ollama:{name}")


def _reason(url: str, error: OllamaError) -> str:
    if isinstance(error, DaemonUnreachable):
        return f"{error}; is the Ollama daemon running there (OLLAMA_HOST)?"

    return str(error) if isinstance(error, DaemonRefused) else f"{url}: {error}"


def _url() -> str:
    try:
        return load_ollama_url()
    except SettingsError as error:
        raise settings_failure(error) from error


async def _pull(url: str, name: str, progress: ReportProgress) -> None:
    daemon = OllamaDaemon(url)

    try:
        await pull_model(daemon, name, progress)
    finally:
        await daemon.close()

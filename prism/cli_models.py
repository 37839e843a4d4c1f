"""`prism list` and `prism pull`: the models on this machine, and how one gets here. Both work without a server.

Models of the Ollama daemon are asked for by `prism.cli_ollama`.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from prism.catalog import DEMO_MODEL, PAGED_DEMO_MODEL, Catalog
from prism.cli_failure import CommandFailed, settings_failure
from prism.log_lines import printable
from prism.model_entry import ModelEntry
from prism.setting_source import SettingsError

if TYPE_CHECKING:
    from prism.ollama.inventory import InstalledModel
    from prism.settings import ModelPaths

_PULLABLE = (DEMO_MODEL, PAGED_DEMO_MODEL)
_OLLAMA_PREFIX = "ollama:"
_CONNECT_TIMEOUT_S = 2.0
_OLLAMA_ENGINE = "Ollama (llama.cpp)"


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def list_models(as_json: bool) -> None:  # noqa: FBT001 - a flag is what the option is
    """Show the installed models, also those of an Ollama daemon that runs."""
    models = Catalog(_paths().model_dirs).models()
    of_ollama = _models_of_ollama()

    if as_json:
        rows = [*map(_as_json, models), *map(_ollama_as_json, of_ollama)]
        click.echo(json.dumps(rows, indent=2))
    elif models or of_ollama:
        click.echo(_as_table(models, of_ollama))
    else:
        click.echo(f"No model is installed. `prism pull {DEMO_MODEL}` brings a small one.")


@click.command()
@click.argument("model")
@click.option(
    "--output-dir",
    metavar="FOLDER",
    help="Put the model's folder into this one. [default: the first one that is searched]",
)
def pull(model: str, output_dir: str | None) -> None:
    """Bring a model to this machine.

    MODEL is smollm2-135m, a small one that runs on any CPU, or smollm2-135m-paged, the same for several requests at
    once (`prism serve --parallel`), or ollama:NAME, which the Ollama daemon (OLLAMA_HOST) downloads for itself.
    """
    if model.strip().lower().startswith(_OLLAMA_PREFIX):
        from prism.cli_ollama import pull_with_ollama

        if output_dir is not None:
            raise click.UsageError("--output-dir has no meaning for models of Ollama, which keeps them itself")

        pull_with_ollama(model.strip()[len(_OLLAMA_PREFIX) :].strip())
        return

    name = model.strip().lower()

    if name not in _PULLABLE:
        raise CommandFailed(f"cannot pull {model!r}; what can be pulled: {', '.join(_PULLABLE)} and ollama:NAME")

    paths = _paths()
    folder = Path(output_dir).expanduser().absolute() if output_dir else paths.download_dir

    # Imported here: no other command needs the terminal library, or what reads and writes model files.
    from prism.cli_progress import show_progress
    from prism.pull.demo_model import DEMO_SOURCES, pull_smollm2
    from prism.pull.errors import PullError

    try:
        with show_progress() as progress:
            pull_smollm2(folder, progress=progress, source=DEMO_SOURCES[name])
    except (PullError, OSError) as error:
        raise CommandFailed(f"{model} was not pulled: {error}") from error

    click.echo(f"{name} is installed in {folder}")

    if folder not in paths.model_dirs:
        click.echo(f"To let Prism find it there, set PRISM_MODEL_DIRS={folder}")


def _paths() -> "ModelPaths":
    from prism.settings import load_model_paths

    try:
        return load_model_paths()
    except SettingsError as error:
        raise settings_failure(error) from error


def _models_of_ollama() -> "Sequence[InstalledModel]":
    from prism.ollama.listening import somebody_listens
    from prism.settings import load_ollama_url

    try:
        url = load_ollama_url()
    except SettingsError as error:
        raise settings_failure(error) from error

    if not somebody_listens(url, _CONNECT_TIMEOUT_S):
        return ()

    # Imported here: an HTTP client takes longer to load than everything else.
    from prism.cli_ollama import installed_models

    return installed_models(url)


def _as_json(model: ModelEntry) -> dict[str, object]:
    return {
        "id": model.id,
        "engine": model.owned_by,
        "size_mb": model.size_mb,
        "exported_for": model.exported_for,
        "model_type": model.model_type,
        "context_length": model.context_length,
        "created": model.created,
        "path": str(model.path),
    }


def _ollama_as_json(model: "InstalledModel") -> dict[str, object]:
    """The same keys; what the daemon does not tell in its list is null."""
    unknown = dict.fromkeys(("exported_for", "model_type", "context_length", "path"))
    return {"id": model.name, "engine": _OLLAMA_ENGINE, "size_mb": model.size_mb, "created": model.created, **unknown}


def _as_table(models: Sequence[ModelEntry], of_ollama: "Sequence[InstalledModel]") -> str:
    rows = [("ID", "SIZE", "EXPORTED FOR", "CONTEXT", "FOLDER")]
    rows += [
        (
            model.id,
            f"{model.size_mb:.1f} MB",
            model.exported_for,
            str(model.context_length or "?"),
            printable(str(model.path)),
        )
        for model in models
    ]
    rows += [(model.name, f"{model.size_mb:.1f} MB", "-", "-", "with Ollama") for model in of_ollama]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)

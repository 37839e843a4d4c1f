"""`prism list` and `prism pull`: the models on this machine, and how one gets here. Both work without a server."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from prism.catalog import DEMO_MODEL, Catalog
from prism.cli_failure import CommandFailed, settings_failure
from prism.log_lines import printable
from prism.model_entry import ModelEntry
from prism.setting_source import SettingsError

if TYPE_CHECKING:
    from prism.settings import ModelPaths

_PULLABLE = (DEMO_MODEL,)


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def list_models(as_json: bool) -> None:  # noqa: FBT001 - a flag is what the option is
    """Show the installed models."""
    models = Catalog(_paths().model_dirs).models()

    if as_json:
        click.echo(json.dumps([_as_json(model) for model in models], indent=2))
    elif models:
        click.echo(_as_table(models))
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

    MODEL is smollm2-135m, a small one that runs on any CPU.
    """
    if model.strip().lower() not in _PULLABLE:
        raise CommandFailed(f"cannot pull {model!r}; what can be pulled: {', '.join(_PULLABLE)}")

    paths = _paths()
    folder = Path(output_dir).expanduser().absolute() if output_dir else paths.download_dir

    # Imported here: no other command needs the terminal library, or what reads and writes model files.
    from prism.cli_progress import show_progress
    from prism.pull.demo_model import pull_smollm2
    from prism.pull.errors import PullError

    try:
        with show_progress() as progress:
            pull_smollm2(folder, progress=progress)
    except (PullError, OSError) as error:
        raise CommandFailed(f"{model} was not pulled: {error}") from error

    click.echo(f"{DEMO_MODEL} is installed in {folder}")

    if folder not in paths.model_dirs:
        click.echo(f"To let Prism find it there, set PRISM_MODEL_DIRS={folder}")


def _paths() -> "ModelPaths":
    from prism.settings import load_model_paths

    try:
        return load_model_paths()
    except SettingsError as error:
        raise settings_failure(error) from error


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


def _as_table(models: Sequence[ModelEntry]) -> str:
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
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)

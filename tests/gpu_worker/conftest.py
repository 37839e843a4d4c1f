"""Fixtures of the worker's tests: a real model of a few hundred kilobytes."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from prism.export.tiny_model import write_tiny_model

Copy = Callable[..., Path]


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GenAI folder with random weights. Do not change it: copy it."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    write_tiny_model(folder, context_length=512)
    return folder


@pytest.fixture
def copy_model(tiny_model: Path, tmp_path: Path) -> Copy:
    """Return a function that copies the tiny model; keyword arguments replace values of its config's `model` section."""

    def copy(name: str = "copy", **model: object) -> Path:
        folder = tmp_path / name
        shutil.copytree(tiny_model, folder)
        config = json.loads((folder / "genai_config.json").read_text())
        config["model"] |= model
        (folder / "genai_config.json").write_text(json.dumps(config))
        return folder

    return copy

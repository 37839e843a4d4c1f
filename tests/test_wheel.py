"""The wheel holds every module of the four packages, and nothing else.

The list of packages is written by hand and can forget one.
"""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from prism import __version__

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("prism", "supervisor", "gpu_worker", "ipc")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """Build the wheel from a copy, without the network and without leaving anything in the checkout."""
    source = tmp_path_factory.mktemp("source")

    for package in PACKAGES:
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))

    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)

    target = tmp_path_factory.mktemp("wheel")
    ended = subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(target), str(source)],
        capture_output=True,
        check=False,
        env={**os.environ, "PIP_NO_INDEX": "1"},
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (file,) = target.glob("*.whl")
    assert file.name == f"prism_local-{__version__}-py3-none-any.whl"
    return zipfile.ZipFile(file)


@pytest.mark.timeout(180)
def test_every_module_is_in_the_wheel_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    metadata = f"prism_local-{__version__}.dist-info/"
    packed = {name for name in wheel.namelist() if not name.startswith(metadata)}
    written = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.suffix == ".py" or path.name == "py.typed"
    }
    assert sorted(written - packed) == [], "missing in the wheel"
    assert sorted(packed - written) == [], "in the wheel without reason"


def test_the_wheel_has_the_command_and_the_licence(wheel: zipfile.ZipFile) -> None:
    metadata = f"prism_local-{__version__}.dist-info/"
    assert "prism = prism.cli:main" in wheel.read(f"{metadata}entry_points.txt").decode()
    assert "Apache License" in wheel.read(f"{metadata}licenses/LICENSE").decode()

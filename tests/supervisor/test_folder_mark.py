"""What counts as a change of a model folder."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from supervisor import folder_mark as subject
from supervisor.folder_mark import folder_mark


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "model"
    (path / "deep").mkdir(parents=True)
    (path / "genai_config.json").write_text("{}")
    (path / "deep" / "weights.bin").write_bytes(b"1234")
    (path / "link").symlink_to(path / "genai_config.json")
    return path


def _rewrite_with_the_same_size(folder: Path) -> None:
    path = folder / "genai_config.json"
    path.write_text("[]")
    os.utime(path, ns=(1, 1))


def _replace_keeping_size_and_time(folder: Path) -> None:
    path, new = folder / "genai_config.json", folder / "new"
    before = path.stat()
    new.write_text("[]")
    os.utime(new, ns=(before.st_atime_ns, before.st_mtime_ns))
    new.rename(path)


def _rewrite_and_put_the_time_back(folder: Path) -> None:
    path = folder / "genai_config.json"
    before = path.stat()
    path.write_text("[]")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _set_time(folder: Path) -> None:
    os.utime(folder / "deep" / "weights.bin", ns=(5, 5))


CHANGES: list[Callable[[Path], object]] = [
    _rewrite_with_the_same_size,
    _rewrite_and_put_the_time_back,
    _replace_keeping_size_and_time,
    _set_time,
    lambda folder: (folder / "deep" / "weights.bin").write_bytes(b"12345"),
    lambda folder: (folder / "tokenizer.json").touch(),
    lambda folder: (folder / "link").unlink(),
    lambda folder: (folder / "genai_config.json").rename(folder / "other.json"),
    lambda folder: (folder / "genai_config.json").chmod(0o600),
    lambda folder: (folder / "deep").rename(folder / "shallow"),
    lambda folder: folder.rename(folder.parent / "elsewhere"),
]


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_of_a_file_changes_the_mark(folder: Path, change: Callable[[Path], object]) -> None:
    before = folder_mark(folder)
    change(folder)

    assert folder_mark(folder) != before


def test_reading_changes_nothing(folder: Path) -> None:
    before = folder_mark(folder)
    (folder / "genai_config.json").read_text()
    (folder / "deep" / "weights.bin").read_bytes()

    assert folder_mark(folder) == before


def test_a_link_to_a_file_elsewhere_is_followed(folder: Path, tmp_path: Path) -> None:
    blob = tmp_path / "blob"
    blob.write_text("first")
    (folder / "cached").symlink_to(blob)
    before = folder_mark(folder)
    blob.write_text("second")

    assert folder_mark(folder) != before


def test_broken_and_circular_links_do_no_harm(folder: Path) -> None:
    (folder / "broken").symlink_to("nowhere")
    (folder / "circle").symlink_to("circle")
    (folder / "deep" / "up").symlink_to("..")

    assert folder_mark(folder) == folder_mark(folder)


def test_a_name_that_is_no_text_does_no_harm(folder: Path) -> None:
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff")).touch()

    assert folder_mark(folder) == folder_mark(folder)


def test_a_missing_folder_has_a_mark_of_its_own(tmp_path: Path, folder: Path) -> None:
    assert folder_mark(tmp_path / "nowhere") != folder_mark(folder)


def test_a_huge_folder_costs_a_bounded_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "MAX_FILES", 10)

    for number in range(50):
        (folder / str(number)).touch()

    assert folder_mark(folder) == folder_mark(folder)


def test_a_path_that_is_no_path_has_a_mark() -> None:
    assert folder_mark(Path("/models/\ud800")) == folder_mark(Path("/models/\0"))

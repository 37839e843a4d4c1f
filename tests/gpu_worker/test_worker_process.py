"""A real worker process at the other end of a real socket: its first words, its requests, its ends."""

import os
import resource
import select
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ipc.exit_status import WorkerExit
from ipc.messages import (
    Cancel,
    Delta,
    Device,
    Finished,
    FinishReason,
    Hello,
    Loaded,
    LoadFailCode,
    LoadFailed,
    Phase,
    Progress,
    Started,
)
from tests.gpu_worker.front_of_one import SECRET, Front
from tests.gpu_worker.scripted import request

pytestmark = pytest.mark.engine


@pytest.fixture
def front(runtime_dir: Path) -> Iterator[Front]:
    front = Front(runtime_dir)
    yield front
    front.close()


@pytest.fixture
def loaded(front: Front, tiny_model: Path) -> Front:
    """A front whose worker has loaded the tiny model."""
    front.spawn(tiny_model)
    front.receive_until(Loaded)
    return front


def test_a_worker_says_who_it_is_then_what_it_does_then_that_it_is_ready(front: Front, tiny_model: Path) -> None:
    front.spawn(tiny_model)
    hello = front.receive()
    assert isinstance(hello, Hello)
    assert front.process is not None
    assert (hello.secret, hello.generation, hello.pid) == (SECRET, 3, front.process.pid)
    assert front.receive() == Progress(phase=Phase.IMPORT)
    assert front.receive() == Progress(phase=Phase.LOAD)
    ready = front.receive()
    assert isinstance(ready, Loaded)
    assert ready.device is Device.CPU
    assert ready.fallback_reason
    assert ready.context_length
    assert ready.load_sec > 0


def test_a_front_that_knows_better_than_cuda_is_believed_and_quoted(front: Front, tiny_model: Path) -> None:
    front.spawn(tiny_model, no_cuda_reason="VRAM: 12.0 MiB are missing")
    ready = front.receive_until(Loaded)
    assert isinstance(ready, Loaded)
    assert (ready.device, ready.fallback_reason) == (Device.CPU, "VRAM: 12.0 MiB are missing")


def test_a_worker_serves_one_request_after_the_other(loaded: Front) -> None:
    for number in (1, 2):
        loaded.send(request("hello there", number=number, max_tokens=5))
        started = loaded.receive()
        assert isinstance(started, Started)
        end = loaded.receive_until(Finished)
        assert isinstance(end, Finished)
        assert (end.request_id, end.prompt_tokens) == (number, started.prompt_tokens)
        assert 1 <= end.completion_tokens <= 5


def test_a_cancel_stops_a_running_answer(loaded: Front) -> None:
    loaded.send(request("hello", max_tokens=100_000))
    loaded.receive_until(Delta)
    loaded.send(Cancel(1))
    end = loaded.receive_until(Finished)
    assert isinstance(end, Finished)

    # The tiny model fills its window within milliseconds, so the Cancel may cross the end; then the window was full.
    if end.reason is not FinishReason.CANCELLED:
        assert end.reason is FinishReason.LENGTH

    loaded.send(request("hello", number=2, max_tokens=2))
    assert loaded.receive_until(Finished).request_id == 2  # type: ignore[union-attr]


def test_a_front_that_closes_its_end_of_the_pipe_is_a_farewell(loaded: Front) -> None:
    loaded.cut_lifeline()
    assert loaded.wait()[0] == WorkerExit.OK


def test_a_farewell_under_a_generation_is_heard(loaded: Front) -> None:
    for number in range(200):
        loaded.send(request("hello", number=number, max_tokens=100_000))

    loaded.receive_until(Delta)
    loaded.cut_lifeline()
    assert loaded.wait()[0] == WorkerExit.OK


def test_a_worker_of_another_parent_leaves_without_a_word(front: Front, tiny_model: Path) -> None:
    front.spawn(tiny_model, parent_pid=1)
    assert front.wait()[0] == WorkerExit.ORPHANED
    assert not front.has_message()


@pytest.mark.parametrize("is_busy", [False, True])
def test_a_killed_front_takes_its_worker_along(front: Front, tiny_model: Path, is_busy: bool) -> None:
    front.spawn_under_parent(tiny_model)
    hello = front.receive()
    assert isinstance(hello, Hello)
    pidfd = os.pidfd_open(hello.pid)

    try:
        front.receive_until(Loaded)

        if is_busy:
            for number in range(200):
                front.send(request("hello", number=number, max_tokens=100_000))

            front.receive_until(Delta)

        assert front.process is not None
        front.process.kill()
        # The pipe is still held by this test, so only the kernel can have ended the worker.
        ready, _, _ = select.select([pidfd], [], [], 5.0)
        assert ready, "the worker outlives its front"
    finally:
        os.close(pidfd)


def imports_of(pid: int) -> str:
    return Path(f"/proc/{pid}/maps").read_text()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30

    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_worker_that_is_started_ahead_has_its_engine_and_waits_for_its_model(front: Front, tiny_model: Path) -> None:
    front.spawn_ahead()
    assert front.process is not None
    pid = front.process.pid
    wait_until(lambda: "libonnxruntime.so" in imports_of(pid))
    # No word before there is somebody to say it to.
    assert not front.has_message()
    assert Path(f"/proc/{pid}/oom_score_adj").read_text().strip() == "500"

    front.tell(tiny_model)
    hello = front.receive()
    assert isinstance(hello, Hello)
    assert (hello.secret, hello.generation, hello.pid) == (SECRET, 3, pid)
    assert isinstance(front.receive_until(Loaded), Loaded)
    front.send(request("hello", max_tokens=2))
    assert isinstance(front.receive_until(Finished), Finished)


def test_one_that_waits_notices_another_parent_before_it_waits(front: Front) -> None:
    front.spawn_ahead(parent_pid=1)
    assert front.wait()[0] == WorkerExit.ORPHANED


def test_one_that_waits_ends_with_the_pipe(front: Front) -> None:
    front.spawn_ahead()
    assert front.process is not None
    pid = front.process.pid
    wait_until(lambda: "onnxruntime_genai" in imports_of(pid))
    front.cut_lifeline()
    assert front.wait()[0] in (WorkerExit.ORPHANED, WorkerExit.BAD_LAUNCH)


@pytest.mark.parametrize("is_ready", [False, True])
def test_a_killed_front_takes_one_that_waits_along(front: Front, is_ready: bool) -> None:
    pid = front.spawn_ahead_under_parent()
    pidfd = os.pidfd_open(pid)

    try:
        if is_ready:
            wait_until(lambda: "onnxruntime_genai" in imports_of(pid))

        assert front.process is not None
        front.process.kill()
        # The pipe is still held by this test, so only the kernel, or the look at its parent, can have ended it.
        ready, _, _ = select.select([pidfd], [], [], 5.0)
        assert ready, "it outlives its front"
    finally:
        os.close(pidfd)


def test_an_engine_that_is_missing_is_told_when_the_model_comes(front: Front, tiny_model: Path, tmp_path: Path) -> None:
    front.spawn_ahead(extra_path=engine_of(tmp_path, "raise ImportError('libonnxruntime.so.1: made up')"))
    front.tell(tiny_model)
    failed = front.receive_until(LoadFailed)
    assert isinstance(failed, LoadFailed)
    assert failed.code is LoadFailCode.ENGINE_MISSING
    assert "libonnxruntime.so.1" in failed.message


def test_ctrl_c_is_the_fronts_business_and_sigterm_ends_at_once(loaded: Front) -> None:
    assert loaded.process is not None
    loaded.process.send_signal(signal.SIGINT)
    loaded.send(request("hello", max_tokens=2))
    assert isinstance(loaded.receive_until(Finished), Finished)
    loaded.process.send_signal(signal.SIGTERM)
    assert loaded.wait()[0] == -signal.SIGTERM


def test_a_worker_leaves_no_core_and_goes_first_when_memory_is_short(loaded: Front) -> None:
    assert loaded.process is not None
    assert resource.prlimit(loaded.process.pid, resource.RLIMIT_CORE) == (0, 0)
    assert Path(f"/proc/{loaded.process.pid}/oom_score_adj").read_text().strip() == "500"


def test_a_folder_that_is_no_model_is_told_before_the_engine_is_imported(front: Front, tmp_path: Path) -> None:
    front.spawn(tmp_path)
    assert isinstance(front.receive(), Hello)
    failed = front.receive()
    assert isinstance(failed, LoadFailed)
    assert failed.code is LoadFailCode.BAD_MODEL
    assert "genai_config.json" in failed.message
    assert front.wait()[0] == WorkerExit.LOAD_FAILED


def test_a_broken_graph_is_told_and_ends_the_worker(front: Front, copy_model: Callable[..., Path]) -> None:
    folder = copy_model()
    (folder / "model.onnx").write_bytes(bytes(100))
    front.spawn(folder)
    failed = front.receive_until(LoadFailed)
    assert isinstance(failed, LoadFailed)
    assert failed.code is LoadFailCode.BAD_MODEL
    assert front.wait()[0] == WorkerExit.LOAD_FAILED


def engine_of(folder: Path, code: str) -> Path:
    package = folder / "engine" / "onnxruntime_genai"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(code)
    return folder / "engine"


def test_a_missing_engine_is_told(front: Front, tiny_model: Path, tmp_path: Path) -> None:
    broken = engine_of(tmp_path, "raise ImportError('libonnxruntime.so.1: cannot open shared object file')")
    front.spawn(tiny_model, extra_path=broken)
    failed = front.receive_until(LoadFailed)
    assert isinstance(failed, LoadFailed)
    assert failed.code is LoadFailCode.ENGINE_MISSING
    assert "libonnxruntime.so.1" in failed.message
    assert front.wait()[0] == WorkerExit.LOAD_FAILED


def test_the_engine_is_kept_from_the_network(front: Front, tiny_model: Path, tmp_path: Path) -> None:
    names = "'ORT_DISABLE_TELEMETRY', 'HF_HUB_OFFLINE'"
    telling = f"import os; raise ImportError(' '.join(os.environ.get(name, '-') for name in ({names})))"
    front.spawn(tiny_model, extra_path=engine_of(tmp_path, telling))
    failed = front.receive_until(LoadFailed)
    assert isinstance(failed, LoadFailed)
    assert failed.message.endswith(": 1 1")


def test_a_crash_in_native_code_is_a_signal_with_last_words(front: Front, tiny_model: Path, tmp_path: Path) -> None:
    front.spawn(tiny_model, extra_path=engine_of(tmp_path, "import ctypes; ctypes.string_at(0)"))
    status, written = front.wait()
    assert status == -signal.SIGSEGV
    assert "Segmentation fault" in written


def test_an_unforeseen_fault_has_an_exit_status_of_its_own(front: Front, tiny_model: Path, tmp_path: Path) -> None:
    front.spawn(tiny_model, extra_path=engine_of(tmp_path, "raise SyntaxError('surprise')"))
    status, written = front.wait()
    assert status == WorkerExit.INTERNAL
    assert written.strip().endswith("SyntaxError: surprise")


@pytest.mark.parametrize("spec", [b"\0\0\0\x03abc", b"\xff\xff\xff\xff"])
def test_a_launch_spec_that_is_none_ends_the_worker(front: Front, tmp_path: Path, spec: bytes) -> None:
    front.spawn(tmp_path, spec=spec)
    assert front.wait()[0] == WorkerExit.BAD_LAUNCH
    assert not front.has_message()


def test_a_launch_pipe_that_ends_early_ends_the_worker(front: Front, tmp_path: Path) -> None:
    front.spawn(tmp_path, spec=b"\0\0")
    front.cut_lifeline()
    # Which of the two depends on how far the worker has come: an abandoned pipe is seen before its content is read.
    assert front.wait()[0] in (WorkerExit.ORPHANED, WorkerExit.BAD_LAUNCH)


def test_bytes_that_are_no_message_end_the_worker(loaded: Front) -> None:
    loaded.send_bytes(b"\xc1 garbage")
    status, written = loaded.wait()
    assert status == WorkerExit.CHANNEL_BROKEN
    assert "protocol" in written

"""The front's part of the conversation with one worker process, for tests: a plain socket, a pipe, a child."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import zmq

from ipc.codec import decode_from_worker, encode_message
from ipc.launch_spec import LaunchSpec, write_launch_spec
from ipc.messages import DeviceChoice, FromWorker, ToWorker

ROOT = Path(__file__).parents[2]
SECRET = bytes(range(32))
WAIT_MS = 30_000
# Starts what it is told to and stays: a parent that can be killed.
PARENT = "import signal, subprocess, sys; subprocess.Popen(sys.argv[1:], close_fds=False); signal.pause()"

# The same for a worker that is told its parent, whose process id is written to stdout.
AHEAD_PARENT = (
    "import os, signal, subprocess, sys; "
    "print(subprocess.Popen([*sys.argv[1:], str(os.getpid())], close_fds=False).pid, flush=True); signal.pause()"
)


class Front:
    """Plays the front for one worker."""

    def __init__(self, runtime_dir: Path) -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self.endpoint = f"ipc://{runtime_dir}/worker"
        self._path = runtime_dir / "worker"
        self._socket.bind(self.endpoint)
        self._peer = b""
        self._read_fd, self.write_fd = os.pipe()
        self.process: subprocess.Popen[bytes] | None = None

    def spawn(
        self,
        model_dir: Path,
        *,
        extra_path: Path | None = None,
        spec: bytes | None = None,
        parent_pid: int | None = None,
        no_cuda_reason: str | None = None,
    ) -> None:
        """extra_path: searched for packages first. spec: written in the place of the launch spec. parent_pid: another one than ours."""
        self._start([sys.executable, "-m", "gpu_worker", "--launch-fd", str(self._read_fd)], extra_path)

        if spec is not None:
            os.write(self.write_fd, spec)
        else:
            write_launch_spec(self.write_fd, self.spec(model_dir, parent_pid or os.getpid(), no_cuda_reason))

    def spawn_ahead(self, *, extra_path: Path | None = None, parent_pid: int | None = None) -> None:
        """Start a worker that waits for its spec; see `tell`. parent_pid: another one than ours."""
        ahead = ("--parent-pid", str(parent_pid or os.getpid()))
        self._start([sys.executable, "-m", "gpu_worker", *ahead, "--launch-fd", str(self._read_fd)], extra_path)

    def tell(self, model_dir: Path) -> None:
        """Give the spec to a worker that waits for it."""
        write_launch_spec(self.write_fd, self.spec(model_dir, os.getpid()))

    def spawn_ahead_under_parent(self) -> int:
        """Start a waiting worker as a grandchild and return its process id; `process` is the parent between."""
        worker = [sys.executable, "-m", "gpu_worker", "--launch-fd", str(self._read_fd), "--parent-pid"]
        parent = self._start([sys.executable, "-c", AHEAD_PARENT, *worker], None, stdout=subprocess.PIPE)
        assert parent.stdout is not None
        return int(parent.stdout.readline())

    def spawn_under_parent(self, model_dir: Path) -> None:
        """Start the worker as a grandchild; `process` is the parent between."""
        worker = [sys.executable, "-m", "gpu_worker", "--launch-fd", str(self._read_fd)]
        parent = self._start([sys.executable, "-c", PARENT, *worker], None)
        write_launch_spec(self.write_fd, self.spec(model_dir, parent.pid))

    def spec(self, model_dir: Path, parent_pid: int, no_cuda_reason: str | None = None) -> LaunchSpec:
        return LaunchSpec(
            endpoint=self.endpoint,
            secret=SECRET,
            generation=3,
            parent_pid=parent_pid,
            model_dir=str(model_dir),
            device=DeviceChoice.AUTO,
            no_cuda_reason=no_cuda_reason,
            prefill_chunk=16,
            threads=1,
            has_loop_guard=False,
        )

    def _start(
        self, command: list[str], extra_path: Path | None, stdout: int = subprocess.DEVNULL
    ) -> subprocess.Popen[bytes]:
        path = os.pathsep.join(str(folder) for folder in (extra_path, ROOT) if folder is not None)
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            pass_fds=(self._read_fd,),
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": ""},
        )
        return self.process

    def receive(self) -> FromWorker:
        assert self._socket.poll(WAIT_MS), "the worker says nothing"
        self._peer, frame = self._socket.recv_multipart()
        return decode_from_worker(frame)

    def receive_until(self, *kinds: type) -> FromWorker:
        while True:
            message = self.receive()

            if isinstance(message, kinds):
                return message

    def has_message(self) -> bool:
        return bool(self._socket.poll(0))

    def send(self, message: ToWorker) -> None:
        self.send_bytes(encode_message(message))

    def send_bytes(self, frame: bytes) -> None:
        self._socket.send_multipart([self._peer, frame])

    def wait(self) -> tuple[int, str]:
        """Return the exit status and what was written to stderr."""
        assert self.process is not None
        _, written = self.process.communicate(timeout=WAIT_MS / 1_000)
        return self.process.returncode, written.decode(errors="replace")

    def cut_lifeline(self) -> None:
        os.close(self.write_fd)
        self.write_fd = -1

    def close(self) -> None:
        if self.process is not None:
            # The whole group: a worker that outlived its parent would hold the output open for ever.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)

            self.process.communicate()

        for fd in (self._read_fd, self.write_fd):
            if fd >= 0:
                os.close(fd)

        self._socket.close()
        self._context.term()
        self._path.unlink(missing_ok=True)

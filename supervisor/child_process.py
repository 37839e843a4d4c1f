"""One child process from spawn to reaped: its output, its end, its stop. Knows no message and no model.

Spawned from the event loop's own thread: the kernel ties the child's life to the *thread* that made it (PR_SET_PDEATHSIG in the child),
and the loop's thread lives as long as the front. asyncio's own subprocess is not used, since before Python 3.12 it keeps a thread for
each child to wait for it; a pidfd in the loop needs none and tells the end in about 0.1 ms.
"""

import asyncio
import contextlib
import logging
import os
import re
import select
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence

logger = logging.getLogger(__name__)

# What is kept of a child's output. It is read for ever: a full pipe would stop the child inside native code.
OUTPUT_RING_BYTES = 16 * 1024
# A last word longer than this says no more than its beginning.
LAST_LINE_CHARACTERS = 500
# Clients are told the last line; where things lie in memory helps only those who attack native code.
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{4,}")
_READ_BYTES = 64 * 1024
_LAST_READS = 32


class Unkillable(Exception):
    """The process took SIGKILL and did not end within the bound (it hangs in the kernel)."""


class ChildProcess:
    """A running child, or one that ended.

    on_exit: called once in the loop's thread with the exit status (negative: a signal), after the child was reaped and its output read.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        pass_fds: Sequence[int],
        label: str,
        on_exit: Callable[[int], None],
    ) -> None:
        """Spawn. Blocks for the few milliseconds that exec takes. Raises OSError when the system refuses."""
        self._label = label
        self._on_exit = on_exit
        self._output = bytearray()
        self._loop = asyncio.get_running_loop()
        self._process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            pass_fds=tuple(pass_fds),
            # A session of its own: the terminal's Ctrl+C reaches the front only, and the group can be killed with its children.
            start_new_session=True,
            cwd="/",
        )
        self.exited: asyncio.Future[int] = self._loop.create_future()
        assert self._process.stdout is not None
        self._output_fd = self._process.stdout.fileno()
        os.set_blocking(self._output_fd, False)

        try:
            self._pidfd = os.pidfd_open(self._process.pid)
        except OSError:
            # Out of descriptors: what cannot be watched must not live.
            self._signal_group(signal.SIGKILL)
            self._process.wait()
            self._process.stdout.close()
            raise

        self._loop.add_reader(self._output_fd, self._read_output)
        self._loop.add_reader(self._pidfd, self._reap)

    @property
    def pid(self) -> int:
        """The child's process id, which is also the id of its group."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process still runs. Asks the kernel, so that an end is seen before it was told."""
        if self.exited.done():
            return False

        poller = select.poll()
        poller.register(self._pidfd, select.POLLIN)
        return not poller.poll(0)

    @property
    def last_line(self) -> str:
        """The last line that the child wrote that is not blank, made printable and without addresses; empty when it wrote none."""
        lines = reversed(self._output.decode("utf-8", errors="replace").splitlines())
        printable = ("".join(c if c.isprintable() else " " for c in line).strip() for line in lines)
        return _ADDRESS.sub("(address)", next((line for line in printable if line), "")[:LAST_LINE_CHARACTERS])

    def hand_over(self, label: str, on_exit: Callable[[int], None]) -> None:
        """From now on the child bears this name, and its end is told here. Its end must not have been told yet."""
        self._label = label
        self._on_exit = on_exit

    async def stop(self, grace_s: float, kill_wait_s: float) -> int:
        """End the child and wait until it is reaped; return its exit status. Nothing in a worker is worth saving.

        1. SIGTERM to the group (the worker leaves its default action in place, so even native code ends in milliseconds).
        2. Wait at most grace_s.
        3. SIGKILL to the group: this also ends a stopped process and one that ignores SIGTERM.
        4. Wait at most kill_wait_s, then raise Unkillable: a process that survives this hangs in the kernel and still holds its memory.
        """
        for number, wait_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, kill_wait_s)):
            if self.exited.done():
                break

            self._signal_group(number)

            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await asyncio.shield(self.exited)

        if not self.exited.done():
            raise Unkillable(f"process {self.pid} did not end within {kill_wait_s:g} s of SIGKILL")

        return self.exited.result()

    def kill(self) -> None:
        """Send SIGKILL to the group at once. The end is told through on_exit."""
        if not self.exited.done():
            self._signal_group(signal.SIGKILL)

    def _signal_group(self, number: signal.Signals) -> None:
        # The child is not reaped yet, so its id cannot have passed to another process.
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            # Between fork and setsid the group does not exist yet.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def _read_output(self) -> bool:
        """Take what lies in the pipe; return whether there was anything."""
        try:
            part = os.read(self._output_fd, _READ_BYTES)
        except BlockingIOError:
            return False

        if not part:
            self._loop.remove_reader(self._output_fd)
            return False

        logger.debug("[%s] wrote %d bytes: %r", self._label, len(part), part[-LAST_LINE_CHARACTERS:])
        self._output += part
        del self._output[:-OUTPUT_RING_BYTES]
        return True

    def _reap(self) -> None:
        # While the leader is a zombie its id still names the group: take what it left behind along.
        self._signal_group(signal.SIGKILL)
        status = self._process.wait()
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._read_rest()
        self.exited.set_result(status)
        self._on_exit(status)

    def _read_rest(self) -> None:
        """Take what the child wrote before its end; a bounded number of reads, since a stranger may hold the pipe open and write."""
        for _ in range(_LAST_READS):
            if not self._read_output():
                break

        self._loop.remove_reader(self._output_fd)
        assert self._process.stdout is not None
        self._process.stdout.close()

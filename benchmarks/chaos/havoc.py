"""What is done to the server while its clients ask: signals to its worker, by the process id that /health tells, and unloads."""

import asyncio
import contextlib
import json
import os
import select
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from benchmarks.chaos.replay import Kill
from benchmarks.chaos.wire import Ending, ask_once

_SIGNALS = {signal.SIGKILL: 14, signal.SIGSEGV: 2, signal.SIGABRT: 2, signal.SIGSTOP: 1}
# The worker is not hit in the moment in which the server was asked for it, which would always be the same moment of its work.
_LONGEST_AIM_S = 0.05
_UNLOAD_BOUND_S = 60.0


@dataclass(slots=True)
class Havoc:
    """front: process id of the server. kill_every_s, unload_every_s: on average."""

    front: int
    port: int
    seed: int
    kill_every_s: float
    unload_every_s: float
    kills: list[Kill] = field(default_factory=list)
    unloads: int = 0
    health_s: list[float] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    _stopped: set[int] = field(default_factory=set)

    async def kill_until(self, until: float) -> None:
        """Send signals at random moments."""
        random = Random(f"{self.seed}/kills")

        while time.monotonic() < until:
            await asyncio.sleep(random.expovariate(1 / self.kill_every_s))
            number = random.choices([*_SIGNALS], [*_SIGNALS.values()])[0]
            aim_s = random.uniform(0, _LONGEST_AIM_S)
            pid = await self._worker()

            # One that was stopped is left to the server, which has to find it.
            if pid is not None and pid not in self._stopped:
                await asyncio.sleep(aim_s)
                self._hit(pid, number)

    async def unload_until(self, until: float) -> None:
        """Unload at random moments; each must be answered once and rightly."""
        random = Random(f"{self.seed}/unloads")

        while time.monotonic() < until:
            await asyncio.sleep(random.expovariate(1 / self.unload_every_s))
            await self.unload()

    async def unload(self) -> None:
        """Unload whatever is resident."""
        self.unloads += 1
        received = await ask_once(self.port, "POST", "/v1/unload", _UNLOAD_BOUND_S)
        answer = received.answer()

        if received.ending is not Ending.WHOLE or answer is None or answer.status != 200 or answer.rest:
            self.faults.append(f"an unload was answered ({received.ending}) with {bytes(received.data)[:300]!r}")

    async def _worker(self) -> int | None:
        received = await ask_once(self.port, "GET", "/health")
        answer = received.answer()

        if received.ending is not Ending.WHOLE or answer is None or answer.status != 200:
            self.faults.append(f"/health was answered ({received.ending}) with {bytes(received.data)[:300]!r}")
            return None

        self.health_s.append(received.over_at - received.sent_at)
        worker = json.loads(answer.body)["worker"]
        return None if worker is None else int(worker["pid"])

    def _hit(self, pid: int, number: signal.Signals) -> None:
        """Send the signal if the process is still the server's own child. A pidfd cannot mean another process that got its id."""
        with contextlib.suppress(ProcessLookupError):
            pidfd = os.pidfd_open(pid)

            try:
                if _parent_of(pid) == self.front and not _has_ended(pidfd):
                    at = time.monotonic()
                    signal.pidfd_send_signal(pidfd, number)
                    self.kills.append(Kill(at, time.monotonic(), pid, number.name))
                    self._stopped |= {pid} if number is signal.SIGSTOP else set()
            finally:
                os.close(pidfd)


def _has_ended(pidfd: int) -> bool:
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    return bool(poller.poll(0))


def _parent_of(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return None

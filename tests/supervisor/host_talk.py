"""How tests speak to a host: one question, and looks at its worker."""

import asyncio
import os
import select
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from ipc.messages import Delta, Finished, GenerationTask, Sampling
from supervisor.model_host import ModelHost
from supervisor.settings import ModelRef

MakeModel = Callable[..., ModelRef]
GREEDY = Sampling(temperature=0.0)
RUDE = (sys.executable, str(Path(__file__).parent / "rude_worker.py"))
PLAIN = '@stand-in {"text": ["ok"], "at": {}, "delay_s": 0}'


async def ask(host: ModelHost, model: ModelRef, prompt: str = PLAIN, max_tokens: int = 16) -> str:
    async with host.turn(model) as turn:
        answer = [
            message
            async for message in turn.generate(GenerationTask(prompt=(prompt,), max_tokens=max_tokens, sampling=GREEDY))
        ]
        assert isinstance(answer[-1], Finished)
        return "".join(message.text for message in answer if isinstance(message, Delta))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.002)


def pid_of(host: ModelHost) -> int:
    pid = host.status().worker_pid
    assert pid is not None
    return pid


def wait_dead(pid: int) -> None:
    """Wait without a turn of the loop, so that nobody in the loop has been told then."""
    pidfd = os.pidfd_open(pid)
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    assert poller.poll(10_000)
    os.close(pidfd)


def kill_and_wait_dead(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    wait_dead(pid)

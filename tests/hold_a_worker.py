"""A front and nothing else: opens a host, asks one thing of it, and says on stdout how far it is. For tests of its death.

Arguments: runtime folder, model folder, worker ("stand-in" or "real"), prompt (empty: only load). Says "spawned PID" as soon as there is a
worker, then "loaded", then a line for each message of the answer, and then waits for its end.
"""

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

from ipc.messages import GenerationTask, Sampling
from supervisor.model_host import ModelHost
from supervisor.settings import ModelRef, SupervisorSettings

# Not from the fixtures' file: importing pytest would take most of this process's start.
STAND_IN = (sys.executable, str(Path(__file__).parent / "stand_in_worker.py"))


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


async def tell_spawned(host: ModelHost) -> None:
    while (pid := host.status().worker_pid) is None:
        await asyncio.sleep(0)

    say("spawned", pid)


async def main(runtime_dir: Path, model_dir: Path, worker: str, prompt: str) -> None:
    settings = SupervisorSettings(runtime_dir=runtime_dir)
    host = ModelHost(settings if worker == "real" else replace(settings, worker_command=STAND_IN))
    telling = asyncio.create_task(tell_spawned(host))

    async with host.turn(ModelRef("model", model_dir)) as turn:
        await telling
        say("loaded")

        if prompt:
            async for message in turn.generate(
                GenerationTask(prompt=(prompt,), max_tokens=10_000, sampling=Sampling(temperature=0.0))
            ):
                say(type(message).__name__)

        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4]))

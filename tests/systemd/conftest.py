"""A fake systemd, and the server as a process that it started."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from tests.systemd.fake_systemd import FakeSystemd

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=["path", "abstract"])
def any_systemd(request: pytest.FixtureRequest, runtime_dir: Path) -> Iterator[FakeSystemd]:
    """One that listens on a path, and one that listens on an abstract name."""
    path = runtime_dir / "notify"
    fake = FakeSystemd(str(path) if request.param == "path" else f"@prism-test-{os.getpid()}-{os.urandom(3).hex()}")
    yield fake
    fake.close()
    path.unlink(missing_ok=True)


@pytest.fixture
def systemd(runtime_dir: Path) -> Iterator[FakeSystemd]:
    """One that listens on a path."""
    path = runtime_dir / "notify"
    fake = FakeSystemd(str(path))
    yield fake
    fake.close()
    path.unlink(missing_ok=True)


class Service:
    """A server that runs as a process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self._lines: list[str] = []

    @property
    def pid(self) -> int:
        return self.process.pid

    async def url(self) -> str:
        """Wait for the line that says where it listens."""
        assert self.process.stdout is not None

        async for line in self.process.stdout:
            self._lines.append(line.decode())

            if "listening on http" in self._lines[-1]:
                return self._lines[-1].split()[-1].removesuffix("/v1")

        raise AssertionError(f"the server ended: {self._lines}")

    async def finish(self) -> tuple[int, str]:
        """Wait for the end; return the exit status and all that was written."""
        assert self.process.stdout is not None
        rest = await asyncio.wait_for(self.process.stdout.read(), 20)
        return await self.process.wait(), "".join([*self._lines, rest.decode()])


StartService = Callable[..., Awaitable[Service]]


@pytest.fixture
async def start_service(tmp_path: Path) -> AsyncIterator[StartService]:
    """Return a function that starts a server on the stand-in, with the models of `make_model`; variables as keyword arguments.

    `arguments` are for Python, to run something else.
    """
    started: list[Service] = []

    async def start(arguments: tuple[str, ...] = ("-m", "tests.serve_with_stand_in"), **variables: str) -> Service:
        (tmp_path / "models").mkdir(exist_ok=True)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PRISM_")}
        environment |= {
            "PRISM_MODEL_DIRS": str(tmp_path / "models"),
            "PRISM_STATE_DIR": str(tmp_path / "state"),
            "PRISM_PORT": "0",
            "PYTHONPATH": str(ROOT),
        }
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=environment | variables,
            cwd=ROOT,
        )
        started.append(Service(process))
        return started[-1]

    yield start

    for service in started:
        if service.process.returncode is None:
            service.process.kill()

        await service.finish()

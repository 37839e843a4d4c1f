"""A server that has few descriptors, or none left: no storm in its log, no busy loop, and it recovers by itself."""

import contextlib
import os
import resource
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.client import CHAT, Client, body_of
from tests.contract.test_connections import posted
from tests.raw_http import Wire, head
from tests.serve_with_few_descriptors import LIMIT
from tests.served import serving, started_server, write_model

PROGRAM = "tests.serve_with_few_descriptors"
PATIENCE_S = 10.0


class Short:
    """A server with few descriptors."""

    def __init__(self, base_url: str, log: Path) -> None:
        self.base_url = base_url
        self._log = log
        self.pid = started_server(PROGRAM)

    def log_lines(self) -> list[str]:
        return self._log.read_text().splitlines()

    def open_files(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @contextlib.contextmanager
    def without_descriptors(self) -> Iterator[None]:
        """Nothing is left while the block runs."""
        os.kill(self.pid, signal.SIGUSR1)
        deadline = time.monotonic() + PATIENCE_S

        # A few may have been in use for a moment by something else.
        while self.open_files() < LIMIT - 4:
            assert time.monotonic() < deadline, self.open_files()
            time.sleep(0.01)

        try:
            yield
        finally:
            os.kill(self.pid, signal.SIGUSR2)


@pytest.fixture
def held() -> int:
    """How many descriptors are used up from the beginning."""
    return 0


@pytest.fixture
def short(tmp_path: Path, held: int) -> Iterator[Short]:
    write_model(tmp_path, "stand-in", {"text": ["one"]})

    with serving(tmp_path, program=PROGRAM, HELD_DESCRIPTORS=str(held)) as base_url:
        # The handler is imported then, and whatever else opens files once.
        assert Client(base_url).ask(model="no such model").status == 404
        yield Short(base_url, tmp_path / "log.txt")


@contextlib.contextmanager
def wires(base_url: str, count: int) -> Iterator[list[Wire]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(Wire(base_url)) for _ in range(count)]


def test_a_server_without_descriptors_waits_for_some_and_goes_on(short: Short) -> None:
    with Wire(short.base_url) as kept, contextlib.ExitStack() as stack:
        kept.send(head("GET", "/health/ready"))
        assert kept.reply().status == 200
        lines = len(short.log_lines())

        with short.without_descriptors():
            late = [stack.enter_context(Wire(short.base_url)) for _ in range(20)]

            for wire in late:
                wire.send(head("GET", "/health/ready"))

            cpu_s = short.cpu_s()
            time.sleep(1.5)
            # Twenty wait, for seconds: an accept loop that spins would use up a core and fill the log.
            assert short.cpu_s() - cpu_s < 0.15
            assert len(short.log_lines()) - lines <= 1
            kept.send(head("GET", "/health"))
            assert kept.reply().json["status"] == "ok"

        begun_at = time.monotonic()
        assert [wire.reply().status for wire in late] == [200] * 20
        assert time.monotonic() - begun_at < 2

    assert "Too many open files" in "\n".join(short.log_lines()[lines:])


def test_more_clients_than_descriptors_are_all_answered(short: Short) -> None:
    """Each either gets its answer, or is told server_busy: none is reset, and none waits for ever."""
    with wires(short.base_url, 2 * LIMIT) as crowd:
        for wire in crowd:
            wire.send(head("GET", "/v1/models", "Connection: close"))

        statuses = [wire.reply().status for wire in crowd]

    assert set(statuses) <= {200, 503}
    assert statuses.count(200) > 0
    assert Client(short.base_url).get("/health").status == 200


@pytest.mark.parametrize("held", [0, 60])
def test_idle_clients_leave_descriptors_for_a_worker(short: Short) -> None:
    """The model is not loaded yet: its worker and the lock of its load need some.

    With many in use for other things there would be none left before the bound of connections is reached.
    """
    with Wire(short.base_url) as early, wires(short.base_url, 2 * LIMIT):
        early.send(head("GET", "/health/ready"))
        assert early.reply().status == 200
        early.send(posted(CHAT, body_of(CHAT, None)))
        reply = early.reply()
        assert reply.status == 200, reply
        assert reply.json["choices"][0]["message"]["content"] == "one"

    assert sum("Traceback" in line for line in short.log_lines()) == 0
    assert len(short.log_lines()) < 12


def test_a_server_that_starts_without_descriptors_goes_on(tmp_path: Path) -> None:
    """What it lacks at first (it imports its larger parts after it listens) it gets later."""
    write_model(tmp_path, "stand-in", {"text": ["one"]})

    with serving(tmp_path, program=PROGRAM) as base_url:
        short = Short(base_url, tmp_path / "log.txt")

        with short.without_descriptors():
            pass

        assert Client(base_url).answer()["choices"][0]["message"]["content"] == "one"


def test_the_limit_of_open_files_is_raised_to_what_is_allowed(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowered = min(256, hard)
    (tmp_path / "models").mkdir()
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowered, hard))

    try:
        with serving(tmp_path) as base_url:
            limits = Path(f"/proc/{started_server('tests.serve_with_stand_in')}/limits").read_text()
            assert Client(base_url).get("/health").status == 200
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    (line,) = [line for line in limits.splitlines() if line.startswith("Max open files")]
    assert line.split()[3:5] == [str(hard), str(hard)]

"""Workers whose server is gone and that live on. They hold memory that nobody gives back, so they are named, and ended if they can be.

The kernel ends a worker together with its server (PR_SET_PDEATHSIG), so there is one only where it hangs in the kernel, or where a host
does not know that tie. Used under the load lock, in the event loop's thread. Listing blocks for single calls to a local file system.
"""

import asyncio
import contextlib
import logging
import os
import re
import signal
from collections.abc import Sequence
from pathlib import Path

from supervisor.held_record import read_held_and_owner, remove_leftovers, remove_void
from supervisor.process_identity import ProcessIdentity, Sighting, sight
from supervisor.record_fields import BadRecord, RecordFields
from supervisor.worker_record import FOLDER_NAME, WorkerFacts, decode_worker

logger = logging.getLogger(__name__)

_MAX_RECORDS = 256
_NAME = re.compile(r"[0-9]{1,7}\.json")


def list_orphans(state_dir: Path, *, only_own: bool = False) -> tuple[WorkerFacts, ...]:
    """Return the workers that outlived their server, in the order of their process ids. Deletes the records of the dead on the way.

    only_own: those whose record is a file of our own user. A record that somebody else wrote is believed, but nobody is ended for it.
    """
    folder = state_dir / FOLDER_NAME
    remove_leftovers(folder)

    try:
        names = sorted(name for name in os.listdir(folder) if _NAME.fullmatch(name))[:_MAX_RECORDS]
    except OSError:
        return ()

    found = [_read(folder / name, only_own=only_own) for name in names]
    return tuple(sorted((orphan for orphan in found if orphan is not None), key=lambda orphan: orphan.worker.pid))


def _read(path: Path, *, only_own: bool) -> WorkerFacts | None:
    held = read_held_and_owner(path)

    if held is None:
        remove_void(path, _is_of_the_dead)
        return None

    content, owner = held

    try:
        facts = decode_worker(content)
    except BadRecord:
        return None

    # A server that lives answers for its worker itself.
    is_orphan = sight(facts.worker) in (Sighting.ALIVE, Sighting.HIDDEN) and sight(facts.front) is Sighting.DEAD
    return facts if is_orphan and (owner == os.geteuid() or not only_own) else None


def _is_of_the_dead(content: bytes) -> bool:
    try:
        return sight(RecordFields(content).identity()) in (Sighting.DEAD, Sighting.ELSEWHERE)
    except BadRecord:
        return True


class Reaper:
    """Ends orphans. wait_s: longest wait for one to be gone."""

    def __init__(self, state_dir: Path, wait_s: float) -> None:
        self._state_dir = state_dir
        self._wait_s = wait_s
        self._given_up: set[ProcessIdentity] = set()

    async def end_all(self) -> Sequence[WorkerFacts]:
        """End the workers of dead servers of our own user, and return all that live on. Each is waited for once, all at the same time."""
        own = list_orphans(self._state_dir, only_own=True)
        fresh = [orphan for orphan in own if orphan.worker not in self._given_up]
        self._given_up = {orphan.worker for orphan in own}

        if fresh:
            await asyncio.gather(*(_end(orphan, self._wait_s) for orphan in fresh))

        return list_orphans(self._state_dir)


async def _end(orphan: WorkerFacts, wait_s: float) -> None:
    try:
        pidfd = os.pidfd_open(orphan.worker.pid)
    except OSError:
        return

    try:
        # Looked at again: from here on the descriptor, and not a number, is the process.
        if sight(orphan.worker) is not Sighting.ALIVE:
            return

        logger.warning(
            "[orphan] process %d with '%s' has outlived its server and is ended", orphan.worker.pid, orphan.model
        )
        send_kill(pidfd)
        await _wait_ended(pidfd, wait_s)
    except OSError as error:
        logger.warning("[orphan] process %d cannot be ended: %s", orphan.worker.pid, error.strerror or error)
    finally:
        os.close(pidfd)


def send_kill(pidfd: int) -> None:
    """Send SIGKILL to exactly this process. Raises OSError."""
    signal.pidfd_send_signal(pidfd, signal.SIGKILL)


async def _wait_ended(pidfd: int, wait_s: float) -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(pidfd, ended.set)

    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await ended.wait()
    finally:
        loop.remove_reader(pidfd)

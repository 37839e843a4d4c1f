"""The process that is in the way of a load, for `error.holder`. Never a dead one, never ourselves, never one that only has the same id.

Called by the host for a load that was refused. Blocks for single calls to a local file system, some milliseconds at most.
"""

import os
from pathlib import Path

from supervisor.errors import Holder as Holder
from supervisor.hardware import private_memory
from supervisor.held_record import MAX_RECORD_BYTES, read_held
from supervisor.kernel_locks import flock_owners
from supervisor.load_lock import LOCK_NAME, RECORD_NAME
from supervisor.memory_budget import MemoryKind
from supervisor.orphans import list_orphans
from supervisor.process_identity import Sighting, own_identity, sight, sight_pid
from supervisor.record_fields import BadRecord, RecordFields
from supervisor.residents import Resident, list_residents
from supervisor.state_folder import open_regular
from supervisor.worker_record import WorkerFacts


def find_holder(state_dir: Path, missing: MemoryKind | None = None, device_uuid: str | None = None) -> Holder | None:
    """Return the other process that holds the load lock, else the one whose resident model takes most of the memory that is missing.

    missing: which memory; None when none is missing (the lock was not given). device_uuid: on which GPU; None when that is not known.
    """
    holder = find_lock_holder(state_dir)

    if holder is not None or missing is None:
        return holder

    return find_memory_holder(state_dir, missing, device_uuid)


def find_lock_holder(state_dir: Path) -> Holder | None:
    """Return the other process that holds the load lock."""
    content = read_held(state_dir / RECORD_NAME)
    model: str | None = None

    if content is not None:
        try:
            fields = RecordFields(content)
            identity, model = fields.identity(), fields.text("model")

            if identity == own_identity():
                return None

            if sight(identity) in (Sighting.ALIVE, Sighting.HIDDEN):
                return Holder(identity.pid, model)
        except (BadRecord, OSError):
            model = None

    return _ask_kernel(state_dir / LOCK_NAME, model)


def find_memory_holder(state_dir: Path, missing: MemoryKind, device_uuid: str | None = None) -> Holder | None:
    """Return the other process whose resident model takes most of one memory, or the worker itself where its server is gone.

    None when nobody takes any.
    """
    sizes = [
        (_bytes_taken(record.resident, missing, device_uuid), Holder(record.front.pid, record.resident.model))
        for record in list_residents(state_dir)
    ]
    sizes += [
        (_bytes_of_orphan(orphan, missing, device_uuid), Holder(orphan.worker.pid, orphan.model))
        for orphan in list_orphans(state_dir)
    ]
    size, largest = max(sizes, key=lambda item: item[0], default=(0, None))
    return largest if size > 0 else None


def _bytes_of_orphan(orphan: WorkerFacts, missing: MemoryKind, device_uuid: str | None) -> int:
    if missing is MemoryKind.RAM:
        return private_memory(orphan.worker.pid)

    return orphan.vram_bytes if device_uuid in (None, orphan.device_uuid) else 0


def _bytes_taken(resident: Resident, missing: MemoryKind, device_uuid: str | None) -> int:
    if missing is MemoryKind.RAM:
        return resident.ram_bytes

    # Memory of another GPU would not help; a record that does not name its GPU may be about ours.
    is_elsewhere = None not in (device_uuid, resident.device_uuid) and device_uuid != resident.device_uuid
    return 0 if is_elsewhere else resident.vram_bytes


def _ask_kernel(lock_path: Path, record_model: str | None) -> Holder | None:
    """Find a holder without a record that can be believed: an older package, one in a container, or one that could not write.

    An older package writes itself into the lock file and may leave that there when it is killed, so the kernel must name the same process.
    record_model: told by a held record whose process id means nothing here.
    """
    try:
        fd = open_regular(lock_path)
    except OSError:
        return None

    try:
        content = os.read(fd, MAX_RECORD_BYTES)
        owners = flock_owners(os.fstat(fd))
    except OSError:
        return None
    finally:
        os.close(fd)

    written = _read_older(content)
    is_same = written is not None and written.pid in (owners.certain or owners.possible)
    found = written if written is not None and is_same else None

    if found is None and len(owners.certain) == 1:
        found = Holder(next(iter(owners.certain)), record_model)

    if found is None or found.pid == os.getpid() or sight_pid(found.pid) is Sighting.DEAD:
        return None

    return found


def _read_older(content: bytes) -> Holder | None:
    try:
        fields = RecordFields(content)
        return Holder(fields.whole("pid"), fields.text_or_none("model"))
    except BadRecord:
        return None

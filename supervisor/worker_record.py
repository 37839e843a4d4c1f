"""Which processes are workers, and whose: `<state>/workers/<pid>.json`, one record each, from a worker's spawn to its end.

The lock on a record is taken by the server and inherited by the worker, so it is held until *both* are gone. So a worker that outlives its
server (it hangs in the kernel, where no signal ends it) is known to the other servers for as long as it lives (`supervisor.orphans`).
Used by the tenure of a worker, in the event loop's thread. Blocks for single calls to a local file system. Never fails: a server that
cannot write is only nameless.
"""

import logging
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from supervisor.held_record import HeldRecord, RecordDraft, draft
from supervisor.placement import Placement
from supervisor.process_identity import ProcessIdentity, identify, own_identity
from supervisor.record_fields import MAX_TEXT_CHARACTERS, BadRecord, RecordFields, encode_record
from supervisor.state_folder import ensure_folder, ensure_subfolder

logger = logging.getLogger(__name__)

FOLDER_NAME = "workers"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFacts:
    """What a record says. device_uuid: the GPU that it may use; None on the CPU. vram_bytes: what it takes there, estimated."""

    worker: ProcessIdentity
    front: ProcessIdentity
    model: str
    device_uuid: str | None
    vram_bytes: int


class WorkerRecord:
    """Of one worker. Made before its process, told of it, and withdrawn when it is gone."""

    def __init__(self, folder_path: Path, folder: os.stat_result, made: RecordDraft) -> None:
        self._folder_path = folder_path
        self._folder = folder
        self._draft: RecordDraft | None = made
        self._record: HeldRecord | None = None

    @classmethod
    def begin(cls, state_dir: Path) -> Self | None:
        """Return a record that says nothing yet; None when none can be written."""
        folder_path = state_dir / FOLDER_NAME

        try:
            folder = ensure_subfolder(folder_path, ensure_folder(state_dir))
            made = draft(folder_path / f"{os.getpid()}.json")
        except OSError as error:
            logger.warning("[workers] no record can be written in %s: %s", folder_path, error.strerror or error)
            return None

        return None if made is None else cls(folder_path, folder, made)

    @property
    def lock_fd(self) -> int | None:
        """The descriptor that the worker inherits; None when there is none any more."""
        return self._draft.fd if self._draft is not None else None

    def spawned(self, worker_pid: int, model_id: str, placement: Placement) -> None:
        """The process is there, and has inherited the descriptor."""
        made, self._draft = self._draft, None

        if made is None:
            return

        try:
            worker = identify(worker_pid)
            content = _encode(worker, own_identity(), model_id, placement) if worker is not None else None
        except OSError:
            content = None

        if content is None:
            # It has ended already, or there is no /proc.
            made.discard()
            return

        try:
            self._record = made.publish(self._folder_path / f"{worker_pid}.json", content, self._folder)
        except OSError as error:
            logger.warning("[workers] the record of %d cannot be written: %s", worker_pid, error.strerror or error)

    def withdraw(self) -> None:
        """The process is gone, or was never there. May be called again."""
        made, self._draft = self._draft, None

        if made is not None:
            made.discard()

        if self._record is not None:
            self._record.remove()


def _encode(worker: ProcessIdentity, front: ProcessIdentity, model_id: str, placement: Placement) -> bytes:
    return encode_record(
        worker,
        {
            "front_pid": front.pid,
            "front_start_ticks": front.start_ticks,
            "model": model_id[:MAX_TEXT_CHARACTERS],
            "device_uuid": placement.gpu.uuid if placement.gpu is not None else None,
            "vram_bytes": placement.vram_bytes,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
        },
    )


def decode_worker(content: bytes) -> WorkerFacts:
    """Return what a record says. Raises BadRecord."""
    fields = RecordFields(content)
    worker = fields.identity()

    try:
        front = ProcessIdentity(
            pid=fields.whole("front_pid"),
            start_ticks=fields.whole("front_start_ticks"),
            boot_id=worker.boot_id,
            pid_namespace=worker.pid_namespace,
        )
    except BadRecord:
        raise
    except ValueError as error:
        raise BadRecord(f"front: {error}") from error

    return WorkerFacts(
        worker=worker,
        front=front,
        model=fields.text("model"),
        device_uuid=fields.text_or_none("device_uuid"),
        vram_bytes=fields.whole("vram_bytes"),
    )

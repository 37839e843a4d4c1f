"""Which servers of this machine have a model in memory: `<state>/residents/<pid>.json`, one record each, for as long as the worker lives.

A record is believed only while its writer holds the lock on it and the process that it names is the one that it says (`held_record`,
`process_identity`). A record that cannot be written never costs a model its load: its server is only nameless to the others.
Used by the host in the event loop's thread. Blocks for single calls to a local file system: listing ten servers takes about a millisecond.
"""

import logging
import os
import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from ipc.messages import Device
from supervisor.held_record import HeldRecord, publish, read_held, remove_leftovers, remove_void
from supervisor.process_identity import ProcessIdentity, Sighting, own_identity, sight
from supervisor.record_fields import MAX_TEXT_CHARACTERS, BadRecord, RecordFields, encode_record
from supervisor.state_folder import ensure_folder, ensure_subfolder

logger = logging.getLogger(__name__)

FOLDER_NAME = "residents"
# More servers than this on one machine are somebody's mischief.
MAX_RECORDS = 256
_NAME = re.compile(r"[0-9]{1,7}(-[0-9a-f]{8})?\.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resident:
    """A model in memory.

    kind: which command loaded it ("serve", ...). device_uuid: the GPU, or the part of one, that it is on; None on the CPU or when unknown.
    ram_bytes, vram_bytes: what it takes of each memory. url: where its server answers; None when it has no HTTP.
    """

    model: str
    kind: str
    worker_pid: int
    device: Device
    ram_bytes: int
    vram_bytes: int
    device_uuid: str | None = None
    url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidentRecord:
    """What a server said of itself. created: time of day, UTC, in ISO 8601; for people."""

    front: ProcessIdentity
    resident: Resident
    created: str


class Announcement:
    """Our record, as long as the worker lives. Withdraw it on every path; also usable as a context."""

    def __init__(self, record: HeldRecord | None) -> None:
        self._record = record

    @property
    def is_published(self) -> bool:
        """Whether the others can see it."""
        return self._record is not None and self._record.is_in_place

    def withdraw(self) -> None:
        """Take it back. May be called again."""
        if self._record is not None:
            self._record.remove()

    def __enter__(self) -> Self:
        """Give the announcement to the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Withdraw it, however the block ends."""
        self.withdraw()


def announce(state_dir: Path, resident: Resident) -> Announcement:
    """Tell the other servers that this process has a model in memory. Never fails: what cannot be written is logged."""
    folder_path = state_dir / FOLDER_NAME

    try:
        folder = ensure_subfolder(folder_path, ensure_folder(state_dir))
        identity = own_identity()
        content = _encode(identity, resident)
        record = publish(folder_path / f"{identity.pid}.json", content, folder)

        if record is None:
            # Servers in different containers may have the same process id.
            record = publish(folder_path / f"{identity.pid}-{secrets.token_hex(4)}.json", content, folder)

        reason = "other records are in the way"
    except OSError as error:
        record, reason = None, error.strerror or str(error)

    if record is None:
        logger.warning("[residents] no record can be written in %s: %s", folder_path, reason)

    return Announcement(record)


def list_residents(state_dir: Path, *, includes_own: bool = False) -> tuple[ResidentRecord, ...]:
    """Return the models that are in memory of living servers, in the order of their process ids; without our own, unless asked.

    Deletes the records of the dead on the way. What cannot be read, or is no record, is passed over.
    """
    folder = state_dir / FOLDER_NAME
    remove_leftovers(folder)
    own_pid = os.getpid()
    found = [record for path in _paths(folder) if (record := _read(path)) is not None]
    # One that is sighted is of our namespace, where its id is enough to know ourselves.
    wanted = [record for record in found if includes_own or record.front.pid != own_pid]
    return tuple(sorted(wanted, key=lambda record: record.front.pid))


def _paths(folder: Path) -> list[Path]:
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []

    return [folder / name for name in names if _NAME.fullmatch(name)][:MAX_RECORDS]


def _read(path: Path) -> ResidentRecord | None:
    content = read_held(path)

    if content is None:
        remove_void(path, _is_of_the_dead)
        return None

    try:
        record = _decode(content)
    except BadRecord:
        return None

    # The lock is held, so its writer lives: one that is hidden is the one.
    return record if sight(record.front) in (Sighting.ALIVE, Sighting.HIDDEN) else None


def _is_of_the_dead(content: bytes) -> bool:
    # Deleting takes the record's lock for a moment, and who asks in that moment takes it for held: harmless for one of the dead only.
    try:
        return sight(RecordFields(content).identity()) in (Sighting.DEAD, Sighting.ELSEWHERE)
    except BadRecord:
        return True


def _encode(identity: ProcessIdentity, resident: Resident) -> bytes:
    return encode_record(
        identity,
        {
            "kind": resident.kind,
            "model": resident.model[:MAX_TEXT_CHARACTERS],
            "worker_pid": resident.worker_pid,
            "device": resident.device.value,
            "device_uuid": resident.device_uuid,
            "ram_bytes": resident.ram_bytes,
            "vram_bytes": resident.vram_bytes,
            "url": resident.url,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
        },
    )


def _decode(content: bytes) -> ResidentRecord:
    fields = RecordFields(content)
    device = fields.text("device")

    if device not in tuple(Device):
        raise BadRecord(f"device is unknown: {device}")

    resident = Resident(
        model=fields.text("model"),
        kind=fields.text("kind"),
        worker_pid=fields.whole("worker_pid"),
        device=Device(device),
        device_uuid=fields.text_or_none("device_uuid"),
        ram_bytes=fields.whole("ram_bytes"),
        vram_bytes=fields.whole("vram_bytes"),
        url=fields.text_or_none("url"),
    )
    return ResidentRecord(front=fields.identity(), resident=resident, created=fields.text("created"))

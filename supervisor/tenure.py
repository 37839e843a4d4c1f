"""What a worker has of the machine: the right to load until it is loaded, and its records for as long as it lives.

Told by `WorkerHistory`, in the event loop's thread. Writing and removing the record blocks for single calls to a local file system.
"""

from ipc.messages import Device, Loaded
from supervisor.load_permit import LoadPermit
from supervisor.process_sample import read_process
from supervisor.residents import Announcement, Resident, announce
from supervisor.settings import LoadLockSettings
from supervisor.worker_record import WorkerRecord


class Tenure:
    """Of one worker, from its spawn until it is reaped."""

    def __init__(
        self,
        settings: LoadLockSettings,
        model_id: str,
        permit: LoadPermit,
        url: str | None,
        record: WorkerRecord | None = None,
    ) -> None:
        """url: where our server answers, for the records. record: of a process that is there already; None begins one."""
        self._url = url
        self._settings = settings
        self._model_id = model_id
        self._permit = permit
        self._announcement: Announcement | None = None
        self._record = record

        if record is None and settings.state_dir is not None:
            self._record = WorkerRecord.begin(settings.state_dir)

    @property
    def inherited_fds(self) -> tuple[int, ...]:
        """What the process must inherit, and never close."""
        lock_fd = self._record.lock_fd if self._record is not None else None
        return () if lock_fd is None else (lock_fd,)

    def spawned(self, worker_pid: int) -> None:
        """The process is there."""
        if self._record is not None:
            self._record.spawned(worker_pid, self._model_id, self._permit.placement)

    def loaded(self, loaded: Loaded, worker_pid: int) -> None:
        """The model is in memory: the others learn of it, and may load then."""
        if self._settings.state_dir is not None:
            # Announced before the lock is free, so that there is no moment in which nobody is named.
            self._announcement = announce(self._settings.state_dir, self._resident(loaded, worker_pid))

        self._permit.release()

    def _resident(self, loaded: Loaded, worker_pid: int) -> Resident:
        placement, is_on_gpu = self._permit.placement, loaded.device is Device.CUDA
        sample = read_process(worker_pid, with_family=False)
        return Resident(
            model=self._model_id,
            kind=self._settings.kind,
            worker_pid=worker_pid,
            device=loaded.device,
            ram_bytes=sample.resident_bytes if sample is not None else 0,
            vram_bytes=placement.vram_bytes if is_on_gpu else 0,
            url=self._url,
            device_uuid=placement.gpu.uuid if placement.gpu is not None and is_on_gpu else None,
        )

    def gone(self) -> None:
        """The process is reaped, or could not be started."""
        self._permit.release()

        if self._record is not None:
            self._record.withdraw()

        if self._announcement is not None:
            self._announcement.withdraw()

"""Faults of loads: the lock, the records that others believe, memory, back-off and breaker."""

from tests.planted_faults.fault import Fault

_LOCK = "tests/supervisor/test_model_host_lock.py"
_HOLDER = ("tests/supervisor/test_holder.py",)
_IDENTITY = ("tests/supervisor/test_process_identity.py",)
_RECORD = ("tests/supervisor/test_held_record.py",)
_POLICY = ("tests/supervisor/test_restart_policy.py",)
_ADMISSION = "tests/supervisor/test_admission.py"

FAULTS = (
    Fault(
        name="lock-released-before-loaded",
        says="another server may load while this one still does",
        file="supervisor/loader.py",
        text="        permit.hand_over()\n",
        planted="",
        tests=(f"{_LOCK}::test_the_lock_is_kept_for_as_long_as_the_load_lasts",),
    ),
    Fault(
        name="lock-released-before-the-reap",
        says="another server may load while a worker that could not load still has its memory",
        file="supervisor/worker_history.py",
        text="        self._policy.load_failed(self._model_id, code, message)\n",
        planted="        self._policy.load_failed(self._model_id, code, message)\n        self._tenure.gone()\n",
        tests=(_LOCK,),
    ),
    Fault(
        name="lock-released-when-a-worker-is-told-to-end",
        says="another server may load while a load that is given up still has its memory",
        file="supervisor/worker.py",
        text="            self._is_stop_wanted = True\n",
        planted="            self._is_stop_wanted = True\n            self._history.gone()\n",
        tests=(_LOCK,),
    ),
    Fault(
        name="lock-kept-after-the-load",
        says="as long as a model is resident no other server may load",
        file="supervisor/tenure.py",
        text="        self._permit.release()\n\n    def _resident",
        planted="\n    def _resident",
        tests=(f"{_LOCK}::test_the_lock_is_kept_for_as_long_as_the_load_lasts",),
    ),
    Fault(
        name="lock-left-to-a-child",
        says="a child that was just forked keeps the load lock after its release",
        file="supervisor/load_lock.py",
        text="                unlock_descriptor(fd)\n",
        planted="                pass\n",
        tests=("tests/supervisor/test_load_lock.py::test_a_child_that_has_not_yet_closed_the_lock_does_not_keep_it",),
    ),
    Fault(
        name="lock-on-a-replaced-file",
        says="a lock on a file that was replaced meanwhile counts",
        file="supervisor/load_lock.py",
        text="self._tell(held, model_id, folder) and is_at(fd, self._path):",
        planted="self._tell(held, model_id, folder):",
        tests=("tests/supervisor/test_load_lock.py",),
    ),
    Fault(
        name="record-without-its-lock",
        says="a record is put into place that its writer does not hold",
        file="supervisor/held_record.py",
        text="if _take(fd) and is_at(fd, temporary):",
        planted="if is_at(fd, temporary):",
        tests=_RECORD,
    ),
    Fault(
        name="record-of-the-dead-believed",
        says="a record whose writer is gone is read like any other",
        file="supervisor/held_record.py",
        text='content = os.read(fd, MAX_RECORD_BYTES + 1) if _is_locked(fd) else b""',
        planted="content = os.read(fd, MAX_RECORD_BYTES + 1)",
        tests=_RECORD,
    ),
    Fault(
        name="record-of-the-living-replaced",
        says="a server puts its record in the place of another's",
        file="supervisor/held_record.py",
        text="            if _take(fd) and is_at(fd, path):\n                os.unlink(path)\n",
        planted="            if is_at(fd, path):\n                os.unlink(path)\n",
        tests=_RECORD,
    ),
    Fault(
        name="record-left-behind",
        says="a model is still announced when its worker is gone",
        file="supervisor/tenure.py",
        text="            self._announcement.withdraw()",
        planted="            pass",
        tests=(f"{_LOCK}::test_the_lock_is_kept_for_as_long_as_the_load_lasts",),
    ),
    Fault(
        name="holder-names-itself",
        says="a server that is refused memory is told that it is in its own way",
        file="supervisor/holder.py",
        text="            if identity == own_identity():\n                return None\n\n",
        planted="",
        tests=_HOLDER,
    ),
    Fault(
        name="kernel-names-ourselves",
        says="the kernel's word on who has the lock is taken although it is ourselves",
        file="supervisor/holder.py",
        text="found.pid == os.getpid() or ",
        planted="",
        tests=_HOLDER,
    ),
    Fault(
        name="start-ticks-not-compared",
        says="a process with the id of one that is dead is taken for it",
        file="supervisor/process_identity.py",
        text="is_the_one = start_ticks is None or stat.start_ticks == start_ticks",
        planted="is_the_one = True",
        tests=_IDENTITY,
    ),
    Fault(
        name="zombie-taken-for-alive",
        says="a process that has ended and was not waited for is named as a holder",
        file="supervisor/process_identity.py",
        text='frozenset({b"Z", b"X", b"x"})',
        planted='frozenset({b"X", b"x"})',
        tests=_IDENTITY,
    ),
    Fault(
        name="credit-of-the-leaving-model-ignored-on-the-gpu",
        says="a swap on a GPU is refused although the model that leaves makes room",
        file="supervisor/admission.py",
        text="            await self._vram_credit(case.leaving, gpu),\n",
        planted="            0,\n",
        tests=("tests/whole/test_two_servers.py::test_a_swap_counts_what_the_model_that_leaves_gives_back",),
    ),
    Fault(
        name="credit-of-the-leaving-model-ignored-in-main-memory",
        says="a swap on the CPU is refused although the model that leaves makes room",
        file="supervisor/admission.py",
        text="pids = (case.leaving.pid if case.leaving is not None else None, case.spare_pid)",
        planted="pids = (None, case.spare_pid)",
        tests=(f"{_ADMISSION}::test_the_memory_of_the_model_that_leaves_counts",),
    ),
    Fault(
        name="resident-leaves-before-the-refusal",
        says="a model that does not fit costs the one that is loaded",
        file="supervisor/residency.py",
        text=("            if not await seating.may_begin(self._loader.look(seat), seat):\n                continue\n"),
        planted=(
            "            if not await seating.may_begin(self._loader.look(seat), seat):\n"
            "                continue\n\n"
            "            await self.stop()\n"
        ),
        tests=(f"{_ADMISSION}::test_a_refusal_does_not_cost_the_resident_model",),
    ),
    Fault(
        name="wait-for-memory-unbounded",
        says="a GPU whose memory does not come back holds up the server for ever",
        file="supervisor/memory_watch.py",
        text="if is_back or asyncio.get_running_loop().time() >= deadline:",
        planted="if is_back:",
        tests=(f"{_ADMISSION}::test_memory_that_does_not_come_back_is_waited_for_no_longer_than_the_bound",),
    ),
    Fault(
        name="wait-for-memory-skipped",
        says="the next model is loaded before the driver has given back the memory of the one before",
        file="supervisor/loader.py",
        text="release = await watch.wait_back(release_wait_s) if watch is not None else None",
        planted="release = await watch.wait_back(0) if watch is not None else None",
        tests=(f"{_ADMISSION}::test_the_next_model_is_started_when_the_memory_is_back",),
    ),
    Fault(
        name="breaker-never-opens",
        says="a model that keeps failing is started for ever",
        file="supervisor/restart_record.py",
        text="            self._open(now)",
        planted="            pass",
        tests=_POLICY,
    ),
    Fault(
        name="breaker-opens-for-all-models",
        says="what one model did keeps the others from being loaded",
        file="supervisor/restart_policy.py",
        text="        record = self._records.get(model_id)\n\n        if record is None:\n            return Allowed()",
        planted=(
            "        record = next(iter(self._records.values()), None)\n\n"
            "        if record is None:\n            return Allowed()"
        ),
        tests=(f"{_POLICY[0]}::test_another_model_is_not_affected",),
    ),
    Fault(
        name="back-off-missing",
        says="a model whose workers die is started again at once, each time",
        file="supervisor/restart_settings.py",
        text="        if faults < 2:\n",
        planted="        if faults < 1_000_000:\n",
        tests=(f"{_POLICY[0]}::test_back_off_doubles_up_to_a_minute",),
    ),
)

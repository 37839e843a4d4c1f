"""The order of a worker's life: launch spec, Hello, model, requests. Called by `__main__.py`; ends the process itself."""

import contextlib
import logging
import os
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from gpu_worker.cuda_libraries import engine_folders, package_folders, preload, why_no_cuda
from gpu_worker.engine import GenAiEngine, import_library, load_engine
from gpu_worker.errors import LoadFault
from gpu_worker.fault_text import cause_of
from gpu_worker.generation import GenerationSettings
from gpu_worker.inbox import Channel
from gpu_worker.kv_slots import SlotBounds
from gpu_worker.lifeline import Lifeline, is_orphan
from gpu_worker.load_options import LoadOptions
from gpu_worker.loop import Loop
from gpu_worker.model_folder import read_model_folder
from ipc.errors import ChannelClosed, ProtocolError
from ipc.exit_status import WorkerExit
from ipc.launch_spec import LaunchSpec, read_launch_spec
from ipc.messages import DeviceChoice, Hello, Loaded, LoadFailed, Phase, Progress
from ipc.worker_end import WorkerEnd

logger = logging.getLogger(__name__)

_DISTRIBUTION = "prism-local"


def import_ahead() -> None:
    """Import the engine before there is a model. It takes no memory of a GPU: the libraries of CUDA are loaded with the model."""
    # The import is tried again with the model, for whose load its fault is told.
    with contextlib.suppress(LoadFault, ImportError):
        import_library()
        # The engine imports it with its first array.
        import numpy as np  # noqa: F401


def run_worker(launch_fd: int) -> WorkerExit:
    """Live a worker's whole life and return why it ended."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(message)s")

    try:
        spec = read_launch_spec(launch_fd)
    except (EOFError, OSError, ValueError) as error:
        logger.error("the launch spec cannot be read: %s", cause_of(error))
        return WorkerExit.BAD_LAUNCH

    if is_orphan(spec.parent_pid):
        return WorkerExit.ORPHANED

    try:
        return _run_connected(spec, launch_fd)
    except Exception:  # the last frame that can say what went wrong; the front reports the line
        logger.exception("the worker broke")
        return WorkerExit.INTERNAL


def _run_connected(spec: LaunchSpec, launch_fd: int) -> WorkerExit:
    lifeline = Lifeline(launch_fd)
    channel = WorkerEnd(spec.endpoint, launch_fd)

    try:
        return _run_told(spec, channel, lifeline)
    except ChannelClosed as error:
        if lifeline.is_cut():
            return WorkerExit.OK

        logger.error("the channel broke: %s", error)
        return WorkerExit.CHANNEL_BROKEN
    except ProtocolError as error:
        logger.error("the front broke the protocol: %s", error)
        return WorkerExit.CHANNEL_BROKEN
    finally:
        channel.close()


def _run_told(spec: LaunchSpec, channel: Channel, lifeline: Lifeline) -> WorkerExit:
    # Before the engine is imported, so that the front can tell a slow import from an interpreter that never started.
    channel.send(Hello(secret=spec.secret, generation=spec.generation, pid=os.getpid(), version=_own_version()))

    try:
        engine = _load(spec, channel)
    except LoadFault as fault:
        logger.error("[worker %d] cannot load %s: %s", spec.generation, spec.model_dir, fault)
        channel.send(LoadFailed(code=fault.code, message=str(fault)))
        return WorkerExit.LOAD_FAILED

    settings = GenerationSettings(spec.has_loop_guard)
    Loop(channel, engine, engine.open_batch(spec.prefill_chunk), settings, lifeline.is_cut).run()


def _load(spec: LaunchSpec, channel: Channel) -> GenAiEngine:
    """Load the model and say so. Raises LoadFault, the channel's errors, and whatever a fault of our own raises."""
    started_at = time.monotonic()
    # First, because it needs no engine: a wrong folder is told at once.
    folder = read_model_folder(Path(spec.model_dir))
    no_cuda_reason = spec.no_cuda_reason

    if spec.device is not DeviceChoice.CPU and no_cuda_reason is None:
        no_cuda_reason = why_no_cuda(os.environ, Path("/"), engine_folders())

    if spec.device is DeviceChoice.CUDA or (spec.device is DeviceChoice.AUTO and no_cuda_reason is None):
        preload(package_folders("nvidia"))

    channel.send(Progress(phase=Phase.IMPORT))
    library = import_library()
    channel.send(Progress(phase=Phase.LOAD))
    engine = load_engine(library, folder, spec.device, no_cuda_reason, _load_options(spec))
    facts = engine.facts
    channel.send(
        Loaded(
            device=facts.device,
            fallback_reason=facts.fallback_reason,
            context_length=facts.context_length,
            load_sec=time.monotonic() - started_at,
            engine_version=facts.engine_version,
            parallel=facts.parallel,
        )
    )
    return engine


def _load_options(spec: LaunchSpec) -> LoadOptions:
    return LoadOptions(
        threads=spec.threads,
        parallel=spec.parallel,
        prefill_chunk=spec.prefill_chunk,
        slots=SlotBounds(spec.kv_slots, spec.kv_bytes),
        shares_prefixes=spec.shares_prefixes,
    )


def _own_version() -> str:
    try:
        return version(_DISTRIBUTION)
    except PackageNotFoundError:
        return "unknown"

"""The life of the server: open everything, listen, serve until a drain or a signal, close everything. `prism serve` calls `run_server`.

Exit statuses: 0 after a drain, SIGTERM or Ctrl+C; 70 after a fault of its own; 75 when the port is taken; 78 when the address or a folder
cannot be used.
"""

import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from ipc.messages import DeviceChoice
from prism.async_catalog import AsyncCatalog
from prism.catalog import Catalog, CatalogError
from prism.descriptors import raise_descriptor_limit
from prism.exit_codes import ExitCode
from prism.http.access import AccessRules, is_loopback
from prism.http.late import import_handlers
from prism.http.machine import Machine
from prism.http.open_server import CannotServe, open_server
from prism.http.prompt_thread import PromptThread
from prism.http.self_watch import end_for_sure, watched_loop
from prism.http.services import Services
from prism.model_entry import ModelEntry
from prism.ollama.daemon import OllamaDaemon
from prism.ollama.inventory import Inventory
from prism.settings import ServeSettings
from prism.systemd_notify import Notifier
from supervisor.errors import LockUnavailable, SupervisorError
from supervisor.host_status import HostStatus
from supervisor.load_lock import LoadLock
from supervisor.memory_gauge import MemoryGauge
from supervisor.model_host import ModelHost
from supervisor.settings import (
    KvSettings,
    LoadLockSettings,
    MemorySettings,
    ModelRef,
    RecycleSettings,
    SpareSettings,
    SupervisorSettings,
)
from supervisor.state_folder import StateFault

logger = logging.getLogger(__name__)

# How long the parts of a server that is broken get to end.
BROKEN_END_S = 2.0
# One of them is there where an NVIDIA driver is: on Linux, and under WSL.
_DRIVER_SIGNS = ("/proc/driver/nvidia/version", "/usr/lib/wsl/lib/libnvidia-ml.so.1")
# For those who bring their own engine or have other bounds, such as tests.
Adjust: TypeAlias = Callable[[SupervisorSettings], SupervisorSettings]


def run_server(settings: ServeSettings, adjust: Adjust | None = None, gauge: MemoryGauge | None = None) -> int:
    """Serve until told to stop; return the process's exit status. Prints the address once it listens.

    adjust: has the last word on how workers are treated. gauge: stands for this machine's memory.
    """
    raise_descriptor_limit()

    try:
        return asyncio.run(_serve(settings, adjust, gauge))
    except CannotServe as error:
        sys.stderr.write(f"prism: {error}\n")
        return error.exit_code
    except Exception:  # the last frame that knows that this is a server
        logger.exception("the server broke")
        return ExitCode.SOFTWARE


async def _serve(settings: ServeSettings, adjust: Adjust | None, gauge: MemoryGauge | None) -> ExitCode:
    _check_load_lock(settings)

    async with (
        Notifier(settings.notify_socket, settings.watchdog_s) as systemd,
        open_services(settings, adjust, gauge) as services,
    ):
        services.last_resort = end_for_sure

        with watched_loop(services.fail):
            await _run(services, settings, systemd)

    return ExitCode.OK if services.fault is None else ExitCode.SOFTWARE


async def _run(services: Services, settings: ServeSettings, systemd: Notifier) -> None:
    """Listen, and serve until the end is asked for."""
    async with open_server(services) as url:
        with _signals(services):
            services.host.tell_url(url)
            systemd.start(lambda: _status_line(services.host.status()), services.draining)
            _announce(f"{url}/v1", await services.catalog.models(), settings)
            await import_handlers()
            # What was imported stays for good. Looking through it for garbage would stop all streams for 60 ms, every now and then.
            gc.freeze()
            services.preload = asyncio.create_task(_preload(services))
            await services.exit.wait()
            await asyncio.gather(services.preload, return_exceptions=True)


@contextlib.asynccontextmanager
async def open_services(
    settings: ServeSettings, adjust: Adjust | None = None, gauge: MemoryGauge | None = None
) -> AsyncIterator[Services]:
    """Make all parts of a server and end them, workers included, when the block ends."""
    with _runtime_dir(settings.runtime_dir) as runtime_dir:
        own = _supervisor_settings(settings, runtime_dir)
        machine = Machine(settings.device)
        ollama = OllamaDaemon(settings.ollama_url)
        services = Services(
            settings=settings,
            host=ModelHost(
                own if adjust is None else adjust(own), gauge or machine.gauge, lambda error: services.fail(error)
            ),
            catalog=AsyncCatalog(Catalog(settings.model_dirs, prefers_cuda=_prefers_cuda(settings.device))),
            machine=machine,
            access=AccessRules(settings.host, settings.api_keys, settings.cors_origins),
            prompts=PromptThread(),
            ollama=ollama,
            inventory=Inventory(ollama),
        )
        services.machine.start()

        try:
            yield services
        finally:
            await _close(services)
            await services.inventory.close()
            await services.ollama.close()
            await services.machine.close()
            await services.prompts.close()


async def _close(services: Services) -> None:
    """End the workers. A host that is broken may wait for ever for what will not come; the kernel ends its workers with us then."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(BROKEN_END_S if services.fault is not None else None):
            await services.host.close()


def _prefers_cuda(choice: DeviceChoice) -> bool:
    """Say which build an alias stands for when both are installed: the one for the device that is likely to be used."""
    has_driver = any(os.path.exists(path) for path in _DRIVER_SIGNS)
    return choice is DeviceChoice.CUDA or (choice is DeviceChoice.AUTO and has_driver)


def _supervisor_settings(settings: ServeSettings, runtime_dir: Path) -> SupervisorSettings:
    return SupervisorSettings(
        runtime_dir=runtime_dir,
        device=settings.device,
        max_queue=settings.max_queue,
        queue_timeout_s=settings.queue_timeout_s,
        prefill_chunk=settings.prefill_chunk,
        parallel=settings.parallel,
        kv=KvSettings(
            max_slots=settings.kv_slots,
            memory_mb=settings.kv_memory_mb,
            has_one_scope=len(settings.api_keys) < 2,
        ),
        threads=settings.threads,
        has_loop_guard=settings.has_loop_guard,
        event_log=settings.event_log,
        memory=MemorySettings(
            is_checked=settings.has_resource_check,
            ram_reserve_mb=settings.ram_reserve_mb,
            vram_reserve_mb=settings.vram_reserve_mb,
        ),
        spare=SpareSettings(is_on=settings.has_spare_worker),
        recycle=RecycleSettings(growth_mb=settings.worker_growth_mb),
        load_lock=LoadLockSettings(
            state_dir=settings.state_dir, is_on=settings.has_load_lock, timeout_s=settings.load_timeout_s
        ),
    )


def _check_load_lock(settings: ServeSettings) -> None:
    """Raise CannotServe when no load could ever be locked in the state folder; other faults may go away and only cost loads till then."""
    if not settings.has_load_lock:
        return

    try:
        LoadLock(settings.state_dir).check()
    except LockUnavailable as error:
        if error.reason in (StateFault.NETWORK, StateFault.NO_LOCKS):
            raise CannotServe(str(error), ExitCode.CONFIGURATION) from error

        logger.warning("no model can be loaded yet: %s", error)


@contextlib.contextmanager
def _runtime_dir(parent: Path | None) -> Iterator[Path]:
    """Make the private folder of this server's sockets; in /tmp when the one that was named cannot be written."""
    place = parent if parent is not None and os.access(parent, os.W_OK) else None

    try:
        made = tempfile.TemporaryDirectory(prefix=f"prism-{os.getpid()}-", dir=place)
    except OSError as error:
        raise CannotServe(
            f"no folder for the sockets of workers can be made: {error.strerror or error}", ExitCode.CONFIGURATION
        ) from error

    with made as folder:
        yield Path(folder)


def _announce(address: str, models: Sequence[ModelEntry], settings: ServeSettings) -> None:
    """Tell the operator where the server is, and a line to try. Programs wait for the first line."""
    if not is_loopback(settings.host.lower()) and not settings.api_keys:
        logger.warning(
            "listening on %s WITHOUT A KEY: everybody who reaches this address can use and drain this server; set --api-key",
            settings.host,
        )

    sys.stdout.write("\n".join((f"Prism is listening on {address}", *_hints(address, models, settings))) + "\n")
    sys.stdout.flush()


def _hints(address: str, models: Sequence[ModelEntry], settings: ServeSettings) -> Iterator[str]:
    if models:
        key = " -H 'Authorization: Bearer YOUR_KEY'" if settings.api_keys else ""
        name = settings.preload_model or models[0].id
        body = f'{{"model": "{name}", "messages": [{{"role": "user", "content": "What is the capital of France?"}}], "temperature": 0}}'
        yield f"Try:  curl -s {address}/chat/completions{key} -d '{body}'"
    else:
        yield "No model is installed yet; `prism pull smollm2-135m` brings a small one."

    yield "Ctrl+C ends it."


def _status_line(status: HostStatus) -> str:
    model = f" {status.model_id} on {status.loaded.device}" if status.loaded is not None else ""
    waiting = f", {status.waiting} waiting" if status.waiting else ""
    return f"{status.state}{model}{waiting}"


async def _preload(services: Services) -> None:
    name = services.settings.preload_model

    if name is None:
        return

    try:
        entry = await services.catalog.resolve(name)
        loaded = await services.host.preload(ModelRef(entry.id, entry.path))
        services.machine.note_loaded(loaded.device)
    except (CatalogError, SupervisorError) as error:
        # The server stays: the model may appear later, and a request for it gets the reason.
        logger.error("--model %s is not loaded: %s", name, error)
    except Exception:  # nobody awaits it, and a model that is not loaded ahead costs its first request some time
        logger.exception("--model %s is not loaded", name)


@contextlib.contextmanager
def _signals(services: Services) -> Iterator[None]:
    """SIGTERM and Ctrl+C finish what runs and exit; a second one cuts it short."""
    loop = asyncio.get_running_loop()
    seen: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        seen.append(number)
        logger.info("%s: %s", number.name, "finishing what runs" if len(seen) == 1 else "ending at once")
        services.begin_drain(None if len(seen) == 1 else 0.0)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)

    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)

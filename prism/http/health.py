"""GET /health (also /v1/health and /v1/status) and GET /health/ready. Public, never loads a model, never waits for the engine."""

import time
from typing import Literal

import msgspec
from aiohttp import web

from prism import __version__
from prism.api.server_responses import (
    GpuDevice,
    Hardware,
    Health,
    QueueStatus,
    Readiness,
    ServerState,
    WorkerStatus,
)
from prism.http.services import SERVICES, Services
from supervisor.hardware import Hardware as HardwareFacts
from supervisor.hardware import HardwareFound
from supervisor.host_status import HostState, HostStatus

# Written out, so that a new state of the supervisor fails the type check here.
_STATES: dict[HostState, ServerState] = {
    HostState.IDLE: "idle",
    HostState.LOADING: "loading",
    HostState.READY: "ready",
    HostState.BUSY: "busy",
    HostState.DRAINING: "draining",
    HostState.DEGRADED: "degraded",
}


async def health(request: web.Request) -> web.Response:
    """Answer 200 with what the server is doing."""
    services = request.app[SERVICES]
    return _json(_health(services, _hardware(await services.machine.hardware())))


async def ready(request: web.Request) -> web.Response:
    """Answer 200 if a request would be taken now, else 503."""
    state = request.app[SERVICES].host.status().state
    reason = {
        HostState.DRAINING: "the server finishes and exits",
        HostState.DEGRADED: "a worker cannot be ended and holds its memory",
    }.get(state)
    return _json(Readiness(ready=reason is None, state=_STATES[state], reason=reason), 200 if reason is None else 503)


def _health(services: Services, hardware: Hardware) -> Health:
    status = services.host.status()
    return Health(
        active_model=status.model_id,
        active_device=_active_device(status),
        hardware=hardware,
        state=_STATES[status.state],
        version=__version__,
        uptime_sec=round(time.monotonic() - services.started_at, 1),
        queue=QueueStatus(running=status.running, waiting=status.waiting, max=status.max_queue),
        worker=_worker(status),
        fallback_reason=status.loaded.fallback_reason if status.loaded is not None else None,
    )


def _active_device(status: HostStatus) -> Literal["cpu", "cuda"] | None:
    if status.loaded is None:
        return None

    return "cuda" if status.loaded.device == "cuda" else "cpu"


def _worker(status: HostStatus) -> WorkerStatus | None:
    if status.worker_pid is None:
        return None

    return WorkerStatus(
        pid=status.worker_pid,
        generation=status.generation,
        restarts=status.restarts,
        parallel=status.parallel,
    )


def _hardware(facts: HardwareFacts) -> Hardware:
    if not isinstance(facts, HardwareFound):
        return Hardware(available=False, error=facts.error)

    devices = [
        GpuDevice(
            index=device.index,
            name=device.name,
            compute_capability=device.compute_capability,
            vram_total_mb=device.vram_total_mb,
            vram_used_mb=device.vram_used_mb,
            vram_free_mb=device.vram_free_mb,
            qualifying_cuda=device.qualifying_cuda,
        )
        for device in facts.devices
    ]
    return Hardware(available=True, driver_path=facts.driver_path, device_count=facts.device_count, devices=devices)


def _json(answer: Health | Readiness, status: int = 200) -> web.Response:
    return web.Response(status=status, body=msgspec.json.encode(answer), content_type="application/json")

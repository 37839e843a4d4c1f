"""POST /v1/unload and POST /v1/drain: the operator's commands. A body that is refused changes nothing."""

import asyncio

import msgspec
from aiohttp import web
from msgspec import UNSET

from prism.api.admin_request import decode_drain_request, decode_unload_request, wait_bound_s
from prism.api.server_responses import Drained, Unloaded
from prism.http.body import read_body
from prism.http.services import EXIT_DELAY_S, SERVICES
from supervisor.host_status import UnloadReport


async def unload(request: web.Request) -> web.Response:
    """Stop the resident worker, behind the request that runs, and answer when its process is gone."""
    body = decode_unload_request(await read_body(request))
    return _json(_unloaded(await request.app[SERVICES].host.unload(wait_bound_s(body))))


def _unloaded(report: UnloadReport) -> Unloaded:
    released = report.vram.released_bytes if report.vram is not None else None
    return Unloaded(
        unloaded=report.model_id is not None,
        model=report.model_id,
        vram_released_mb=round(released / (1 << 20), 1) if released is not None else UNSET,
        vram_verified=report.vram.is_verified if report.vram is not None else UNSET,
    )


async def drain(request: web.Request) -> web.Response:
    """Refuse what is new and what waits, finish what runs, stop the worker, answer, and exit with status 0."""
    body = decode_drain_request(await read_body(request))
    # Once begun a drain goes on, also if this client leaves.
    model_id = await asyncio.shield(request.app[SERVICES].drain(wait_bound_s(body)))
    response = _json(Drained(drained=model_id is not None, model=model_id, exit_in_ms=round(EXIT_DELAY_S * 1000)))
    response.force_close()
    return response


def _json(answer: Unloaded | Drained) -> web.Response:
    return web.Response(body=msgspec.json.encode(answer), content_type="application/json")

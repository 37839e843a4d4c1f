"""GET /v1/models and GET /v1/models/{id}: what is installed, and where it will run."""

import msgspec
from aiohttp import web

from prism.api.server_responses import ModelCard, ModelList
from prism.http.services import SERVICES
from prism.model_entry import EXPORTED_FOR_CPU, ModelEntry


async def list_models(request: web.Request) -> web.Response:
    """Answer with every installed model. Loads nothing."""
    services = request.app[SERVICES]
    device = await services.machine.planned_device()
    models = await services.catalog.models()
    return _json(ModelList(data=[_card(entry, device) for entry in models]))


async def get_model(request: web.Request) -> web.Response:
    """Answer with the model that a name means, by the rules that requests follow."""
    services = request.app[SERVICES]
    entry = await services.catalog.resolve(request.match_info["id"])
    return _json(_card(entry, await services.machine.planned_device()))


def _card(entry: ModelEntry, device: str) -> ModelCard:
    return ModelCard(
        id=entry.id,
        created=entry.created,
        owned_by=entry.owned_by,
        size_mb=entry.size_mb,
        device=device,
        input_modalities=["text"] if entry.images is None else ["text", "image"],
        exported_for="CPU" if entry.exported_for == EXPORTED_FOR_CPU else "CUDA (GPU)",
    )


def _json(answer: ModelCard | ModelList) -> web.Response:
    return web.Response(body=msgspec.json.encode(answer), content_type="application/json")

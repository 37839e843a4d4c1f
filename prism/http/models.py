"""GET /v1/models and GET /v1/models/{id}: what is installed, here and with the Ollama daemon, and where it will run."""

import asyncio

import msgspec
from aiohttp import web

from prism.api.refusals import model_not_found
from prism.api.server_responses import ModelCard, ModelList
from prism.http.model_names import OLLAMA_PREFIX, OllamaModel, resolve_model
from prism.http.ollama_faults import Asked
from prism.http.services import SERVICES
from prism.model_entry import EXPORTED_FOR_CPU, ModelEntry
from prism.ollama.inventory import OWNED_BY, InstalledModel

# The daemon decides at each load, and says so to nobody before.
_OLLAMA_DEVICE = "chosen by Ollama"


async def list_models(request: web.Request) -> web.Response:
    """Answer with every installed model. Loads nothing, and waits for the daemon no longer than `prism.ollama.inventory` does."""
    services = request.app[SERVICES]
    device, models, installed = await asyncio.gather(
        services.machine.planned_device(), services.catalog.models(), services.inventory.models()
    )
    own_names = {entry.id.casefold() for entry in models}
    cards = [_card(entry, device) for entry in models]
    # A name that means a model of our own is listed in the form that means the daemon's.
    cards += [_ollama_card(model, needs_prefix=model.name.casefold() in own_names) for model in installed]
    return _json(ModelList(data=cards))


async def get_model(request: web.Request) -> web.Response:
    """Answer with the model that a name means, by the rules that requests follow."""
    services = request.app[SERVICES]
    name = request.match_info["id"]
    found = await resolve_model(services, name)

    if not isinstance(found, OllamaModel):
        return _json(_card(found, await services.machine.planned_device()))

    with Asked(found.name, "id").told():
        installed = await services.inventory.find_or_raise(found.name)

    if installed is None:
        raise model_not_found(f"Ollama has no model '{found.name}'; `prism pull ollama:{found.name}` brings it.")

    return _json(_ollama_card(installed, needs_prefix=name.strip().lower().startswith(OLLAMA_PREFIX)))


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


def _ollama_card(model: InstalledModel, *, needs_prefix: bool) -> ModelCard:
    return ModelCard(
        id=OLLAMA_PREFIX + model.name if needs_prefix else model.name,
        created=model.created,
        owned_by=OWNED_BY,
        size_mb=model.size_mb,
        device=_OLLAMA_DEVICE,
    )


def _json(answer: ModelCard | ModelList) -> web.Response:
    return web.Response(body=msgspec.json.encode(answer), content_type="application/json")

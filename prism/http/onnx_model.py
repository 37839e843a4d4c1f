"""Which ONNX model a request means. Called by the handlers that generate; every name goes through here.

Names that begin with `ollama:` belong to the Ollama daemon, whose models this server does not serve yet: it says so instead of looking for
a folder of that name.
"""

from prism.api.refusals import backend_unavailable
from prism.http.services import Services
from prism.model_entry import ModelEntry

_OLLAMA_PREFIX = "ollama:"


async def resolve_onnx_model(services: Services, name: str) -> ModelEntry:
    """Return the model. Raises CatalogError when the name leads to none or to several, ApiError (502) for a name of Ollama's."""
    if name.strip().lower().startswith(_OLLAMA_PREFIX):
        raise backend_unavailable("this version of Prism does not pass requests on to it")

    return await services.catalog.resolve(name)

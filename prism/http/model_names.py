"""Which model a request means: one of this server's own, or one of the Ollama daemon's. Every name of a request goes through here.

The order: `ollama:` in front forces the daemon, whether or not it has the model; then the id or the path of an ONNX model; then the name of
a model that the daemon has; then aliases and parts of names of ONNX models. So an installed model is never hidden by another's alias, and
the daemon is not asked for names that are certain without it.
"""

from dataclasses import dataclass
from typing import Final

from prism.catalog import ModelNotFound
from prism.http.services import Services
from prism.model_entry import ModelEntry

OLLAMA_PREFIX: Final = "ollama:"


@dataclass(frozen=True, slots=True)
class OllamaModel:
    """A model of the daemon. name: as the daemon takes it, without our prefix."""

    name: str


def forced_ollama_name(name: str) -> str | None:
    """Return what stands behind the prefix, once; None for a name without it. Raises CatalogError when nothing stands there."""
    wanted = name.strip()

    if not wanted.lower().startswith(OLLAMA_PREFIX):
        return None

    forced = wanted[len(OLLAMA_PREFIX) :].strip()

    if not forced:
        raise ModelNotFound(wanted, [])

    return forced


async def resolve_model(services: Services, name: str) -> ModelEntry | OllamaModel:
    """Return the model. Raises CatalogError when the name leads to none or to several."""
    if (forced := forced_ollama_name(name)) is not None:
        return OllamaModel(forced)

    if (entry := await services.catalog.find_exact(name)) is not None:
        return entry

    installed = await services.inventory.find(name.strip()) if name.strip() else None
    return OllamaModel(installed.name) if installed is not None else await services.catalog.resolve(name)

"""From the errors of the Ollama daemon to the errors that clients see. Used by the handlers of its models. Pure."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from prism.api.errors import ApiError, ErrorCode, refusal
from prism.api.refusals import (
    backend_unavailable,
    context_length_exceeded,
    embeddings_not_supported,
    invalid_request,
    model_not_found,
)
from prism.http.error_table import to_api_error
from prism.ollama.errors import AnswersAreCut, DaemonRefused, OllamaError

# How daemons of several years say that a text does not fit into the window.
_TOO_LONG: Final = ("context length", "context size", "context window", "exceed_context")
_BUSY_RETRY_AFTER_S: Final = 30


@dataclass(frozen=True, slots=True)
class Asked:
    """What the daemon was asked. model: without our prefix. field: of the request, that the text came from."""

    model: str
    field: str

    def api_error(self, error: Exception) -> ApiError:
        """Return what a client is told."""
        match error:
            case DaemonRefused():
                return self._of_refusal(error)
            case AnswersAreCut():
                return refusal(
                    ErrorCode.SERVER_DRAINING, "The server finishes and exits.", headers={"Connection": "close"}
                )
            case OllamaError():
                return backend_unavailable(f"{error}.")
            case _:
                return to_api_error(error)

    @contextlib.contextmanager
    def told(self) -> Iterator[None]:
        """Turn an error of the daemon, raised in the block, into one for the client."""
        try:
            yield
        except OllamaError as error:
            raise self.api_error(error) from error

    def _of_refusal(self, error: DaemonRefused) -> ApiError:
        text = (error.text or "").lower()

        if error.status == 404 and error.text is not None:
            return model_not_found(
                f"Ollama has no model '{self.model}' ({error.text}); `prism pull ollama:{self.model}` brings it."
            )

        if any(words in text for words in _TOO_LONG):
            return context_length_exceeded(f"Ollama refuses the text as too long for its window: {error}", self.field)

        if self.field == "input" and (error.status == 501 or (error.status == 400 and "embed" in text)):
            return embeddings_not_supported(self.model, f"Ollama says: {error}")

        if error.status == 400 and "does not support tools" in text:
            return refusal(
                ErrorCode.TOOLS_NOT_SUPPORTED,
                f"The model '{self.model}' cannot take tools; Ollama says: {error}",
                param="tools",
            )

        if error.status == 400:
            return invalid_request(f"Ollama refuses the request: {error}")

        is_busy = error.status == 503
        return refusal(
            ErrorCode.BACKEND_UNAVAILABLE,
            f"Ollama could not answer: {error}",
            retry_after_s=_BUSY_RETRY_AFTER_S if is_busy else None,
        )

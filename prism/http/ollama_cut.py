"""Whether an answer of the Ollama daemon is one to the whole prompt; said in the log when it is not. Used by the handlers of its models."""

import logging

from prism.ollama.chat import ChatOutcome
from prism.ollama.truncation import looks_cut

logger = logging.getLogger(__name__)


def note_if_cut(model: str, least_tokens: int, outcome: ChatOutcome) -> bool:
    """Say whether the daemon cut the prompt. least_tokens: what the prompt has at the least."""
    is_cut = looks_cut(least_tokens, outcome.prompt_tokens)

    if is_cut:
        logger.warning(
            "[ollama %r] read %s tokens of a prompt of at least %d: it was cut to the window of the daemon (num_ctx)",
            model,
            outcome.prompt_tokens,
            least_tokens,
        )

    return is_cut

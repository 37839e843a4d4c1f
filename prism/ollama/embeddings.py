"""Vectors of texts by the Ollama daemon. Called by the handler of embeddings, which writes them in the form that the client wants."""

import base64
import struct
from collections.abc import Sequence

import msgspec

from prism.ollama.daemon import OllamaDaemon
from prism.ollama.errors import BadDaemonAnswer
from prism.ollama.requests import embed_body
from prism.ollama.wire import Embeddings, decoded

_EMBED = "/api/embed"
_ANSWER = msgspec.json.Decoder(Embeddings)


async def ask_embeddings(daemon: OllamaDaemon, model: str, texts: Sequence[str]) -> bytes:
    """Return the daemon's answer as it came. Raises OllamaError."""
    async with daemon.ask(_EMBED, embed_body(model, texts)) as answer:
        return await answer.whole()


def read_embeddings(answer: bytes, count: int) -> Embeddings:
    """Return the vectors, as many as there were texts and all of one length. Raises BadDaemonAnswer.

    Up to 64 MiB are decoded, which takes some tenths of a second: called in a thread. What is no finite number does not decode.
    """
    embeddings = decoded(answer, _ANSWER)
    vectors = embeddings.embeddings or []

    if len(vectors) != count:
        raise BadDaemonAnswer(f"it sent {len(vectors)} embeddings for {count} texts")

    lengths = {len(vector) for vector in vectors}

    if len(lengths) != 1 or 0 in lengths:
        raise BadDaemonAnswer("it sent embeddings that are empty or not of one length")

    return embeddings


def as_base64(vector: Sequence[float]) -> str:
    """Return the vector as base64 of little-endian 32-bit floats. Raises BadDaemonAnswer for a number that does not fit into them."""
    try:
        return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
    except (OverflowError, struct.error) as error:
        raise BadDaemonAnswer("it sent an embedding with a number that is no 32-bit float") from error

"""The body of POST /v1/embeddings. Called by its handler, which passes the texts on to Ollama. Pure."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from prism.api.errors import ApiError
from prism.api.generation_fields import NOT_BLANK, no_model_name
from prism.api.json_body import decode_body
from prism.api.limits import MAX_EMBEDDING_INPUTS, MAX_MODEL_CHARS
from prism.api.refusals import dimensions_not_supported, invalid_request

InputText = Annotated[str, Meta(extra_json_schema={"minLength": 1})]


class EmbeddingsRequest(msgspec.Struct, frozen=True, kw_only=True):
    """input: one text or up to 256, none of them empty. dimensions: not supported, taken only as null."""

    model: Annotated[
        str,
        Meta(max_length=MAX_MODEL_CHARS, description="An Ollama model.", extra_json_schema={"pattern": NOT_BLANK}),
    ]
    input: (
        InputText
        | Annotated[list[InputText], Meta(extra_json_schema={"minItems": 1, "maxItems": MAX_EMBEDDING_INPUTS})]
    )
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Annotated[int | None, Meta(extra_json_schema={"enum": [None]})] = None


_DECODER = msgspec.json.Decoder(EmbeddingsRequest)


def decode_embeddings_request(body: bytes) -> EmbeddingsRequest:
    """Return the request. Raises ApiError (400) that names the field."""
    try:
        request = decode_body(body, _DECODER)
    except ApiError as error:
        raise _with_better_words(error) from None

    _check_input(request)

    if request.dimensions is not None:
        raise dimensions_not_supported()

    if not request.model.strip():
        raise no_model_name()

    return request


def embedding_inputs(request: EmbeddingsRequest) -> tuple[str, ...]:
    """Return the texts, 1 to MAX_EMBEDDING_INPUTS."""
    return (request.input,) if isinstance(request.input, str) else tuple(request.input)


def wants_base64(request: EmbeddingsRequest) -> bool:
    """Say whether each vector goes out as base64 of little-endian 32-bit floats."""
    return request.encoding_format == "base64"


def _with_better_words(error: ApiError) -> ApiError:
    match error.param:
        case "dimensions":
            return dimensions_not_supported()

        case "encoding_format":
            return invalid_request('\'encoding_format\' must be "float" or "base64".', "encoding_format")

        case str() as field if field.startswith("input["):
            return invalid_request(f"'{field}' must be a string: arrays of tokens are not supported.", field)

        case _:
            return error


def _check_input(request: EmbeddingsRequest) -> None:
    texts = embedding_inputs(request)

    if not texts:
        raise invalid_request("'input' must not be empty.", "input")

    if len(texts) > MAX_EMBEDDING_INPUTS:
        raise invalid_request(f"'input' takes at most {MAX_EMBEDDING_INPUTS} texts, not {len(texts)}.", "input")

    for number, text in enumerate(texts):
        if not text:
            field = "input" if isinstance(request.input, str) else f"input[{number}]"
            raise invalid_request(f"'{field}' must not be empty.", field)

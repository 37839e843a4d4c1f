"""The body of POST /v1/completions. Called by its handler, which answers every prompt as one choice, in order. Pure."""

from typing import Annotated

import msgspec
from msgspec import Meta

from prism.api.errors import ApiError
from prism.api.generation_fields import GenerationFields, check_model_name
from prism.api.json_body import decode_body
from prism.api.limits import MAX_PROMPTS
from prism.api.refusals import invalid_request, unsupported_parameter

PromptText = Annotated[str, Meta(extra_json_schema={"minLength": 1})]


class CompletionRequest(GenerationFields, frozen=True, kw_only=True):
    """prompt: one text or several. echo, suffix and best_of are taken while they ask for nothing; logprobs is ignored."""

    prompt: PromptText | Annotated[list[PromptText], Meta(extra_json_schema={"minItems": 1, "maxItems": MAX_PROMPTS})]
    echo: Annotated[bool | None, Meta(extra_json_schema={"enum": [False, None]})] = None
    suffix: Annotated[str | None, Meta(extra_json_schema={"enum": ["", None]})] = None
    best_of: Annotated[int | None, Meta(extra_json_schema={"enum": [1, None]})] = None


_DECODER = msgspec.json.Decoder(CompletionRequest)


def decode_completion_request(body: bytes) -> CompletionRequest:
    """Return the request. Raises ApiError (400) that names the field for every fault but a number out of range."""
    try:
        request = decode_body(body, _DECODER)
    except ApiError as error:
        raise _with_better_words(error) from None

    _check_prompt(request)
    _check_unsupported(request)
    check_model_name(request)

    return request


def prompts_of(request: CompletionRequest) -> tuple[str, ...]:
    """Return the prompts, 1 to MAX_PROMPTS, none of them empty."""
    return (request.prompt,) if isinstance(request.prompt, str) else tuple(request.prompt)


def _with_better_words(error: ApiError) -> ApiError:
    if error.param is not None and error.param.startswith("prompt["):
        return invalid_request(f"'{error.param}' must be a string: arrays of tokens are not supported.", error.param)

    return error


def _check_prompt(request: CompletionRequest) -> None:
    prompts = prompts_of(request)

    if not prompts:
        raise invalid_request("'prompt' must not be empty.", "prompt")

    if len(prompts) > MAX_PROMPTS:
        raise invalid_request(f"'prompt' takes at most {MAX_PROMPTS} texts, not {len(prompts)}.", "prompt")

    for number, text in enumerate(prompts):
        if not text:
            field = "prompt" if isinstance(request.prompt, str) else f"prompt[{number}]"
            raise invalid_request(f"'{field}' must not be empty.", field)


def _check_unsupported(request: CompletionRequest) -> None:
    if request.echo:
        raise unsupported_parameter("echo", "'echo' is not supported: leave it out or send false.")

    if request.suffix:
        raise unsupported_parameter("suffix", "'suffix' is not supported: leave it out or send an empty text.")

    if request.best_of is None:
        return

    if request.best_of < 1:
        raise invalid_request("'best_of' must be at least 1.", "best_of")

    if request.best_of > 1:
        raise unsupported_parameter(
            "best_of", "'best_of' above 1 is not supported: there is one candidate for each prompt."
        )

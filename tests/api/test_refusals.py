"""One constructor for each documented error; its message names the thing."""

import pytest

from prism.api import refusals
from prism.api.errors import ERROR_TABLE, ApiError, ErrorCode

MADE = [
    (refusals.ambiguous_model("phi", ["phi-3", "phi-4"]), "ambiguous_model", "phi-3, phi-4"),
    (refusals.backend_unavailable("connection refused"), "backend_unavailable", "connection refused"),
    (refusals.body_too_large(10_485_760), "body_too_large", "10485760"),
    (refusals.context_length_exceeded("9000 tokens", "messages"), "context_length_exceeded", "9000 tokens"),
    (refusals.dimensions_not_supported(), "dimensions_not_supported", "dimensions"),
    (refusals.embeddings_not_supported("phi-4"), "embeddings_not_supported", "phi-4"),
    (refusals.host_not_allowed("evil.example"), "host_not_allowed", "evil.example"),
    (refusals.invalid_api_key(), "invalid_api_key", "Bearer"),
    (refusals.method_not_allowed("GET", "/v1/drain", ["POST", "OPTIONS"]), "method_not_allowed", "POST, OPTIONS"),
    (refusals.not_found("/v1/nothing"), "not_found", "/v1/nothing"),
    (refusals.origin_not_allowed("https://evil.example"), "origin_not_allowed", "https://evil.example"),
    (refusals.request_timeout(), "request_timeout", "in time"),
    (refusals.template_render_failed("phi-4", "undefined"), "template_render_failed", "'phi-4'"),
    (refusals.tools_not_supported("phi-4"), "tools_not_supported", "'phi-4'"),
    (refusals.unsupported_media_type("gzip"), "unsupported_media_type", "'gzip'"),
    (refusals.unsupported_parameter("echo", "'echo' is not supported."), "unsupported_parameter", "'echo'"),
]


@pytest.mark.parametrize(("error", "code", "words"), MADE, ids=[code for _, code, _ in MADE])
def test_constructor_gives_code_status_and_the_facts(error: ApiError, code: str, words: str) -> None:
    assert error.code == code
    assert error.status == ERROR_TABLE[ErrorCode(code)].status
    assert words in error.message


def test_errors_without_a_code() -> None:
    assert (refusals.invalid_request("no", "stop").status, refusals.invalid_request("no", "stop").code) == (400, None)
    assert (refusals.internal_error().status, refusals.internal_error().code) == (500, None)


def test_a_wrong_method_is_told_the_right_ones() -> None:
    assert refusals.method_not_allowed("GET", "/v1/drain", ["POST", "OPTIONS"]).headers == {"Allow": "POST, OPTIONS"}


def test_a_missing_key_is_challenged() -> None:
    assert refusals.invalid_api_key().headers == {"WWW-Authenticate": "Bearer"}

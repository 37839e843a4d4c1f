"""Every documented error has its status, its type and its envelope."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism.api.errors import ERROR_TABLE, ApiError, ErrorCode, Holder, error_body, error_type, refusal

# The two lists of the documents: the table of the REST page, and the codes beyond it.
DOCUMENTED = {
    ("embeddings_not_supported", 400),
    ("dimensions_not_supported", 400),
    ("tools_not_supported", 400),
    ("template_render_failed", 400),
    ("ambiguous_model", 400),
    ("context_length_exceeded", 400),
    ("invalid_api_key", 401),
    ("host_not_allowed", 403),
    ("model_not_found", 404),
    ("not_found", 404),
    ("body_too_large", 413),
    ("insufficient_resources", 503),
    ("server_busy", 503),
    ("model_load_failed", 500),
    ("backend_unavailable", 502),
    ("unsupported_parameter", 400),
    ("origin_not_allowed", 403),
    ("method_not_allowed", 405),
    ("request_timeout", 408),
    ("unsupported_media_type", 415),
    ("engine_crashed", 500),
    ("engine_unresponsive", 500),
    ("model_unavailable", 503),
    ("server_draining", 503),
}


def test_error_table_holds_exactly_the_documented_codes() -> None:
    assert {(str(code), row.status) for code, row in ERROR_TABLE.items()} == DOCUMENTED


def test_every_code_has_a_row() -> None:
    assert set(ERROR_TABLE) == set(ErrorCode)


def test_only_a_503_is_worth_a_retry() -> None:
    assert {row.status for row in ERROR_TABLE.values() if row.retry_after_s is not None} == {503}


@pytest.mark.parametrize("code", [ErrorCode.INSUFFICIENT_RESOURCES, ErrorCode.SERVER_BUSY])
def test_refusals_that_pass_carry_retry_after_30(code: ErrorCode) -> None:
    assert refusal(code, "later").headers["Retry-After"] == "30"


def test_the_raiser_may_know_better_when_to_retry() -> None:
    assert refusal(ErrorCode.MODEL_UNAVAILABLE, "later", retry_after_s=7).headers == {"Retry-After": "7"}
    assert refusal(ErrorCode.MODEL_UNAVAILABLE, "later", retry_after_s=0).headers == {"Retry-After": "1"}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (403, "forbidden"),
        (404, "not_found_error"),
        (405, "invalid_request_error"),
        (408, "invalid_request_error"),
        (413, "invalid_request_error"),
        (415, "invalid_request_error"),
        (500, "server_error"),
        (502, "server_error"),
        (503, "server_error"),
    ],
)
def test_type_follows_from_the_status(status: int, expected: str) -> None:
    assert error_type(status) == expected


def test_envelope_has_exactly_four_keys_and_nulls() -> None:
    assert json.loads(error_body(ApiError(400, "no"))) == {
        "error": {"message": "no", "type": "invalid_request_error", "param": None, "code": None}
    }


def test_envelope_names_field_and_code() -> None:
    error = refusal(ErrorCode.UNSUPPORTED_PARAMETER, "no", param="echo")

    assert json.loads(error_body(error))["error"] == {
        "message": "no",
        "type": "invalid_request_error",
        "param": "echo",
        "code": "unsupported_parameter",
    }


def test_holder_is_exactly_pid_and_model_and_left_out_when_unknown() -> None:
    known = refusal(ErrorCode.INSUFFICIENT_RESOURCES, "full", holder=Holder(pid=42, model="phi-4-mini"))
    unknown = refusal(ErrorCode.INSUFFICIENT_RESOURCES, "full")

    assert json.loads(error_body(known))["error"]["holder"] == {"pid": 42, "model": "phi-4-mini"}
    assert "holder" not in json.loads(error_body(unknown))["error"]


def test_headers_of_an_error_cannot_be_changed_from_outside() -> None:
    error = refusal(ErrorCode.METHOD_NOT_ALLOWED, "no", headers={"Allow": "POST"})
    error.headers["Allow"] = "GET"

    assert error.headers == {"Allow": "POST"}


@given(st.text(st.characters(), max_size=50), st.none() | st.text(st.characters(), max_size=50))
def test_any_text_can_be_written(message: str, param: str | None) -> None:
    body = json.loads(error_body(ApiError(500, message, param=param)))

    assert set(body["error"]) == {"message", "type", "param", "code"}


def test_a_lone_surrogate_and_an_endless_text_are_made_harmless() -> None:
    message = json.loads(error_body(ApiError(500, "file \udcff " + "x" * 1_000_000)))["error"]["message"]

    assert message.startswith("file ? ")
    assert len(message) <= 2_000

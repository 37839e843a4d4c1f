"""Endpoints, embeddings, unload, errors and authentication of rest-api.txt, and what contract.md adds to them."""

import json
from functools import partial
from typing import Any

from tests.contract.client import (
    ABSENT,
    CHAT,
    COMPLETIONS,
    EMBEDDINGS,
    TOOL,
    Case,
    Client,
    refused,
    refused_body,
)
from tests.raw_http import head, send_raw

LARGEST_BODY = 10 * 1024 * 1024
HEALTH_FIELDS = {
    "status",
    "active_model",
    "active_device",
    "hardware",
    "state",
    "version",
    "uptime_sec",
    "queue",
    "worker",
    "fallback_reason",
}


def check_models(client: Client) -> None:
    listed = client.get("/v1/models").json
    assert listed["object"] == "list"
    assert {"stand-in", "plain", "twin-one"} <= {model["id"] for model in listed["data"]}

    for model in (model for model in listed["data"] if "exported_for" in model):
        assert set(model) == {
            "id",
            "object",
            "created",
            "owned_by",
            "size_mb",
            "device",
            "exported_for",
            "input_modalities",
        }
        assert (model["object"], model["owned_by"], model["device"]) == ("model", "ONNX Runtime GenAI", "CPU")
        assert model["input_modalities"] == ["text"]
        assert model["exported_for"] in ("CPU", "CUDA (GPU)")
        assert isinstance(model["size_mb"], float)


def check_one_model(client: Client) -> None:
    listed = client.get("/v1/models").json["data"]
    assert client.get("/v1/models/stand-in").json in listed
    assert client.get("/v1/models/phi-4-mini").json["id"] == "Phi-4-mini-instruct-generic-cpu"
    assert client.get("/v1/models/nope").error["code"] == "model_not_found"
    assert client.get("/v1/models/twin").error["code"] == "ambiguous_model"


def check_created(client: Client) -> None:
    assert client.get("/v1/models").json == client.get("/v1/models").json


def check_health(client: Client) -> None:
    for path in ("/health", "/v1/health", "/v1/status"):
        health = client.get(path).json
        assert set(health) == HEALTH_FIELDS
        assert (health["status"], health["active_model"], health["active_device"]) == ("ok", "stand-in", "cpu")
        assert health["hardware"]["available"] in (True, False)
        assert health["queue"] == {"running": 0, "waiting": 0, "max": 8}
        assert set(health["worker"]) == {"pid", "generation", "restarts", "parallel"}
        assert health["fallback_reason"] is None


def check_slashes(client: Client) -> None:
    assert client.get("/health///").status == 200
    assert client.get("/v1/models/").json["object"] == "list"
    assert client.get("/v1/models/stand-in//").json["id"] == "stand-in"
    body = json.dumps({"model": "stand-in", "messages": [{"role": "user", "content": "hello"}]})
    assert client.post("/v1/chat/completions/", body).status == 200


def check_ready(client: Client) -> None:
    assert client.get("/health/ready").json["ready"] is True


def check_unload_refuses(client: Client) -> None:
    worker = client.get("/health").json["worker"]

    for body in ("[]", "7", '"x"', "null", "{", "nonsense"):
        reply = client.post("/v1/unload", body)
        assert reply.status == 400, body
        assert reply.error["code"] is None

    assert client.get("/health").json["worker"] == worker


def check_drain_refuses(client: Client) -> None:
    for body in ("[]", '{"timeout_ms": -1}', '{"timeout_ms": "1"}', "{"):
        assert client.post("/v1/drain", body).status == 400, body

    assert client.get("/health").json["state"] == "ready"


def check_envelope(client: Client) -> None:
    kinds = (
        (client.post(CHAT, "{"), "invalid_request_error"),
        (client.get("/nothing"), "not_found_error"),
        (client.get("/health", "Host: evil.example"), "forbidden"),
        (client.ask(model="ollama:fails"), "server_error"),
    )

    for reply, kind in kinds:
        assert set(reply.error) == {"message", "type", "param", "code"}
        assert reply.error["type"] == kind


def check_too_large(client: Client) -> None:
    """Refused from the length alone: not a byte of the body is sent."""
    for path in (CHAT, COMPLETIONS, EMBEDDINGS, "/v1/unload", "/v1/drain"):
        reply = send_raw(client.base_url, head("POST", path, f"Content-Length: {LARGEST_BODY + 1}"))
        assert (reply.status, reply.error["code"]) == (413, "body_too_large")


def check_largest(client: Client) -> None:
    body = b'{"model": "stand-in", "messages": [{"role": "user", "content": "x"}]}'
    assert client.post(CHAT, body + b" " * (LARGEST_BODY - len(body))).status == 200


def check_window(client: Client) -> None:
    script = {"reject": {"code": "context_length_exceeded", "message": "the prompt has 9 tokens, the window 8"}}

    for path in (CHAT, COMPLETIONS):
        for stream in (True, False):
            reply = client.ask(path, script, stream=stream)
            assert (reply.status, reply.error["code"]) == (400, "context_length_exceeded")
            assert {"9", "8"} <= set(reply.error["message"].replace(",", "").split())


def check_order(client: Client) -> None:
    """Each request has several faults; the earliest of the order answers."""
    bad_host = ("Host: evil.example", f"Content-Length: {LARGEST_BODY + 1}")
    raw = partial(send_raw, client.base_url)
    assert raw(head("POST", "/nothing", *bad_host)).error["code"] == "host_not_allowed"
    assert raw(head("POST", "/nothing", bad_host[1])).error["code"] == "not_found"
    assert raw(head("PUT", CHAT, bad_host[1])).error["code"] == "method_not_allowed"
    faulty: dict[str, Any] = {"model": "nope", "temperature": 9, "tools": [TOOL], "stop": 5}
    assert client.ask(**faulty, messages=[]).error["param"] == "stop"
    assert client.ask(**(faulty | {"stop": None}), messages=[]).error["param"] == "messages"
    assert client.ask(**(faulty | {"stop": None})).error["code"] == "model_not_found"
    assert client.ask(**(faulty | {"stop": None, "model": "plain"})).error["code"] == "tools_not_supported"
    assert client.ask(**(faulty | {"stop": None, "model": "raising"})).error["param"] == "temperature"
    assert client.ask(model="raising", tools=[TOOL]).error["code"] == "template_render_failed"


def check_request_id(client: Client) -> None:
    assert client.get("/health", "X-Request-Id: mine-1").headers["x-request-id"] == "mine-1"
    assert client.get("/nothing", "X-Request-Id: mine-2").headers["x-request-id"] == "mine-2"
    assert client.get("/health", "X-Request-Id: " + "x" * 500).headers["x-request-id"].startswith("req-")


def check_openapi(client: Client) -> None:
    document = client.get("/openapi.json").json
    assert document["openapi"].startswith("3.1")
    assert CHAT in document["paths"]


def check_content_type(client: Client) -> None:
    """`curl -d` sends the type of a form, and some clients none."""
    body = json.dumps({"model": "stand-in", "messages": [{"role": "user", "content": "x"}]})
    for header in ("Content-Type: application/x-www-form-urlencoded", "Content-Type: text/plain", "X-None: 1"):
        assert client.post(CHAT, body, header).status == 200


EMBED = partial(refused, path=EMBEDDINGS)
CASES = (
    Case("endpoints.models", "each with its size, engine, device and export", check_models),
    Case("contract.one-model", "a model by its id, by any name that a request may use", check_one_model),
    Case("contract.one-model", "its time of creation does not change", check_created),
    Case("endpoints.health", "three paths, the same fields", check_health),
    Case("contract.health", "what the server is doing", check_health),
    Case("contract.ready", "200 while requests are taken", check_ready),
    Case("endpoints.slashes", "at the end of a path count for nothing", check_slashes),
    Case("contract.openapi", "describes what is served", check_openapi),
    Case("embeddings.onnx", "ONNX models make none", EMBED(400, "embeddings_not_supported", "model")),
    Case("embeddings.model", "an unknown one", EMBED(404, "model_not_found", "model", model="nope")),
    Case("embeddings.input", "is required", EMBED(400, None, "input", input=ABSENT)),
    Case("embeddings.input", "not empty", EMBED(400, None, "input", input="")),
    Case("embeddings.input", "not an empty list", EMBED(400, None, "input", input=[])),
    Case("embeddings.input", "no empty text in it", EMBED(400, None, "input[1]", input=["a", ""])),
    Case("embeddings.input", "at most 256", EMBED(400, None, "input", input=["a"] * 257)),
    Case("embeddings.input", "no tokens", EMBED(400, None, "input[0]", input=[1, 2])),
    Case("embeddings.input", "256 are fine", EMBED(400, "embeddings_not_supported", "model", input=["a"] * 256)),
    Case("embeddings.encoding", "float or base64", EMBED(400, None, "encoding_format", encoding_format="hex")),
    Case(
        "embeddings.encoding",
        "base64 is one of them",
        EMBED(400, "embeddings_not_supported", "model", encoding_format="base64"),
    ),
    Case("embeddings.dimensions", "are not", EMBED(400, "dimensions_not_supported", "dimensions", dimensions=8)),
    Case("unload.body", "any object or none; what is no object unloads nothing", check_unload_refuses),
    Case("drain.body", "what is no object drains nothing", check_drain_refuses),
    Case("errors.envelope", "one shape for all", check_envelope),
    Case("errors.400", "what is not JSON", refused_body("{", says="JSON")),
    Case("errors.400", "no body at all", refused_body(b"", says="body")),
    Case("errors.400", "no object", refused_body("[]", says="object")),
    Case("errors.400", "brackets without end", refused_body("[" * 200_000, says="")),
    Case(
        "errors.ambiguous",
        "the message lists them",
        refused(400, "ambiguous_model", "model", says="twin-two", model="twin"),
    ),
    Case(
        "errors.template",
        "names the model and the template's own words",
        refused(400, "template_render_failed", "messages", says="raising", model="raising", tools=[TOOL]),
    ),
    Case(
        "errors.template",
        "and the cause",
        refused(
            400, "template_render_failed", "messages", says="no tool of the name weather", model="raising", tools=[TOOL]
        ),
    ),
    Case(
        "errors.model",
        "unknown, and what there is",
        refused(404, "model_not_found", "model", says="stand-in", model="nope"),
    ),
    Case("errors.too-large", "told from the length, before the body is sent", check_too_large),
    Case("errors.too-large", "10 MiB are not too large", check_largest),
    Case("errors.backend", "whose runner fails", refused(502, "backend_unavailable", model=" Ollama:fails")),
    Case(
        "errors.window",
        "a prompt that fills it, with both numbers, before a stream begins",
        check_window,
    ),
    Case("contract.order", "of checks", check_order),
    Case("contract.request-id", "is echoed, or made", check_request_id),
    Case("contract.content-type", "is not looked at", check_content_type),
)

"""The published description covers every route, resolves every reference, and says what the decoder does."""

import json
import re
from collections.abc import Iterator

import pytest

from prism.api.errors import ERROR_TABLE
from prism.api.openapi import openapi_document
from prism.api.routes import ROUTES

DOCUMENT = json.loads(json.dumps(openapi_document("1.2.3")))
PATHS = DOCUMENT["paths"]
SCHEMAS = DOCUMENT["components"]["schemas"]

EXPECTED = {
    ("get", "/v1/models"),
    ("get", "/v1/models/{id}"),
    ("post", "/v1/chat/completions"),
    ("post", "/v1/completions"),
    ("post", "/v1/embeddings"),
    ("post", "/v1/unload"),
    ("post", "/v1/drain"),
    ("get", "/health"),
    ("get", "/v1/health"),
    ("get", "/v1/status"),
    ("get", "/health/ready"),
}
OPERATIONS = [(method, path, operation) for path, item in PATHS.items() for method, operation in item.items()]


def references(node: object) -> Iterator[str]:
    match node:
        case {"$ref": str() as target}:
            yield target

        case dict():
            for child in node.values():
                yield from references(child)

        case list():
            for child in node:
                yield from references(child)

        case _:
            return


def test_head() -> None:
    assert re.fullmatch(r"3\.1\.\d", DOCUMENT["openapi"])
    assert DOCUMENT["info"]["version"] == "1.2.3"
    assert DOCUMENT["info"]["title"]


def test_every_documented_route_is_there_and_no_other() -> None:
    assert {(method, path) for method, path, _ in OPERATIONS} == EXPECTED


def test_every_reference_leads_somewhere() -> None:
    for target in set(references(DOCUMENT)):
        node = DOCUMENT

        for step in target.removeprefix("#/").split("/"):
            node = node[step]

        assert node


def test_operation_ids_differ() -> None:
    names = [operation["operationId"] for _, _, operation in OPERATIONS]

    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("method", "path", "operation"), OPERATIONS, ids=[f"{method} {path}" for method, path, _ in OPERATIONS]
)
def test_each_operation_is_well_formed(method: str, path: str, operation: dict[str, object]) -> None:
    responses = operation["responses"]
    assert isinstance(responses, dict)
    assert all(re.fullmatch(r"\d{3}", status) for status in responses)
    assert "200" in responses
    assert ("requestBody" in operation) == (method == "post")
    assert ("parameters" in operation) == ("{" in path)


def test_only_health_is_public() -> None:
    public = {path for _, path, operation in OPERATIONS if operation.get("security") == []}

    assert public == {"/health", "/v1/health", "/v1/status", "/health/ready"}
    assert all(("401" in operation["responses"]) == (path not in public) for _, path, operation in OPERATIONS)


def test_every_code_of_the_table_is_described_under_its_status() -> None:
    for code, row in ERROR_TABLE.items():
        assert code in DOCUMENT["components"]["responses"][f"Error{row.status}"]["description"]


def test_every_described_error_is_used() -> None:
    used = {target for target in references(PATHS) if "/responses/" in target}

    assert used == {f"#/components/responses/{name}" for name in DOCUMENT["components"]["responses"]}


def test_bodies_of_unload_and_drain_are_optional() -> None:
    required = {path: PATHS[path]["post"]["requestBody"]["required"] for _, path in EXPECTED if "post" in PATHS[path]}

    assert required == {
        "/v1/chat/completions": True,
        "/v1/completions": True,
        "/v1/embeddings": True,
        "/v1/unload": False,
        "/v1/drain": False,
    }


def test_the_schema_says_what_the_decoder_asks_for() -> None:
    chat = SCHEMAS["ChatRequest"]

    assert sorted(chat["required"]) == ["messages", "model"]
    assert chat["properties"]["messages"]["minItems"] == 1
    assert chat["properties"]["temperature"]["maximum"] == 2
    assert SCHEMAS["ChatMessage"]["properties"]["role"]["enum"] == ["assistant", "developer", "system", "tool", "user"]
    assert SCHEMAS["FunctionTool"]["properties"]["parameters"] == {"type": ["object", "null"]}
    assert chat["properties"]["stop"]["anyOf"][1]["maxItems"] == 4
    assert SCHEMAS["CompletionRequest"]["properties"]["prompt"]["anyOf"][1]["minItems"] == 1
    assert SCHEMAS["EmbeddingsRequest"]["properties"]["input"]["anyOf"][0]["minLength"] == 1
    assert SCHEMAS["DrainRequest"]["properties"]["timeout_ms"]["minimum"] == 0
    assert SCHEMAS["ErrorObject"]["required"] == ["message", "type", "param", "code"]


def test_streams_are_told() -> None:
    assert {
        path for _, path, operation in OPERATIONS if "text/event-stream" in operation["responses"]["200"]["content"]
    } == {
        "/v1/chat/completions",
        "/v1/completions",
    }
    event = PATHS["/v1/chat/completions"]["post"]["responses"]["200"]["content"]["text/event-stream"]["schema"]
    assert event["properties"]["data"]["anyOf"][0] == {"const": "[DONE]"}
    assert list(references(event)) == ["#/components/schemas/ChatChunk", "#/components/schemas/ErrorEnvelope"]


def test_routes_name_each_method_of_a_path_once() -> None:
    assert len({(route.method, route.path) for route in ROUTES}) == len(ROUTES)

"""docs/api.md, the router and the published description say the same."""

import json
import re
import subprocess
import sys
import typing
from pathlib import Path

import msgspec
import pytest

from prism.api import limits
from prism.api.admin_request import DrainRequest, UnloadRequest
from prism.api.chat_request import ChatRequest, decode_chat_request
from prism.api.completion_request import CompletionRequest
from prism.api.embeddings_request import EmbeddingsRequest
from prism.api.errors import ERROR_TABLE, ErrorEnvelope
from prism.api.responses import ChatCompletion, FinishReason
from prism.api.routes import ROUTES as DESCRIBED
from prism.api.server_responses import Drained, GpuDevice, Hardware, Health, ModelCard, ModelList, Readiness, Unloaded
from prism.http import app as app_module
from prism.http.app import ROUTES
from prism.http.body import BODY_TIMEOUT_S, MAX_BODY_BYTES
from tests.contract.client import Client

PAGE = (Path(__file__).parents[2] / "docs" / "api.md").read_text()
# The breaker that would send it is not built.
SERVED = {(method, path.replace("{id:.*[^/]}", "{id}")) for method, path, _ in ROUTES}
BODIES = (
    ChatRequest,
    CompletionRequest,
    EmbeddingsRequest,
    DrainRequest,
    UnloadRequest,
    Health,
    Hardware,
    GpuDevice,
    ModelCard,
    Readiness,
    Drained,
    ChatCompletion,
)
BOUNDS = (
    limits.MAX_JSON_TEXTS,
    limits.MAX_MESSAGES,
    limits.MAX_CONTENT_PARTS,
    limits.MAX_IMAGES,
    limits.MAX_TOOL_CALLS,
    limits.MAX_TOOLS,
    limits.MAX_SCHEMA_BYTES,
    limits.MAX_JSON_DEPTH,
    limits.MAX_MODEL_CHARS,
    limits.MAX_STOP_CHARS,
    limits.MAX_PROMPTS,
    limits.MAX_EMBEDDING_INPUTS,
)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_the_page_lists_the_routes_of_the_router_and_no_other() -> None:
    listed = re.findall(r"^\| `(GET|POST) (\S+)` \|", section("Endpoints"), re.MULTILINE)
    assert set(listed) == SERVED
    assert len(listed) == len(SERVED)


def test_the_page_says_which_routes_are_open() -> None:
    rows = re.findall(r"^\| `\w+ (\S+)` \| .* \| (yes|no) \|$", section("Endpoints"), re.MULTILINE)
    public = {path for _, path, handler in ROUTES if handler in app_module._PUBLIC_HANDLERS}
    assert {path for path, key in rows if key == "no"} == public


def test_the_router_serves_what_is_described() -> None:
    assert {(route.method, route.path) for route in DESCRIBED} | {("GET", "/openapi.json")} == SERVED
    handlers = {path.replace("{id:.*[^/]}", "{id}"): handler for _, path, handler in ROUTES}
    for route in DESCRIBED:
        assert route.is_public == (handlers[route.path] in app_module._PUBLIC_HANDLERS), route.path


def test_every_code_is_on_the_page_with_its_status() -> None:
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \|", section("Errors"), re.MULTILINE)
    documented = {code: int(status) for status, code in rows}
    assert documented == {str(code): row.status for code, row in ERROR_TABLE.items()}
    assert all(row.retry_after_s == 30 for row in ERROR_TABLE.values() if row.status == 503)
    assert not any(row.retry_after_s for row in ERROR_TABLE.values() if row.status != 503)


@pytest.mark.parametrize(
    "body",
    BODIES,
    ids=lambda body: body.__name__,
)
def test_every_field_is_on_the_page(body: type[msgspec.Struct]) -> None:
    for field in msgspec.structs.fields(body):
        assert re.search(rf'[`".]{field.encode_name}[`".]', PAGE), field.encode_name


def test_bounds_are_those_of_the_code() -> None:
    for bound in BOUNDS:
        assert f"{bound:,}" in section("Bounds")

    assert MAX_BODY_BYTES == 10 * 1024 * 1024
    assert f"within {BODY_TIMEOUT_S:.0f} s" in PAGE
    assert f"kept for {app_module.KEEP_ALIVE_S:.0f} s" in PAGE


def test_reasons_of_the_end_are_those_of_the_page() -> None:
    sentence = next(line for line in PAGE.splitlines() if line.startswith("- `finish_reason` is"))
    assert all(f"`{reason}`" in PAGE[PAGE.index(sentence) :] for reason in typing.get_args(FinishReason))
    assert set(typing.get_args(FinishReason)) == {"stop", "length", "tool_calls"}
    assert "content_filter" not in PAGE


def test_examples_of_answers_have_the_shape_of_answers() -> None:
    shapes = {"choices": ChatCompletion, "data": ModelList, "status": Health, "error": ErrorEnvelope}
    seen = set()

    for block in blocks("json"):
        decoded = json.loads(block)
        (key,) = shapes.keys() & decoded.keys()
        shown = msgspec.to_builtins(msgspec.convert(decoded, shapes[key]))
        # Nothing that the types do not know, and nothing left out.
        assert shown == decoded
        seen.add(key)

    assert seen == set(shapes)
    for shape in (Unloaded, Drained):
        bodies = re.findall(r'`(\{"(?:un|dr)[^`]*\})`', PAGE)
        assert any(json.loads(body).keys() <= {f.name for f in msgspec.structs.fields(shape)} for body in bodies)


def test_examples_of_requests_are_valid() -> None:
    bodies = re.findall(r"-d '(\{.*?\})'", PAGE, re.DOTALL)
    assert bodies
    for body in bodies:
        decode_chat_request(body.encode())


def test_examples_in_python_run(served: Client) -> None:
    program = "\n".join(blocks("python"))
    program = program.replace("http://127.0.0.1:5272", served.base_url).replace("smollm2-135m", "stand-in")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("w0 w1 ")
    assert "total_tokens=23" in done.stdout


def test_the_page_of_the_server_describes_every_route(served: Client) -> None:
    document = served.get("/openapi.json").json
    paths = {(method.upper(), path) for path, item in document["paths"].items() for method in item}
    assert paths | {("GET", "/openapi.json")} == SERVED

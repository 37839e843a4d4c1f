"""The OpenAPI 3.1 description of the server, made from the same types that decode its requests and write its answers.

Called once, by whatever serves or prints the document. Pure; a few milliseconds.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

import msgspec

from prism.api.errors import ERROR_TABLE, ErrorEnvelope
from prism.api.routes import ERRORS_OF_EVERY_ROUTE, ROUTES, Route

Json: TypeAlias = dict[str, object]

_REF: Final = "#/components/schemas/{name}"
_PATH_PARAMETER: Final = re.compile(r"{(\w+)}")
_STATUS_TITLES: Final[Mapping[int, str]] = {
    400: "The request is at fault",
    401: "The key is missing or wrong",
    403: "Host or origin may not use this server",
    404: "There is no such model or route",
    405: "The route takes another method",
    408: "The request came too slowly",
    413: "The body is too large",
    415: "The body is compressed",
    500: "The server or its engine failed",
    502: "Ollama is unreachable or failed",
    503: "Not now; the request may be sent again",
}


def openapi_document(version: str) -> Json:
    """Return the document as plain JSON values. version: of this server."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Prism",
            "version": version,
            "description": "A local LLM server with an OpenAI-compatible API.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "http://127.0.0.1:5272"}],
        # The empty requirement: a server started without --api-key asks for nothing.
        "security": [{"bearer": []}, {}],
        "paths": _paths(),
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "schemas": _schemas(),
            "responses": {_error_name(status): _error_response(status) for status in sorted(_STATUS_TITLES)},
        },
    }


def _paths() -> Json:
    paths: dict[str, dict[str, object]] = {}

    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)

    return dict(paths)


def _operation(route: Route) -> Json:
    operation: Json = {"operationId": route.name, "summary": route.summary, "responses": _responses(route)}

    if names := _PATH_PARAMETER.findall(route.path):
        operation["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names
        ]

    if route.request is not None:
        operation["requestBody"] = {
            "required": not route.is_body_optional,
            "content": {"application/json": {"schema": _ref(route.request)}},
        }

    if route.is_public:
        operation["security"] = []

    return operation


def _responses(route: Route) -> Json:
    statuses = {*route.errors, *ERRORS_OF_EVERY_ROUTE, *(() if route.is_public else (401,))}
    responses: Json = {"200": _success(route)}
    responses |= {str(status): {"$ref": f"#/components/responses/{_error_name(status)}"} for status in sorted(statuses)}

    if route.not_ready is not None:
        responses["503"] = {
            "description": "Not now",
            "content": {"application/json": {"schema": _ref(route.not_ready)}},
        }

    return responses


def _success(route: Route) -> Json:
    content: Json = {"application/json": {"schema": _ref(route.response)}}

    if route.event is not None:
        content["text/event-stream"] = {"schema": _event(route.event)}

    return {"description": "Success", "content": content}


def _event(body: type[msgspec.Struct]) -> Json:
    """Describe one event of a stream, as tools read the schema of an event stream in this version of OpenAPI."""
    answer: Json = {
        "contentMediaType": "application/json",
        "contentSchema": {"anyOf": [_ref(body), _ref(ErrorEnvelope)]},
    }
    return {
        "type": "object",
        "description": f"With stream: true. Events with a {body.__name__} each, at a fault one with an ErrorEnvelope, then [DONE].",
        "properties": {"data": {"type": "string", "anyOf": [{"const": "[DONE]"}, answer]}},
        "required": ["data"],
    }


def _error_name(status: int) -> str:
    return f"Error{status}"


def _error_response(status: int) -> Json:
    codes = sorted(code for code, row in ERROR_TABLE.items() if row.status == status)
    listed = f" (code: {', '.join(codes)})" if codes else ""
    response: Json = {
        "description": f"{_STATUS_TITLES[status]}{listed}",
        "content": {"application/json": {"schema": _ref(ErrorEnvelope)}},
    }

    if any(row.retry_after_s is not None for row in ERROR_TABLE.values() if row.status == status):
        response["headers"] = {"Retry-After": {"description": "Seconds to wait", "schema": {"type": "integer"}}}

    return response


def _schemas() -> Json:
    _, components = msgspec.json.schema_components(_bodies(), ref_template=_REF)

    return dict(components)


def _bodies() -> Iterable[type[msgspec.Struct]]:
    bodies: list[type[msgspec.Struct]] = [ErrorEnvelope]

    for route in ROUTES:
        bodies += [body for body in (route.request, route.response, route.event) if body is not None]

    return dict.fromkeys(bodies)


def _ref(body: type[msgspec.Struct]) -> Json:
    return {"$ref": _REF.format(name=body.__name__)}

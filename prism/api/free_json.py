"""JSON whose shape is the client's own (schemas of tools and answers, arguments of earlier calls), decoded within bounds.

Such values are kept as `msgspec.Raw` while a body is decoded, because making Python objects of them is what costs time and memory.
Called by the request modules of this package. Pure; at most about 50 ms for the largest value that is allowed.
"""

from collections.abc import Iterable

import msgspec

from prism.api.errors import ApiError
from prism.api.limits import MAX_JSON_DEPTH, MAX_SCHEMA_BYTES
from prism.api.refusals import invalid_request

_OBJECT = msgspec.json.Decoder(dict[str, object])


def is_absent(raw: msgspec.Raw) -> bool:
    """Say whether a field was left out or null."""
    return bytes(raw) in (b"", b"null")


def check_total_size(schemas: Iterable[msgspec.Raw], param: str) -> None:
    """Raise ApiError when the schemas of a request are too large together."""
    if sum(len(bytes(schema)) for schema in schemas) > MAX_SCHEMA_BYTES:
        raise invalid_request(
            f"The JSON Schemas of a request must not be larger than {MAX_SCHEMA_BYTES} bytes together.", param
        )


def decode_object(raw: msgspec.Raw, param: str) -> dict[str, object]:
    """Return a JSON object as a dict; {} when it is absent. Raises ApiError for anything else and for one nested too deeply."""
    if is_absent(raw):
        return {}

    try:
        value = _OBJECT.decode(raw)
    except RecursionError:
        raise _too_deep(param) from None
    except msgspec.ValidationError as error:
        raise _not_an_object(param, error) from None

    if not is_shallow(value):
        raise _too_deep(param)

    return value


def is_shallow(value: object) -> bool:
    """Say whether a decoded value is nested at most MAX_JSON_DEPTH deep. Level by level, so that no depth can exhaust the stack."""
    level = [value]

    for _ in range(MAX_JSON_DEPTH):
        level = [child for parent in level for child in _children(parent) if type(child) is dict or type(child) is list]

        if not level:
            return True

    return False


def _children(parent: object) -> Iterable[object]:
    if isinstance(parent, dict):
        return parent.values()

    return parent if isinstance(parent, list) else ()


def _not_an_object(param: str, error: msgspec.ValidationError) -> ApiError:
    if "out of range" in str(error):
        return invalid_request(f"'{param}' holds a number out of range.", param)

    return invalid_request(f"'{param}' must be an object.", param)


def _too_deep(param: str) -> ApiError:
    return invalid_request(f"'{param}' is nested deeper than {MAX_JSON_DEPTH} levels.", param)

"""Bytes of a request body -> a typed value, or an `ApiError` 400 that names the field. Every endpoint decodes through here.

The decode is typed: fields that we do not know are skipped in C, and a body of more texts than any honest one has is refused before it, so
10 MB cost well under 100 ms whatever they hold. A field that occurs twice counts with its last value, as in Python's and JavaScript's
parsers. Pure.
"""

from typing import TypeVar

import msgspec

from prism.api.errors import ApiError
from prism.api.limits import MAX_JSON_TEXTS
from prism.api.refusals import invalid_request
from prism.api.shape_errors import place_of_fault, shape_error
from prism.api.text_faults import TextFault, find_lone_surrogate, find_nul

T = TypeVar("T")


def decode_body(body: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """Return the body as the decoder's type.

    Raises ApiError (400): not UTF-8, not JSON, nested without end, of another shape, or with text that no engine can take.
    """
    if not body:
        raise invalid_request("A JSON body is required.")

    _refuse_bad_utf8(body)
    _refuse_too_many_texts(body)
    value = _decode(body, decoder)

    if fault := find_nul(body):
        raise _text_error(fault)

    return value


def _refuse_bad_utf8(body: bytes) -> None:
    if body.isascii():
        return

    try:
        body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise invalid_request(f"The body is not valid UTF-8 (byte {error.start}).") from None


def _refuse_too_many_texts(body: bytes) -> None:
    """Refuse what has surely more than MAX_JSON_TEXTS, whatever is JSON with at most that many passes.

    Costs two passes of memchr at the most. Every text begins with a quote that no backslash precedes, and only its end is another one.
    """
    most = 2 * MAX_JSON_TEXTS
    quotes = body.count(b'"')

    if quotes > most and quotes - body.count(b'\\"') > most:
        raise invalid_request(f"The body holds more than {MAX_JSON_TEXTS} texts and names of fields.")


def _decode(body: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise shape_error(error) from None
    except msgspec.DecodeError as error:
        raise _malformed(body, error) from None
    except RecursionError:
        raise invalid_request("The body is nested too deeply.") from None


def _malformed(body: bytes, error: msgspec.DecodeError) -> ApiError:
    if fault := find_lone_surrogate(body, near=place_of_fault(error, body)):
        return _text_error(fault)

    reason = str(error).removeprefix("JSON is malformed: ")

    return invalid_request(f"The body is not valid JSON: {reason[:1].lower()}{reason[1:]}.")


def _text_error(fault: TextFault) -> ApiError:
    where = f"'{fault.field}' holds" if fault.field else "The body holds"

    return invalid_request(f"{where} {fault.what} (byte {fault.offset}), which no model can read.", fault.field)

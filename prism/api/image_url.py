"""The pictures of a request: from the `image_url` parts of its messages to checked files, still undecoded.

Called, for a model that can see, by the chat handler and by whatever passes pictures on to Ollama. Pure. Nothing is ever fetched: a picture
comes inside the request, as a base64 data URL, or not at all. What is in the file besides its first bytes is looked at where it is decoded.
"""

import binascii
import re
from collections.abc import Sequence

import msgspec

from prism.api.errors import ApiError
from prism.api.limits import MAX_IMAGES
from prism.api.normalise import ImagePart
from prism.api.refusals import invalid_request

_ALLOWED = "PNG, JPEG, GIF and WebP"
# image/jpg is no registered type, and half of the world writes it.
_MEDIA_TYPES = frozenset({"image/png", "image/jpeg", "image/jpg", "image/gif", "image/webp"})
_HEAD = re.compile(r"data:([^;,]{0,127})((?:;[^;,]{0,127}){0,8}),", re.IGNORECASE)
_MAGIC = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a")
_SHOWN_CHARS = 40


class CheckedImage(msgspec.Struct, frozen=True, kw_only=True):
    """A picture file that is worth decoding.

    field: the path of its part in the request. base64: as it was sent, without the head of the URL. data: the same, decoded.
    message_index, part_index: where in the request it stands.
    """

    field: str
    message_index: int
    part_index: int
    base64: str
    data: bytes
    is_low_detail: bool


def check_images(parts: Sequence[ImagePart]) -> list[CheckedImage]:
    """Return the pictures in the order of the parts. Raises ApiError (400) that names the part at fault."""
    if len(parts) > MAX_IMAGES:
        raise invalid_request(f"'messages' takes at most {MAX_IMAGES} images, not {len(parts)}.", "messages")

    return [_checked(part) for part in parts]


def _checked(part: ImagePart) -> CheckedImage:
    if part.role != "user":
        raise _refused(part, f"stands in a message of the role {part.role!r}: images are taken from users only")

    encoded = _encoded(part)

    try:
        content = binascii.a2b_base64(encoded, strict_mode=True)
    except ValueError as error:  # binascii.Error is one; so is what it says to a letter outside ASCII
        raise _refused(part, "is not valid base64") from error

    if not content:
        raise _refused(part, "holds no data")

    if not _is_allowed(content):
        raise _refused(part, f"holds none of {_ALLOWED}, by its first bytes")

    return CheckedImage(
        field=part.field,
        message_index=part.message_index,
        part_index=part.part_index,
        base64=encoded,
        data=content,
        is_low_detail=part.image.detail == "low",
    )


def _encoded(part: ImagePart) -> str:
    """Return what stands behind the head of the URL."""
    url = part.image.url
    head = _HEAD.match(url)

    if head is None:
        scheme = url[:_SHOWN_CHARS].partition(":")[0]
        what = f"not {scheme!r}" if ":" in url[:_SHOWN_CHARS] else "not anything else"
        raise _refused(part, f"must be a base64 data URL (data:image/png;base64,...), {what}: nothing is fetched")

    media_type, parameters = head.group(1).strip().lower(), head.group(2).lower()

    if media_type not in _MEDIA_TYPES:
        raise _refused(part, f"must be one of {_ALLOWED}, not {media_type[:_SHOWN_CHARS]!r}")

    if parameters.rpartition(";")[2].strip() != "base64":
        raise _refused(part, "must be encoded as base64 (data:image/png;base64,...)")

    return url[head.end() :]


def _is_allowed(content: bytes) -> bool:
    is_webp = content[:4] == b"RIFF" and content[8:12] == b"WEBP"
    return is_webp or content.startswith(_MAGIC)


def _refused(part: ImagePart, what: str) -> ApiError:
    return invalid_request(f"The image '{part.field}' {what}.", part.field)

"""Messages with pictures in them, as templates want them: lists of parts, or texts that hold the markers. Called by `prompt.py`; pure.

A content with pictures is a list of {"type": "text", "text": ...} and {"type": "image"}; every other content is a text.
"""

from collections.abc import Mapping, Sequence

from prism.chat.control_tokens import TokenSet, with_marks
from prism.chat.prompt_messages import Message
from prism.image_families import ImageFamily


def image_count(messages: Sequence[Message]) -> int:
    """How many pictures the messages have."""
    return sum(is_image(part) for message in messages for part in _parts_of(message))


def images_as_text(messages: Sequence[Message], family: ImageFamily) -> list[Message]:
    """Put the markers into texts, for templates that know no lists."""
    markers = iter(family.markers(image_count(messages)))
    result: list[Message] = []

    for message in messages:
        parts = _parts_of(message)
        texts = [next(markers) + family.behind if is_image(part) else str(part.get("text", "")) for part in parts]
        result.append({**message, "content": "".join(texts)} if parts else message)

    return result


def marked_parts(content: Sequence[object], tokens: TokenSet, mark: str) -> list[object]:
    """As `with_marks`, for the texts of a list of parts; their types are ours."""
    return [
        {**part, "text": with_marks(part["text"], tokens, mark)}
        if isinstance(part, Mapping) and "text" in part
        else part
        for part in content
    ]


def kept_apart(pieces: Sequence[str], family: ImageFamily) -> tuple[str, ...]:
    """Put what the family wants between two markers that touch."""
    if not family.between:
        return tuple(pieces)

    touching, apart = family.marker * 2, family.marker + family.between + family.marker
    # Twice, since of three in a row the middle one belongs to two pairs.
    return tuple(piece.replace(touching, apart).replace(touching, apart) for piece in pieces)


def shows_images(pieces: Sequence[str], markers: Sequence[str]) -> bool:
    """Whether the prompt has a place for each picture, and no more: templates drop what they do not know."""
    return all(sum(piece.count(marker) for piece in pieces) == markers.count(marker) for marker in set(markers))


def is_image(part: Mapping[str, object]) -> bool:
    return part.get("type") == "image"


def _parts_of(message: Message) -> list[Mapping[str, object]]:
    content = message.get("content")
    return [part for part in content if isinstance(part, Mapping)] if isinstance(content, list) else []

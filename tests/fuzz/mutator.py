"""Damages valid bodies: some steps on the tree, then perhaps one on the bytes. All that happens follows from the seed."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from random import Random
from typing import Any

from tests.fuzz.json_tree import Members, Node, Raw, slots_of, tree_of, written
from tests.fuzz.odd_values import odd_name, odd_value

_MOST_COPIES = 40
_SHARE_OF_BYTES = 0.15
_PIECES = (
    *(
        b"\x00",
        b"\xff",
        b"\xef\xbb\xbf",
        b"\xed\xa0\x80",
        b"\\u0000",
        b"\\ud83d",
        b"\\ude00",
        b"\\",
        b'"',
        b"'",
        b"[",
        b"]",
    ),
    *(
        b"{",
        b"}",
        b",",
        b":",
        b"NaN",
        b"1e999",
        b"//x\n",
        b"/**/",
        b" ",
        b"\n",
        b"\x0b",
        b"null",
        b"\r\n\r\nGET / HTTP/1.1\r\n\r\n",
    ),
)


def damaged(body: Mapping[str, Any], random: Random) -> bytes:
    """Return the bytes of a damaged copy of a body."""
    root: list[Node] = [tree_of(body)]

    # Mostly one step: the more a body is damaged the sooner it is refused, and the less of the server it sees.
    for _ in range(random.choices((0, 1, 2, 3, 8), (1, 12, 4, 2, 1))[0]):
        _damage_tree(root, random)

    whole = written(root[0], is_ascii=random.random() < 0.5)
    return _damage_bytes(whole, random) if random.random() < _SHARE_OF_BYTES else whole


def _damage_tree(root: list[Node], random: Random) -> None:
    slots = list(slots_of(root[0]))

    # The root itself now and then.
    if not slots or random.random() < 0.02:
        root[0] = odd_value(random)
        return

    parts, place = random.choice(slots)
    step = random.choices(tuple(_STEPS), tuple(_STEPS.values()))[0]
    step(parts, place, random)


def _replace(parts: list[Any], place: int, random: Random) -> None:
    _put(parts, place, odd_value(random))


def _remove(parts: list[Any], place: int, _: Random) -> None:
    del parts[place]


def _repeat(parts: list[Any], place: int, random: Random) -> None:
    parts[place:place] = [deepcopy(parts[place]) for _ in range(random.randint(1, _MOST_COPIES))]


def _contradict(parts: list[Any], place: int, random: Random) -> None:
    """Say the same name once more with another value."""
    part = parts[place]
    again = (part[0], odd_value(random)) if isinstance(part, tuple) else odd_value(random)
    parts.insert(random.randint(0, len(parts)), again)


def _rename(parts: list[Any], place: int, random: Random) -> None:
    part = parts[place]
    parts[place] = (odd_name(random), part[1]) if isinstance(part, tuple) else Members([(odd_name(random), part)])


def _add(parts: list[Any], place: int, random: Random) -> None:
    value = odd_value(random)
    parts.insert(place, (odd_name(random), value) if isinstance(parts[place], tuple) else value)


def _wrap(parts: list[Any], place: int, random: Random) -> None:
    inner = _get(parts, place)
    _put(parts, place, random.choice(([inner], Members([("value", inner)]), [inner, 1], Raw(b"[" + written(inner)))))


def _swap(parts: list[Any], place: int, random: Random) -> None:
    """Let two neighbours have each other's value."""
    other = random.randrange(len(parts))
    here, there = _get(parts, place), _get(parts, other)
    _put(parts, place, there)
    _put(parts, other, here)


_STEPS: dict[Callable[[list[Any], int, Random], None], int] = {
    _replace: 10,
    _remove: 3,
    _repeat: 2,
    _contradict: 3,
    _rename: 3,
    _add: 3,
    _wrap: 3,
    _swap: 2,
}


def _get(parts: list[Any], place: int) -> Node:
    """Return a copy: a node that stood in two places could get into itself."""
    part = parts[place]
    value: Node = deepcopy(part[1] if isinstance(part, tuple) else part)
    return value


def _put(parts: list[Any], place: int, value: Node) -> None:
    part = parts[place]
    parts[place] = (part[0], value) if isinstance(part, tuple) else value


def _damage_bytes(whole: bytes, random: Random) -> bytes:
    begin = random.randint(0, len(whole))
    end = min(len(whole), begin + random.randint(0, 20))
    kind = random.choice(
        ("cut", "insert", "overwrite", "remove", "double", "noise", "end", "beginning", "encoding", "flip")
    )

    match kind:
        case "cut":
            return whole[:begin]
        case "insert":
            return whole[:begin] + random.choice(_PIECES) + whole[begin:]
        case "overwrite":
            return whole[:begin] + random.choice(_PIECES) + whole[end:]
        case "remove":
            return whole[:begin] + whole[end:]
        case "double":
            return whole[:end] + whole[begin:]
        case "noise":
            return whole[:begin] + random.randbytes(end - begin) + whole[end:]
        case "end":
            return whole + random.choice((*_PIECES, whole))
        case "beginning":
            return random.choice(_PIECES) + whole
        case "encoding":
            return whole.decode("utf-8", "replace").encode(
                random.choice(("utf-16", "utf-32", "utf-8-sig", "utf-7")), "replace"
            )
        case _:
            return bytes(
                byte ^ (1 << random.randrange(8)) if begin <= at < end else byte for at, byte in enumerate(whole)
            )

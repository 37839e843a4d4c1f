"""Operators, filters and text methods of chat templates, each counted against the budget before it grows anything.

Called by `template.py` and `template_filters.py` only. Every function takes the budget of the rendering first and raises
RenderLimitExceeded where the plain operation would make a text without bound. What is refused altogether (methods of numbers and bytes,
`translate`, ...) is used by no known template.
"""

import json
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from datetime import datetime

from prism.chat.template_budget import RenderBudget, RenderLimitExceeded

_MAX_NUMBER_BITS = 4_096
_MAX_WIDTH = 10_000
_MAX_PRECISION = 64
_MAX_INDENT = 64
_MAX_BACKWARD_SEARCH = 10_000_000
_MAX_STRIP_CHARS = 256
_LONG_NUMBER = re.compile(r"\d{5,}")
_MOD_FIELD = re.compile(r"%(?:\([^)]*\))?[^a-zA-Z%]*[a-zA-Z%]")
_PADDED_DATE_FIELD = re.compile(r"%[-_0^#]*\d")

_WIDENING_METHODS = frozenset({"center", "ljust", "rjust", "zfill"})
_BACKWARD_METHODS = frozenset({"rfind", "rindex", "rpartition", "rsplit"})
_STRIPPING_METHODS = frozenset({"lstrip", "rstrip", "strip"})
_PLAIN_METHODS = frozenset(
    {
        "capitalize",
        "casefold",
        "count",
        "endswith",
        "find",
        "index",
        "lower",
        "partition",
        "removeprefix",
        "removesuffix",
    }
    | {"split", "splitlines", "startswith", "swapcase", "title", "upper"}
    | {"isalnum", "isalpha", "isascii", "isdecimal", "isdigit", "isidentifier", "islower", "isnumeric", "isprintable"}
    | {"isspace", "istitle", "isupper"}
)


class OperationRefused(Exception):
    """The template asked for something that templates have no use for."""


def add(budget: RenderBudget, left: object, right: object) -> object:
    if isinstance(left, str) and isinstance(right, str):
        budget.grow(len(left) + len(right))
    elif isinstance(left, list | tuple) and isinstance(right, list | tuple):
        budget.grow(8 * (len(left) + len(right)))

    return operator.add(left, right)


def multiply(budget: RenderBudget, left: object, right: object) -> object:
    for factor, other in ((left, right), (right, left)):
        if isinstance(factor, str) and isinstance(other, int):
            budget.grow(len(factor) * max(0, other))
        elif isinstance(factor, list | tuple) and isinstance(other, int):
            budget.grow(8 * len(factor) * max(0, other))

    _check_bits(_bits(left) + _bits(right))
    return operator.mul(left, right)


def power(budget: RenderBudget, left: object, right: object) -> object:
    budget.step()
    exponent = abs(right) if isinstance(right, int) else 1
    _check_bits(_bits(left) * exponent)
    return operator.pow(left, right)


def modulo(budget: RenderBudget, left: object, right: object) -> object:
    if not isinstance(left, str):
        return operator.mod(left, right)

    _check_widths(left, *(right if isinstance(right, tuple) else (right,)))
    fields = _MOD_FIELD.findall(left)

    if any("*" in field for field in fields):
        raise OperationRefused("a width of '*' in a format")

    # Each field may write the whole right side again.
    budget.grow(len(left) + len(fields) * (_MAX_WIDTH if _has_width(fields) else budget.weigh(right)))
    return operator.mod(left, right)


OPERATORS: Mapping[str, Callable[[RenderBudget, object, object], object]] = {
    "+": add,
    "*": multiply,
    "**": power,
    "%": modulo,
}


def concatenate(budget: RenderBudget, values: Iterable[object]) -> str:
    """The operator `~`."""
    return "".join([budget.text(value) for value in values])


def join(budget: RenderBudget, values: Iterable[object], between: object = "") -> str:
    between_text = budget.text(between)
    texts = [budget.text(value) for value in values]
    budget.grow(len(between_text) * len(texts))
    return between_text.join(texts)


def replace(budget: RenderBudget, value: object, old: object, new: object, count: int | None = None) -> str:
    text, old_text, new_text = budget.text(value), budget.text(old), budget.text(new)
    budget.grow(len(text) + text.count(old_text) * len(new_text))
    return text.replace(old_text, new_text, -1 if count is None else count)


def center(budget: RenderBudget, value: object, width: int = 80) -> str:
    budget.grow(max(0, width))
    return budget.text(value).center(width)


def indent(budget: RenderBudget, value: object, width: int | str = 4, first: bool = False, blank: bool = False) -> str:  # noqa: FBT001, FBT002 (Jinja's own signature)
    """As Jinja's filter: all lines but the first are moved in, empty ones only with blank."""
    if not isinstance(width, str):
        budget.grow(max(0, width))

    margin = width if isinstance(width, str) else " " * width
    text = budget.text(value)
    budget.grow(len(text) + len(margin) * (text.count("\n") + 1))
    lines = text.split("\n")
    moved = [margin + line if line or blank else line for line in lines[1:]]
    return "\n".join([margin + lines[0] if first else lines[0], *moved])


def format_filter(budget: RenderBudget, value: object, *args: object, **kwargs: object) -> object:
    if args and kwargs:
        raise TypeError("format takes either positional or keyword arguments")

    return modulo(budget, budget.text(value), kwargs or args)


def round_number(budget: RenderBudget, value: float, precision: int = 0, method: str = "common") -> float:
    budget.step()

    if abs(precision) > _MAX_PRECISION:
        raise RenderLimitExceeded(f"a precision of {precision} digits")

    if method == "common":
        return round(value, precision)

    if method not in ("ceil", "floor"):
        raise ValueError("round takes the methods common, ceil and floor")

    factor = 10**precision
    scaled = value * factor
    whole = scaled // 1 if method == "floor" else -(-scaled // 1)
    return float(whole / factor)


def total(budget: RenderBudget, values: Iterable[object], start: object = 0) -> object:
    """The filter `sum`, which in Jinja also joins lists, in time quadratic in their number."""
    result = start

    for value in budget.metered(values):
        result = add(budget, result, value)

    return result


def to_json(
    budget: RenderBudget,
    value: object,
    *,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as models were trained on it: no HTML escapes, letters of all scripts as they are."""
    margin = indent if isinstance(indent, int) else len(indent or "")

    if margin > _MAX_INDENT or (separators is not None and sum(map(len, separators)) > _MAX_INDENT):
        raise RenderLimitExceeded("an indent or a separator of that length in JSON")

    budget.grow(budget.weigh(value, indent=max(0, margin)))
    text = json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    budget.grow(len(text))
    return text


def now_as(budget: RenderBudget, format_text: str) -> str:
    """The global `strftime_now`. The C library pads a date field to any width that is asked for."""
    if len(format_text) > _MAX_STRIP_CHARS or _PADDED_DATE_FIELD.search(format_text):
        raise OperationRefused("a date format with widths, or a very long one")

    budget.step()
    return datetime.now().strftime(format_text)  # local time, as the models' own tools give it


def call_text_method(
    budget: RenderBudget,
    method: Callable[..., object],
    owner: str,
    args: Sequence[object],
    kwargs: Mapping[str, object],
) -> object:
    """Call a method that a template took from a text."""
    name = getattr(method, "__name__", "")
    budget.grow(len(owner))

    if name == "join" and len(args) == 1 and isinstance(args[0], Iterable):
        return _strict_join(budget, owner, args[0])

    if name == "replace" and len(args) >= 2 and isinstance(args[0], str) and isinstance(args[1], str):
        budget.grow(len(owner) + owner.count(args[0]) * len(args[1]))
    elif name in _WIDENING_METHODS:
        budget.grow(max([0, *(number for number in (*args, *kwargs.values()) if isinstance(number, int))]))
    elif name == "expandtabs":
        widths = [number for number in (*args, *kwargs.values()) if isinstance(number, int)]
        budget.grow(len(owner) + owner.count("\t") * max([8, *widths]))
    elif name in _BACKWARD_METHODS:
        _check_search(owner, args, kwargs)
    elif name in _STRIPPING_METHODS:
        check_strip_chars(*args)
    elif name not in _PLAIN_METHODS:
        raise OperationRefused(f"the method {name!r} of a text")

    return method(*args, **kwargs)


def check_strip_chars(*chars: object) -> None:
    if any(isinstance(text, str) and len(text) > _MAX_STRIP_CHARS for text in chars):
        raise RenderLimitExceeded("that many characters to strip")


def check_format_spec(spec: str) -> None:
    """A width in the specification of `str.format`, once it is filled in."""
    if _LONG_NUMBER.search(spec):
        raise RenderLimitExceeded(f"a format width past {_MAX_WIDTH}")


def check_count(number: object) -> None:
    """How many parts a list is cut into, or how long each is."""
    if isinstance(number, int) and number > 100_000:
        raise RenderLimitExceeded(f"{number} parts of a list")


def length_of(value: object) -> int:
    return len(value) if isinstance(value, Sized) else 0


def _strict_join(budget: RenderBudget, between: str, values: Iterable[object]) -> str:
    texts: list[str] = []

    for value in budget.metered(values):
        if not isinstance(value, str):
            raise TypeError(f"join takes texts, not {type(value).__name__}")

        budget.grow(len(value) + len(between))
        texts.append(value)

    return between.join(texts)


def _check_search(owner: str, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
    needle = args[0] if args else kwargs.get("sep")

    if isinstance(needle, str) and len(needle) > 1 and len(needle) * len(owner) > _MAX_BACKWARD_SEARCH:
        raise RenderLimitExceeded("a search backwards through a text of that length")


def _has_width(fields: Iterable[str]) -> bool:
    return any(re.search(r"\d", field) for field in fields)


def _check_widths(pattern: str, *values: object) -> None:
    if _LONG_NUMBER.search(pattern):
        raise RenderLimitExceeded(f"a format width past {_MAX_WIDTH}")

    for value in values:
        _check_bits(_bits(value))


def _bits(value: object) -> int:
    return value.bit_length() if isinstance(value, int) else 0


def _check_bits(bits: int) -> None:
    if bits > _MAX_NUMBER_BITS:
        raise RenderLimitExceeded(f"a number of {bits} bits")

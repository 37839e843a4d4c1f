"""Operators and filters of chat templates, each counted against the budget before it grows anything.

Called by `template.py` and `template_filters.py` only. Every function takes the budget of the rendering first and raises
RenderLimitExceeded where the plain operation would make a text without bound.
"""

import json
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sized
from datetime import datetime
from typing import Any

from prism.chat.template_budget import RenderBudget, RenderLimitExceeded

_MAX_NUMBER_BITS = 4_096
_MAX_WIDTH = 10_000
_MAX_PRECISION = 64
_MAX_INDENT = 64
_MAX_DATE_CHARS = 256
_LONG_NUMBER = re.compile(r"\d{5,}")
# Behind the sign of a field, or behind the name that it has in parentheses. Linear: each run ends where the next could begin.
_WIDTH = re.compile(r"[%)][^a-zA-Z%)]*\d")
_LONG_WIDTH = re.compile(r"[%)][^a-zA-Z%)]*\d{5}")
_PADDED_DATE_FIELD = re.compile(r"%[-_0^#]*\d")


class OperationRefused(Exception):
    """The template asked for something that templates have no use for."""


def add(budget: RenderBudget, left: object, right: object) -> object:
    if isinstance(left, str) and isinstance(right, str):
        budget.grow(len(left) + len(right))
    elif isinstance(left, list | tuple) and isinstance(right, list | tuple):
        budget.grow(8 * (len(left) + len(right)))
    else:
        _check_bits(max(_bits(left), _bits(right)))

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
        return _plain(operator.mod)(budget, left, right)

    values = right if isinstance(right, tuple) else (right,)

    # A width is written in the pattern or, for a star, given as a value.
    if _LONG_WIDTH.search(left) or ("*" in left and any(_bits(value) > _MAX_WIDTH.bit_length() for value in values)):
        raise RenderLimitExceeded(f"a format width past {_MAX_WIDTH}")

    _check_bits(max(map(_bits, values), default=0))
    has_width = "*" in left or _WIDTH.search(left) is not None
    # Each field may write the whole right side again.
    budget.grow(len(left) + left.count("%") * (budget.weigh(right) + (2 * _MAX_WIDTH if has_width else 0)))
    return operator.mod(left, right)


def _plain(operation: Callable[[Any, Any], object]) -> Callable[[RenderBudget, object, object], object]:
    def run(budget: RenderBudget, left: object, right: object) -> object:
        budget.step()
        _check_bits(max(_bits(left), _bits(right)))
        return operation(left, right)

    return run


OPERATORS: Mapping[str, Callable[[RenderBudget, object, object], object]] = {
    "+": add,
    "-": _plain(operator.sub),
    "*": multiply,
    "/": _plain(operator.truediv),
    "//": _plain(operator.floordiv),
    "%": modulo,
    "**": power,
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
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002 (the signature that templates were written for)
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002
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
    if len(format_text) > _MAX_DATE_CHARS or _PADDED_DATE_FIELD.search(format_text):
        raise OperationRefused("a date format with widths, or a very long one")

    budget.step()
    return datetime.now().strftime(format_text)  # local time, as the models' own tools give it


def check_digits(text: str) -> None:
    """A number in a base such as 16 has no limit of its own."""
    if len(text) > _MAX_NUMBER_BITS // 4:
        raise RenderLimitExceeded(f"a number of {len(text)} digits")


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


def _bits(value: object) -> int:
    return value.bit_length() if isinstance(value, int) else 0


def _check_bits(bits: int) -> None:
    if bits > _MAX_NUMBER_BITS:
        raise RenderLimitExceeded(f"a number of {bits} bits")

"""Bounds of numbers in a JSON Schema, narrowed to what the engine's compiler keeps exactly. Called by `schema_rewriting.py`; pure.

The compiler compares decimal texts, and clients compare what their parser made of them: a text just above an exclusive bound may become the
bound itself. So exclusive bounds become a number that a parser can tell apart, and bounds of too many digits are rounded inwards. Whole
numbers without bounds stay where every parser keeps them exactly.
"""

import math
from collections.abc import Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Final, TypeAlias

from prism.api.schema_faults import SchemaUnsupported

_Number: TypeAlias = int | float

NUMBER_KEYS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_LARGEST_EXACT: Final = 2**53 - 1
_LARGEST: Final = 10**18  # the compiler has 64 bits
_DIGITS: Final = 14
_PLACES: Final = 12


def number_bounds(schema: Mapping[str, object], path: str, *, is_integer: bool) -> dict[str, object]:
    """Return the keywords that stand for the numeric ones of `schema`. Raises SchemaUnsupported."""
    low, high = _inclusive(schema, path)
    step = _step(schema, path, is_integer=is_integer)
    limit = Fraction(_LARGEST_EXACT)

    if is_integer or step is not None:
        # The compiler finds no multiples below 0.
        least = Fraction(0) if step is not None else -limit
        low, high = max(least if low is None else low, least), min(limit if high is None else high, limit)
    else:
        # With two bounds the compiler writes no exponents.
        low = max(Fraction(-_LARGEST) if low is None else low, Fraction(-_LARGEST))
        high = min(Fraction(_LARGEST) if high is None else high, Fraction(_LARGEST))

    if is_integer:
        low, high = Fraction(math.ceil(low)), Fraction(math.floor(high))

    bounds: dict[str, object] = {"minimum": _written(low, ROUND_CEILING), "maximum": _written(high, ROUND_FLOOR)}

    if Fraction(str(bounds["minimum"])) > Fraction(str(bounds["maximum"])):
        raise SchemaUnsupported(path, "leaves no number that can be written")

    return bounds if step is None else {**bounds, "multipleOf": step}


def _inclusive(schema: Mapping[str, object], path: str) -> tuple[Fraction | None, Fraction | None]:
    lows, highs = [], []

    if (value := _number(schema, "minimum", path)) is not None:
        lows.append(Fraction(value))

    if (value := _number(schema, "exclusiveMinimum", path)) is not None:
        lows.append(Fraction(math.nextafter(value, math.inf)))

    if (value := _number(schema, "maximum", path)) is not None:
        highs.append(Fraction(value))

    if (value := _number(schema, "exclusiveMaximum", path)) is not None:
        highs.append(Fraction(math.nextafter(value, -math.inf)))

    return max(lows, default=None), min(highs, default=None)


def _number(schema: Mapping[str, object], key: str, path: str) -> _Number | None:
    value = schema.get(key)

    if value is None:
        return None

    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SchemaUnsupported(path, f"has a '{key}' that is no number")

    try:
        is_finite = math.isfinite(value)
    except OverflowError:
        is_finite = False

    if not is_finite:
        raise SchemaUnsupported(path, f"has a '{key}' beyond what a number can be")

    return value


def _step(schema: Mapping[str, object], path: str, *, is_integer: bool) -> int | float | None:
    value = _number(schema, "multipleOf", path)

    if value is None:
        return None

    step = Fraction(value)

    if step <= 0:
        raise SchemaUnsupported(path, "has a 'multipleOf' that is not above 0")

    if is_integer and step.numerator == 1:
        return None

    # 0.3 is no multiple of 0.1 to a parser that has binary fractions only.
    if step.denominator > 2**20 or step.numerator > 2**31 or (is_integer and step.denominator != 1):
        raise SchemaUnsupported(
            path, f"has a 'multipleOf' of {value}: only whole numbers and halves of halves can be enforced"
        )

    return step.numerator if step.denominator == 1 else value


def _written(bound: Fraction, rounding: str) -> int | float:
    """The bound as a number of few digits, rounded inwards: the compiler's own arithmetic loses the last of 17."""
    if bound.denominator == 1:
        return bound.numerator

    # What was written as 0.1 means that, and not the nearest binary fraction.
    shortest = Decimal(repr(float(bound)))
    rounded = Context(prec=_DIGITS, rounding=rounding).plus(shortest)
    exponent = rounded.as_tuple().exponent

    if isinstance(exponent, int) and exponent < -_PLACES:
        rounded = rounded.quantize(Decimal(1).scaleb(-_PLACES), rounding)

    return int(rounded) if rounded == rounded.to_integral_value() else float(rounded)

"""One measured claim, printed as one JSON line."""

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Result:
    """claim: what is promised. value: what was measured, in `unit`. aim: the bound. is_met: whether the value keeps it.

    details: the figures behind the value, both sides included.
    """

    claim: str
    value: float
    unit: str
    aim: str
    is_met: bool
    details: dict[str, object]

    def line(self) -> str:
        """Return the result as one line of JSON."""
        fields = {"claim": self.claim, "value": round(self.value, 4), "unit": self.unit, "aim": self.aim}
        return json.dumps({**fields, "is_met": self.is_met, **self.details})


def at_least(claim: str, value: float, unit: str, bound: float, **details: object) -> Result:
    """A value that should not be smaller."""
    return Result(claim, value, unit, f">= {bound:g}", value >= bound, details)


def at_most(claim: str, value: float, unit: str, bound: float, **details: object) -> Result:
    """A value that should not be larger."""
    return Result(claim, value, unit, f"<= {bound:g}", value <= bound, details)


def rounded(values: Sequence[float], digits: int = 3) -> list[float]:
    """Return the values as they are shown."""
    return [round(value, digits) for value in values]


median = statistics.median

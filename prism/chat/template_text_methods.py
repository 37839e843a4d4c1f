"""The methods of texts that chat templates may call, each counted against the budget before it grows anything.

Called by `template.py` and `template_filters.py`. What is refused altogether (`translate`, `encode`, ...) is used by no known template.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from prism.chat.template_budget import RenderBudget, RenderLimitExceeded
from prism.chat.template_operations import OperationRefused

_MAX_BACKWARD_SEARCH = 10_000_000
_MAX_STRIP_CHARS = 256

_WIDENING_METHODS = frozenset({"center", "ljust", "rjust", "zfill"})
_SPLITTING_METHODS = frozenset({"rsplit", "split", "splitlines"})
_BACKWARD_METHODS = frozenset({"rfind", "rindex", "rpartition"})
_INSTANT_METHODS = frozenset({"endswith", "startswith"})
_LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
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
    | {"startswith", "swapcase", "title", "upper"}
    | {"isalnum", "isalpha", "isascii", "isdecimal", "isdigit", "isidentifier", "islower", "isnumeric", "isprintable"}
    | {"isspace", "istitle", "isupper"}
)


def call_text_method(
    budget: RenderBudget,
    method: Callable[..., object],
    owner: str,
    args: Sequence[object],
    kwargs: Mapping[str, object],
) -> object:
    """Call a method that a template took from a text."""
    name = getattr(method, "__name__", "")

    if name not in _INSTANT_METHODS:
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
    elif name in _SPLITTING_METHODS:
        budget.grow(8 * _parts(owner, name, args, kwargs))
        _check_search(owner, args, kwargs)
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


def _strict_join(budget: RenderBudget, between: str, values: Iterable[object]) -> str:
    texts: list[str] = []

    for value in budget.metered(values):
        if not isinstance(value, str):
            raise TypeError(f"join takes texts, not {type(value).__name__}")

        budget.grow(len(value) + len(between))
        texts.append(value)

    return between.join(texts)


def _parts(owner: str, name: str, args: Sequence[object], kwargs: Mapping[str, object]) -> int:
    """At most how many parts a text is split into."""
    if name == "splitlines":
        return 1 + sum(owner.count(end) for end in _LINE_ENDS)

    separator = args[0] if args else kwargs.get("sep")
    return 1 + (owner.count(separator) if isinstance(separator, str) and separator else len(owner) // 2)


def _check_search(owner: str, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
    needle = args[0] if args else kwargs.get("sep")

    if isinstance(needle, str) and len(needle) > 1 and len(needle) * len(owner) > _MAX_BACKWARD_SEARCH:
        raise RenderLimitExceeded("a search backwards through a text of that length")

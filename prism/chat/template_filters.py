"""The filters that chat templates may use, each with its cost counted. Those of Jinja that no template needs are left out.

Handed to the sandbox by `template.py`. A filter here gets a `FilterScope` first, then what the template gives it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from typing import Any, Protocol, TypeAlias

from prism.chat import template_operations as operations
from prism.chat.template_budget import RenderBudget
from prism.chat.template_text_methods import check_strip_chars

# Values inside a template are of any type, as Jinja's own signatures say.
Value: TypeAlias = Any


class FilterScope(Protocol):
    """What a filter works with."""

    @property
    def budget(self) -> RenderBudget: ...

    def plain(self, name: str, value: Value, args: tuple[Value, ...], kwargs: Mapping[str, Value]) -> Value:
        """Jinja's own filter, uncounted."""


FilterFunction: TypeAlias = Callable[..., Value]

_GLANCING = ("count", "first", "last", "length")
_WALKING = ("items", "list", "map", "reject", "rejectattr", "reverse", "select", "selectattr")
_COMPARING = ("batch", "dictsort", "groupby", "max", "min", "slice", "sort", "unique")
_VALUES = ("abs", "attr", "d", "default", "float", "int")
_TEXTS = ("capitalize", "lower", "title", "trim", "truncate", "upper", "wordcount")


def filter_functions() -> dict[str, FilterFunction]:
    """All filters by name."""
    return {
        **{name: _glancing(name) for name in _GLANCING},
        **{name: _walking(name) for name in _WALKING},
        **{name: _comparing(name) for name in _COMPARING},
        **{name: _of_value(name) for name in _VALUES},
        **{name: _of_text(name) for name in _TEXTS},
        "center": lambda scope, *args, **kwargs: operations.center(scope.budget, *args, **kwargs),
        "e": _escape,
        "escape": _escape,
        "format": lambda scope, *args, **kwargs: operations.format_filter(scope.budget, *args, **kwargs),
        "indent": lambda scope, *args, **kwargs: operations.indent(scope.budget, *args, **kwargs),
        "join": _join,
        "replace": lambda scope, *args, **kwargs: operations.replace(scope.budget, *args, **kwargs),
        "round": lambda scope, *args, **kwargs: operations.round_number(scope.budget, *args, **kwargs),
        # "Safe" text is a type of its own in Jinja, and what is added to it gets HTML escapes.
        "safe": lambda scope, value: scope.budget.text(value),
        "string": lambda scope, value: scope.budget.text(value),
        "sum": _sum,
        "tojson": lambda scope, *args, **kwargs: operations.to_json(scope.budget, *args, **kwargs),
    }


def step(scope: FilterScope, steps: int) -> bool:
    """Not for templates to call: counts one run of a body."""
    scope.budget.step(steps)
    return True


def concatenate(scope: FilterScope, values: Iterable[object]) -> str:
    """Not for templates to call: the operator `~`."""
    return operations.concatenate(scope.budget, values)


def weigh(scope: FilterScope, value: Value) -> Value:
    """Not for templates to call: a value that is about to be compared."""
    if isinstance(value, str):
        scope.budget.step(1 + (len(value) >> 12))
    elif value is not None and not isinstance(value, bool):
        scope.budget.weigh(value)

    return value


def glance(scope: FilterScope, value: Value) -> Value:
    """Not for templates to call: a value that is about to be searched."""
    scope.budget.step(operations.length_of(value) >> 12)
    return value


def _glancing(name: str) -> FilterFunction:
    def run(scope: FilterScope, value: Value) -> Value:
        return scope.plain(name, value if isinstance(value, str) else _counted(scope, value), (), {})

    return run


def _walking(name: str) -> FilterFunction:
    def run(scope: FilterScope, value: Value, *args: Value, **kwargs: Value) -> Value:
        _weigh_arguments(scope, args, kwargs)
        return scope.plain(name, _counted(scope, value), args, kwargs)

    return run


def _comparing(name: str) -> FilterFunction:
    def run(scope: FilterScope, value: Value, *args: Value, **kwargs: Value) -> Value:
        _weigh_arguments(scope, args, kwargs)

        for number in (*args, *kwargs.values()):
            operations.check_count(number)

        counted = _counted(scope, value)
        listed = list(counted) if isinstance(counted, Iterator) else counted
        scope.budget.weigh(listed)
        return scope.plain(name, listed, args, kwargs)

    return run


def _of_value(name: str) -> FilterFunction:
    def run(scope: FilterScope, value: Value, *args: Value, **kwargs: Value) -> Value:
        _weigh_arguments(scope, args, kwargs)
        glance(scope, value)

        if name == "int" and isinstance(value, str):
            operations.check_digits(value)

        return scope.plain(name, value, args, kwargs)

    return run


def _of_text(name: str) -> FilterFunction:
    def run(scope: FilterScope, value: Value, *args: Value, **kwargs: Value) -> Value:
        _weigh_arguments(scope, args, kwargs)

        if name == "trim":
            check_strip_chars(*args, *kwargs.values())

        text = scope.budget.text(value)

        if name in ("title", "wordcount"):
            scope.budget.grow(8 * len(text))  # they list the words

        return scope.plain(name, text, args, kwargs)

    return run


def _escape(scope: FilterScope, value: Value) -> str:
    text = scope.budget.text(value)
    scope.budget.grow(5 * len(text))
    return str(scope.plain("escape", text, (), {}))


def _join(scope: FilterScope, value: Value, d: Value = "", attribute: Value = None) -> str:
    return operations.join(scope.budget, _attributes(scope, value, attribute), d)


def _sum(scope: FilterScope, value: Value, attribute: Value = None, start: Value = 0) -> Value:
    return operations.total(scope.budget, _attributes(scope, value, attribute), start)


def _attributes(scope: FilterScope, value: Value, attribute: Value) -> Value:
    counted = _counted(scope, value)
    return counted if attribute is None else scope.plain("map", counted, (), {"attribute": attribute})


def _counted(scope: FilterScope, value: Value) -> Value:
    """The value itself when its size is known, which is then counted; else its items one by one."""
    if isinstance(value, str):
        scope.budget.grow(8 * len(value))  # as a list of characters
        return value

    if isinstance(value, Sized) or not isinstance(value, Iterable):
        scope.budget.step(1 + operations.length_of(value) // 8)
        return value

    return scope.budget.metered(value)


def _weigh_arguments(scope: FilterScope, args: tuple[Value, ...], kwargs: Mapping[str, Value]) -> None:
    for argument in (*args, *kwargs.values()):
        weigh(scope, argument)

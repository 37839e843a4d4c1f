"""Every regular expression of the product, and texts that make a careless one take forever.

A pattern backtracks when it can repeat something in several ways and then fails. So each repetition of a pattern is attacked: a text that
leads up to it, what it repeats many times over, and an end that fits nothing.
"""

import ast
import importlib
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

ROOT = Path(__file__).parents[2]
PACKAGES = ("prism", "supervisor", "gpu_worker", "ipc")
_LOOKING = frozenset({"compile", "match", "fullmatch", "search", "split", "sub", "subn", "findall", "finditer"})
_ANCHORED = frozenset({"match", "fullmatch"})
# A repetition with a bound below this cannot take long.
_MANY = 1_000
_MANY_LETTERS = 8
# Ends that make what was repeated fail: few patterns go on with all of these.
_ENDS = ("\0", "!", "\na")
# The parser of `re` is not described, so what it returns has no types of its own.
_Parsed: TypeAlias = Any


@dataclass(frozen=True, slots=True)
class Pattern:
    """place: file, and line or name. is_searched: it is looked for at every place of a text, not at one."""

    place: str
    pattern: "re.Pattern[Any]"
    is_searched: bool


@dataclass(frozen=True, slots=True)
class Attack:
    """A text of any length: the same beginning and end, and more or less of the same in between."""

    before: str
    repeated: str
    after: str

    def text(self, length: int) -> str:
        return self.before + self.repeated * (length // max(len(self.repeated), 1)) + self.after


def all_patterns() -> list[Pattern]:
    """Return every pattern that a call of `re` in the product names; one that is put together is taken from its module."""
    found: list[Pattern] = []

    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            found += _patterns_of(path)

    return found


def attacks_on(pattern: "re.Pattern[Any]") -> Iterator[Attack]:
    """Yield the attacks on each repetition of a pattern that has no bound."""
    source = pattern.pattern.decode("latin-1") if isinstance(pattern.pattern, bytes) else pattern.pattern
    parsed = _parse(source, pattern.flags)
    letters = _letters(parsed)
    seen = set()

    for before, body in _repetitions(parsed, ""):
        for repeated in {*_variants(body), *letters, before + _sample(body)} - {""}:
            # At the start, and where a search has to begin anew at every place.
            seen |= {Attack(lead, repeated, after) for after in _ENDS for lead in (before, "")}

    yield from sorted(seen, key=repr)


def _patterns_of(path: Path) -> Iterator[Pattern]:
    file = path.relative_to(ROOT).as_posix()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    anchored = _anchored_lines(tree)
    has_more = False

    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue

        if not (isinstance(node.func.value, ast.Name) and node.func.value.id == "re" and node.func.attr in _LOOKING):
            continue

        try:
            source = ast.literal_eval(node.args[0])
        except ValueError:
            has_more = True
            continue

        is_searched = node.func.attr not in _ANCHORED | {"compile"} or (
            node.func.attr == "compile" and node.lineno not in anchored
        )
        yield Pattern(f"{file}:{node.lineno}", re.compile(source, _flags(node)), is_searched)

    if has_more:
        yield from _of_module(file)


def _anchored_lines(tree: ast.Module) -> set[int]:
    """Return the lines of patterns that have a name in their module and are used at one place of a text only."""
    lines = {}
    uses: dict[str, set[str]] = {}

    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.Call):
            lines[node.targets[0].id] = node.value.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            uses.setdefault(node.value.id, set()).add(node.attr)
        elif isinstance(node, ast.Call):
            # One that is handed on may be used in any way.
            for argument in node.args:
                uses.setdefault(argument.id, set()).add("handed on") if isinstance(argument, ast.Name) else None

    return {line for name, line in lines.items() if uses.get(name) and uses[name] <= _ANCHORED}


def _flags(node: ast.Call) -> int:
    words = [word for argument in (*node.args[1:], *(k.value for k in node.keywords)) for word in ast.walk(argument)]
    return sum(
        {int(getattr(re, word.attr)) for word in words if isinstance(word, ast.Attribute) and word.attr.isupper()}
    )


def _of_module(file: str) -> Iterator[Pattern]:
    """Take the patterns that stand in a module as values, or as values of a dict there."""
    module = importlib.import_module(file.removesuffix(".py").replace("/", "."))

    for name, value in vars(module).items():
        values = value.values() if isinstance(value, dict) else (value,)
        yield from (
            Pattern(f"{file}:{name}", held, is_searched=True) for held in values if isinstance(held, re.Pattern)
        )


def _parse(source: str, flags: int) -> _Parsed:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parser: Any = importlib.import_module("re._parser")
        return parser.parse(source, flags & ~re.DEBUG & (re.IGNORECASE | re.DOTALL | re.MULTILINE | re.VERBOSE))


def _repetitions(parsed: _Parsed, before: str) -> Iterator[tuple[str, _Parsed]]:
    """Yield what is repeated without a bound, and a text that leads there."""
    for kind, given in parsed:
        match str(kind):
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                if int(given[1]) >= _MANY:
                    yield before, given[2]

                yield from _repetitions(given[2], before)
            case "SUBPATTERN":
                yield from _repetitions(given[3], before)
            case "ATOMIC_GROUP":
                yield from _repetitions(given, before)
            case "BRANCH":
                for branch in given[1]:
                    yield from _repetitions(branch, before)
            case "ASSERT" | "ASSERT_NOT":
                yield from _repetitions(given[1], before)
            case _:
                pass

        before += _sample([(kind, given)])


def _letters(parsed: _Parsed) -> set[str]:
    """Return some of the letters that a pattern spells out: what stands between two repetitions may be a part of both."""
    return {"\n", *sorted(set(_sample(parsed, 0) + _sample(parsed, 1)))[:_MANY_LETTERS]}


def _variants(body: _Parsed) -> set[str]:
    """Return texts that the body takes: a short one, and one for each of its branches or classes' members."""
    return {text for text in (_sample(body, choice) for choice in range(6)) if text}


def _sample(parsed: _Parsed, choice: int = 0) -> str:
    """Return a text that a parsed pattern takes. choice: which of several."""
    return "".join(_sample_of(str(kind), given, choice) for kind, given in parsed)


def _sample_of(kind: str, given: _Parsed, choice: int) -> str:
    match kind:
        case "LITERAL":
            return chr(given)
        case "NOT_LITERAL":
            return "b" if given == ord("a") else "a"
        case "ANY":
            return "a"
        case "IN":
            return _member(given, choice)
        case "CATEGORY":
            return _of_category(str(given))
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            return _sample(given[2], choice) * max(int(given[0]), 1)
        case "SUBPATTERN":
            return _sample(given[3], choice)
        case "ATOMIC_GROUP":
            return _sample(given, choice)
        case "BRANCH":
            return _sample(given[1][choice % len(given[1])], choice)
        case _:
            return ""


def _member(given: _Parsed, choice: int) -> str:
    items = [(str(kind), value) for kind, value in given]

    if items[0][0] == "NEGATE":
        pattern = re.compile("".join(f"[{re.escape(_member([item], 0))}]|" for item in given[1:]) + r"(?!)")
        return next(letter for letter in 'a0 -.{<["\n' if pattern.fullmatch(letter) is None)

    kind, value = items[choice % len(items)]
    return chr(value[choice % 2]) if kind == "RANGE" else _sample_of(kind, value, choice)


def _of_category(name: str) -> str:
    return {"CATEGORY_DIGIT": "0", "CATEGORY_SPACE": " ", "CATEGORY_WORD": "a"}.get(
        name, "." if "NOT_WORD" in name else "a"
    )

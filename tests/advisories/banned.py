"""Calls, imports and words that public advisories began with. Each rule looks at one file's syntax and says in which lines it is broken.

`test_banned.py` applies the rules to everything that we wrote, and plants samples for each, so that none of them is blind.
"""

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch, translate

# What is shipped, and what is run on the machines of those who work on it.
PRODUCT = ("prism/*", "supervisor/*", "gpu_worker/*", "ipc/*")
ALL = (*PRODUCT, "benchmarks/*", "tests/*")

Find = Callable[[ast.AST], bool]


@dataclass(frozen=True, slots=True)
class Rule:
    """says: what is wrong with it. files: patterns of files that must keep it. homes: those of them that may break it."""

    name: str
    says: str
    find: Find
    files: Sequence[str] = ALL
    homes: Sequence[str] = ()

    def applies_to(self, file: str) -> bool:
        return _fits(file, self.files) and not _fits(file, self.homes)

    def lines(self, nodes: Sequence[ast.AST]) -> Iterator[int]:
        """Yield the lines that break the rule. nodes: all of a file."""
        yield from (getattr(node, "lineno", 0) for node in nodes if self.find(node))


def faults(file: str, source: str, rules: Sequence[Rule]) -> list[str]:
    """Return a sentence for each line of a file that breaks a rule."""
    nodes = list(ast.walk(ast.parse(source)))
    kept = [rule for rule in rules if rule.applies_to(file)]
    return [f"{file}:{line}: {rule.says}" for rule in kept for line in rule.lines(nodes)]


def dotted(node: ast.AST | None) -> str:
    """Return `a.b.c` for such an expression; what stands before is left out where it is no name."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"

    return node.id if isinstance(node, ast.Name) else ""


def imports(*modules: str) -> Find:
    """Find an import of a module, or of one below it, by a statement or a call."""

    def find(node: ast.AST) -> bool:
        return any(name == module or name.startswith(f"{module}.") for name in _imported(node) for module in modules)

    return find


def calls(*names: str) -> Find:
    """Find a call by its whole dotted name, or (`*.name`) of a method of anything."""
    wanted = re.compile("|".join(map(translate, names)))
    return lambda node: isinstance(node, ast.Call) and wanted.match(dotted(node.func)) is not None


def calls_without(keyword: str, *names: str) -> Find:
    """Find a call that does not give this keyword."""
    is_call = calls(*names)
    return lambda node: is_call(node) and isinstance(node, ast.Call) and _given(node, keyword) is None


def gives(keyword: str, *harmless: object) -> Find:
    """Find a call that gives this keyword another value than these."""

    def find(node: ast.AST) -> bool:
        value = _given(node, keyword) if isinstance(node, ast.Call) else None
        return value is not None and not (isinstance(value, ast.Constant) and value.value in harmless)

    return find


def names(*wanted: str) -> Find:
    """Find an attribute or a plain name, called or not."""
    return lambda node: (
        (isinstance(node, ast.Attribute) and node.attr in wanted) or (isinstance(node, ast.Name) and node.id in wanted)
    )


def says(*parts: str) -> Find:
    """Find a text that holds one of these."""
    return lambda node: (
        isinstance(node, ast.Constant) and isinstance(node.value, str) and any(part in node.value for part in parts)
    )


def either(*finds: Find) -> Find:
    """Find what any of these finds."""
    return lambda node: any(find(node) for find in finds)


def command_in_one_text(node: ast.AST) -> bool:
    """Find a program that is started by one text, which somebody would have to take apart."""
    if not isinstance(node, ast.Call) or not dotted(node.func).startswith("subprocess."):
        return False

    first = node.args[0] if node.args else _given(node, "args")
    return isinstance(first, ast.JoinedStr) or (isinstance(first, ast.Constant) and isinstance(first.value, str))


def compares_secret(node: ast.AST) -> bool:
    """Find `==` on what is named like a secret: it takes the longer the more is right."""
    if not isinstance(node, ast.Compare) or not any(isinstance(sign, ast.Eq | ast.NotEq) for sign in node.ops):
        return False

    sides = (node.left, *node.comparators)
    return any(dotted(side).rpartition(".")[2].lstrip("_") in _SECRETS for side in sides)


def listens_to_all(node: ast.AST) -> bool:
    """Find an address of every interface where it becomes a default or an argument."""
    values: list[ast.expr | None] = []

    if isinstance(node, ast.arguments):
        values = [*node.defaults, *node.kw_defaults]
    elif isinstance(node, ast.Call):
        values = [*node.args, *(keyword.value for keyword in node.keywords)]
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        values = [node.value]

    return any(isinstance(value, ast.Constant) and value.value in ("0.0.0.0", "::") for value in values)


def writes_for_all(node: ast.AST) -> bool:
    """Find a mode, written out, that lets group or others write."""
    if not isinstance(node, ast.Call) or dotted(node.func).rpartition(".")[2] not in _MAKING:
        return False

    given = _given(node, "mode")
    places = [given] if given is not None else node.args[-1:]
    return any(isinstance(mode, ast.Constant) and isinstance(mode.value, int) and mode.value & 0o022 for mode in places)


_MAKING = frozenset({"chmod", "fchmod", "makedirs", "mkdir", "open"})
_SECRETS = frozenset(
    {"secret", "api_key", "api_keys", "bearer", "password", "passphrase", "signature", "authorization"}
)


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]

    if isinstance(node, ast.ImportFrom):
        return [f"{node.module}.{alias.name}" for alias in node.names]

    if isinstance(node, ast.Call) and dotted(node.func) in ("importlib.import_module", "import_module", "__import__"):
        return [str(argument.value) for argument in node.args[:1] if isinstance(argument, ast.Constant)]

    return []


def _given(node: ast.Call, keyword: str) -> ast.expr | None:
    return next((given.value for given in node.keywords if given.arg == keyword), None)


def _fits(file: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch(file, pattern) for pattern in patterns)

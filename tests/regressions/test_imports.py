"""Modules that import each other in a circle work only if the right one comes first."""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

import pytest

from tests.test_layering import PACKAGES, ROOT


def modules() -> dict[str, ast.Module]:
    """Return every module of ours by its name."""
    files = (path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): ast.parse(path.read_text())
        for path in files
    }


def imported_at_once(tree: ast.AST) -> Iterator[str]:
    """Yield what is imported when the module is: not in a function, and not for types only."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), names=names):
                yield module
                yield from (f"{module}.{alias.name}" for alias in names)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                pass
            case ast.If(test=ast.Name(id="TYPE_CHECKING"), orelse=orelse):
                for other in orelse:
                    yield from imported_at_once(other)
            case _:
                yield from imported_at_once(node)


def in_order(trees: dict[str, ast.Module]) -> list[str]:
    """Return the modules so that each comes behind those that it imports. Raises CycleError."""
    graph = {name: {found for found in imported_at_once(tree) if found in trees} for name, tree in trees.items()}
    return list(TopologicalSorter(graph).static_order())


def test_every_module_can_be_the_first_one() -> None:
    """B-17."""
    trees = modules()
    order = in_order(trees)
    assert set(order) == set(trees)
    assert order.index("ipc.messages") < order.index("supervisor.model_host") < order.index("prism.http.serve")


def test_a_planted_circle_is_found() -> None:
    """Of three modules, the last only for types."""
    sources = {
        "a": "from b import x",
        "b": "try:\n    import a\nexcept ImportError:\n    pass",
        "c": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import a\ndef f():\n    import a",
    }
    trees = {name: ast.parse(source) for name, source in sources.items()}
    assert list(imported_at_once(trees["c"])) == ["typing", "typing.TYPE_CHECKING"]

    with pytest.raises(CycleError):
        in_order(trees)

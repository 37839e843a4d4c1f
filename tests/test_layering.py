"""Keeps the house in order: who imports whom, which file is the home of which library, who reads clock and environment.

What is never called for safety's sake is in `tests.advisories.rules`.
"""

import ast
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("prism", "supervisor", "gpu_worker", "ipc")

# What each package may import of ours, besides itself.
OURS = {
    "ipc": (),
    "gpu_worker": ("ipc",),
    "supervisor": ("ipc",),
    "prism": ("supervisor", "ipc.messages"),
}

# The only files that may import a library. A name may stand for several modules of one library.
HOMES = {
    "aiohttp": ("prism/http/*.py", "prism/ollama/daemon.py"),
    "click": ("prism/cli*.py",),
    "filelock": ("supervisor/*.py", "prism/pull/staging.py"),
    "gguf": ("prism/export/*.py",),
    "huggingface_hub": ("prism/pull/*.py",),
    "jinja2": ("prism/chat/template.py",),
    "msgspec": ("ipc/*.py", "prism/api/*.py", "prism/http/*.py", "prism/ollama/*.py"),
    "numpy": ("prism/export/*.py", "gpu_worker/*.py"),
    "onnx": ("prism/export/*.py",),
    "onnxruntime_genai": ("gpu_worker/engine.py",),
    "PIL": ("gpu_worker/picture_files.py",),
    "prometheus_client": ("prism/http/*.py",),
    "psutil": ("supervisor/*.py",),
    "pynvml": ("supervisor/*.py",),
    "rich": ("prism/cli*.py",),
    "zmq": ("ipc/*.py",),
}
# Libraries that have one file in a package, whichever it is.
ONE_FILE_IN = {
    "filelock": "supervisor",
    "jinja2": "prism",
    "numpy": "gpu_worker",
    "onnxruntime_genai": "gpu_worker",
    "PIL": "gpu_worker",
    "pynvml": "supervisor",
}

# `created` of an answer is a time of day; every duration is measured with the monotonic clock.
WALL_CLOCK_FILES = ("prism/http/*.py",)
# Settings are read in one place; the others pass the environment on to a child.
ENVIRONMENT_FILES = (
    "prism/settings.py",
    "prism/pull/pip_download.py",
    "supervisor/worker_environment.py",
    "gpu_worker/*.py",
)


def source_files() -> list[str]:
    return sorted(path.relative_to(ROOT).as_posix() for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def imported_modules(tree: ast.Module) -> Iterator[str]:
    """Yield the dotted name of everything that is imported, at any depth; a relative import begins with a dot."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            # `from ipc import messages` imports ipc.messages as much as `import ipc.messages` does.
            yield from (f"{module}.{alias.name}" for alias in node.names) if module in PACKAGES else (module,)
        elif isinstance(node, ast.Call) and dotted_name(node.func) in ("importlib.import_module", "__import__"):
            yield from (str(argument.value) for argument in node.args[:1] if isinstance(argument, ast.Constant))


def dotted_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted_name(node.value)}.{node.attr}"

    return node.id if isinstance(node, ast.Name) else ""


def import_faults(file: str, tree: ast.Module) -> Iterator[str]:
    package = file.split("/")[0]
    allowed = (package, *OURS[package])

    for module in imported_modules(tree):
        top = module.split(".")[0]

        if not top:
            yield f"{file}: relative import of {module}"
        elif top in PACKAGES:
            if not any(module == name or module.startswith(f"{name}.") for name in allowed):
                yield f"{file}: {package} must not import {module}"
        elif top not in sys.stdlib_module_names and not any(fnmatch(file, home) for home in HOMES.get(top, ())):
            yield f"{file}: is not a home of {top}"


def call_faults(file: str, tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = dotted_name(node.func)

            if name == "time.time" and not any(fnmatch(file, home) for home in WALL_CLOCK_FILES):
                yield f"{file}:{node.lineno}: durations are measured with time.monotonic"


def environment_faults(file: str, tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        is_environment = isinstance(node, ast.Attribute) and dotted_name(node) in ("os.environ", "os.getenv")

        if is_environment and not any(fnmatch(file, home) for home in ENVIRONMENT_FILES):
            yield f"{file}: only prism/settings.py reads the environment"


def faults(file: str, source: str) -> list[str]:
    tree = ast.parse(source)
    return [*import_faults(file, tree), *call_faults(file, tree), *environment_faults(file, tree)]


@pytest.mark.parametrize("file", source_files())
def test_a_file_keeps_the_rules(file: str) -> None:
    assert faults(file, (ROOT / file).read_text()) == []


@pytest.mark.parametrize(("library", "package"), ONE_FILE_IN.items())
def test_a_library_has_one_home_in_a_package(library: str, package: str) -> None:
    homes = [
        file
        for file in source_files()
        if file.startswith(f"{package}/")
        and any(name.split(".")[0] == library for name in imported_modules(ast.parse((ROOT / file).read_text())))
    ]
    assert len(homes) <= 1, homes


@pytest.mark.parametrize("file", [file for file in source_files() if file.endswith("/__init__.py")])
def test_package_files_hold_no_code(file: str) -> None:
    statements = ast.parse((ROOT / file).read_text()).body[1:]  # the docstring is the first
    names = [node.targets[0] for node in statements if isinstance(node, ast.Assign)]
    assert len(names) == len(statements)
    assert [dotted_name(name) for name in names] == (["__version__"] if file == "prism/__init__.py" else [])


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("ipc/x.py", "import supervisor.turns"),
        ("gpu_worker/x.py", "from prism.catalog import Catalog"),
        ("gpu_worker/x.py", "def f() -> None:\n    from supervisor import turns"),
        ("supervisor/x.py", "import gpu_worker"),
        ("supervisor/x.py", "import prism.settings"),
        ("prism/x.py", "import ipc.codec"),
        ("prism/x.py", "from ipc import codec"),
        ("prism/x.py", "import ipc"),
        ("prism/x.py", "from . import catalog"),
        ("prism/x.py", "from ..ipc import messages"),
        ("prism/http/x.py", "import onnxruntime_genai as og"),
        ("supervisor/x.py", "import importlib\nimportlib.import_module('onnxruntime_genai')"),
        ("prism/x.py", "import aiohttp.web"),
        ("prism/chat/tools.py", "from jinja2 import Template"),
        ("prism/settings.py", "import click"),
        ("prism/x.py", "import requests"),
        ("supervisor/x.py", "import time\ntime.time()"),
        ("prism/x.py", "import os\nos.environ['A']"),
        ("prism/x.py", "import os\nos.getenv('A')"),
    ],
)
def test_a_planted_fault_is_found(file: str, source: str) -> None:
    assert len(faults(file, source)) == 1


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("prism/x.py", "from ipc.messages import Device\nfrom supervisor.turns import Turns\nimport prism.catalog"),
        ("prism/x.py", "from ipc import messages"),
        ("gpu_worker/engine.py", "import onnxruntime_genai as og\nimport ipc.codec"),
        ("prism/http/x.py", "from aiohttp import web\nimport time\ntime.time()"),
    ],
)
def test_what_is_allowed_is_no_fault(file: str, source: str) -> None:
    assert faults(file, source) == []

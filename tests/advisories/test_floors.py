"""No dependency may be a version that a published hole is in: neither by what pyproject.toml allows, nor by what is installed here."""

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
import zmq
from aiohttp import http_parser

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ALLOWED = {name: floor for line in PROJECT["dependencies"] for name, floor in re.findall(r"^([\w-]+)>=([\d.]+)$", line)}
# The first version without the holes that apply to what we use of it.
SOUND = {
    "aiohttp": "3.13.4",  # smuggling, bombs in bodies, trailers without end
    "filelock": "4",  # links in the place of a lock; before, a failed attempt emptied the file
    "jinja2": "3.1.6",  # ways out of the sandbox
}
SOUND_ZEROMQ = (4, 3, 4)  # overflows by unauthenticated peers


def numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text))


@pytest.mark.parametrize("name", SOUND)
def test_no_version_with_a_known_hole_is_allowed_or_installed(name: str) -> None:
    assert numbers(ALLOWED[name]) >= numbers(SOUND[name])
    assert numbers(version(name)) >= numbers(SOUND[name])


def test_every_dependency_has_a_floor() -> None:
    assert len(ALLOWED) == len(PROJECT["dependencies"]) > 10


def test_the_library_inside_pyzmq_is_sound() -> None:
    assert zmq.zmq_version_info() >= SOUND_ZEROMQ


def test_requests_are_read_by_the_strict_parser() -> None:
    """aiohttp falls back to a parser in Python, more forgiving, where its compiled one is missing."""
    assert http_parser.HttpRequestParser.__module__ == "aiohttp._http_parser"

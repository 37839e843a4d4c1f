"""The example of the environment file against the code that reads the variables."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from prism.env_file import parse_env_file
from prism.settings import ServeFlags, ServeSettings, load_model_paths, load_serve_settings
from tests.systemd.unit_file import UNIT, unit_variables

EXAMPLE = UNIT.parent / "prism.env.example"
GUIDE = UNIT.parent / "README.md"
HOME = {"HOME": "/var/lib/prism"}
_VARIABLE = re.compile(r"#([A-Z_]+)=(\S*)")


class _Asked(dict[str, str]):
    """An environment that notes which names are looked up."""

    def __init__(self) -> None:
        super().__init__(HOME)
        self.names: set[str] = set()

    def get(self, name: str, default: str = "") -> str:  # type: ignore[override]  # the one way in which settings ask
        self.names.add(name)
        return super().get(name, default)


def example_lines() -> list[str]:
    return EXAMPLE.read_text().splitlines()


def shown() -> dict[str, str]:
    """Return the variables of the example with the values that it shows."""
    return {match[1]: match[2] for match in map(_VARIABLE.fullmatch, example_lines()) if match is not None}


def load(environ: dict[str, str]) -> ServeSettings:
    # The file of keys is on no machine but the service's own.
    return load_serve_settings(ServeFlags(), HOME | environ | {"PRISM_API_KEY_FILE": ""})[0]


def test_it_has_every_variable_that_the_server_reads_and_no_other() -> None:
    environ = _Asked()
    load_serve_settings(ServeFlags(), environ)
    load_model_paths(environ)

    ours = {name for name in environ.names if name.startswith("PRISM_")}
    assert len(ours) > 20
    assert {name for name in shown() if name.startswith("PRISM_")} == ours


def test_what_it_shows_is_what_holds_without_it() -> None:
    assert load(unit_variables() | shown()) == load(unit_variables())


@pytest.mark.parametrize("name", [name for name, value in shown().items() if value and name.startswith("PRISM_")])
def test_no_value_that_it_shows_is_mere_decoration(name: str) -> None:
    """A wrong value would be noticed: each one is read by the settings, and another one changes them."""
    if name == "PRISM_API_KEY_FILE":
        assert shown()[name] == unit_variables()[name]
        return

    others = {
        "PRISM_HOST": "::1",
        "PRISM_DEVICE": "cpu",
        "PRISM_LOG_LEVEL": "debug",
        "PRISM_STATE_DIR": "/elsewhere",
        "PRISM_TEMPLATE": "jinja",
        "on": "off",
        "off": "on",
    }
    other = others.get(name, others.get(shown()[name], "7"))
    assert load(unit_variables() | {name: other}) != load(unit_variables())


def test_as_it_stands_it_sets_nothing() -> None:
    assert parse_env_file(EXAMPLE.read_text()) == {}


def test_each_variable_has_one_line_of_meaning_above_it() -> None:
    lines = example_lines()
    places = [place for place, line in enumerate(lines) if _VARIABLE.fullmatch(line)]

    assert len(places) == len(shown())
    assert [lines[place] for place in places if not re.fullmatch(r"# [A-Z].{10,}", lines[place - 1])] == []


def test_every_line_is_blank_a_comment_or_a_variable() -> None:
    faults = [line for line in example_lines() if line and not line.startswith("# ") and not _VARIABLE.fullmatch(line)]

    assert faults == []


def test_the_units_own_variables_are_known(tmp_path: Path) -> None:
    (tmp_path / "api_key").write_text("a-key\n")
    environ = HOME | unit_variables() | {"PRISM_API_KEY_FILE": str(tmp_path / "api_key")}
    settings, warnings = load_serve_settings(ServeFlags(), environ)

    assert warnings == ()
    assert settings.state_dir == Path("/var/lib/prism")
    assert settings == replace(load(unit_variables()), api_keys=("a-key",))


@pytest.mark.parametrize("text", ["systemd/prism.service", "systemd/prism.env.example", "/etc/prism/api_key"])
def test_the_guide_installs_what_the_unit_needs(text: str) -> None:
    assert text in GUIDE.read_text()

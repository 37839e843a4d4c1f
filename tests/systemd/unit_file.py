"""Reads a unit file as systemd does, as far as the tests need it: sections, and lists of what each name was set to."""

from collections import defaultdict
from pathlib import Path

UNIT = Path(__file__).parents[2] / "systemd" / "prism.service"


def read_unit(path: Path = UNIT) -> dict[str, dict[str, list[str]]]:
    """Return the values by section and name. A name may occur several times; an empty value is one too."""
    sections: dict[str, dict[str, list[str]]] = {}
    values: dict[str, list[str]] = {}

    for line in path.read_text().splitlines():
        if line.startswith("["):
            values = sections.setdefault(line.strip("[]"), defaultdict(list))
        elif line and line[0] not in "#;":
            name, equals, value = line.partition("=")
            assert equals, line
            values[name].append(value)

    return sections


def unit_variables() -> dict[str, str]:
    """Return the variables that the unit sets, with its credentials where systemd would put them."""
    text = dict(entry.split("=", 1) for entry in read_unit()["Service"]["Environment"])
    return {name: value.replace("%d", "/run/credentials/prism.service") for name, value in text.items()}

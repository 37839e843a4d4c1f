"""What README.md says about flags, variables and exit codes is what the program has; no document points to what is not there."""

import re
from pathlib import Path

import click
import pytest

from prism.cli import cli
from prism.exit_codes import ExitCode
from prism.settings import ServeFlags, load_serve_settings
from supervisor.settings import RecycleSettings, SpareSettings

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def table(heading: str) -> list[list[str]]:
    """Return the cells of the table under a heading, without its head."""
    section = README.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return [
        [cell.strip(" `") for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"
    ][2:]


def test_every_flag_of_serve_is_there_beside_its_variable() -> None:
    flags = {parameter.opts[0] for parameter in cli.commands["serve"].params if isinstance(parameter, click.Option)}
    rows = {flag: variable for flag, variable, *_ in table("Settings") if flag}
    assert set(rows) == flags

    for flag, variable in rows.items():
        name = "PRISM_" + flag.removeprefix("--").replace("-", "_").upper()
        assert variable in (name, f"{name}S")


def test_every_variable_is_read() -> None:
    variables = {variable: "" for _, variable, *_ in table("Settings")} | {"PRISM_ENV_FILE": ""}
    assert len(variables) > 15
    assert load_serve_settings(ServeFlags(), {"HOME": "/home/me", **variables})[1] == ()


def test_defaults_are_those_of_the_settings() -> None:
    settings, _ = load_serve_settings(ServeFlags(), {"HOME": "/home/me"})
    told = {variable: default for _, variable, default, *_ in table("Settings")}
    assert told["PRISM_HOST"] == settings.host
    assert int(told["PRISM_PORT"]) == settings.port
    assert told["PRISM_DEVICE"] == settings.device
    assert float(told["PRISM_QUEUE_TIMEOUT"]) == settings.queue_timeout_s
    assert int(told["PRISM_MAX_QUEUE"]) == settings.max_queue
    assert int(told["PRISM_MAX_CONNECTIONS"]) == settings.max_connections
    assert float(told["PRISM_HEADER_TIMEOUT"]) == settings.header_timeout_s
    assert float(told["PRISM_SEND_TIMEOUT"]) == settings.send_timeout_s
    assert float(told["PRISM_SSE_PING"]) == settings.sse_ping_s
    assert int(told["PRISM_PREFILL_CHUNK"]) == settings.prefill_chunk
    assert told["PRISM_TEMPLATE"] == settings.template_mode
    assert told["PRISM_LOG_LEVEL"] == settings.log_level
    assert float(told["PRISM_RAM_RESERVE_MB"]) == settings.ram_reserve_mb
    assert float(told["PRISM_VRAM_RESERVE_MB"]) == settings.vram_reserve_mb
    assert float(told["PRISM_WORKER_GROWTH_MB"]) == settings.worker_growth_mb == RecycleSettings().growth_mb
    assert float(told["PRISM_LOAD_TIMEOUT"]) == settings.load_timeout_s
    assert (told["PRISM_RESOURCE_CHECK"] == "on") == settings.has_resource_check
    assert (told["PRISM_LOAD_LOCK"] == "on") == settings.has_load_lock
    assert (told["PRISM_LOOP_GUARD"] == "on") == settings.has_loop_guard
    assert (told["PRISM_SPARE_WORKER"] == "on") == settings.has_spare_worker == SpareSettings().is_on
    assert (told["PRISM_ALLOW_SPECIAL_TOKENS"] == "on") == settings.allows_special_tokens


def test_every_exit_code_is_there() -> None:
    assert [int(code) for code, _ in table("Exit codes")] == sorted(ExitCode)


def test_every_command_that_is_named_exists() -> None:
    named = set(re.findall(r"`?prism ([a-z]+)\b", README.replace("`prism` ", "")))
    assert {"serve", "pull", "list", "doctor", "status"} <= named
    assert named <= set(cli.commands)


DOCUMENTS = [path for place in (".", "docs", "systemd") for path in sorted((ROOT / place).glob("*.md"))]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_and_named_files_lead_somewhere(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if "://" not in link]
    files = re.findall(r"\b((?:prism|supervisor|gpu_worker|ipc)/[a-z_/]+\.py)\b", text)
    assert [link for link in links if not (document.parent / link).exists()] == []
    assert [file for file in files if not (ROOT / file).exists() and not (ROOT / "tests" / file).exists()] == []

"""benchrig, an orchestrator of benchmarks that knows Prism's API: its environment check, and a short run with an unload at the end."""

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.clients.client_environment import ClientEnvironment, python_environment
from tests.clients.conftest import Report
from tests.clients.served_prism import ServedPrism

pytestmark = [pytest.mark.clients, pytest.mark.timeout(1200)]

TOKENS = 24
CONFIG = """
prism:
  base_url: "{url}"
  timeout_sec: 120
  warmup: true
  unload_after_test: true
execution_alignment_1to1: {{temperature: 0.1, top_p: 0.9, seed: 42}}
"""
SCENARIO = {
    "id": "short",
    "name": "Short",
    "prompt": "Explain in 200 words how a page table works.",
    "options": {"temperature": 0, "num_predict": TOKENS},
}


def test_benchrig_checks_and_measures_a_server(server: ServedPrism, folder: Path, report: Report) -> None:
    (folder / "config.yaml").write_text(CONFIG.format(url=server.url))
    (folder / "scenarios").mkdir()
    (folder / "scenarios" / "speed.json").write_text(json.dumps([SCENARIO]))
    environment = python_environment(folder, server, ["benchrig"])

    check = _benchrig(environment, server, "--check", "--runtime", "prism")
    assert "Prism Server REST API: Available" in check
    assert "smollm2-135m (ONNX Runtime GenAI)" in check

    _benchrig(environment, server, "--runtime", "prism", "--models", "prism:smollm2-135m", "--suite", "speed")
    (run,) = (folder / "results" / "runs").iterdir()
    (result,) = json.loads(run.read_text())["results"]
    report(
        {
            "client": "benchrig",
            "version": _benchrig(environment, server, "--version").split()[-1],
            "check": [line.strip() for line in check.splitlines() if "Prism" in line],
            "result": {name: result.get(name) for name in ("success", "engine", "device", "finish_reason", "ttft_sec")},
        }
    )

    # The command ends with 0 also when every request failed, so the figures are what tells.
    assert result["success"] is True
    assert result["engine"] == "ONNX Runtime GenAI"
    assert result["device"] == "cpu"
    assert result["finish_reason"] == "length"
    assert result["eval_count"] == TOKENS
    assert result["prompt_eval_count"] > 0
    assert not result.get("usage_estimated")
    assert _health(server)["active_model"] is None


def _benchrig(environment: ClientEnvironment, server: ServedPrism, *arguments: str) -> str:
    """Run it, and return what it wrote with single spaces: it draws its tables as wide as the terminal."""
    return "\n".join(
        " ".join(line.split())
        for line in environment.run("benchrig", *arguments, PRISM_API_KEY=server.key, COLUMNS="200").splitlines()
    )


def _health(server: ServedPrism) -> dict[str, Any]:
    with urllib.request.urlopen(f"{server.url}/health", timeout=10) as response:
        answer: dict[str, Any] = json.load(response)
        return answer

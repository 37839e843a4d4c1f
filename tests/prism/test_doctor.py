"""What the diagnosis says about a machine."""

import json
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner

from prism import doctor
from prism.cli import cli
from prism.doctor import Check, Verdict
from prism.nvidia_report import as_report
from supervisor.gpu_report import GpuDevice, GpuReport, GpuState, no_devices
from tests.prism.model_folders import make_model_folder


@pytest.fixture(autouse=True)
def empty_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def answer_with(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """Let the asked program be another one."""
    real_run = subprocess.run

    def run(_: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        return real_run([sys.executable, "-c", program], **options)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr("subprocess.run", run)


@pytest.mark.engine
@pytest.mark.skipif(find_spec("onnxruntime_genai") is None, reason="onnxruntime-genai is not installed")
def test_the_engine_is_imported_by_another_process() -> None:
    check = doctor.check_engine()
    assert check.verdict is Verdict.OK
    assert check.detail == f"onnxruntime-genai {version('onnxruntime-genai')}"


def test_a_missing_engine_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    answer_with(monkeypatch, "raise ModuleNotFoundError(\"No module named 'onnxruntime_genai'\")")
    assert doctor.check_engine() == Check(
        "engine", Verdict.FAILED, "onnxruntime-genai is missing; the extras `cpu` and `cuda` bring it"
    )


def test_an_engine_that_ends_its_process_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    answer_with(monkeypatch, "import os; os.abort()")
    check = doctor.check_engine()
    assert check.verdict is Verdict.FAILED
    assert "status -6" in check.detail


def test_a_driver_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_DRIVER_TIMEOUT_S", 0.2)
    answer_with(monkeypatch, "import time; time.sleep(60)")
    check = doctor.check_nvidia()
    assert check.verdict is Verdict.NOTE
    assert "no answer within" in check.detail


@pytest.mark.parametrize("program", ["print('no json')", "raise SystemExit(3)"])
def test_a_driver_report_that_cannot_be_read_is_a_note(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    answer_with(monkeypatch, program)
    assert doctor.check_nvidia().verdict is Verdict.NOTE


def test_devices_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    device = GpuDevice(
        index=0,
        name="RTX 5070",
        uuid="GPU-1",
        compute_capability="12.0",
        vram_total_bytes=12 << 30,
        vram_used_bytes=2 << 30,
        vram_free_bytes=10 << 30,
    )
    report = as_report(GpuReport(state=GpuState.READY, devices=(device,)))
    answer_with(monkeypatch, f"print({json.dumps(json.dumps(report))})")
    assert doctor.check_nvidia() == Check("nvidia", Verdict.OK, "#0 RTX 5070, 10240 of 12288 MB free")


def test_no_device_is_a_note_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    report = as_report(no_devices(GpuState.ABSENT, "NVML Shared Library Not Found"))
    answer_with(monkeypatch, f"print({json.dumps(json.dumps(report))})")
    check = doctor.check_nvidia()
    assert check.verdict is Verdict.NOTE
    assert "NVML Shared Library Not Found" in check.detail


def test_models_and_half_made_folders_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PRISM_MODEL_DIRS", str(tmp_path))
    assert "prism pull" in doctor.check_models().detail
    make_model_folder(tmp_path / "tiny")
    assert doctor.check_models() == Check("models", Verdict.OK, "1 (tiny)")
    (make_model_folder(tmp_path / "half") / "model.onnx").unlink()
    check = doctor.check_models()
    assert check.verdict is Verdict.NOTE
    assert f"{tmp_path / 'half'} is skipped: model.onnx is missing" in check.detail


def test_settings_are_read_as_the_server_would(monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctor.check_settings() == Check("settings", Verdict.OK, "valid")
    monkeypatch.setenv("PRISM_PROT", "1")
    assert doctor.check_settings().verdict is Verdict.NOTE
    monkeypatch.setenv("PRISM_PORT", "x")
    assert doctor.check_settings().verdict is Verdict.FAILED


@pytest.mark.parametrize(
    ("failed", "code"), [((), 0), (("engine",), 1), (("settings",), 78), (("engine", "settings"), 78)]
)
def test_the_exit_code_tells_what_is_at_fault(
    monkeypatch: pytest.MonkeyPatch, failed: tuple[str, ...], code: int
) -> None:
    checks = [Check(name, Verdict.FAILED if name in failed else Verdict.OK, "-") for name in ("engine", "settings")]
    monkeypatch.setattr(doctor, "all_checks", lambda: [lambda check=check: check for check in checks])
    assert CliRunner().invoke(cli, ["doctor"]).exit_code == code
    shown = json.loads(CliRunner().invoke(cli, ["doctor", "--json"]).stdout)
    assert [check["name"] for check in shown] == ["engine", "settings"]


def test_the_whole_diagnosis_runs_here() -> None:
    result = CliRunner().invoke(cli, ["doctor", "--json"])
    assert [check["name"] for check in json.loads(result.stdout)] == [
        "python",
        "packages",
        "settings",
        "engine",
        "nvidia",
        "models",
        "ollama",
    ]

"""The unit: what systemd thinks of it, and the choices that must not get lost."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from prism.exit_codes import ExitCode
from prism.http.connection_bound import MOST_BY_ITSELF, most_connections
from prism.systemd_notify import Pace
from tests.systemd.unit_file import UNIT, read_unit

ANALYZE = shutil.which("systemd-analyze")
needs_analyze = pytest.mark.skipif(
    ANALYZE is None, reason="systemd-analyze is missing (Debian, Ubuntu: package systemd)"
)
MOST_EXPOSURE = 2.0


def analyze(*arguments: str) -> "subprocess.CompletedProcess[str]":
    assert ANALYZE is not None
    return subprocess.run(
        (ANALYZE, *arguments), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=50, check=False
    )


@pytest.fixture
def unit_copy(tmp_path: Path) -> Path:
    """The unit with a program that every machine has, since systemd looks for it."""
    text, count = re.subn(r"(?m)^ExecStart=/opt/prism/venv/bin/prism", "ExecStart=/bin/true", UNIT.read_text())
    assert count == 1
    copy = tmp_path / UNIT.name
    copy.write_text(text)
    return copy


@needs_analyze
def test_systemd_finds_no_fault(unit_copy: Path) -> None:
    result = analyze("verify", "--man=no", str(unit_copy))

    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@needs_analyze
def test_systemd_finds_a_planted_fault(unit_copy: Path) -> None:
    unit_copy.write_text(unit_copy.read_text().replace("KillMode=mixed", "KillMode=mixd"))

    assert "mixd" in analyze("verify", "--man=no", str(unit_copy)).stderr


@needs_analyze
def test_little_is_left_open(unit_copy: Path) -> None:
    result = analyze("security", "--offline=true", "--no-pager", str(unit_copy))
    figure = re.search(r"Overall exposure level for prism\.service: ([0-9.]+)", result.stdout)

    assert figure is not None, result.stderr
    assert float(figure[1]) <= MOST_EXPOSURE


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Type", "notify"),
        ("NotifyAccess", "main"),
        ("KillMode", "mixed"),  # a worker must not get the front's SIGTERM, and none may be left
        ("KillSignal", "SIGTERM"),
        ("OOMPolicy", "continue"),  # an end of a worker is not the end of the service
        ("Restart", "on-failure"),  # a drain ends with 0
        ("RestartPreventExitStatus", "78"),
        ("WatchdogSec", "20"),
        ("DevicePolicy", "closed"),
        ("LimitCORE", "0"),
        ("User", "prism"),
        ("Group", "prism"),
        ("CapabilityBoundingSet", ""),
        ("NoNewPrivileges", "yes"),
        ("ProtectSystem", "strict"),
        ("ProtectHome", "yes"),
        ("IPAddressDeny", "any"),
        ("IPAddressAllow", "localhost"),
        ("LoadCredential", "api_key:/etc/prism/api_key"),
        ("StateDirectory", "prism"),
        ("StateDirectoryMode", "2770"),
        ("UMask", "0007"),
        ("RuntimeDirectoryMode", "0700"),
    ],
)
def test_a_choice_is_kept(name: str, value: str) -> None:
    assert read_unit()["Service"][name] == [value]


@pytest.mark.parametrize("name", ["PrivateDevices", "PrivateNetwork", "PrivateUsers", "ProcSubset", "ProtectProc"])
def test_what_would_hide_the_gpu_the_network_or_the_holder_is_absent(name: str) -> None:
    assert name not in read_unit()["Service"]


@pytest.mark.parametrize("name", ["SuccessExitStatus", "RestartForceExitStatus"])
def test_no_status_is_given_another_meaning(name: str) -> None:
    assert name not in read_unit()["Service"]


def test_the_status_that_is_not_retried_is_the_one_for_settings() -> None:
    assert read_unit()["Service"]["RestartPreventExitStatus"] == [str(int(ExitCode.CONFIGURATION))]


def test_every_nvidia_device_is_allowed_and_nothing_else() -> None:
    devices = read_unit()["Service"]["DeviceAllow"]

    assert sorted(devices) == [
        "/dev/nvidia-uvm rw",
        "/dev/nvidia-uvm-tools rw",
        "/dev/nvidia0 rw",
        "/dev/nvidiactl rw",
        "char-nvidia rw",
        "char-nvidia-caps rw",
        "char-nvidia-frontend rw",
        "char-nvidia-uvm rw",
    ]


def test_a_storm_of_restarts_ends() -> None:
    unit = read_unit()
    restart_s, burst, window_s = (
        float(text)
        for text in (
            unit["Service"]["RestartSec"][0],
            unit["Unit"]["StartLimitBurst"][0],
            unit["Unit"]["StartLimitIntervalSec"][0],
        )
    )

    assert burst * restart_s < window_s


def test_a_server_that_finishes_an_answer_asks_for_time_before_it_runs_out() -> None:
    service = read_unit()["Service"]
    pace = Pace()

    assert pace.extend_s * 2 < pace.extension_s
    assert pace.extension_s <= float(service["TimeoutStopSec"][0])


def test_there_are_descriptors_for_the_connections_that_may_be_open() -> None:
    assert most_connections(0, int(read_unit()["Service"]["LimitNOFILE"][0])) == MOST_BY_ITSELF


def test_the_service_is_started_with_the_machine() -> None:
    assert read_unit()["Install"]["WantedBy"] == ["multi-user.target"]

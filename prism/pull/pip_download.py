"""Downloads one pinned wheel with the environment's own pip, so that the user's index, proxy and certificates hold.

Called by `demo_model.py`. Runs pip as a child process in a session of its own and blocks until it ends: pip bounds each of its own waits
(15 s a read, five tries). The child is gone when this returns or raises, also on Ctrl+C.
"""

import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

from prism.export.progress import Progress
from prism.pull.errors import DiskFull, DownloadFailed, MissingPip, NoNetwork, NotOnIndex, PullError, WrongHash

_WATCH_INTERVAL_S = 0.2
_NETWORK_SIGNS = (
    "NewConnectionError",
    "NameResolutionError",
    "ConnectTimeoutError",
    "ReadTimeoutError",
    "Read timed out",
    "ProxyError",
    "SSLError",
    "ConnectionResetError",
    "Connection refused",
    "Network is unreachable",
    "IncompleteRead",
)


@dataclass(frozen=True, slots=True)
class PinnedWheel:
    """A file on the package index that can only be the one that is meant.

    requirement: name and exact version. sha256: of the wheel. size: its bytes, for the progress. python: whose pip is used.
    """

    requirement: str
    sha256: str
    size: int


def download_wheel(wheel: PinnedWheel, work_dir: Path, *, python: str, progress: Progress) -> Path:
    """Download the wheel into `work_dir`, an empty folder, and return its path. Raises PullError.

    pip's own cache is used, so that a second model from the same wheel does not download it again.
    """
    requirements, destination, scratch = work_dir / "requirements.txt", work_dir / "wheel", work_dir / "scratch"
    requirements.write_text(f"{wheel.requirement} --hash=sha256:{wheel.sha256}\n", encoding="utf-8")
    destination.mkdir()
    scratch.mkdir()
    command = [python, "-m", "pip", "--disable-pip-version-check", "--no-input", "download", "--no-deps"]
    command += ["--only-binary", ":all:", "--progress-bar", "off", "--require-hashes"]
    command += ["--dest", str(destination), "--requirement", str(requirements)]
    log = work_dir / "pip.log"
    error = _try(command, scratch, log, wheel, python, progress)

    if isinstance(error, WrongHash):
        # What lay in the cache may be damaged.
        error = _try([*command, "--no-cache-dir"], scratch, log, wheel, python, progress)

    if error is not None:
        raise error

    found = list(destination.glob("*.whl"))

    if len(found) != 1:
        raise DownloadFailed(f"pip brought {len(found)} wheels for {wheel.requirement} where one was expected")

    return found[0]


def explain_failure(log: str, wheel: PinnedWheel, python: str) -> PullError:
    """What pip's output means for the user, most telling sign first."""
    if "No module named pip" in log:
        return MissingPip(
            f"this environment has no pip: run `{python} -m ensurepip` (or `uv pip install pip`) and pull again"
        )

    if "DO NOT MATCH THE HASHES" in log or "HashMismatch" in log:
        return WrongHash(
            f"the package index served another file for {wheel.requirement} than the pinned one; nothing was kept"
        )

    if "No space left on device" in log or "Disk quota exceeded" in log:
        return DiskFull(f"no room left to download {wheel.requirement}")

    if any(sign in log for sign in _NETWORK_SIGNS):
        return NoNetwork(f"the package index cannot be reached, so {wheel.requirement} was not downloaded")

    if "No matching distribution found" in log or "Could not find a version" in log:
        return NotOnIndex(f"the package index that pip uses here does not have {wheel.requirement}")

    errors = [line for line in log.splitlines() if line.strip()]
    last = next(
        (line for line in reversed(errors) if line.startswith("ERROR:")), errors[-1] if errors else "it said nothing"
    )

    return DownloadFailed(f"pip could not download {wheel.requirement}: {last.removeprefix('ERROR:').strip()}")


def _try(
    command: list[str], scratch: Path, log: Path, wheel: PinnedWheel, python: str, progress: Progress
) -> PullError | None:
    """Run pip once. None when it brought the wheel."""
    if _run(command, scratch, log, wheel.size, progress) == 0:
        return None

    return explain_failure(log.read_text(encoding="utf-8", errors="replace"), wheel, python)


def _run(command: list[str], scratch: Path, log: Path, size: int, progress: Progress) -> int:
    """Run pip with its temporary files in `scratch`, and tell how much has come by how much lies there."""
    # LC_ALL keeps the messages that `explain_failure` reads in English.
    environment = os.environ | {"TMPDIR": str(scratch), "LC_ALL": "C.UTF-8", "PYTHONUTF8": "1"}

    with log.open("wb") as output:
        try:
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, start_new_session=True
            )
        except OSError as error:
            raise DownloadFailed(f"cannot run {command[0]} for pip: {error.strerror or error}") from error

        try:
            while True:
                progress("download", min(_bytes_below(scratch), size), size)

                try:
                    return child.wait(_WATCH_INTERVAL_S)
                except subprocess.TimeoutExpired:
                    continue
        finally:
            _end(child)


def _end(child: "subprocess.Popen[bytes]") -> None:
    """Nothing that pip does is worth a goodbye: its files lie in a folder that is removed."""
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def _bytes_below(folder: Path) -> int:
    total = 0

    for path in folder.rglob("*.whl"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            continue

    return total

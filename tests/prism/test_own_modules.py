"""Whether the packages that run are ours, tried on folders that look like environments."""

import subprocess
import sys
from pathlib import Path

import pytest

from prism import own_modules
from prism.own_modules import OUR_PACKAGES, OUR_ROOT, foreign_packages

# Asks a copy of our packages about itself, since a process can import each of them from one place only.
_ASK = "from prism import own_modules as o; f = o.foreign_packages(); print(o.describe(f) if f else 'all ours')"


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """A folder as pip would fill it with our four packages, as far as the check looks at them."""
    root = tmp_path / "site-packages"

    for name, mark in own_modules._MARKS.items():
        (root / name).mkdir(parents=True)
        (root / name / "__init__.py").write_text('"""Ours."""\n')
        (root / name / mark).write_text("")

    (root / "prism" / "own_modules.py").write_text(Path(own_modules.__file__).read_text())
    return root


def ask(*search_path: Path) -> str:
    program = f"import sys; sys.path[:0] = {[str(path) for path in search_path]}; {_ASK}"
    ended = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, check=True, text=True, timeout=30
    )
    return ended.stdout.strip()


def install_supervisor(folder: Path) -> None:
    """Do what pip does for the other distribution: its package, and the record of what it installed."""
    (folder / "supervisor").mkdir(parents=True, exist_ok=True)
    (folder / "supervisor" / "__init__.py").write_text("#\n")
    metadata = folder / "supervisor-4.3.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: supervisor\nVersion: 4.3.0\n")
    (metadata / "RECORD").write_text("supervisor/__init__.py,,\nsupervisor-4.3.0.dist-info/RECORD,,\n")


def test_the_packages_that_run_these_tests_are_ours() -> None:
    assert foreign_packages() == ()
    assert set(own_modules._MARKS) == set(OUR_PACKAGES)
    assert [name for name, mark in own_modules._MARKS.items() if not (OUR_ROOT / name / mark).is_file()] == []


def test_an_environment_of_our_own_is_fine(environment: Path) -> None:
    assert ask(environment) == "all ours"


def test_an_overwritten_package_is_told_with_its_new_owner(environment: Path) -> None:
    install_supervisor(environment)
    told = ask(environment)
    assert "`supervisor`" in told
    assert "overwritten by the distribution supervisor 4.3.0" in told
    assert "an environment of its own" in told


def test_a_package_that_is_found_before_ours_is_told_with_its_owner(environment: Path, tmp_path: Path) -> None:
    install_supervisor(tmp_path / "elsewhere")
    told = ask(tmp_path / "elsewhere", environment)
    assert "that of the distribution supervisor 4.3.0, found before ours" in told
    assert str(tmp_path / "elsewhere" / "supervisor") in told


def test_a_module_without_a_distribution_that_hides_ours_is_told(environment: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "ipc.py").write_text("")
    assert "`ipc` is not ours" in ask(tmp_path / "elsewhere", environment)


def test_what_the_other_distributions_removal_leaves_is_told(environment: Path) -> None:
    (environment / "supervisor" / "__init__.py").unlink()
    assert "`supervisor` has lost its __init__.py" in ask(environment)


def test_a_package_that_lacks_our_files_is_told(environment: Path) -> None:
    (environment / "gpu_worker" / own_modules._MARKS["gpu_worker"]).unlink()
    assert "`gpu_worker`" in ask(environment)


def test_another_distribution_elsewhere_that_we_hide_is_no_fault(environment: Path, tmp_path: Path) -> None:
    install_supervisor(tmp_path / "elsewhere")
    assert ask(environment, tmp_path / "elsewhere") == "all ours"

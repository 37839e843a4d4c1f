"""What a model will take, told from its folder."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ipc.messages import Device
from supervisor.model_figures import KeptRequests, ModelFigures, device_need, host_need, read_figures

SHAPE = {"num_hidden_layers": 30, "num_key_value_heads": 3, "head_size": 64}
FIGURES = ModelFigures(weights_bytes=1000, kv_elements=30 * 3 * 64, context_length=8192)


def write(folder: Path, config: object) -> None:
    (folder / "genai_config.json").write_text(json.dumps(config))


def test_figures_come_from_the_config_and_the_sizes(tmp_path: Path) -> None:
    write(tmp_path, {"model": {"context_length": 8192, "decoder": SHAPE}})
    (tmp_path / "model.onnx.data").write_bytes(b"x" * 1000)
    (tmp_path / "folder").mkdir()
    size = 1000 + (tmp_path / "genai_config.json").stat().st_size

    assert read_figures(tmp_path) == ModelFigures(weights_bytes=size, kv_elements=5760, context_length=8192)


@pytest.mark.parametrize(
    "config",
    [
        [],
        {"model": 7},
        {"model": {"decoder": []}},
        {"model": {"context_length": True, "decoder": SHAPE | {"head_size": "64"}}},
        {"model": {"context_length": -1, "decoder": SHAPE | {"head_size": 1 << 60}}},
    ],
)
def test_what_a_config_does_not_tell_counts_as_nothing(tmp_path: Path, config: object) -> None:
    write(tmp_path, config)
    figures = read_figures(tmp_path)
    assert (figures.kv_elements, figures.context_length) == (0, None)


def test_a_folder_that_is_not_there_takes_nothing(tmp_path: Path) -> None:
    assert read_figures(tmp_path / "nowhere") == ModelFigures(weights_bytes=0, kv_elements=0, context_length=None)


@pytest.mark.parametrize(
    ("tokens", "kept"), [(0, 2048), (2000, 2048), (5000, 5000), (100_000, 8192)], ids=["none", "few", "more", "window"]
)
def test_the_cache_is_for_the_request_but_no_less_than_usual_and_no_more_than_the_window(
    tokens: int, kept: int
) -> None:
    # Keys and values, 16 bits each on a GPU and 32 on the CPU.
    assert device_need(FIGURES, Device.CUDA, tokens, 128).kv_bytes == kept * 5760 * 2 * 2
    assert device_need(FIGURES, Device.CPU, tokens, 128).kv_bytes == kept * 5760 * 2 * 4


def test_a_pool_counts_as_a_whole_whatever_is_asked_first(tmp_path: Path) -> None:
    batching = {"num_blocks": 1024, "block_size": 16}
    write(tmp_path, {"model": {"decoder": SHAPE}, "engine": {"dynamic_batching": batching}})
    figures = read_figures(tmp_path)
    assert figures.pool_tokens == 16_384
    assert device_need(figures, Device.CPU, 5, 128).kv_bytes == 16_384 * 5760 * 2 * 4


def test_the_prefill_is_that_of_a_slice_or_of_the_whole_prompt() -> None:
    slice_bytes = device_need(FIGURES, Device.CUDA, 4096, 128).prefill_bytes
    assert slice_bytes > 0
    assert device_need(FIGURES, Device.CUDA, 4096, 0).prefill_bytes == slice_bytes * 4096 // 128


def test_main_memory_holds_the_whole_model_only_on_the_cpu() -> None:
    assert host_need(FIGURES, Device.CPU, 0, 128) == device_need(FIGURES, Device.CPU, 0, 128)
    large = ModelFigures(weights_bytes=50 << 30, kv_elements=5760, context_length=8192)
    assert host_need(large, Device.CUDA, 0, 128).total_bytes == 1 << 30


def test_what_is_kept_of_finished_requests_is_bounded_by_number_and_memory() -> None:
    one = device_need(FIGURES, Device.CPU, 0, 128).kv_bytes
    assert device_need(FIGURES, Device.CPU, 0, 128, KeptRequests(3, 1 << 40)).kv_bytes == 4 * one
    assert device_need(FIGURES, Device.CPU, 0, 128, KeptRequests(3, 1000)).kv_bytes == one + 1000
    assert device_need(FIGURES, Device.CPU, 0, 128, KeptRequests(0, 1000)).kv_bytes == one
    assert host_need(FIGURES, Device.CPU, 0, 128, KeptRequests(3, 1000)).kv_bytes == one + 1000
    # On a GPU it is kept there.
    assert host_need(FIGURES, Device.CUDA, 0, 128, KeptRequests(3, 1000)).kv_bytes == 0


def test_a_pool_holds_what_is_kept_as_well() -> None:
    pooled = replace(FIGURES, pool_tokens=4096)
    kept = device_need(pooled, Device.CPU, 0, 128, KeptRequests(3, 1 << 40))
    assert kept == device_need(pooled, Device.CPU, 0, 128)

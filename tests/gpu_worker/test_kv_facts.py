"""What the config tells about keys and values."""

import pytest

from gpu_worker.kv_facts import KvFacts, read_kv_facts
from ipc.messages import Device

SHAPE = {"num_hidden_layers": 30, "num_key_value_heads": 3, "head_size": 64}


def test_the_figures_are_those_of_the_decoder() -> None:
    facts = read_kv_facts({"model": {"type": "llama", "decoder": SHAPE}, "search": {"past_present_share_buffer": True}})
    assert facts == KvFacts(numbers_per_token=11_520, is_preallocated=True, can_rewind=True, longest_kept=None)
    assert (facts.token_bytes(Device.CPU), facts.token_bytes(Device.CUDA)) == (46_080, 23_040)


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"model": 7, "search": []},
        {"model": {"type": ["llama"], "decoder": SHAPE | {"head_size": True}}},
        {"model": {"decoder": SHAPE | {"num_hidden_layers": 1 << 30}}, "search": {"past_present_share_buffer": "yes"}},
    ],
)
def test_what_is_not_told_is_unknown(config: dict[str, object]) -> None:
    assert read_kv_facts(config) == KvFacts(
        numbers_per_token=0, is_preallocated=False, can_rewind=True, longest_kept=None
    )


@pytest.mark.parametrize(
    "model",
    [
        {"type": "phi3v"},
        {"type": "decoder-pipeline"},
        {"type": "qwen2_5_vl", "vision": {}},
        {"type": "x", "speech": {}},
    ],
)
def test_some_models_cannot_go_back(model: dict[str, object]) -> None:
    assert not read_kv_facts({"model": model}).can_rewind


@pytest.mark.parametrize(("kind", "longest"), [("phi3", 4096), ("phimoe", 4096), ("phi3small", 8192), ("llama", None)])
def test_some_models_scale_positions_past_a_border(kind: str, longest: int | None) -> None:
    assert read_kv_facts({"model": {"type": kind}}).longest_kept == longest

"""The paged graph against the ordinary one of the same weights: whatever runs beside a request, its tokens are the same."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
import pytest

from prism.export.genai_config import DynamicBatching
from prism.export.layout import Precision
from prism.export.tiny_model import write_tiny_model
from tests.export.engine_helpers import Engine
from tests.export.paged_engine import PagedEngine

pytestmark = pytest.mark.engine

PROMPTS = {
    "short": "a",
    "plain": "Hello there",
    "long": "The quick brown fox jumps over the lazy dog. " * 12,
    "longer": "x y z " * 30,
    "prefix": "The quick brown fox jumps over the lazy dog. " * 3,
    "last": "one two",
}
_MOST = 40


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    folder = tmp_path_factory.mktemp("tiny")
    write_tiny_model(folder)

    return Engine(folder)


@pytest.fixture(scope="module")
def ids(tiny: Engine) -> dict[str, list[int]]:
    return {name: tiny.encode(text) for name, text in PROMPTS.items()}


@pytest.fixture(scope="module")
def expected(tiny: Engine, ids: dict[str, list[int]]) -> dict[str, list[int]]:
    return {name: tiny.answer_ids(prompt, most=_MOST) for name, prompt in ids.items()}


def paged(folder: Path, batching: DynamicBatching) -> PagedEngine:
    write_tiny_model(folder, batching=batching)

    return PagedEngine(folder)


@pytest.mark.parametrize(
    "joins",
    [
        pytest.param(lambda number: 0, id="all at once"),
        pytest.param(lambda number: 4 * number, id="one after the other"),
        pytest.param(lambda number: 3 * (5 - number), id="the other way round"),
        pytest.param(lambda number: 100 * number, id="each alone"),
    ],
)
def test_requests_that_join_and_leave_get_the_tokens_that_they_get_alone(
    tmp_path: Path, ids: dict[str, list[int]], expected: dict[str, list[int]], joins: Any
) -> None:
    engine = paged(tmp_path, DynamicBatching(blocks=256))

    answers = engine.answers(ids, {name: joins(number) for number, name in enumerate(ids)}, most=_MOST)

    assert answers == expected


@pytest.mark.parametrize(
    "batching",
    [
        pytest.param(DynamicBatching(blocks=80, chunk_size=8), id="small slices of a prompt"),
        pytest.param(DynamicBatching(blocks=300, block_size=4), id="small blocks"),
        pytest.param(DynamicBatching(blocks=52, max_batch_size=2), id="a pool in which kept blocks are given away"),
        pytest.param(DynamicBatching(blocks=64, max_batch_size=2), id="more requests than places"),
    ],
)
def test_the_layout_of_the_pool_changes_no_token(
    tmp_path: Path, ids: dict[str, list[int]], expected: dict[str, list[int]], batching: DynamicBatching
) -> None:
    engine = paged(tmp_path, batching)

    for _ in range(2):
        assert engine.answers(ids, {name: 2 * number for number, name in enumerate(ids)}, most=_MOST) == expected


def test_a_prefix_that_was_seen_before_is_not_computed_again(
    tmp_path: Path, ids: dict[str, list[int]], expected: dict[str, list[int]]
) -> None:
    engine = paged(tmp_path, DynamicBatching(blocks=256))
    engine.answers({"long": ids["long"]}, {"long": 0})

    answers = engine.answers({"prefix": ids["prefix"]}, {"prefix": 0})

    assert answers["prefix"] == expected["prefix"]
    assert len(ids["prefix"]) - 17 <= engine.cached_tokens["prefix"] < len(ids["prefix"])


@pytest.mark.parametrize(
    ("precision", "bound"), [(Precision.INT4, 1e-5), (Precision.INT8, 1e-5), (Precision.INT8_FINE, 1e-3)]
)
def test_quantised_weights_come_as_close_as_in_the_ordinary_graph(
    tmp_path: Path, precision: Precision, bound: float
) -> None:
    write_tiny_model(tmp_path / "ordinary", precision=precision)
    write_tiny_model(tmp_path / "paged", precision=precision, batching=DynamicBatching())
    ordinary = Engine(tmp_path / "ordinary")
    prompt = ordinary.encode(PROMPTS["longer"])

    logits = step(session(tmp_path / "paged"), [prompt], [0], pool=0.0)

    assert np.allclose(logits[0], ordinary.last_logits(prompt), rtol=bound, atol=bound)


@pytest.mark.parametrize("past", [0, 5, 16, 21])
def test_what_the_pool_held_before_is_never_read(tmp_path: Path, ids: dict[str, list[int]], past: int) -> None:
    """Memory as it was found may hold NaN, which no multiplication by zero takes away."""
    write_tiny_model(tmp_path, batching=DynamicBatching())
    model = session(tmp_path)
    prompts = [ids["long"][:38], ids["longer"][:23]]

    clean, dirty = (two_steps(model, prompts, past, pool) for pool in (0.0, float("nan")))

    assert np.isfinite(dirty).all()
    assert np.array_equal(clean, dirty)


def session(folder: Path) -> Any:
    return onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])


def two_steps(model: Any, prompts: list[list[int]], past: int, pool: float) -> npt.NDArray[np.float32]:
    """The logits of a decoding step after the prompts were fed in two parts."""
    caches = empty_caches(pool)
    firsts = [prompt[: max(past, 1)] for prompt in prompts]
    step(model, firsts, [0, 0], caches=caches)
    rests = [prompt[len(first) : -1] for prompt, first in zip(prompts, firsts, strict=True)]
    step(model, rests, [len(first) for first in firsts], caches=caches)

    return step(model, [prompt[-1:] for prompt in prompts], [len(prompt) - 1 for prompt in prompts], caches=caches)


def empty_caches(pool: float, blocks: int = 20) -> dict[str, npt.NDArray[np.float32]]:
    return {
        f"{layer}.{kind}": np.full((blocks, 16, 2, 16), pool, np.float32)
        for layer in range(2)
        for kind in ("key", "value")
    }


def step(
    model: Any,
    rows: list[list[int]],
    past: list[int],
    *,
    pool: float = 0.0,
    caches: dict[str, npt.NDArray[np.float32]] | None = None,
) -> npt.NDArray[np.float32]:
    """One run of the graph. The caches are changed, as the engine's pool is. Sequence n has the blocks n, n + 2, n + 4, ..."""
    caches = empty_caches(pool) if caches is None else caches
    table = np.full((len(rows), 12), -1, np.int32)

    for number, (new, old) in enumerate(zip(rows, past, strict=True)):
        used = -(-(len(new) + old) // 16)
        table[number, :used] = number + len(rows) * np.arange(used)

    feeds = {
        "input_ids": np.asarray([token for row in rows for token in row], np.int64),
        "cumulative_sequence_lengths": np.cumsum([0, *map(len, rows)]).astype(np.int32),
        "past_sequence_lengths": np.asarray(past, np.int32),
        "block_table": table,
        **{f"past_key_values.{name}": value for name, value in caches.items()},
    }
    logits, *presents = model.run(["logits", *(f"present.{name}" for name in caches)], feeds)

    for name, present in zip(list(caches), presents, strict=True):
        caches[name] = present

    return np.asarray(logits)

"""Kept prefixes of quantised models: their kernels round otherwise for one row than for many, so texts may part, but logits stay close."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from gpu_worker.engine import GenAiEngine, import_library, load_engine
from gpu_worker.engine_port import TokenSequence
from gpu_worker.genai_sequence import GenAiSequence
from gpu_worker.kv_slots import SlotBounds
from gpu_worker.load_options import LoadOptions
from gpu_worker.model_folder import read_model_folder
from gpu_worker.prefix_cache import CachedSequence
from gpu_worker.sampling import SearchOptions
from ipc.messages import DeviceChoice, PrefixReuse
from prism.export.layout import Precision
from prism.export.tiny_model import write_tiny_model
from tests.gpu_worker.conversations import feed

pytestmark = pytest.mark.engine

_QUESTION = "<|im_start|>user\nTell me about the river, the town and the people who live there.<|im_end|>\n<|im_start|>assistant\n"
_NEXT = "<|im_end|>\n<|im_start|>user\nAnd what do they do in winter?<|im_end|>\n<|im_start|>assistant\n"


def load(folder: Path) -> GenAiEngine:
    options = LoadOptions(slots=SlotBounds(2, 1 << 30))
    return load_engine(import_library(), read_model_folder(folder), DeviceChoice.CPU, None, options)


def logits(sequence: TokenSequence) -> npt.NDArray[np.float32]:
    native = sequence._sequence if isinstance(sequence, CachedSequence) else sequence
    assert isinstance(native, GenAiSequence)
    generator: Any = native._generator  # the library has no types
    return np.array(generator.get_logits()).reshape(-1)


def furthest(engine: GenAiEngine) -> float:
    """Return the largest relative distance between logits with and without a kept prefix, over some turns."""
    prompt = engine.encode([_QUESTION])
    distances = []

    for _ in range(4):
        options = SearchOptions.greedy(max_length=len(prompt) + 40)
        kept = engine.start(prompt, options, PrefixReuse())
        fresh = engine.start(prompt, options)
        feed(kept, prompt)
        feed(fresh, prompt)
        ours, theirs = logits(kept), logits(fresh)
        distances.append(float(np.sqrt(np.mean((ours - theirs) ** 2) / np.mean(theirs**2))))
        answer = [kept.step() for _ in range(20)]
        kept.keep()
        fresh.close()
        # The first turn has nothing to continue from.
        assert (kept.cached_tokens > 0) == (len(distances) > 1)
        prompt = [*prompt, *answer, *engine.encode([_NEXT])]

    return max(distances[1:])


@pytest.mark.parametrize(
    ("precision", "bound"), [(Precision.FP32, 1e-4), (Precision.INT8, 0.03), (Precision.INT4, 0.03)]
)
def test_logits_after_a_kept_prefix_are_close(tmp_path: Path, precision: Precision, bound: float) -> None:
    write_tiny_model(tmp_path / "tiny", precision=precision)
    assert furthest(load(tmp_path / "tiny")) <= bound


@pytest.mark.demo
def test_logits_of_the_demo_model_are_close(demo_model_dir: Path) -> None:
    distance = furthest(load(demo_model_dir))
    assert distance <= 0.03

"""Kept prefixes with the real engine: the same text as without them, in whatever way clients change their histories.

PRISM_TEST_CONVERSATIONS=200 runs as many talks instead of a few.
"""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from random import Random

import pytest

from gpu_worker.engine import GenAiEngine, import_library, load_engine
from gpu_worker.engine_port import TokenSequence
from gpu_worker.kv_slots import SlotBounds
from gpu_worker.load_options import LoadOptions
from gpu_worker.model_folder import read_model_folder
from gpu_worker.sampling import SearchOptions
from ipc.messages import DeviceChoice, PrefixReuse
from tests.gpu_worker.conversations import Talk, feed

pytestmark = pytest.mark.engine
Copy = Callable[..., Path]

_TALKS = int(os.environ.get("PRISM_TEST_CONVERSATIONS", "40"))
_REQUESTS_OF_A_TALK = 15
GREEDY = SearchOptions(
    max_length=200, do_sample=False, temperature=1.0, top_p=1.0, top_k=1, seed=1, repetition_penalty=None
)
SAMPLED = replace(GREEDY, do_sample=True, temperature=1.3, top_p=0.95, top_k=150)
PROMPT = list(range(60, 100))


def load(folder: Path, slots: int = 3) -> GenAiEngine:
    options = LoadOptions(threads=1, slots=SlotBounds(slots, 64 << 20))
    return load_engine(import_library(), read_model_folder(folder), DeviceChoice.CPU, None, options)


@pytest.fixture(scope="module", params=[False, True], ids=["growing", "preallocated"])
def engine(request: pytest.FixtureRequest, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> GenAiEngine:
    """With a cache that grows with the sequence, and with one that is there from the beginning."""
    folder = tmp_path_factory.mktemp("reused") / "tiny"
    folder.mkdir()

    for path in tiny_model.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())

    config = json.loads((folder / "genai_config.json").read_text())
    config["search"]["past_present_share_buffer"] = request.param
    (folder / "genai_config.json").write_text(json.dumps(config))
    return load(folder)


def answer(sequence: TokenSequence, prompt: list[int], count: int = 12) -> list[int]:
    feed(sequence, prompt)
    return [sequence.step() for _ in range(count)]


@pytest.mark.parametrize("seed", range(_TALKS))
def test_answers_are_those_of_fresh_sequences(engine: GenAiEngine, seed: int) -> None:
    talk = Talk(engine, Random(seed))
    talk.run(_REQUESTS_OF_A_TALK)
    assert talk.cached_tokens > 0


def test_the_token_that_was_sampled_last_is_not_skipped(engine: GenAiEngine) -> None:
    first = engine.start(PROMPT, GREEDY, PrefixReuse(scope="trap"))
    told = answer(first, PROMPT)
    first.keep()
    # Another last token: a sequence that went on behind its own answer would not see it.
    prompt = [*PROMPT, *told[:-1], (told[-1] + 1) % 250, 70, 71]
    again = engine.start(prompt, GREEDY, PrefixReuse(scope="trap"))
    assert again.cached_tokens == len(PROMPT) + len(told) - 2
    fresh = engine.start(prompt, GREEDY, None)
    assert answer(again, prompt) == answer(fresh, prompt)


def test_a_client_that_left_before_its_prompt_was_fed_spoils_nothing(engine: GenAiEngine) -> None:
    reuse = PrefixReuse(scope="left")
    first = engine.start(PROMPT * 3, GREEDY, reuse)
    answer(first, PROMPT * 3)
    first.keep()
    engine.start([*PROMPT * 2, *PROMPT[:30], 7], GREEDY, reuse).keep()
    engine.start([*PROMPT * 2, *PROMPT[:20], 7], GREEDY, reuse).keep()

    for length in (95, 40):
        prompt = [*(PROMPT * 3)[:length], 71, 72]
        again, fresh = engine.start(prompt, GREEDY, reuse), engine.start(prompt, GREEDY, None)
        assert answer(again, prompt) == answer(fresh, prompt)
        again.keep()


@pytest.mark.parametrize(
    ("made", "wanted"),
    list(
        permutations(
            [
                SAMPLED,
                replace(SAMPLED, temperature=0.2),
                replace(SAMPLED, temperature=3.0, top_k=220),
                replace(SAMPLED, top_p=0.5),
                replace(SAMPLED, top_k=3),
            ],
            2,
        )
    ),
)
def test_a_sequence_that_was_made_for_other_numbers_samples_as_a_new_one(
    engine: GenAiEngine, made: SearchOptions, wanted: SearchOptions
) -> None:
    reuse = PrefixReuse(scope=f"{made}{wanted}")
    kept = engine.start(PROMPT, replace(made, seed=99), reuse)
    # No token is sampled, so that its random numbers still begin at the seed.
    feed(kept, PROMPT)
    kept.keep()
    again = engine.start(PROMPT, replace(wanted, seed=99), reuse)
    assert again.cached_tokens == len(PROMPT) - 1
    fresh = engine.start(PROMPT, replace(wanted, seed=99), None)
    assert answer(again, PROMPT, 30) == answer(fresh, PROMPT, 30)


@pytest.mark.parametrize(
    "other", [replace(GREEDY, repetition_penalty=1.7), SAMPLED, replace(SAMPLED, top_p=1.0)], ids=str
)
def test_what_is_fixed_in_a_sequence_is_not_shared(engine: GenAiEngine, other: SearchOptions) -> None:
    for first, second in ((GREEDY, other), (other, GREEDY)):
        reuse = PrefixReuse(scope=f"{first} {second}")
        kept = engine.start(PROMPT, first, reuse)
        feed(kept, PROMPT)
        kept.keep()
        assert engine.start(PROMPT, second, reuse).cached_tokens == 0
        assert engine.start(PROMPT, first, reuse).cached_tokens > 0


def test_one_candidate_is_greedy_and_shared_with_greedy(engine: GenAiEngine) -> None:
    greedy = answer(engine.start(PROMPT, GREEDY, None), PROMPT)

    for first, second in ((GREEDY, replace(SAMPLED, top_k=1)), (replace(SAMPLED, top_k=1), GREEDY)):
        reuse = PrefixReuse(scope=f"{first} {second}")
        kept = engine.start(PROMPT, first, reuse)
        feed(kept, PROMPT)
        kept.keep()
        again = engine.start(PROMPT, second, reuse)
        assert again.cached_tokens > 0
        assert answer(again, PROMPT) == greedy


def test_the_same_prompt_sampled_again_gives_another_answer(engine: GenAiEngine) -> None:
    answers = []

    for _ in range(4):
        sequence = engine.start(PROMPT, SAMPLED, PrefixReuse(scope="again"))
        answers.append(tuple(answer(sequence, PROMPT, 24)))
        sequence.keep()

    assert len(set(answers)) > 1


def test_a_model_of_several_graphs_keeps_nothing(copy_model: Copy) -> None:
    engine = load(copy_model(vision={"filename": "vision.onnx"}))
    sequence = engine.start(PROMPT, GREEDY, PrefixReuse())
    feed(sequence, PROMPT)
    sequence.keep()
    assert engine.start(PROMPT, GREEDY, PrefixReuse()).cached_tokens == 0


def test_another_version_of_the_engine_shares_equal_options_only(copy_model: Copy) -> None:
    engine = load(copy_model())
    engine.facts = replace(engine.facts, engine_version="0.19.0")
    cached = []

    for options in (SAMPLED, replace(SAMPLED, seed=7, max_length=90), replace(SAMPLED, temperature=0.7)):
        sequence = engine.start(PROMPT, options, PrefixReuse())
        feed(sequence, PROMPT)
        cached.append(sequence.cached_tokens)
        sequence.keep()

    assert cached == [0, len(PROMPT) - 1, 0]

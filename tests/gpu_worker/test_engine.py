"""The engine for real: ONNX Runtime GenAI with a tiny model on the CPU."""

import gc
import json
import math
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from gpu_worker.batch import OneByOne
from gpu_worker.engine import GenAiEngine, import_library, load_engine
from gpu_worker.errors import EngineFault, RequestFault
from gpu_worker.generation import GenerationSettings
from gpu_worker.load_options import LoadOptions
from gpu_worker.loop import Loop
from gpu_worker.model_folder import read_model_folder
from gpu_worker.sampling import SearchOptions, search_options
from ipc.errors import ChannelClosed
from ipc.messages import (
    Device,
    DeviceChoice,
    Failed,
    Finished,
    FinishReason,
    Generate,
    RejectCode,
    Rejected,
    Sampling,
)
from prism.export.reciting_model import write_reciting_model
from tests.gpu_worker.scripted import ScriptedChannel, request

pytestmark = pytest.mark.engine
Copy = Callable[..., Path]
GREEDY = Sampling(temperature=0.0)
LIVELY_BY_DEFAULT = Sampling(temperature=1.5, top_p=0.99)
LIVELY = Sampling(temperature=1.5, top_p=0.99, top_k=200)


def load(folder: Path, threads: int | None = 1) -> GenAiEngine:
    return load_engine(
        import_library(), read_model_folder(folder), DeviceChoice.CPU, None, LoadOptions(threads=threads)
    )


@pytest.fixture(scope="module")
def engine(tiny_model: Path) -> GenAiEngine:
    return load(tiny_model)


def options(sampling: Sampling, max_length: int) -> SearchOptions:
    return search_options(sampling, max_length=max_length, model_top_k=None, vocabulary_size=256)


def answer(engine: GenAiEngine, prompt: str, count: int, sampling: Sampling = GREEDY, chunk: int = 0) -> list[int]:
    ids = engine.encode([prompt])
    sequence = engine.start(ids, options(sampling, len(ids) + count))

    for first in range(0, len(ids), chunk or len(ids)):
        sequence.feed(ids[first : first + (chunk or len(ids))])

    tokens = [sequence.step() for _ in range(count)]
    sequence.close()
    return tokens


def serve(engine: GenAiEngine, *asked: Generate, chunk: int = 16, has_loop_guard: bool = False) -> ScriptedChannel:
    channel = ScriptedChannel(asked)

    with pytest.raises(ChannelClosed):
        Loop(channel, engine, OneByOne(engine, chunk), GenerationSettings(has_loop_guard), lambda: False).run()

    return channel


def test_the_facts_are_of_the_model_and_the_device(engine: GenAiEngine, tiny_model: Path) -> None:
    config = json.loads((tiny_model / "genai_config.json").read_text())["model"]
    assert engine.facts.device is Device.CPU
    assert engine.facts.fallback_reason is None
    assert engine.facts.context_length == config["context_length"]
    assert engine.facts.engine_version.startswith("0.")


def test_text_comes_back_through_our_own_decoding(engine: GenAiEngine) -> None:
    text = "the cat 12 \n\t  naïve €5 日本 😀 end"
    ids = engine.encode([text])
    detokenizer = engine.detokenizer(ids)
    assert "".join([*map(detokenizer.push, ids), detokenizer.flush()]) == text


def test_slices_of_the_prompt_give_the_answer_of_the_whole_prompt(engine: GenAiEngine) -> None:
    prompt = "the end of the long and winding road " * 3
    assert answer(engine, prompt, 12, chunk=7) == answer(engine, prompt, 12)


def test_greedy_is_the_same_each_time_whatever_the_other_values(engine: GenAiEngine) -> None:
    first = answer(engine, "hello", 16)
    assert answer(engine, "hello", 16, Sampling(temperature=0.0, top_k=50, top_p=0.5, seed=9)) == first


def test_a_seed_repeats_an_answer_and_no_seed_does_not(engine: GenAiEngine) -> None:
    seeded = [answer(engine, "hello", 24, Sampling(temperature=1.5, top_p=0.99, top_k=200, seed=s)) for s in (7, 7, 8)]
    assert seeded[0] == seeded[1] != seeded[2]
    assert len({tuple(answer(engine, "hello", 24, LIVELY)) for _ in range(4)}) > 1


def test_top_k_one_in_the_config_does_not_make_every_answer_greedy(copy_model: Copy) -> None:
    folder = copy_model()
    config = json.loads((folder / "genai_config.json").read_text())
    config["search"] |= {"top_k": 1}
    (folder / "genai_config.json").write_text(json.dumps(config))
    asked = [request("hello", number=number, max_tokens=24, sampling=LIVELY_BY_DEFAULT) for number in range(4)]
    texts = {serve(load(folder), one).text for one in asked}
    assert len(texts) > 1


def test_an_end_token_at_the_cap_is_a_stop_and_shows_no_text(engine: GenAiEngine, copy_model: Copy) -> None:
    tokens = answer(engine, "hello", 5)
    end = next(token for token in tokens if tokens.count(token) == 1)
    place = tokens.index(end) + 1

    for ids in (end, [end, 0]):
        changed = load(copy_model(f"eos-{isinstance(ids, int)}", eos_token_id=ids))
        at_cap, before_cap = serve(
            changed, request(number=1, max_tokens=place), request(number=2, max_tokens=place + 5)
        ).terminals
        assert isinstance(at_cap, Finished)
        assert isinstance(before_cap, Finished)
        assert at_cap.reason is before_cap.reason is FinishReason.STOP
        assert at_cap.completion_tokens == before_cap.completion_tokens == place


def test_a_config_without_end_tokens_takes_the_tokenizers(copy_model: Copy) -> None:
    folder = copy_model()
    config = json.loads((folder / "genai_config.json").read_text())
    ends = config["model"].pop("eos_token_id")
    (folder / "genai_config.json").write_text(json.dumps(config))
    assert load(folder).facts.eos_ids <= set(ends if isinstance(ends, list) else [ends])


SCRIPT = (
    *(b"<think>", b"\n", b"so", b" be it", b"</think>", b"\n\n", b"        return 1"),
    *(
        "😀".encode()[:1],
        "😀".encode()[1:3],
        "😀".encode()[3:],
        b" caf\xc3",
        b"\xa9",
        "日本".encode()[:4],
        "日本".encode()[4:],
    ),
    *(b"<tool_call>", b'{"name"', b": 1}", b"</tool_call>", b"!", b"\xe2\x82"),
)


def test_a_scripted_answer_comes_out_to_the_letter(tmp_path: Path) -> None:
    write_reciting_model(tmp_path / "model", SCRIPT)
    channel = serve(load(tmp_path / "model"), request("<|im_start|>user\nhi<|im_end|>\n", max_tokens=100))
    (end,) = channel.terminals
    assert isinstance(end, Finished)
    assert (end.reason, end.completion_tokens) == (FinishReason.STOP, len(SCRIPT) + 1)
    assert channel.text == b"".join(SCRIPT).decode(errors="replace")
    assert channel.text.count("<think>") == channel.text.count("<tool_call>") == 1


def test_markers_that_are_special_tokens_come_out_all_the_same(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    write_reciting_model(folder, SCRIPT)
    tokenizer = json.loads((folder / "tokenizer.json").read_text())

    for added in tokenizer["added_tokens"]:
        added["special"] = True

    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    channel = serve(load(folder), request("hi", max_tokens=100))
    assert channel.text == b"".join(SCRIPT).decode(errors="replace")


def test_a_prompt_as_long_as_the_window_is_refused_and_one_token_less_is_served(engine: GenAiEngine) -> None:
    window = engine.facts.context_length
    assert window is not None
    unit = len(engine.encode(["!"]))
    assert unit == 1
    full, fits = serve(
        engine, request("! " * window, number=1), request("!?" * ((window - 1) // 2), number=2)
    ).terminals
    assert isinstance(full, Rejected)
    assert full.code is RejectCode.CONTEXT_LENGTH_EXCEEDED
    assert str(window) in full.message
    assert isinstance(fits, Finished)
    assert fits.completion_tokens >= 1


HOSTILE = [
    request("a\0b", number=1),
    request("a\ud800b", number=2),
    request("", number=3),
    request("\N{REPLACEMENT CHARACTER}\u202e\U0010ffff" * 20, number=4),
    request("x", number=5, sampling=Sampling(temperature=math.nan)),
    request("x", number=6, sampling=Sampling(temperature=1e300, top_p=1e-300, top_k=2**40)),
    request("x", number=7, sampling=Sampling(temperature=1e-300, top_p=1.0)),
    request("x", number=8, sampling=Sampling(repetition_penalty=1e300)),
    request("x", number=9, sampling=Sampling(repetition_penalty=5e-324)),
    request("x", number=10, sampling=Sampling(seed=-(2**63))),
    request("x", number=11, max_tokens=2**62),
    request("x " * 200_000, number=12),
    request(" " * 300_000, number=13),
]


def test_nothing_that_a_request_holds_ends_the_worker(engine: GenAiEngine) -> None:
    before = answer(engine, "hello", 8)
    channel = serve(engine, *HOSTILE, has_loop_guard=True)
    assert [end.request_id for end in channel.terminals] == [asked.request_id for asked in HOSTILE]
    assert not [end for end in channel.terminals if isinstance(end, Failed) and end.is_fatal]
    assert answer(engine, "hello", 8) == before


def test_a_closed_sequence_raises_and_does_not_crash(engine: GenAiEngine) -> None:
    sequence = engine.start([1], options(GREEDY, 4))
    sequence.close()
    sequence.close()

    for use in (sequence.step, lambda: sequence.feed([1])):
        with pytest.raises(EngineFault, match="closed"):
            use()


def test_a_fault_of_the_engine_is_named_and_not_fatal(engine: GenAiEngine) -> None:
    sequence = engine.start([1], options(GREEDY, 4))

    with pytest.raises(EngineFault) as caught:
        sequence.feed([10**6])

    assert not caught.value.is_fatal
    assert "\n" not in str(caught.value)
    assert answer(engine, "hello", 2)


def test_memory_of_a_request_is_given_back(engine: GenAiEngine) -> None:
    me = psutil.Process()
    asked = [request("hello " * 20, number=n, max_tokens=60) for n in range(12)]
    serve(engine, *asked)
    gc.collect()
    before = me.memory_info().rss
    for _ in range(4):
        serve(engine, *asked)
    gc.collect()
    assert me.memory_info().rss - before < 8 * 1024 * 1024


def test_the_engines_own_decoder_serves_a_tokenizer_of_unknown_kind(engine: GenAiEngine, copy_model: Copy) -> None:
    folder = copy_model()
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["decoder"] = {"type": "Sequence", "decoders": [tokenizer["decoder"], {"type": "Fuse"}]}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    other = load(folder)
    text = "the cat €5 日本 😀 end"
    ids = other.encode([text])
    detokenizer = other.detokenizer(ids)
    assert "".join([*map(detokenizer.push, ids), detokenizer.flush()]) == text


def test_bytes_of_an_encoding_error_are_the_requests_fault(engine: GenAiEngine) -> None:
    with pytest.raises(RequestFault):
        engine.encode(["ok", "\udfff"])

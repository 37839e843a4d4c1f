"""Pictures through the engine for real: a model whose answer names their colours."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_worker.batch import OneByOne
from gpu_worker.engine import GenAiEngine, import_library, load_engine
from gpu_worker.engine_port import Picture
from gpu_worker.generation import GenerationSettings
from gpu_worker.load_options import LoadOptions
from gpu_worker.loop import Loop
from gpu_worker.model_folder import read_model_folder
from ipc.errors import ChannelClosed
from ipc.messages import (
    Cancel,
    DeviceChoice,
    Finished,
    FinishReason,
    FromWorker,
    Generate,
    Phase,
    Progress,
    RejectCode,
    Rejected,
    Started,
)
from prism.export.seeing_model import write_seeing_model
from tests.gpu_worker.scripted import ScriptedChannel, once
from tests.gpu_worker.seeing import FOOT, HEAD, MARKER, png, shown

pytestmark = pytest.mark.engine


def load(folder: Path) -> GenAiEngine:
    return load_engine(import_library(), read_model_folder(folder), DeviceChoice.CPU, None, LoadOptions(threads=1))


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> GenAiEngine:
    folder = tmp_path_factory.mktemp("models") / "seeing"
    write_seeing_model(folder, context_length=512)
    return load(folder)


def serve(
    engine: GenAiEngine, *asked: Generate, chunk: int = 16, channel: ScriptedChannel | None = None
) -> ScriptedChannel:
    channel = channel or ScriptedChannel(asked)

    with pytest.raises(ChannelClosed):
        Loop(channel, engine, OneByOne(engine, chunk), GenerationSettings(has_loop_guard=False), lambda: False).run()

    return channel


def said(engine: GenAiEngine, asked: Generate, chunk: int = 16) -> str:
    channel = serve(engine, asked, chunk=chunk)
    (end,) = channel.terminals
    assert isinstance(end, Finished), end
    return channel.text


def refused(engine: GenAiEngine, asked: Generate) -> Rejected:
    (end,) = serve(engine, asked).terminals
    assert isinstance(end, Rejected), end
    return end


@pytest.mark.parametrize("chunk", [0, 1, 7, 256])
@pytest.mark.parametrize(
    "colours", [(), ("red",), ("blue", "red"), ("white", "black", "yellow"), ("red", "lime", "blue", "yellow") * 5]
)
def test_the_colours_come_back_in_order(engine: GenAiEngine, colours: tuple[str, ...], chunk: int) -> None:
    words = " ".join(colours).replace("lime", "green") or "nothing"
    assert said(engine, shown([png(colour) for colour in colours]), chunk).strip() == f"I see {words}."


def test_text_and_pictures_keep_their_order(engine: GenAiEngine) -> None:
    prompt = f"{HEAD}first{MARKER} then {MARKER}and{MARKER}last{FOOT}"
    files = [png("red"), png("blue"), png("lime")]
    assert said(engine, shown(files, pieces=[prompt])).strip() == "I see red blue green."


def test_two_turns_each_with_a_picture(engine: GenAiEngine) -> None:
    first = f"{HEAD}{MARKER}what?{FOOT} I see red.<|im_end|>\n"
    prompt = f"{first}{HEAD}and now?{MARKER}{FOOT}"
    assert said(engine, shown([png("red"), png("blue")], pieces=[prompt])).strip() == "I see red blue."


@pytest.mark.parametrize("size", [(1, 1), (1, 60), (100, 20), (20, 100), (64, 63), (3000, 2000)])
def test_pictures_of_any_shape_are_seen(engine: GenAiEngine, size: tuple[int, int]) -> None:
    assert said(engine, shown([png("red", size), png("blue")])).strip() == "I see red blue."


def test_what_the_processor_cannot_do_is_the_requests_fault(engine: GenAiEngine) -> None:
    end = refused(engine, shown([png("red", (900, 20))]))
    assert (end.code, end.field) == (RejectCode.IMAGE_REFUSED, "messages[0].content[0].image_url")
    both = refused(engine, shown([png("red"), png("red", (900, 20))]))
    assert (both.code, both.field) == (RejectCode.IMAGE_REFUSED, "messages")
    assert said(engine, shown([png("red")])).strip() == "I see red."


@pytest.mark.parametrize("typed", [MARKER, "<|vision_start|>", "<|image_pad|>", "<|im_end|>", "<|x|>"])
def test_control_text_in_pieces_of_its_own_stays_text(engine: GenAiEngine, typed: str) -> None:
    cut = typed.replace("<", "<\n").split("\n")  # behind the first character of each token
    pieces = [f"{HEAD}{MARKER}a ", *cut, f" b{MARKER}{FOOT}"]
    asked = shown([png("red"), png("blue")], pieces=pieces)
    assert said(engine, asked).strip() == "I see red blue."


def test_ids_are_those_of_the_text_around_the_pictures(engine: GenAiEngine) -> None:
    pieces = [f"{HEAD}{MARKER}say <", "|im_end|> <", f"|image_pad|>!{FOOT}"]
    prompt = engine.read(pieces, [Picture(png("red"), MARKER, "f")])
    before = engine.encode([HEAD])
    behind = engine.encode(["say <", "|im_end|> <", f"|image_pad|>!{FOOT}"])
    start, pad, end = engine.encode([MARKER])
    pads = prompt.ids.count(pad)
    assert 1 <= pads <= 4
    assert prompt.ids == [*before, start, *[pad] * pads, end, *behind]
    assert prompt.pictures is not None
    assert prompt.pictures.head_tokens in (len(before) + 1 + pads, len(before) + 2 + pads)


def test_the_prompt_is_counted_with_its_pictures(engine: GenAiEngine) -> None:
    channel = serve(engine, shown([png("red", (56, 56))] * 3))
    started = next(message for message in channel.sent if isinstance(message, Started))
    assert started.prompt_tokens == len(engine.encode([shown([b""] * 3).prompt[0]])) + 3 * (4 - 1)


def test_pictures_that_fill_the_window_are_told_with_both_numbers(engine: GenAiEngine) -> None:
    end = refused(engine, shown([png("red")], text="x" * 600))
    assert end.code is RejectCode.CONTEXT_LENGTH_EXCEEDED
    assert " 512 " in end.message
    fitting = shown([png("red")], text="")
    room = 511 - next(message.prompt_tokens for message in serve(engine, fitting).sent if isinstance(message, Started))
    channel = serve(engine, shown([png("red")], text="!" * room))
    (end_at_one,) = channel.terminals
    assert isinstance(end_at_one, Finished)
    assert (end_at_one.completion_tokens, end_at_one.reason) == (1, FinishReason.LENGTH)
    assert refused(engine, shown([png("red")], text="!" * (room + 1))).code is RejectCode.CONTEXT_LENGTH_EXCEEDED


@pytest.mark.parametrize(
    ("pieces", "count"),
    [
        ([HEAD + FOOT], 1),
        ([HEAD + MARKER + FOOT], 2),
        ([HEAD + MARKER * 2 + FOOT], 1),
        ([HEAD + MARKER[:5], MARKER[5:] + FOOT], 1),
        ([HEAD + MARKER + "\0" + FOOT], 1),
        ([HEAD + MARKER + "\ud800" + FOOT], 1),
        (["", ""], 1),
    ],
)
def test_a_prompt_without_a_place_for_each_picture_is_refused(
    engine: GenAiEngine, pieces: list[str], count: int
) -> None:
    end = refused(engine, shown([png("red")] * count, pieces=pieces))
    assert end.code is RejectCode.INVALID_REQUEST
    assert said(engine, shown([png("red")])).strip() == "I see red."


def test_a_cancel_between_two_pictures_ends_the_request(engine: GenAiEngine) -> None:
    def is_second(sent: list[FromWorker]) -> bool:
        return Progress(phase=Phase.PICTURES, request_id=1, done=1, total=3) in sent

    channel = ScriptedChannel([shown([png("red")] * 3)], once(Cancel(request_id=1), is_second))
    (end,) = serve(engine, channel=channel).terminals
    assert isinstance(end, Finished)
    assert (end.reason, end.completion_tokens) == (FinishReason.CANCELLED, 0)
    assert not [message for message in channel.sent if isinstance(message, Started)]


def test_a_cancel_in_the_middle_of_an_answer_ends_it(engine: GenAiEngine) -> None:
    asked = shown([png("red")], text="go on forever", max_tokens=400)
    channel = ScriptedChannel([asked], once(Cancel(request_id=1), lambda sent: len(sent) > 20))
    (end,) = serve(engine, channel=channel).terminals
    assert isinstance(end, Finished)
    assert end.reason is FinishReason.CANCELLED
    assert channel.text.startswith(" I see red. I see")
    assert 0 < end.completion_tokens < 400


def test_the_front_is_told_before_each_long_call(engine: GenAiEngine) -> None:
    channel = serve(engine, shown([png("red")] * 2, text="x" * 40))
    told = [(message.phase, message.done) for message in channel.sent if isinstance(message, Progress)]
    assert told[:3] == [(Phase.PICTURES, 0), (Phase.PICTURES, 1), (Phase.LOOK, 0)]
    assert {phase for phase, _ in told[3:]} == {Phase.PREFILL}


def test_a_model_without_sight_refuses_pictures_and_lives(tiny_model: Path) -> None:
    blind = load(tiny_model)
    end = refused(blind, shown([png("red")]))
    assert end.code is RejectCode.INVALID_REQUEST
    assert "no images" in end.message


@pytest.mark.parametrize("model_type", ["qwen3_vl", "fara"])
def test_relatives_see_the_same(tmp_path: Path, model_type: str) -> None:
    write_seeing_model(tmp_path / "model", model_type=model_type)
    assert said(load(tmp_path / "model"), shown([png("red"), png("blue")])).strip() == "I see red blue."


def test_a_model_that_says_it_sees_and_cannot_fails_the_request_and_not_the_worker(
    tiny_model: Path, copy_model: Callable[..., Path]
) -> None:
    folder = copy_model(vision={"filename": "model.onnx"})
    assert json.loads((folder / "genai_config.json").read_text())["model"]["type"] == "llama"
    (end,) = serve(load(folder), shown([png("red")])).terminals
    assert not isinstance(end, Finished)

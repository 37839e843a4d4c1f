"""Constraints in the worker: kept by the real engine, refused with a reason, and the worker goes on."""

import json
from pathlib import Path

import pytest

from gpu_worker.batch import OneByOne
from gpu_worker.engine import GenAiEngine
from gpu_worker.errors import RequestFault
from gpu_worker.generation import GenerationSettings
from gpu_worker.guidance import begin_fault, guided_fault
from gpu_worker.loop import Loop
from ipc.errors import ChannelClosed
from ipc.messages import (
    Finished,
    FinishReason,
    Generate,
    Guidance,
    GuidanceKind,
    RejectCode,
    Rejected,
    Sampling,
    Started,
)
from tests.gpu_worker.scripted import ScriptedChannel, ScriptedEngine, request
from tests.gpu_worker.test_engine import load

DIGITS = Guidance(GuidanceKind.REGEX, "[0-9]{3}")
WORD = Guidance(GuidanceKind.LARK, 'start: "yes" | "no"')
BROKEN = Guidance(GuidanceKind.JSON_SCHEMA, '{"type": "string", "pattern": "("}')


def guided(number: int, guidance: Guidance, max_tokens: int = 30) -> Generate:
    sampling = Sampling(temperature=1.5, top_k=1000, top_p=1.0, seed=number)
    return Generate(
        request_id=number, prompt=("<|im_start|>x",), max_tokens=max_tokens, sampling=sampling, guidance=guidance
    )


@pytest.fixture(scope="module")
def engine(tiny_model: Path) -> GenAiEngine:
    return load(tiny_model)


def served(engine: GenAiEngine, *requests: Generate, chunk: int = 0) -> ScriptedChannel:
    channel = ScriptedChannel(requests)
    settings = GenerationSettings(has_loop_guard=True)

    with pytest.raises(ChannelClosed):
        Loop(channel, engine, OneByOne(engine, chunk), settings, lambda: False).run()

    return channel


@pytest.mark.engine
@pytest.mark.parametrize("chunk", [0, 1])
def test_the_answer_keeps_to_the_constraint_from_its_first_token(engine: GenAiEngine, chunk: int) -> None:
    for seed in range(1, 9):
        channel = served(engine, guided(seed, DIGITS), chunk=chunk)
        assert len(channel.text) == 3
        assert channel.text.isdecimal()
        (end,) = channel.terminals
        assert isinstance(end, Finished)
        assert end.reason is FinishReason.STOP


@pytest.mark.engine
def test_a_constraint_that_cannot_be_compiled_is_refused_and_the_next_request_is_served(engine: GenAiEngine) -> None:
    channel = served(engine, guided(1, BROKEN), guided(2, WORD), guided(3, BROKEN))
    first, second, third = channel.terminals

    assert isinstance(first, Rejected)
    assert first.code is RejectCode.GUIDANCE_REFUSED
    assert "unclosed group" in first.message
    assert "\n" not in first.message
    assert isinstance(second, Finished)
    assert channel.text in ("yes", "no")
    assert isinstance(third, Rejected)
    assert [message.request_id for message in channel.sent if isinstance(message, Started)] == [2]


@pytest.mark.engine
def test_every_character_of_a_text_without_choice_arrives(engine: GenAiEngine) -> None:
    """The engine's own way of writing forced text breaks characters that are spread over several tokens."""
    text = "日本語 – naïve 😀 ключ"
    grammar = f'%llguidance {{"no_forcing": true}}\nstart: {json.dumps(text)}'
    channel = served(engine, guided(1, Guidance(GuidanceKind.LARK, grammar), max_tokens=100))
    assert text.startswith(channel.text)
    assert len(channel.text) > 5


def test_a_constraint_that_is_too_much_on_the_way_is_the_requests_fault() -> None:
    fault = guided_fault(
        RuntimeError("Error committing tokens: Parser Error: Current row has 8007 items; max is 2000\n<state>\nx")
    )

    assert isinstance(fault, RequestFault)
    assert fault.code is RejectCode.GUIDANCE_REFUSED
    assert str(fault).endswith("Current row has 8007 items; max is 2000")
    engine = ScriptedEngine([65, fault])
    channel = ScriptedChannel([request()])

    with pytest.raises(ChannelClosed):
        Loop(channel, engine, OneByOne(engine, 0), GenerationSettings(has_loop_guard=False), lambda: False).run()

    (end,) = channel.terminals
    assert isinstance(end, Rejected)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (
            RuntimeError("Error creating grammar: at 1(8): failed to compile JSON schema: x\n   1 | start"),
            "guidance_refused",
        ),
        (RuntimeError("Error creating llg_tokenizer: no tokenizer.json"), "guidance_unsupported"),
        (AttributeError("no attribute 'set_guidance'"), "guidance_unsupported"),
    ],
)
def test_what_the_engine_says_is_told_apart(error: Exception, code: str) -> None:
    fault = begin_fault(error)
    assert isinstance(fault, RequestFault)
    assert fault.code == code
    assert "start" not in str(fault)

"""What the front does for a token, counted and not timed: tokens that are ready share a write, and each body is decoded once."""

import json
import sys
from collections import Counter
from types import FrameType

import msgspec
import pytest

from ipc.messages import Delta, Finished, FinishReason, Started
from prism.api.chat_request import check_chat_numbers, decode_chat_request
from prism.api.normalise import normalise_messages
from prism.chat.answer import AnswerPipeline
from prism.http.generation import Generation
from supervisor.request_stream import RequestStream

TOKENS = 300


async def never_again(_: RequestStream) -> None:
    raise AssertionError("no worker has died")


def stream_with_tokens(count: int) -> RequestStream:
    stream = RequestStream(never_again)
    stream.bind(1, lambda _: None)
    stream.take(Started(request_id=1, prompt_tokens=1, max_tokens=count))

    for number in range(1, count + 1):
        stream.take(Delta(request_id=1, text=f"{number} ", completion_tokens=number))

    return stream


def finished(count: int) -> Finished:
    return Finished(
        request_id=1,
        reason=FinishReason.STOP,
        prompt_tokens=1,
        completion_tokens=count,
        cached_tokens=0,
        ttft_sec=0.0,
        decode_tok_per_sec=0.0,
    )


async def test_tokens_that_are_ready_are_handed_on_together() -> None:
    stream = stream_with_tokens(TOKENS)
    stream.take(finished(TOKENS))
    generation = Generation(stream, AnswerPipeline(), "cpu", "messages")
    await generation.wait_started()
    writes = []

    while generation.outcome is None:
        writes.append(await generation.next_pieces())

    # For a client that reads slowly the rest goes out in writes of a bounded length.
    assert [len(pieces) for pieces in writes] == [256, TOKENS - 256]
    assert "".join(piece.text for pieces in writes for piece in pieces) == "".join(f"{n + 1} " for n in range(TOKENS))


async def test_a_token_that_comes_alone_does_not_wait_for_others() -> None:
    stream = stream_with_tokens(1)
    generation = Generation(stream, AnswerPipeline(), "cpu", "messages")
    await generation.wait_started()

    assert [piece.text for piece in await generation.next_pieces()] == ["1 "]
    assert generation.outcome is None


@pytest.mark.parametrize("messages", [1, 200])
def test_a_body_is_decoded_once(messages: int) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}] * messages, "stop": ["END"], "temperature": 1}
    encoded = json.dumps(body).encode()
    decodes: Counter[str] = Counter()

    def note(frame: FrameType, event: str, function: object) -> None:
        owner = getattr(function, "__self__", None)

        if event == "c_call" and isinstance(owner, msgspec.json.Decoder):
            decodes["msgspec"] += 1
        elif event == "call" and frame.f_code is json.JSONDecoder.raw_decode.__code__:
            decodes["json"] += 1

    sys.setprofile(note)

    try:
        request = decode_chat_request(encoded)
        check_chat_numbers(request, is_onnx=True)
        normalise_messages(request, keeps_images=False)
    finally:
        sys.setprofile(None)

    assert decodes == {"msgspec": 1}

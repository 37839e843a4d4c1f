"""Bodies as clients get them: which keys are there, which are null, which are left out."""

import json

import msgspec
import pytest

from prism.api.responses import (
    AnsweredFunction,
    AnsweredToolCall,
    AnswerMessage,
    ChatChoice,
    ChatChunk,
    ChatChunkChoice,
    ChatCompletion,
    ChatDelta,
    Completion,
    CompletionChoice,
    CompletionTokensDetails,
    DeltaFunction,
    DeltaToolCall,
    Embedding,
    EmbeddingList,
    EmbeddingsUsage,
    PromptTokensDetails,
    Telemetry,
    Usage,
)
from prism.api.server_responses import (
    Drained,
    Hardware,
    Health,
    ModelCard,
    ModelList,
    QueueStatus,
    Unloaded,
    WorkerStatus,
)


def written(body: msgspec.Struct) -> object:
    return json.loads(msgspec.json.encode(body))


def chunk(delta: ChatDelta, **fields: object) -> object:
    return written(ChatChunk(id="chatcmpl-1", created=1, model="m", choices=[ChatChunkChoice(delta=delta)], **fields))  # type: ignore[arg-type]


def test_a_plain_answer_has_neither_reasoning_nor_tool_calls() -> None:
    message = AnswerMessage(content="hi")
    body = ChatCompletion(
        id="chatcmpl-1", created=1, model="m", choices=[ChatChoice(message=message, finish_reason="stop")]
    )

    assert written(body) == {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
    }


def test_an_answer_with_calls_writes_null_content() -> None:
    call = AnsweredToolCall(id="call_1", function=AnsweredFunction("f", '{"a":1}'))

    assert written(AnswerMessage(content=None, reasoning_content="hm", tool_calls=[call])) == {
        "role": "assistant",
        "content": None,
        "reasoning_content": "hm",
        "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}],
    }


def test_usage_and_telemetry() -> None:
    usage = Usage(
        prompt_tokens=42,
        completion_tokens=88,
        total_tokens=130,
        prompt_tokens_details=PromptTokensDetails(cached_tokens=40),
        completion_tokens_details=CompletionTokensDetails(reasoning_tokens=5),
    )

    assert written(usage) == {
        "prompt_tokens": 42,
        "completion_tokens": 88,
        "total_tokens": 130,
        "prompt_tokens_details": {"cached_tokens": 40},
        "completion_tokens_details": {"reasoning_tokens": 5},
    }
    assert written(Telemetry(ttft_sec=0.45, decode_tok_per_sec=85.2, device="cuda")) == {
        "ttft_sec": 0.45,
        "decode_tok_per_sec": 85.2,
        "device": "cuda",
    }


def test_the_first_delta_has_role_and_empty_content_and_the_last_is_empty() -> None:
    first = chunk(ChatDelta(role="assistant", content=""))

    assert first == {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}],
    }
    assert written(ChatChunkChoice(delta=ChatDelta(), finish_reason="length")) == {
        "index": 0,
        "delta": {},
        "finish_reason": "length",
    }


@pytest.mark.parametrize(("fields", "expected"), [({}, "missing"), ({"usage": None}, None)])
def test_usage_of_a_chunk_is_null_or_missing(fields: dict[str, None], expected: object) -> None:
    body = chunk(ChatDelta(content="x"), **fields)

    assert isinstance(body, dict)
    assert body.get("usage", "missing") == expected


def test_deltas_of_a_call_carry_name_and_id_once() -> None:
    first = DeltaToolCall(index=0, id="call_1", type="function", function=DeltaFunction(name="f", arguments=""))
    later = DeltaToolCall(index=0, function=DeltaFunction(arguments='{"a'))

    assert written(first) == {
        "index": 0,
        "id": "call_1",
        "type": "function",
        "function": {"name": "f", "arguments": ""},
    }
    assert written(later) == {"index": 0, "function": {"arguments": '{"a'}}


def test_text_completion() -> None:
    body = Completion(
        id="cmpl-1", created=1, model="m", choices=[CompletionChoice(index=1, text="x", finish_reason=None)]
    )

    assert written(body) == {
        "id": "cmpl-1",
        "object": "text_completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 1, "text": "x", "finish_reason": None}],
    }


def test_embeddings() -> None:
    body = EmbeddingList(
        data=[Embedding(index=0, embedding=[0.5]), Embedding(index=1, embedding="AA==")],
        model="m",
        usage=EmbeddingsUsage(3, 3),
    )

    assert written(body) == {
        "object": "list",
        "data": [
            {"object": "embedding", "index": 0, "embedding": [0.5]},
            {"object": "embedding", "index": 1, "embedding": "AA=="},
        ],
        "model": "m",
        "usage": {"prompt_tokens": 3, "total_tokens": 3},
    }


def test_only_onnx_models_say_what_they_were_exported_for() -> None:
    onnx = ModelCard(id="a", created=1, owned_by="ONNX Runtime GenAI", size_mb=1.5, device="CPU", exported_for="CPU")
    ollama = ModelCard(id="b", created=1, owned_by="Ollama (llama.cpp)", size_mb=2.0, device="GPU")

    assert written(ModelList(data=[onnx, ollama])) == {
        "object": "list",
        "data": [
            {
                "id": "a",
                "object": "model",
                "created": 1,
                "owned_by": "ONNX Runtime GenAI",
                "size_mb": 1.5,
                "device": "CPU",
                "exported_for": "CPU",
            },
            {
                "id": "b",
                "object": "model",
                "created": 1,
                "owned_by": "Ollama (llama.cpp)",
                "size_mb": 2.0,
                "device": "GPU",
            },
        ],
    }


def test_health_writes_nulls_while_nothing_is_loaded() -> None:
    idle = Health(
        active_model=None,
        active_device=None,
        hardware=Hardware(available=False, error="no driver"),
        state="idle",
        version="0.1.0",
        uptime_sec=1.5,
        queue=QueueStatus(running=0, waiting=0, max=8),
        worker=None,
        fallback_reason=None,
    )

    assert written(idle) == {
        "status": "ok",
        "active_model": None,
        "active_device": None,
        "hardware": {"available": False, "error": "no driver"},
        "state": "idle",
        "version": "0.1.0",
        "uptime_sec": 1.5,
        "queue": {"running": 0, "waiting": 0, "max": 8},
        "worker": None,
        "fallback_reason": None,
    }
    assert written(WorkerStatus(pid=1, generation=2, restarts=1, parallel=4)) == {
        "pid": 1,
        "generation": 2,
        "restarts": 1,
        "parallel": 4,
    }


def test_unload_and_drain() -> None:
    assert written(Unloaded(unloaded=True, model="m")) == {"unloaded": True, "model": "m"}
    assert written(Unloaded(unloaded=True, model="m", vram_released_mb=512.5, vram_verified=True)) == {
        "unloaded": True,
        "model": "m",
        "vram_released_mb": 512.5,
        "vram_verified": True,
    }
    assert written(Drained(drained=False, model=None)) == {"drained": False, "model": None, "exit_in_ms": 250}

"""Whatever a model says and however its tokens cut it, the client gets it whole: streamed, not streamed, as chat and as text.

The model recites a made-up script, so what it says is known byte for byte. The whole server runs, with the real engine and tokenizer.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prism.export.reciting_model import write_reciting_model
from tests.contract.client import CHAT, COMPLETIONS, TOOL, Client
from tests.contract.conftest import TEMPLATE
from tests.served import serving

pytestmark = pytest.mark.engine

_ALPHABET = st.sampled_from(
    [*"aZ09 .,:;{}[]\"'\\/|*#`-\t\n\n\r  ", *"éß日本語한글𝔘", "👩‍👩‍👧", "🇩🇪", "😀", "e\u0301", "\u200b", "\ufffd"]
)
_TEXTS = st.lists(_ALPHABET, max_size=25).map("".join)
_BROKEN_ENDS = st.sampled_from([b"", b"", b"", b"\xf0\x9f\x98", b"\xe6\x97", b"\xff"])


@dataclass(frozen=True, slots=True)
class Script:
    """What a model says. call: the argument of a call that ends the answer; None without a call."""

    thinking: str | None
    content: str
    call: str | None
    broken_end: bytes

    @property
    def text(self) -> bytes:
        thinking = "" if self.thinking is None else f"<think>{self.thinking}</think>"
        arguments = json.dumps({"name": "weather", "arguments": {"city": self.call}}, ensure_ascii=False)
        call = "" if self.call is None else f"<tool_call>{arguments}</tool_call>"
        return f"{thinking}{self.content}{call}".encode() + self.broken_end

    @property
    def expected(self) -> dict[str, Any]:
        """The answer as docs/api.md describes it."""
        thinking = (self.thinking or "").strip("\r\n")
        content = self.content.encode() + self.broken_end
        visible = content.decode("utf-8", "replace")
        return {
            "reasoning_content": thinking if thinking.strip(" \t\r\n") else None,
            "content": visible if self.thinking is None else visible.lstrip("\r\n"),
        }


@st.composite
def scripts(draw: st.DrawFn) -> Script:
    call = draw(st.none() | _TEXTS)
    return Script(
        thinking=draw(st.none() | _TEXTS),
        content=draw(_TEXTS.map(lambda text: text + "." if text.strip() else text)),
        call=call,
        broken_end=b"" if call is not None else draw(_BROKEN_ENDS),
    )


@st.composite
def pieces(draw: st.DrawFn, text: bytes) -> list[bytes]:
    """Cut a text into tokens anywhere, inside characters too."""
    if not text:
        return []

    cuts = sorted(draw(st.sets(st.integers(1, len(text)), max_size=40)) | {len(text)})
    return [text[start:end] for start, end in zip([0, *cuts], cuts, strict=False)]


def streamed(client: Client, path: str, **fields: Any) -> dict[str, Any]:
    """Return what the events of a stream add up to."""
    choices = [event["choices"][0] for event in client.events(path, **fields)[:-1]]
    deltas = [choice.get("delta", choice) for choice in choices]
    calls = [call["function"] for delta in deltas for call in delta.get("tool_calls", ())]
    return {
        "content": "".join(delta.get("content") or delta.get("text") or "" for delta in deltas),
        "reasoning_content": "".join(delta.get("reasoning_content", "") for delta in deltas) or None,
        "calls": calls,
        "finish_reason": choices[-1]["finish_reason"],
    }


def whole(client: Client, path: str, **fields: Any) -> dict[str, Any]:
    """Return the same of an answer in one piece."""
    choice = client.answer(path, **fields)["choices"][0]
    message = choice.get("message", choice)
    return {
        "content": message.get("content") or message.get("text") or "",
        "reasoning_content": message.get("reasoning_content"),
        "calls": [call["function"] for call in message.get("tool_calls", ())],
        "finish_reason": choice["finish_reason"],
    }


def judge(client: Client, model: str, script: Script) -> None:
    text = script.text.decode("utf-8", "replace")
    as_text = whole(client, COMPLETIONS, model=model, temperature=0)
    assert as_text == streamed(client, COMPLETIONS, model=model, temperature=0)
    assert (as_text["content"], as_text["finish_reason"]) == (text, "stop")

    if text:
        stop = text[len(text) // 2 :][:3]
        cut = streamed(client, COMPLETIONS, model=model, temperature=0, stop=stop)
        assert cut["content"] == text[: text.index(stop)]

    tools = [TOOL] if script.call is not None else None
    chat = whole(client, CHAT, model=model, temperature=0, tools=tools)
    assert chat == streamed(client, CHAT, model=model, temperature=0, tools=tools)
    assert chat["reasoning_content"] == script.expected["reasoning_content"]

    if script.call is None:
        assert (chat["content"], chat["finish_reason"]) == (script.expected["content"], "stop")
    else:
        assert [json.loads(call["arguments"]) for call in chat["calls"]] == [{"city": script.call}]
        assert chat["content"].strip() == script.expected["content"].strip()
        assert chat["finish_reason"] == "tool_calls"


def test_what_a_model_says_arrives_whole(tmp_path: Path) -> None:
    models = tmp_path / "models"
    models.mkdir()

    with serving(tmp_path, program="tests.fuzz.serve_with_engine") as base_url:
        client = Client(base_url)

        @settings(max_examples=30, deadline=None)
        @given(data=st.data())
        def recite(data: st.DataObject) -> None:
            script = data.draw(scripts())
            model = f"script-{len(list(models.iterdir()))}"
            write_reciting_model(models / model, data.draw(pieces(script.text)), chat_template=TEMPLATE)
            judge(client, model, script)

        recite()

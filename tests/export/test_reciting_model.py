from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prism.export.reciting_model import write_reciting_model
from tests.export.engine_helpers import Engine

CHAT = "<|im_start|>user\n%s<|im_end|>\n<|im_start|>assistant\n"
END = 2
SCRIPTS = {
    "emoji in parts": [b"\xf0\x9f", b"\x98", b"\x80", b" ok"],
    "family": [bytes([byte]) for byte in "👩‍👩‍👧".encode()],
    "flags": ["🇩".encode(), "🇪🇫".encode(), "🇷".encode()],
    "cjk across pieces": [b"\xe6\x97", b"\xa5\xe6", b"\x9c\xac", "語".encode()],
    "code": [b"def f(x):", b"\n", b"    ", b"return", b" x", b"\n", b"\n", b"\n", b"\t"],
    "repeated newlines": [b"\n"] * 7,
    "white space at both ends": [b" ", b" ", b"  ", b"a", b"  ", b" ", b"\n"],
    "markers": [b"<think>", b"hm", b"</think>", b"<tool_call>", b"{}", b"</tool_call>", b"<think>"],
    "one piece": [b"x"],
    "nothing": [],
}


def recite(folder: Path, script: Sequence[bytes], prompt: str, *, slice_length: int = 10_000) -> bytes:
    """The answer's text; one token a piece and an end are checked on the way."""
    if not (folder / "model.onnx").exists():
        write_reciting_model(folder, script)

    engine = Engine(folder)
    answer = engine.answer_ids(engine.encode(prompt), most=len(script) + 5, slice_length=slice_length)

    assert len(answer) == len(script) + 1
    assert answer[-1] == END

    return engine.decode(answer[:-1]).encode() if script else b""


pytestmark = pytest.mark.engine


@pytest.mark.parametrize("name", list(SCRIPTS))
@pytest.mark.parametrize("slice_length", [1, 5, 10_000])
def test_the_answer_is_the_script_however_the_prompt_is_fed(tmp_path: Path, name: str, slice_length: int) -> None:
    assert recite(tmp_path, SCRIPTS[name], CHAT % "Hi", slice_length=slice_length) == b"".join(SCRIPTS[name])


@pytest.mark.parametrize("name", [name for name in SCRIPTS if SCRIPTS[name]])
def test_a_history_that_quotes_the_script_changes_nothing(tmp_path: Path, name: str) -> None:
    said = b"".join(SCRIPTS[name])
    history = CHAT % "Hi" + said.decode() + "<|im_end|>\n" + CHAT % said.decode()

    assert recite(tmp_path, SCRIPTS[name], history) == said


def test_a_prompt_without_a_header_is_answered_too(tmp_path: Path) -> None:
    assert recite(tmp_path, [b"yes", b"!"], "Once upon a time") == b"yes!"


def test_rewinding_into_the_answer_goes_on_from_there(tmp_path: Path) -> None:
    script = [b"a", b"b", b"a", b"b", b"c"]
    write_reciting_model(tmp_path, script)
    engine = Engine(tmp_path)
    prompt = engine.encode(CHAT % "Hi")
    generator = engine._generator(len(prompt) + 20)
    generator.append_tokens(prompt)

    for _ in range(4):
        generator.generate_next_token()

    said = [int(token) for token in generator.get_sequence(0)][len(prompt) :]
    generator.rewind_to(len(prompt) + 1)
    generator.append_tokens(said[1:2])
    generator.generate_next_token()

    assert engine.decode([int(generator.get_next_tokens()[0])]) == "a"


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12),
    data=st.data(),
)
def test_any_text_cut_anywhere_is_recited(
    tmp_path_factory: pytest.TempPathFactory, text: str, data: st.DataObject
) -> None:
    whole = text.encode()
    cuts = sorted(data.draw(st.sets(st.integers(1, len(whole)))) | {len(whole)})
    script = [whole[start:end] for start, end in zip([0, *cuts], cuts, strict=False)]

    assert recite(tmp_path_factory.mktemp("script"), script, CHAT % "Hi") == whole


@pytest.mark.parametrize("piece", [b"", b"<|im_end|>"])
def test_a_piece_that_cannot_be_said_is_refused(tmp_path: Path, piece: bytes) -> None:
    with pytest.raises(ValueError, match="cannot be a piece"):
        write_reciting_model(tmp_path, [b"a", piece])

"""The formats of models without a template."""

from collections.abc import Mapping, Sequence

import pytest

from prism.chat.builtin_templates import (
    BuiltinFamily,
    control_tokens_of,
    family_of_name,
    family_of_template,
    render_builtin,
)

Message = Mapping[str, object]

CHAT: Sequence[Message] = (
    {"role": "system", "content": "S"},
    {"role": "user", "content": "U1"},
    {"role": "assistant", "content": "A1"},
    {"role": "user", "content": "U2"},
)
EXPECTED = {
    BuiltinFamily.DEEPSEEK: "S<｜User｜>U1<｜Assistant｜>A1<｜end▁of▁sentence｜><｜User｜>U2<｜Assistant｜>",
    BuiltinFamily.LLAMA3: (
        "<|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nU1<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\nA1<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nU2<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n"
    ),
    BuiltinFamily.GEMMA: (
        "<start_of_turn>user\nS\n\nU1<end_of_turn>\n<start_of_turn>model\nA1<end_of_turn>\n"
        "<start_of_turn>user\nU2<end_of_turn>\n<start_of_turn>model\n"
    ),
    BuiltinFamily.MISTRAL_V02: "[INST] U1 [/INST]A1</s>[INST] S\n\nU2 [/INST]",
    BuiltinFamily.MISTRAL: "[INST] U1[/INST] A1</s>[INST] S\n\nU2[/INST] ",
    BuiltinFamily.PHI4_IM: (
        "<|im_start|>system<|im_sep|>S<|im_end|><|im_start|>user<|im_sep|>U1<|im_end|>"
        "<|im_start|>assistant<|im_sep|>A1<|im_end|><|im_start|>user<|im_sep|>U2<|im_end|><|im_start|>assistant<|im_sep|>"
    ),
    BuiltinFamily.CHATML: (
        "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU1<|im_end|>\n<|im_start|>assistant\nA1<|im_end|>\n"
        "<|im_start|>user\nU2<|im_end|>\n<|im_start|>assistant\n"
    ),
    BuiltinFamily.PHI4_MINI: "<|system|>S<|end|><|user|>U1<|end|><|assistant|>A1<|end|><|user|>U2<|end|><|assistant|>",
    BuiltinFamily.PHI3: (
        "<|system|>\nS<|end|>\n<|user|>\nU1<|end|>\n<|assistant|>\nA1<|end|>\n<|user|>\nU2<|end|>\n<|assistant|>\n"
    ),
}


@pytest.mark.parametrize(("family", "prompt"), EXPECTED.items())
def test_family_writes_its_format(family: BuiltinFamily, prompt: str) -> None:
    assert render_builtin(family, CHAT) == prompt


def test_every_family_is_covered() -> None:
    assert set(EXPECTED) == set(BuiltinFamily)


@pytest.mark.parametrize("family", BuiltinFamily)
def test_control_tokens_are_those_that_the_family_writes(family: BuiltinFamily) -> None:
    for token in control_tokens_of(family):
        assert token in render_builtin(family, CHAT)


@pytest.mark.parametrize("family", BuiltinFamily)
def test_no_system_turn_is_invented(family: BuiltinFamily) -> None:
    """B-47."""
    assert "system" not in render_builtin(family, [{"role": "user", "content": "U"}])


@pytest.mark.parametrize("family", BuiltinFamily)
def test_calls_and_results_are_told_in_words(family: BuiltinFamily) -> None:
    """D-20."""
    calls = [
        {"id": "c1", "function": {"name": "get_weather", "arguments": {"city": "Zürich"}}},
        {"id": "c2", "function": {"name": "g"}},
    ]
    messages: list[Message] = [
        {"role": "user", "content": "How is it?"},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c1", "content": "rain"},
        {"role": "tool", "tool_call_id": "c2", "content": "wind"},
    ]
    prompt = render_builtin(family, messages)

    assert '{"name": "get_weather", "arguments": {"city": "Zürich"}}' in prompt
    assert "Result of get_weather:\nrain\n\nResult of g:\nwind" in prompt
    assert "None" not in prompt


@pytest.mark.parametrize("family", BuiltinFamily)
def test_system_texts_are_joined_and_come_first(family: BuiltinFamily) -> None:
    messages: list[Message] = [
        {"role": "system", "content": "S1"},
        {"role": "user", "content": "U"},
        {"role": "developer", "content": "S2"},
        {"role": "system", "content": None},
    ]

    prompt = render_builtin(family, messages)
    assert prompt.index("S1\n\nS2") < prompt.index("U", prompt.index("S2"))


@pytest.mark.parametrize("family", BuiltinFamily)
def test_system_text_alone_is_not_lost(family: BuiltinFamily) -> None:
    assert "only this" in render_builtin(family, [{"role": "system", "content": "only this"}])


@pytest.mark.parametrize(
    ("source", "family"),
    [
        ("<｜User｜>", BuiltinFamily.DEEPSEEK),
        ("<|start_header_id|><|im_start|>", BuiltinFamily.LLAMA3),
        ("<start_of_turn>", BuiltinFamily.GEMMA),
        ("[INST] x [/INST]", BuiltinFamily.MISTRAL_V02),
        ("[INST] x[/INST]", BuiltinFamily.MISTRAL),
        ("[INST] <<SYS>> [/INST]", None),
        ("<|im_start|><|im_sep|>", BuiltinFamily.PHI4_IM),
        ("<|im_start|>", BuiltinFamily.CHATML),
        ("'<|' + message['role'] + '|>' <|end|>", BuiltinFamily.PHI4_MINI),
        ("<|user|>\n<|end|>", BuiltinFamily.PHI3),
        ("nothing known", None),
    ],
)
def test_family_of_a_template(source: str, family: BuiltinFamily | None) -> None:
    """B-48: Llama 2 is no Mistral."""
    assert family_of_template(source) is family


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("gemma-3-1b-it", BuiltinFamily.GEMMA),
        ("Mistral-7B-Instruct-v0.2", BuiltinFamily.MISTRAL_V02),
        ("Mixtral-8x7B-v0.1", BuiltinFamily.MISTRAL_V02),
        ("mistral-nemo", BuiltinFamily.MISTRAL),
        ("Phi-4-mini-instruct", BuiltinFamily.PHI4_MINI),
        ("phi-4", BuiltinFamily.PHI4_IM),
        ("Phi-3.5-mini-instruct", BuiltinFamily.PHI3),
        ("phi-2", BuiltinFamily.PHI3),
        ("deepseek-r1-distill-llama", BuiltinFamily.DEEPSEEK),
        ("Llama-3.2-1B", BuiltinFamily.LLAMA3),
        ("Qwen2.5-0.5B", BuiltinFamily.CHATML),
        ("dolphin-2", BuiltinFamily.CHATML),
        ("smollm2-135m", BuiltinFamily.CHATML),
    ],
)
def test_family_of_a_name(name: str, family: BuiltinFamily) -> None:
    assert family_of_name(name) is family

"""From messages to prompts, with templates in the manner of the families in use."""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from prism.chat.prompt import ChatTemplate, PromptRequest, TemplateMode
from prism.chat.template_errors import TemplateRenderFailed
from prism.chat.tool_family import ToolFamily
from tests.chat import template_samples as samples

Message = Mapping[str, object]
Made = Callable[..., ChatTemplate]

CHATML_TOKENS = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of a <city>, é",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
USER = {"role": "user", "content": "How is Paris?"}
CALL = {
    "id": "call_0123456789abcdef",
    "type": "function",
    "function": {"name": "get_weather", "arguments": {"city": "Paris"}},
}
TOOL_TURNS: Sequence[Message] = (
    USER,
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": CALL["id"], "content": "rain, 12 °C"},
)
TAKES_TOOLS = {
    "qwen3": (samples.QWEN3, ToolFamily.HERMES),
    "smollm3": (samples.SMOLLM3, ToolFamily.HERMES),
    "gpt-oss": (samples.GPT_OSS, ToolFamily.UNKNOWN),
    "granite": (samples.GRANITE, ToolFamily.PHI4_MINI),
    "phi-4-mini": (samples.PHI4_MINI, ToolFamily.PHI4_MINI),
    "mistral": (samples.MISTRAL, ToolFamily.MISTRAL),
    "llama-3.1": (samples.LLAMA31, ToolFamily.LLAMA3_JSON),
    "llama-4": (samples.LLAMA4, ToolFamily.LLAMA4_PYTHONIC),
    "qwen3-coder": (samples.QWEN3_CODER, ToolFamily.QWEN3_CODER_XML),
}
TAKES_NO_TOOLS = {
    "deepseek-r1": (samples.DEEPSEEK_R1, ToolFamily.DEEPSEEK),
    "deepseek-v3.1": (samples.DEEPSEEK_V31, ToolFamily.UNKNOWN),
    "gemma-2": (samples.GEMMA2, ToolFamily.UNKNOWN),
    "gemma-3": (samples.GEMMA3, ToolFamily.UNKNOWN),
    "command-r": (samples.COMMAND_R, ToolFamily.UNKNOWN),
}
ALL = {**TAKES_TOOLS, **TAKES_NO_TOOLS}


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """Makes a model folder with a template and tokens, and loads it."""

    def make(
        source: object,
        *,
        tokens: Sequence[str] = CHATML_TOKENS,
        name: str = "some-model",
        mode: TemplateMode = TemplateMode.AUTO,
    ) -> ChatTemplate:
        config = {"bos_token": "<s>", "eos_token": {"content": "</s>"}, "chat_template": source}
        added = [{"id": number, "content": token, "special": True} for number, token in enumerate(tokens)]
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
        (tmp_path / "tokenizer.json").write_text(json.dumps({"added_tokens": added}), encoding="utf-8")
        return ChatTemplate.load(tmp_path, name, mode)

    return make


def rendered(
    template: ChatTemplate,
    messages: Sequence[Message],
    *,
    tools: Sequence[Mapping[str, object]] | None = None,
    effort: str | None = None,
) -> str:
    return "".join(template.render(PromptRequest(messages=messages, tools=tools, reasoning_effort=effort)).pieces)


@pytest.mark.parametrize(("source", "family"), ALL.values(), ids=ALL)
def test_every_family_is_recognised(made: Made, source: str, family: ToolFamily) -> None:
    assert made(source).render(PromptRequest(messages=[USER])).family is family


@pytest.mark.parametrize(("source", "family"), ALL.values(), ids=ALL)
def test_every_family_writes_a_plain_question(made: Made, source: str, family: ToolFamily) -> None:
    del family
    prompt = rendered(made(source), [USER])

    assert prompt.count("How is Paris?") == 1
    assert "None" not in prompt


@pytest.mark.parametrize(("source", "family"), ALL.values(), ids=ALL)
def test_every_family_takes_a_system_text_a_second_one_and_two_questions_in_a_row(
    made: Made, source: str, family: ToolFamily
) -> None:
    del family
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "First part"},
        {"role": "user", "content": "Second part"},
        {"role": "assistant", "content": "I see."},
        {"role": "developer", "content": "Be kind."},
        {"role": "user", "content": "Third part"},
    ]
    prompt = rendered(made(source), messages)

    for text in ("First part", "Second part", "I see.", "Third part"):
        assert text in prompt

    # The sample of DeepSeek's V3.1 writes no system texts.
    assert "Be kind." in prompt or source == samples.DEEPSEEK_V31


@pytest.mark.parametrize(("source", "family"), TAKES_TOOLS.values(), ids=TAKES_TOOLS)
def test_template_that_takes_tools_names_them(made: Made, source: str, family: ToolFamily) -> None:
    del family
    template = made(source)

    assert template.supports_tools
    assert "get_weather" in rendered(template, [USER], tools=[WEATHER])
    assert "get_weather" not in rendered(template, [USER])


@pytest.mark.parametrize(("source", "family"), TAKES_NO_TOOLS.values(), ids=TAKES_NO_TOOLS)
def test_template_without_place_for_tools_refuses_them(made: Made, source: str, family: ToolFamily) -> None:
    del family
    template = made(source)

    assert not template.supports_tools

    with pytest.raises(TemplateRenderFailed, match="some-model"):
        rendered(template, [USER], tools=[WEATHER])


@pytest.mark.parametrize(("source", "family"), ALL.values(), ids=ALL)
def test_calls_and_results_of_earlier_turns_stand_in_the_prompt(made: Made, source: str, family: ToolFamily) -> None:
    """D-20, case 82, and D-10: the ids are those that this server gives out."""
    del family
    prompt = rendered(made(source), TOOL_TURNS)

    assert "None" not in prompt
    assert "rain, 12 °C" in prompt
    assert "get_weather" in prompt


def test_mistral_gets_ids_of_nine_characters_that_fit_each_other(made: Made) -> None:
    prompt = rendered(made(samples.MISTRAL), TOOL_TURNS, tools=[WEATHER])
    call_id = prompt.partition('"id": "')[2][:9]

    assert call_id.isalnum()
    assert f'"call_id": "{call_id}"' in prompt


def test_mistral_keeps_an_id_that_fits(made: Made) -> None:
    call = {**CALL, "id": "abcDEF123"}
    turns: list[Message] = [
        USER,
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "abcDEF123", "content": "ok"},
    ]

    assert rendered(made(samples.MISTRAL), turns).count("abcDEF123") == 2


def test_arguments_are_given_as_objects_and_as_text_where_the_template_wants_text(made: Made) -> None:
    assert '"arguments": {"city": "Paris"}' in rendered(made(samples.QWEN3), TOOL_TURNS)
    assert '```json\n{"city": "Paris"}\n```' in rendered(made(samples.DEEPSEEK_R1), TOOL_TURNS)


def test_two_calls_in_one_turn_become_two_turns_where_the_template_takes_one(made: Made) -> None:
    second = {"id": "call_2", "function": {"name": "get_time", "arguments": {"zone": "CET"}}}
    messages: list[Message] = [
        USER,
        {"role": "assistant", "content": "", "tool_calls": [CALL, second]},
        {"role": "tool", "tool_call_id": CALL["id"], "content": "rain"},
        {"role": "tool", "tool_call_id": "call_2", "content": "noon"},
    ]
    prompt = rendered(made(samples.LLAMA31), messages)

    places = [prompt.index(text) for text in ("get_weather", "rain", "get_time", "noon")]
    assert places == sorted(places)


def test_phi4_mini_gets_its_tools_in_the_system_message(made: Made) -> None:
    """D-02: the template reads message['tools']; the variable would vanish without a word."""
    messages = [{"role": "system", "content": "Be brief."}, USER]
    prompt = rendered(made(samples.PHI4_MINI), messages, tools=[WEATHER])

    tools = json.dumps([WEATHER["function"]], ensure_ascii=False)
    assert prompt == f"<|system|>Be brief.<|tool|>{tools}<|/tool|><|end|><|user|>How is Paris?<|end|><|assistant|>"


def test_phi4_mini_gets_a_system_message_only_for_tools(made: Made) -> None:
    """B-47: none is invented without need."""
    template = made(samples.PHI4_MINI)

    assert rendered(template, [USER]) == "<|user|>How is Paris?<|end|><|assistant|>"
    assert rendered(template, [USER], tools=[WEATHER]).startswith("<|system|>")


def test_template_that_forgets_an_offered_tool_is_an_error(made: Made) -> None:
    """D-02: it reads the variable, so it seems to take tools, and does not tell the model."""
    template = made("{% if tools %}{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}")

    with pytest.raises(TemplateRenderFailed, match="get_weather"):
        rendered(template, [USER], tools=[WEATHER])


def test_failure_with_tools_names_model_and_cause(made: Made) -> None:
    """B-52."""
    template = made("{{ tools | tojson }}{{ raise_exception('not today') }}")

    with pytest.raises(TemplateRenderFailed) as caught:
        rendered(template, [USER], tools=[WEATHER])

    assert (caught.value.model, caught.value.cause) == ("some-model", "not today")


def test_failure_without_tools_falls_back_with_a_warning(made: Made, caplog: pytest.LogCaptureFixture) -> None:
    """B-52."""
    template = made("<|im_start|>{{ raise_exception('not today') }}")

    with caplog.at_level(logging.WARNING):
        prompt = rendered(template, [USER])

    assert prompt == "<|im_start|>user\nHow is Paris?<|im_end|>\n<|im_start|>assistant\n"
    assert "not today" in caplog.text


def test_hostile_template_falls_back_in_time(made: Made) -> None:
    template = made("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}")

    assert "How is Paris?" in rendered(template, [USER])


@pytest.mark.parametrize(
    ("source", "effort", "tail", "opened"),
    [
        (samples.QWEN3, None, "<|im_start|>assistant\n", None),
        (samples.QWEN3, "high", "<|im_start|>assistant\n", None),
        (samples.QWEN3, "none", "<think>\n\n</think>\n\n", None),
        (samples.DEEPSEEK_R1, None, "<｜Assistant｜><think>\n", "<think>"),
        (samples.DEEPSEEK_R1, "none", "<｜Assistant｜><think>\n\n</think>\n\n", None),
        (samples.DEEPSEEK_V31, None, "<｜Assistant｜></think>", None),
        (samples.DEEPSEEK_V31, "low", "<｜Assistant｜><think>", "<think>"),
        (samples.DEEPSEEK_V31, "none", "<｜Assistant｜></think>", None),
        (samples.SMOLLM3, None, "<|im_start|>assistant\n", None),
        (samples.SMOLLM3, "none", "<think>\n\n</think>\n", None),
        (samples.GPT_OSS, None, "<|start|>assistant", None),
        (samples.GPT_OSS, "none", "<|start|>assistant<|channel|>final<|message|>", None),
        (samples.LLAMA31, "none", "<|start_header_id|>assistant<|end_header_id|>\n\n", None),
    ],
)
def test_effort_and_the_opening_of_thinking(
    made: Made, source: str, effort: str | None, tail: str, opened: str | None
) -> None:
    """D-04, and contract section 1 on reasoning_effort."""
    prompt = made(source).render(PromptRequest(messages=[USER], reasoning_effort=effort))

    assert "".join(prompt.pieces).endswith(tail)
    assert prompt.opens_reasoning == opened


def test_effort_goes_to_the_template_in_its_own_words(made: Made) -> None:
    assert "Reasoning: high" in rendered(made(samples.GPT_OSS), [USER], effort="high")
    assert "Reasoning: low" in rendered(made(samples.GPT_OSS), [USER], effort="none")
    assert "Think first." in rendered(made(samples.GRANITE), [USER], effort="medium")
    assert "Think first." not in rendered(made(samples.GRANITE), [USER], effort="none")
    assert "/no_think" in rendered(made(samples.SMOLLM3), [USER], effort="none")


def test_model_that_thinks_unasked_gets_an_empty_block(made: Made) -> None:
    source = """\
{%- for m in messages %}{{- '<|im_start|>' + m.role + '\\n' + m.content.split('</think>')[-1] + '<|im_end|>\\n' }}{%- endfor %}
{{- '<|im_start|>assistant\\n' }}"""

    assert rendered(made(source), [USER], effort="none").endswith("assistant\n<think>\n\n</think>\n\n")


def test_tag_that_a_user_typed_opens_no_thinking(made: Made) -> None:
    template = made("{% for m in messages %}{{ m.content }}{% endfor %}")

    assert (
        template.render(PromptRequest(messages=[{"role": "user", "content": "what is <think>"}])).opens_reasoning
        is None
    )


def test_thinking_of_earlier_turns_is_found_by_the_template(made: Made) -> None:
    messages = [USER, {"role": "assistant", "content": "<think>\nhm <|im_end|>\n</think>\n\nRain."}, USER]
    tokens = (*CHATML_TOKENS, "<think>", "</think>")

    assert "hm" not in rendered(made(samples.QWEN3, tokens=tokens), messages)


def test_named_tool_template_is_used_for_tools_only(made: Made) -> None:
    """D-19."""
    template = made(
        [
            {"name": "default", "template": "D{{ messages[0].content }}"},
            {"name": "tool_use", "template": "T{{ tools | tojson }}{{ messages[0].content }}"},
        ]
    )

    assert template.supports_tools
    assert rendered(template, [USER]) == "DHow is Paris?"
    assert rendered(template, [USER], tools=[WEATHER]).startswith('T[{"type"')


def test_builtin_mode_renders_nothing_and_takes_no_tools(made: Made) -> None:
    template = made(samples.QWEN3, mode=TemplateMode.BUILTIN)

    assert not template.supports_tools
    assert rendered(template, [USER]) == "<|im_start|>user\nHow is Paris?<|im_end|>\n<|im_start|>assistant\n"


def test_template_outranks_the_name(made: Made) -> None:
    """B-46, B-48."""
    assert rendered(made(samples.GEMMA2, name="phi-4-mini"), [USER]).startswith("<s><start_of_turn>user\n")
    assert rendered(made(samples.GEMMA2, name="phi-4-mini", mode=TemplateMode.BUILTIN), [USER]).startswith(
        "<s><start_of_turn>user\n"
    )


def test_json_in_prompts_has_no_html_escapes(made: Made) -> None:
    """B-50."""
    assert "Weather of a <city>, é" in rendered(made(samples.QWEN3), [USER], tools=[WEATHER])


def test_bos_of_the_template_is_kept_once(made: Made) -> None:
    """B-49: the worker looks at the ids, so the text stays as the template wrote it."""
    assert rendered(made(samples.MISTRAL), [USER]).count("<s>") == 1


def test_changed_template_is_read_again(made: Made) -> None:
    first = rendered(made("A{{ messages[0].content }}"), [USER])
    second = rendered(made("Bee{{ messages[0].content }}"), [USER])

    assert (first[0], second[0]) == ("A", "B")


def test_unchanged_folder_gives_the_same_template(made: Made, tmp_path: Path) -> None:
    assert made(samples.QWEN3) is ChatTemplate.load(tmp_path, "some-model", TemplateMode.AUTO)


def test_null_and_missing_content_are_empty_texts(made: Made) -> None:
    """Case 133."""
    messages: list[Message] = [{"role": "user", "content": None}, {"role": "assistant"}, USER]

    for source, _ in ALL.values():
        assert "None" not in rendered(made(source), messages)


def test_template_that_takes_parts_only_gets_parts(made: Made) -> None:
    source = (
        "{% for m in messages %}{{ m.role }}:"
        "{% for part in m.content %}{% if part.type == 'text' %}{{ part.text }}{% endif %}{% endfor %};{% endfor %}"
    )

    assert rendered(made(source), [{"role": "system", "content": "S"}, USER]) == "system:S;user:How is Paris?;"


def test_result_of_a_tool_reaches_a_template_that_knows_no_tools(made: Made) -> None:
    source = (
        "{% for m in messages %}{% if m.role == 'user' %}U{{ m.content }}"
        "{% elif m.role == 'assistant' %}A{{ m.content }}{% endif %}{% endfor %}"
    )

    assert "Tool result:\nrain, 12 °C" in rendered(made(source), TOOL_TURNS)

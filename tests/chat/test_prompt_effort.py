"""What each effort makes of the prompt, for each kind of template: switches, levels, budgets, harmony, thinkers without any of them."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from prism.chat.prompt import ChatTemplate, Prompt, PromptRequest, TemplateMode
from tests.chat import template_samples as samples

Answered = Callable[..., Prompt]

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
USER = {"role": "user", "content": "How is Paris?"}
TURNS = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}"
    "{{ '<|im_start|>assistant\\n' }}"
)
HEAD = "<|im_start|>user\nHow is Paris?<|im_end|>\n<|im_start|>assistant\n"
EMPTY = "<think>\n\n</think>\n\n"
THINKS = "{% if false %}<think></think>{% endif %}"
LEVELS = "{% if reasoning_effort is defined %}Effort {{ reasoning_effort }}.{% endif %}"
# Refuses what it does not know, as Mistral Small 4's does.
TWO_LEVELS = (
    "{% set reasoning_effort = reasoning_effort if reasoning_effort is defined else 'none' %}"
    "{% if reasoning_effort not in ['none', 'high'] %}{{ raise_exception('reasoning_effort must be none or high') }}{% endif %}"
    "[{{ reasoning_effort }}]"
)
BUDGET = (
    "{% if thinking_budget is defined %}Budget {{ thinking_budget }}.{% endif %}"
    "{% if false %}<seed:think></seed:think>{% endif %}"
)
MAGISTRAL = "{{ '[SYSTEM_PROMPT]Think between [THINK] and [/THINK].[/SYSTEM_PROMPT]' }}" + TURNS
GEMMA_4 = (
    "{% if enable_thinking is defined and enable_thinking %}<|turn>system\n<|think|>\n<turn|>\n{% endif %}"
    "{% for m in messages %}<|turn>{{ m.role }}\n{{ m.content }}<turn|>\n{% endfor %}<|turn>model\n"
    "{% if not (enable_thinking is defined and enable_thinking) %}<|channel>thought\n<channel|>{% endif %}"
)


@pytest.fixture
def answered(tmp_path: Path) -> Answered:
    """Renders one question with a template."""

    def answer(
        source: str | None,
        effort: str | None,
        *,
        tokens: Sequence[str] = ("<|im_start|>", "<|im_end|>"),
        name: str = "some-model",
        mode: TemplateMode = TemplateMode.AUTO,
        tools: Sequence[dict[str, object]] = (),
    ) -> Prompt:
        config = {} if source is None else {"chat_template": source}
        added = [{"id": number, "content": token, "special": True} for number, token in enumerate(tokens)]
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
        (tmp_path / "tokenizer.json").write_text(json.dumps({"added_tokens": added}), encoding="utf-8")
        template = ChatTemplate.load(tmp_path, name, mode)
        return template.render(PromptRequest(messages=[USER], tools=tools, reasoning_effort=effort))

    return answer


def text_of(prompt: Prompt) -> str:
    return "".join(prompt.pieces)


@pytest.mark.parametrize("effort", EFFORTS)
@pytest.mark.parametrize("switch", ["enable_thinking", "thinking", "reasoning"])
def test_a_switch_is_off_for_none_and_on_for_every_level(answered: Answered, switch: str, effort: str) -> None:
    source = TURNS + f"{{% if {switch} is defined %}}{{{{ {switch} }}}}{{% endif %}}" + THINKS

    assert text_of(answered(source, effort)) == f"{HEAD}{effort != 'none'}"
    assert text_of(answered(source, None)) == HEAD


@pytest.mark.parametrize(
    ("effort", "tokens"),
    [("none", 0), ("minimal", 1024), ("low", 1024), ("medium", 4096), ("high", 16384), ("xhigh", 16384)],
)
def test_a_budget_of_tokens_grows_with_the_effort(answered: Answered, effort: str, tokens: int) -> None:
    assert text_of(answered(BUDGET + TURNS, effort)) == f"Budget {tokens}.{HEAD}"


@pytest.mark.parametrize("effort", [None, "max"])
def test_there_is_no_budget_without_a_word_and_for_max(answered: Answered, effort: str | None) -> None:
    assert text_of(answered(BUDGET + TURNS, effort)) == HEAD


@pytest.mark.parametrize(
    ("effort", "level"),
    list(zip(EFFORTS, ("low", "low", "low", "medium", "high", "high", "high"), strict=True)),
)
def test_harmony_gets_one_of_its_three_levels(answered: Answered, effort: str, level: str) -> None:
    prompt = text_of(answered(samples.GPT_OSS, effort))

    assert f"Reasoning: {level}<|end|>" in prompt
    assert prompt.endswith("<|start|>assistant<|channel|>final<|message|>") == (effort == "none")


@pytest.mark.parametrize("effort", EFFORTS)
def test_a_template_that_refuses_other_levels_is_never_given_one(answered: Answered, effort: str) -> None:
    level = "none" if effort == "none" else "high"
    tool = {"type": "function", "function": {"name": "clock", "parameters": {"type": "object"}}}

    assert text_of(answered(TWO_LEVELS + TURNS, effort)) == f"[{level}]{HEAD}"
    assert f"[{level}]" in text_of(answered(TWO_LEVELS + "{{ tools | tojson }}" + TURNS, effort, tools=[tool]))


@pytest.mark.parametrize(
    ("source", "tail"),
    [
        (TURNS + THINKS, EMPTY),
        (LEVELS + TURNS + THINKS, EMPTY),  # less thinking is not none
        (TURNS + "<think>{{ '\\n' }}", "<think>\n\n</think>\n\n"),
        (TURNS + "<think>", "<think>\n\n</think>\n\n"),
        (LEVELS + TURNS + "{{ '<think>\\n' }}", "<think>\n\n</think>\n\n"),
        (MAGISTRAL, "[THINK]\n\n[/THINK]\n\n"),
        (TURNS + "{% if false %}<|START_THINKING|><|END_THINKING|>{% endif %}", "<|START_THINKING|>\n\n<|END_THINKING|>\n\n"),
        (TURNS + "{% if false %}<seed:think></seed:think>{% endif %}", "<seed:think>\n\n</seed:think>\n\n"),
        (GEMMA_4, "<|turn>model\n<|channel>thought\n<channel|>"),
        (TURNS, HEAD),  # does not think
        (TURNS + "{# </think> #}", HEAD),
    ],
)  # fmt: skip
def test_none_leaves_no_thinking_to_begin(answered: Answered, source: str, tail: str) -> None:
    prompt = answered(source, "none")

    assert text_of(prompt).endswith(tail)
    assert prompt.opened_pair is None


@pytest.mark.parametrize("effort", EFFORTS[1:])
@pytest.mark.parametrize("source", [TURNS, TURNS + THINKS, TURNS + "{{ '<think>\\n' }}"])
def test_a_model_without_control_ignores_every_level(answered: Answered, source: str, effort: str) -> None:
    assert answered(source, effort) == answered(source, None)


def test_tags_that_are_special_tokens_speak_for_a_model_that_thinks(answered: Answered) -> None:
    assert text_of(answered(TURNS, "none", tokens=("<think>", "</think>"))) == HEAD + EMPTY
    assert text_of(answered(TURNS, "none", tokens=("[THINK]", "[/THINK]"))).endswith("[THINK]\n\n[/THINK]\n\n")


@pytest.mark.parametrize(
    ("name", "tail"),
    [
        ("Phi-4-mini-reasoning-generic-cpu", EMPTY),
        ("deepseek-r1-distill-qwen-1.5b", EMPTY),
        ("QwQ_32B", EMPTY),
        ("qwen3-4b-non-thinking", HEAD),
        ("phi-4-mini-instruct", HEAD),
        ("r18", HEAD),
    ],
)
def test_a_name_speaks_where_the_template_is_silent(answered: Answered, name: str, tail: str) -> None:
    assert text_of(answered(TURNS, "none", name=name)).endswith(tail)


def test_built_in_formats_end_the_thinking_too(answered: Answered) -> None:
    assert text_of(answered(samples.QWEN3, "none", mode=TemplateMode.BUILTIN)) == HEAD + EMPTY
    assert text_of(answered(None, "none", name="deepseek-r1")) == f"<｜User｜>How is Paris?<｜Assistant｜>{EMPTY}"
    assert text_of(answered(None, "low", name="deepseek-r1")) == "<｜User｜>How is Paris?<｜Assistant｜>"
    assert text_of(answered(None, "none", name="plain")) == HEAD


def test_gemma_4_thinks_when_it_is_asked_to(answered: Answered) -> None:
    prompt = text_of(answered(GEMMA_4, "low"))

    assert prompt.startswith("<|turn>system\n<|think|>\n")
    assert prompt.endswith("<|turn>model\n")

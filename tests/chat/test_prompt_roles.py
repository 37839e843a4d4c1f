"""How roles, names and thinking of a conversation reach templates that ask for them in their own ways."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from prism.chat.prompt import ChatTemplate, PromptRequest, TemplateMode
from prism.chat.template import CompiledTemplate
from tests.chat import template_samples as samples

Message = Mapping[str, object]
Rendered = Callable[[str, Sequence[Message]], str]

USER = {"role": "user", "content": "How is Paris?"}
DEVELOPER = {"role": "developer", "content": "Be brief."}
CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": {"city": "Paris"}}}
PLAIN = "{% for m in messages %}[{{ m.role }}:{{ m.content }}]{% endfor %}"


@pytest.fixture
def rendered(tmp_path: Path) -> Rendered:
    """Renders messages with a template."""

    def render(source: str, messages: Sequence[Message]) -> str:
        (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": source}), encoding="utf-8")
        template = ChatTemplate.load(tmp_path, "some-model", TemplateMode.AUTO)
        return "".join(template.render(PromptRequest(messages=messages)).pieces)

    return render


@pytest.mark.parametrize(
    ("source", "role"),
    [
        (PLAIN, "system"),
        ("{# developer #}" + PLAIN, "system"),
        ("developer " + PLAIN, "system"),
        ("{% if messages[0].role == 'developer' %}{% endif %}" + PLAIN, "developer"),
        ("{% if messages[0].role in ['system', 'developer'] %}{% endif %}" + PLAIN, "developer"),
        ("{% if messages[0].role in ('system', 'developer') %}{% endif %}" + PLAIN, "developer"),
        ("{% set names = {'developer': 'developer'} %}" + PLAIN, "developer"),
    ],
)
def test_developer_stays_where_the_template_knows_it_and_is_system_elsewhere(
    rendered: Rendered, source: str, role: str
) -> None:
    assert f"[{role}:Be brief.][user:How is Paris?]" in rendered(source, [DEVELOPER, USER])


def test_texts_of_a_template_are_known_inside_lists_too() -> None:
    """Jinja folds a list of constants into one when it looks for the template's variables."""
    source = "{% if effort not in ['a', 'b'] or role in ('c', 'd') %}{{ {'e': ['f']}['e'] }}{% endif %}"

    assert CompiledTemplate(source).facts.literals == frozenset("abcdef")


def test_a_developer_beside_a_system_is_kept_in_order(rendered: Rendered) -> None:
    messages = [{"role": "system", "content": "One."}, DEVELOPER, USER]

    assert rendered(PLAIN, messages) == "[system:One.][system:Be brief.][user:How is Paris?]"


def test_a_template_that_refuses_a_second_system_gets_one_with_both_texts(rendered: Rendered) -> None:
    source = "{% for m in messages %}{% if m.role == 'system' and not loop.first %}{{ raise_exception('no') }}{% endif %}{% endfor %}"
    prompt = rendered(source + PLAIN, [{"role": "system", "content": "One."}, USER, DEVELOPER])

    assert prompt == "[system:One.\n\nBe brief.][user:How is Paris?]"


def test_gpt_oss_gets_the_thinking_before_a_call(rendered: Rendered) -> None:
    """Its template calls it `thinking`, and refuses a text beside it."""
    source = (
        "{% for m in messages %}{% if m.tool_calls and m.content and m.thinking %}{{ raise_exception('both') }}{% endif %}"
        "{% if m.thinking %}<{{ m.thinking }}>{% endif %}[{{ m.content or '' }}]{% endfor %}"
    )
    thinking = {"role": "assistant", "content": "", "reasoning_content": "Hm.", "tool_calls": [CALL]}

    assert rendered(source, [USER, thinking]).endswith("<Hm.>[]")
    assert rendered(source, [USER, thinking | {"content": "I look."}]).endswith("][I look.]")
    assert rendered(source, [USER, {"role": "assistant", "content": "Rain.", "reasoning_content": "Hm."}]).endswith(
        "<Hm.>[Rain.]"
    )


def test_thinking_of_earlier_turns_is_shown_by_templates_that_want_it_only(rendered: Rendered) -> None:
    messages = [USER, {"role": "assistant", "content": "Rain.", "reasoning_content": "Hm."}, USER]
    shows = "{% for m in messages %}{{ '<think>' + m.reasoning_content + '</think>' if m.reasoning_content }}{{ m.content }}{% endfor %}"

    assert "<think>Hm.</think>Rain." in rendered(shows, messages)
    assert "Hm." not in rendered(PLAIN, messages)
    assert "Hm." not in rendered(samples.QWEN3, messages)

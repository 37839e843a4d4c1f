"""What the two fields about thinking make of the prompt, over HTTP: their precedence and their levels."""

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from supervisor.settings import ModelRef
from tests.whole.conftest import Start

MakeModel = Callable[..., ModelRef]

TEMPLATE = (
    "effort={{ reasoning_effort if reasoning_effort is defined else 'unsaid' }} "
    "on={{ enable_thinking if enable_thinking is defined else 'unsaid' }} "
    "{% if reasoning_effort == 'none' or reasoning_effort == 'xhigh' or reasoning_effort == 'max' %}{% endif %}"
    "{% if reasoning_effort in ['low', 'medium', 'high'] %}{% endif %}"
    "{% for m in messages %}{{ m.content }}{% endfor %}"
)


@pytest.mark.parametrize(
    ("fields", "effort", "is_on"),
    [
        ({}, "unsaid", "unsaid"),
        ({"reasoning_effort": None, "reasoning": None}, "unsaid", "unsaid"),
        ({"reasoning": {}}, "unsaid", "unsaid"),
        ({"reasoning": {"enabled": None, "effort": None}}, "unsaid", "unsaid"),
        ({"reasoning_effort": "none"}, "none", "False"),
        ({"reasoning_effort": "minimal"}, "low", "True"),
        ({"reasoning_effort": "low"}, "low", "True"),
        ({"reasoning_effort": "medium"}, "medium", "True"),
        ({"reasoning_effort": "high"}, "high", "True"),
        ({"reasoning_effort": "xhigh"}, "xhigh", "True"),
        ({"reasoning_effort": "max"}, "max", "True"),
        ({"reasoning": {"effort": "none"}}, "none", "False"),
        ({"reasoning": {"effort": "minimal"}}, "low", "True"),
        ({"reasoning": {"effort": "max"}}, "max", "True"),
        ({"reasoning": {"enabled": True}}, "medium", "True"),
        ({"reasoning": {"enabled": True, "effort": "low"}}, "low", "True"),
        ({"reasoning": {"enabled": False}}, "none", "False"),
        ({"reasoning": {"enabled": False, "effort": "high"}}, "none", "False"),
        ({"reasoning_effort": "low", "reasoning": {"effort": "high"}}, "low", "True"),
        ({"reasoning_effort": "none", "reasoning": {"enabled": True, "effort": "high"}}, "none", "False"),
        ({"reasoning_effort": "high", "reasoning": {"effort": "none"}}, "high", "True"),
        ({"reasoning_effort": "max", "reasoning": {"enabled": False, "effort": "max"}}, "none", "False"),
    ],
)
async def test_reasoning_effort_wins_unless_thinking_is_switched_off(
    start_server: Start, make_model: MakeModel, fields: dict[str, Any], effort: str, is_on: str
) -> None:
    model = make_model(echo=True)
    (model.path / "chat_template.jinja").write_text(TEMPLATE)
    server = await start_server()
    answer = await server.chat(**fields)
    prompt = json.loads(base64.b64decode(answer["choices"][0]["message"]["content"]))["prompt"]

    assert prompt.startswith(f"effort={effort} on={is_on} ")

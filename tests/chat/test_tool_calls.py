"""Tool calls found in finished answers: every convention, and what stays text."""

import json

import pytest

from prism.chat.tool_call_values import OfferedTools, ToolCall
from prism.chat.tool_calls import ParsedAnswer, parse_tool_calls
from prism.chat.tool_family import ToolFamily

F = ToolFamily
WEATHER = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}
TOOLS: OfferedTools = {"get_weather": WEATHER, "add": None}
PARIS = ("get_weather", {"city": "Paris"})
ADD = ("add", {"a": 1})
NO_ARGUMENTS: dict[str, object] = {}


def parse(text: str, family: ToolFamily = F.UNKNOWN, tools: OfferedTools = TOOLS) -> ParsedAnswer:
    return parse_tool_calls(text, tools, family)


def plain(calls: tuple[ToolCall, ...]) -> list[tuple[str, object]]:
    return [(call.name, json.loads(call.arguments)) for call in calls]


CALLS = [
    (F.HERMES, '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>', [PARIS]),
    (F.HERMES, '<tool_call>{"name":"add","parameters":{"a":1}}</tool_call>', [ADD]),
    (F.HERMES, '<tool_call>{"name":"add","arguments":"{\\"a\\": 1}"}</tool_call>', [ADD]),
    (F.HERMES, '<tool_call>{"function":{"name":"add","arguments":{"a":1}}}</tool_call>', [ADD]),
    (F.HERMES, '<tool_call>{"name":"add"}</tool_call>', [("add", NO_ARGUMENTS)]),
    (F.HERMES, '<tool_call>{"name":"add","arguments":null}</tool_call>', [("add", NO_ARGUMENTS)]),
    (F.HERMES, '<tool_call>{"name":"add","arguments":" "}</tool_call>', [("add", NO_ARGUMENTS)]),
    (F.HERMES, '<tool_call>{"name":"add","arguments":{"a":1}}}</tool_call>', [ADD]),
    (
        F.HERMES,
        '<tool_call>{"name":"add","arguments":{"a":1}}</tool_call>\n<tool_call>'
        '{"name":"get_weather","arguments":{"city":"Paris"}}</tool_call>',
        [ADD, PARIS],
    ),
    (F.HERMES, '<tool_call>[{"name":"add","arguments":{"a":1}}]</tool_call>', [ADD]),
    (F.HERMES, "<tool_call><function=add><parameter=a>1</parameter></function></tool_call>", [("add", {"a": "1"})]),
    (F.PHI4_MINI, '<|tool_call|>[{"name":"add","arguments":{"a":1}}]<|/tool_call|>', [ADD]),
    (F.PHI4_MINI, '<|tool_call|>[{"name":"add","arguments":{"a":1}},{"name":"add"}]', [ADD, ("add", NO_ARGUMENTS)]),
    (F.PHI4_MINI, '<|tool_call|>{"name":"add","parameters":{"a":1}}<|/tool_call|>', [ADD]),
    (F.PHI4_MINI, 'functools[{"name":"add","arguments":{"a":1}}]', [ADD]),
    (F.MISTRAL, '[TOOL_CALLS][{"name":"add","arguments":{"a":1}}]', [ADD]),
    (F.MISTRAL, '[TOOL_CALLS] [{"name":"add","arguments":{"a":1},"id":"abc123def"}]', [ADD]),
    (F.MISTRAL, '[TOOL_CALLS]add[ARGS]{"a":1}[TOOL_CALLS]get_weather[ARGS]{"city":"Paris"}', [ADD, PARIS]),
    (F.MISTRAL, '[TOOL_CALLS]add[CALL_ID]abc123def[ARGS]{"a":1}', [ADD]),
    (F.MISTRAL, '[TOOL_CALLS]add{"a":1}', [ADD]),
    (F.LLAMA3_JSON, '<|python_tag|>{"name":"add","parameters":{"a":1}}', [ADD]),
    (
        F.LLAMA3_JSON,
        '<|python_tag|>{"name":"add","parameters":{"a":1}}; {"name":"add","parameters":{}}',
        [ADD, ("add", {})],
    ),
    (F.LLAMA3_JSON, '<|python_tag|>get_weather.call(city="Paris")', [PARIS]),
    (F.LLAMA3_JSON, '{"name": "get_weather", "parameters": {"city": "Paris"}}', [PARIS]),
    (
        F.LLAMA3_JSON,
        '{"type":"function","name":"add","parameters":{"a":1}};\n{"name":"add","parameters":{"a":1}}',
        [ADD, ADD],
    ),
    (F.LLAMA3_JSON, '<function=get_weather>{"city": "Paris"}</function>', [PARIS]),
    (F.LLAMA3_JSON, '<function=get_weather>{"city": "Paris"}', [PARIS]),
    (F.LLAMA3_JSON, '[get_weather(city="Paris"), add(a=1)]', [PARIS, ADD]),
    (F.LLAMA4_PYTHONIC, '[get_weather(city="Paris")]', [PARIS]),
    (F.LLAMA4_PYTHONIC, " [ get_weather( city = 'Paris' , ) , add ( a = 1 ) ] ".replace("add (", "add("), [PARIS, ADD]),
    (F.LLAMA4_PYTHONIC, "<|python_start|>[add(a=1)]<|python_end|>", [ADD]),
    (F.LLAMA4_PYTHONIC, "[add()]", [("add", NO_ARGUMENTS)]),
    (
        F.QWEN3_CODER_XML,
        "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n<parameter=days>\n3\n</parameter>\n"
        "</function>\n</tool_call>",
        [("get_weather", {"city": "Paris", "days": 3})],
    ),
    (F.QWEN3_CODER_XML, "<function=add></function>", [("add", NO_ARGUMENTS)]),
    (
        F.QWEN3_CODER_XML,
        "<tool_call><function=add><parameter=a>1</parameter></function><function=add></function></tool_call>",
        [("add", {"a": "1"}), ("add", NO_ARGUMENTS)],
    ),
    (F.QWEN3_CODER_XML, "<tool_call><function=add><parameter=a>1</parameter></tool_call>", [("add", {"a": "1"})]),
    (F.QWEN3_CODER_XML, '<tool_call>{"name":"add","arguments":{"a":1}}</tool_call>', [ADD]),
    (
        F.DEEPSEEK,
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n"
        '{"city": "Paris"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>add\n```json\n{"a":1}\n```'
        "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        [PARIS, ADD],
    ),
    (
        F.DEEPSEEK,
        '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"city": "Paris"}<｜tool▁call▁end｜>'
        '<｜tool▁call▁begin｜>add<｜tool▁sep｜>{"a":1}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
        [PARIS, ADD],
    ),
    (F.DEEPSEEK, '<｜tool▁call▁begin｜>add<｜tool▁sep｜>{"a":1}<｜tool▁call▁end｜>', [ADD]),
    (F.DEEPSEEK, '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>add<｜tool▁sep｜>{"a":1}', [ADD]),
    (
        F.UNKNOWN,
        '<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "add", "parameters": {"a":1}}\n]<|END_ACTION|>',
        [ADD],
    ),
    (
        F.QWEN3_CODER_XML,
        "<seed:tool_call>\n<function=add>\n<parameter=a>1</parameter>\n</function>\n</seed:tool_call>",
        [("add", {"a": "1"})],
    ),
    (
        F.UNKNOWN,
        '<|start|>assistant<|channel|>commentary to=functions.add <|constrain|>json<|message|>{"a":1}<|call|>',
        [ADD],
    ),
    (F.UNKNOWN, '<|channel|>commentary to=functions.add<|message|>{"a":1}', [ADD]),
]


@pytest.mark.parametrize(("family", "text", "calls"), CALLS)
def test_call_is_read_and_leaves_no_text(family: ToolFamily, text: str, calls: list[tuple[str, object]]) -> None:
    answer = parse(text, family)
    assert (plain(answer.calls), answer.content) == (calls, "")
    assert not answer.is_cut


def test_unknown_family_reads_every_convention() -> None:
    for _, text, calls in CALLS:
        answer = parse(text)
        assert (plain(answer.calls), answer.content) == (calls, ""), text


def test_call_is_text_when_its_tool_was_not_offered() -> None:
    """D-03."""
    for family, text, _ in CALLS:
        assert parse(text, family, {"other": None}) == ParsedAnswer(text, (), is_cut=False)


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "Alice", "age": 30}',
        '{"name": "add"}',
        '{"name": "add", "age": 30}',
        '[{"name": "Alice", "arguments": {}}]',
        "[1, 2, 3]",
        "[]",
        "{}",
        "",
        "  \n",
        '{"name": "add", "arguments": {"a": 1}} is how I would call it',
        'Call it so: {"name": "add", "arguments": {"a": 1}}',
        '{"name": "add", "arguments": [1]}',
        '{"name": "add", "arguments": "1"}',
        '{"name": 5, "arguments": {}}',
        '{"name": "add", "arguments": {"a": NaN}}',
        '{"name": "add", "arguments": {"a": 1e999}}',
        '{"name": "add", "arguments": {"a": ' + "9" * 5000 + "}}",
        "The <tool_call> tag opens a call.",
        "Write <tool_call>{json}</tool_call> to call.",
        "[TOOL_CALLS] is a token",
        "<|python_tag|> print(1)",
        "<function=add> opens",
        "<function=",
        "[see(page=1), and so on",
        "[add(1)]",
        "[add(a=1)] is it",
        "[add(a=b)]",
        "[add(a=1+1)]",
        "[add(a=__import__('os'))]",
        "[add(a=f'{1}')]",
        "<tool_call></tool_call>",
        "<tool_call>[]</tool_call>",
        "<｜tool▁calls▁begin｜><｜tool▁calls▁end｜>",
        "<｜tool▁call▁begin｜>add<｜tool▁sep｜>{",
    ],
)
def test_what_is_no_call_stays_as_it_is(text: str) -> None:
    """B-56 and D-03."""
    answer = parse(text)
    assert (answer.content, answer.calls) == (text, ())


def test_each_family_reads_its_own_markup_only() -> None:
    text = '[TOOL_CALLS][{"name":"add","arguments":{"a":1}}]'
    assert parse(text, F.HERMES).calls == ()
    assert parse(text, F.HERMES).content == text


@pytest.mark.parametrize("family", list(F))
def test_bare_call_is_read_for_every_family(family: ToolFamily) -> None:
    assert plain(parse('\n{"name": "add", "arguments": {"a": 1}}\n', family).calls) == [ADD]


def test_text_before_between_and_after_calls_is_kept() -> None:
    text = (
        'Let me look.\n\n<tool_call>{"name":"add","arguments":{"a":1}}</tool_call>\nand\n'
        '<tool_call>{"name":"get_weather","arguments":{"city":"Paris"}}</tool_call>\n\nDone.\n'
    )
    answer = parse(text, F.HERMES)
    assert plain(answer.calls) == [ADD, PARIS]
    assert answer.content == "Let me look.\nand\nDone."


@pytest.mark.parametrize(
    "bad",
    [
        '<tool_call>{"name": "add", "arguments": {</tool_call>',
        '<tool_call>{"name": "unknown", "arguments": {}}</tool_call>',
        "<tool_call>add(1)</tool_call>",
        "<tool_call></tool_call>",
        "<tool_call><function=add><parameter=a>1</function></tool_call>",
    ],
)
def test_bad_call_stays_as_text_and_loses_no_other(bad: str) -> None:
    """D-10."""
    good = '<tool_call>{"name":"add","arguments":{"a":1}}</tool_call>'

    for text in (f"{bad}\n{good}", f"{good}\n{bad}", f"{good}\n{bad}\n{good}"):
        answer = parse(text, F.HERMES)
        assert plain(answer.calls) == [ADD] * text.count(good)
        assert answer.content == bad


def test_bad_element_of_a_list_stays_as_text_and_loses_no_other() -> None:
    text = '<|tool_call|>[{"name":"add","arguments":{"a":1}}, {"name": "no", "arguments": {}}, {"name":"add"}]<|/tool_call|>'
    answer = parse(text, F.PHI4_MINI)
    assert plain(answer.calls) == [ADD, ("add", {})]
    assert answer.content == '{"name": "no", "arguments": {}}'


def test_bad_deepseek_call_stays_as_text_and_loses_no_other() -> None:
    bad = "<｜tool▁call▁begin｜>add<｜tool▁sep｜>oh<｜tool▁call▁end｜>"
    good = '<｜tool▁call▁begin｜>add<｜tool▁sep｜>{"a":1}<｜tool▁call▁end｜>'
    answer = parse(f"<｜tool▁calls▁begin｜>{bad}{good}<｜tool▁calls▁end｜>", F.DEEPSEEK)
    assert plain(answer.calls) == [ADD]
    assert answer.content == bad


def test_bad_pythonic_call_stays_as_text_and_loses_no_other() -> None:
    answer = parse('[get_weather(city="Paris"), nothing(x=1)]', F.LLAMA4_PYTHONIC)
    assert plain(answer.calls) == [PARIS]
    assert answer.content == "nothing(x=1)"


def test_closing_tag_inside_an_argument_does_not_end_the_call() -> None:
    """D-10."""
    arguments = {"city": "a</tool_call>b<tool_call>c"}
    call = json.dumps({"name": "get_weather", "arguments": arguments})
    answer = parse(f"<tool_call>{call}</tool_call>", F.HERMES)
    assert plain(answer.calls) == [("get_weather", arguments)]
    assert answer.content == ""


def test_raw_newline_inside_an_argument_is_allowed() -> None:
    answer = parse('<tool_call>{"name":"get_weather","arguments":{"city":"a\nb"}}</tool_call>', F.HERMES)
    assert plain(answer.calls) == [("get_weather", {"city": "a\nb"})]


def test_words_inside_a_call_are_kept_without_the_tag() -> None:
    answer = parse('<tool_call>{"name":"add","arguments":{"a":1}} so be it</tool_call> ok', F.HERMES)
    assert plain(answer.calls) == [ADD]
    assert answer.content == "so be it\nok"


def test_call_without_its_closing_tag_is_read() -> None:
    """B-56."""
    answer = parse('Well. <tool_call>{"name":"add","arguments":{"a":1}}', F.HERMES)
    assert (plain(answer.calls), answer.content, answer.is_cut) == ([ADD], "Well.", False)


@pytest.mark.parametrize(
    ("family", "text"),
    [
        (F.HERMES, '<tool_call>{"name": "add", "argu'),
        (F.HERMES, '<tool_call>{"name": "add", "arguments": {"a": 1}'),
        (F.HERMES, "<tool_call>"),
        (F.PHI4_MINI, '<|tool_call|>[{"name": "ad'),
        (F.MISTRAL, '[TOOL_CALLS]add[ARGS]{"a'),
        (F.LLAMA3_JSON, '{"name": "add", "parameters": {'),
        (F.LLAMA4_PYTHONIC, "[add(a=1"),
        (F.QWEN3_CODER_XML, "<tool_call>\n<function=add>\n<parameter=a>\n1"),
        (F.QWEN3_CODER_XML, "<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n"),
        (F.DEEPSEEK, '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>add<｜tool▁sep｜>{"a"'),
    ],
)
def test_call_that_is_cut_in_the_middle_is_content(family: ToolFamily, text: str) -> None:
    """Case 100: the reply must not be empty."""
    answer = parse(text, family)
    assert (answer.content, answer.calls) == (text, ())


@pytest.mark.parametrize(
    ("family", "text", "rest"),
    [
        (F.HERMES, '<tool_call>{"name":"add","arguments":{"a":1}}</tool_call>\n<tool_call>{"na', '<tool_call>{"na'),
        (F.PHI4_MINI, '<|tool_call|>[{"name":"add","arguments":{"a":1}}, {"na', '{"na'),
        (F.MISTRAL, '[TOOL_CALLS]add[ARGS]{"a":1}[TOOL_CALLS]add[AR', "[TOOL_CALLS]add[AR"),
        (F.LLAMA4_PYTHONIC, "<|python_start|>[add(a=1), add(", "add("),
        (
            F.QWEN3_CODER_XML,
            '<tool_call><function=add>{"a":1}</function><function=add><parameter=a>',
            "<function=add><parameter=a>",
        ),
    ],
)
def test_complete_call_before_a_cut_one_is_kept(family: ToolFamily, text: str, rest: str) -> None:
    answer = parse(text, family)
    assert (plain(answer.calls), answer.content, answer.is_cut) == ([ADD], rest, True)

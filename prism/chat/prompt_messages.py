"""The messages as a template wants them: small unifications first, then one repair after another while the template refuses them.

Called by `prompt.py`; pure. Templates were written for the conversations of their model's training and stumble over others: a second system
message, two calls in one turn, arguments that are no text. Each repair keeps every word and changes the form only.
"""

import hashlib
import json
import re
import string
from collections.abc import Callable, Mapping, Sequence

from prism.chat.builtin_templates import tool_calls_as_json
from prism.chat.template_facts import TemplateFacts
from prism.chat.tool_family import ToolFamily

Message = Mapping[str, object]
Repair = Callable[[Sequence[Message]], list[Message]]

_ID_LENGTH = 9
_ID_LETTERS = string.ascii_letters + string.digits
_FITTING_ID = re.compile(r"[A-Za-z0-9]{9}\Z")
_WORD = re.compile(r"\w{1,40}")
_SHOWN_CHARS = 2_000


def fitted_messages(messages: Sequence[Message], facts: TemplateFacts, family: ToolFamily) -> list[Message]:
    """What can be known to fit before the first rendering."""
    return [_fitted(message, facts, family) for message in messages]


def loses_results(messages: Sequence[Message], prompt: str) -> bool:
    """Whether a tool's result is nowhere in the prompt: templates that do not know the role drop it without a word."""
    return any(message.get("role") == "tool" and not _shows(prompt, message) for message in messages)


def loses_question(messages: Sequence[Message], prompt: str) -> bool:
    """Whether the last thing that the user said is nowhere in the prompt: some templates take contents as lists of parts only."""
    last = next((message for message in reversed(messages) if message.get("role") == "user"), None)
    return last is not None and not _shows(prompt, last)


def _shows(prompt: str, message: Message) -> bool:
    """By one word of the text: templates trim it, and may write it with JSON's escapes."""
    content = message.get("content")
    words: list[str] = _WORD.findall(content[:_SHOWN_CHARS]) if isinstance(content, str) else []
    return not words or max(words, key=len) in prompt


def content_as_parts(messages: Sequence[Message]) -> list[Message]:
    return [
        {**message, "content": [{"type": "text", "text": content}]}
        if isinstance(content := message.get("content"), str)
        else message
        for message in messages
    ]


def null_content_as_empty(messages: Sequence[Message]) -> list[Message]:
    return [{**message, "content": ""} if message.get("content") is None else message for message in messages]


def arguments_as_text(messages: Sequence[Message]) -> list[Message]:
    """Some templates paste the arguments of a call between texts, as JSON."""

    def as_text(call: Mapping[str, object]) -> Mapping[str, object]:
        function = call["function"]

        if not isinstance(function, Mapping) or isinstance(function.get("arguments"), str):
            return call

        return {
            **call,
            "function": {**function, "arguments": json.dumps(function.get("arguments"), ensure_ascii=False)},
        }

    return [
        {**message, "tool_calls": [as_text(call) for call in calls]} if (calls := calls_of(message)) else message
        for message in messages
    ]


def one_call_per_turn(messages: Sequence[Message]) -> list[Message]:
    """Split an assistant turn of several calls, each part followed by its own result."""
    result: list[Message] = []
    taken: set[int] = set()

    for place, message in enumerate(messages):
        calls = calls_of(message)

        if len(calls) < 2:
            if place not in taken:
                result.append(message)

            continue

        for number, call in enumerate(calls):
            result.append({**message, "content": message.get("content") if number == 0 else "", "tool_calls": [call]})
            answers = [
                at for at in _results_after(messages, place) if messages[at].get("tool_call_id") == call.get("id")
            ]
            result += [messages[at] for at in answers if at not in taken]
            taken.update(answers)

    return result


def system_first(messages: Sequence[Message]) -> list[Message]:
    """Make all system messages one, at the head."""
    system = [message for message in messages if message.get("role") == "system"]

    if not system:
        return list(messages)

    rest = [message for message in messages if message.get("role") != "system"]
    return [{**system[0], "content": _joined(system)}, *rest]


def system_in_user(messages: Sequence[Message]) -> list[Message]:
    """For templates that know no system role."""
    system = [message for message in messages if message.get("role") == "system"]
    rest = [message for message in messages if message.get("role") != "system"]

    if not system:
        return rest

    place = next((index for index, message in enumerate(rest) if message.get("role") == "user"), None)

    if place is None:
        return [{"role": "user", "content": _joined(system)}, *rest]

    rest[place] = {**rest[place], "content": _joined([*system, rest[place]])}
    return rest


def results_as_user(messages: Sequence[Message]) -> list[Message]:
    """For templates that know no tool role."""
    return [
        {"role": "user", "content": f"Tool result:\n{message.get('content')}"}
        if message.get("role") == "tool"
        else message
        for message in messages
    ]


def same_roles_merged(messages: Sequence[Message]) -> list[Message]:
    """For templates that insist on alternating roles."""
    merged: list[Message] = []

    for message in messages:
        last = merged[-1] if merged else {}
        is_plain = not calls_of(message) and not calls_of(last) and message.get("role") in ("user", "assistant")

        if is_plain and last.get("role") == message.get("role"):
            merged[-1] = {**last, "content": _joined([last, message])}
        else:
            merged.append(message)

    return merged


DATA_REPAIRS: tuple[Repair, ...] = (null_content_as_empty, arguments_as_text)
STRUCTURE_REPAIRS: tuple[Repair, ...] = (
    one_call_per_turn,
    system_first,
    system_in_user,
    same_roles_merged,
    results_as_user,
)


def calls_of(message: Message) -> list[Mapping[str, object]]:
    calls = message.get("tool_calls")
    return [call for call in calls if isinstance(call, Mapping)] if isinstance(calls, list | tuple) else []


def _fitted(message: Message, facts: TemplateFacts, family: ToolFamily) -> Message:
    # A key that is there counts as given in templates: `'tool_calls' in message`.
    fitted = {
        key: value for key, value in message.items() if value is not None and not (key == "tool_calls" and not value)
    }
    calls = calls_of(message)

    if fitted.get("role") == "developer" and "developer" not in facts.literals:
        fitted["role"] = "system"

    if fitted.get("content") is None:
        fitted["content"] = None if calls and facts.tests_null_content else ""

    if calls and not facts.reads_tool_calls:
        del fitted["tool_calls"]
        fitted["content"] = "\n".join(
            [text for text in (str(fitted["content"] or ""), _calls_as_text(message, family)) if text]
        )
    elif calls:
        fitted["tool_calls"] = [{"type": "function", **call} | _short_id(call, "id", facts) for call in calls]

    # Beside a call gpt-oss's template takes a text or thinking, not both.
    if facts.reads_thinking and "reasoning_content" in fitted and not (calls and fitted["content"]):
        fitted.setdefault("thinking", fitted["reasoning_content"])

    return fitted | _short_id(fitted, "tool_call_id", facts)


def _short_id(owner: Mapping[str, object], key: str, facts: TemplateFacts) -> dict[str, object]:
    """Mistral's templates refuse ids that are not nine letters and digits. The same id always gives the same one."""
    value = owner.get(key)

    if not facts.counts_id_length or not isinstance(value, str) or _FITTING_ID.match(value):
        return {}

    number = int.from_bytes(hashlib.sha256(value.encode()).digest()[:16], "big")
    letters = [_ID_LETTERS[number // len(_ID_LETTERS) ** place % len(_ID_LETTERS)] for place in range(_ID_LENGTH)]
    return {key: "".join(letters)}


def _calls_as_text(message: Message, family: ToolFamily) -> str:
    """For templates that show no earlier calls: the text that the model itself wrote, about."""
    calls = tool_calls_as_json(message)

    match family:
        case ToolFamily.PHI4_MINI:
            return f"<|tool_call|>[{', '.join(calls)}]<|/tool_call|>"
        case ToolFamily.MISTRAL:
            return f"[TOOL_CALLS] [{', '.join(calls)}]"
        case _:
            return "\n".join(f"<tool_call>\n{call}\n</tool_call>" for call in calls)


def _results_after(messages: Sequence[Message], place: int) -> list[int]:
    results: list[int] = []

    for index in range(place + 1, len(messages)):
        if messages[index].get("role") != "tool":
            break

        results.append(index)

    return results


def _joined(messages: Sequence[Message]) -> object:
    """One content out of several: a text, or a list of parts when one of them is (it has pictures)."""
    contents = [
        content for message in messages if (content := message.get("content")) and isinstance(content, str | list)
    ]
    texts = [content for content in contents if isinstance(content, str)]

    if len(texts) == len(contents):
        return "\n\n".join(texts)

    parts: list[object] = []

    for content in contents:
        if parts:
            parts.append({"type": "text", "text": "\n\n"})

        parts += [{"type": "text", "text": content}] if isinstance(content, str) else content

    return parts

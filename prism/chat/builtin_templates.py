"""Prompts for models that come without a chat template: the formats of the families that are in use.

Called by `prompt.py`; pure. The family is known from marks in a template that cannot be rendered, else from the model's name. Families
differ in a few texts around each turn, so each is a row of a table. No family takes tools, but calls and results of earlier turns (a
conversation that began with another model) are told in words, in turns that every family has.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

Message = Mapping[str, object]


class BuiltinFamily(StrEnum):
    DEEPSEEK = "deepseek"
    LLAMA3 = "llama3"
    GEMMA = "gemma"
    MISTRAL_V02 = "mistral_v02"
    MISTRAL = "mistral"
    PHI4_IM = "phi4_im"
    CHATML = "chatml"
    PHI4_MINI = "phi4_mini"
    PHI3 = "phi3"


@dataclass(frozen=True, slots=True)
class _Turns:
    """How a family writes a conversation. `{role}` is filled in.

    before, after: around the text of a turn. answer: what the model's answer follows.
    model_role: what the assistant is called. has_system: False moves the system text into the first user turn.
    """

    before: str
    after: str
    answer: str
    model_role: str = "assistant"
    has_system: bool = True


@dataclass(frozen=True, slots=True)
class _Turn:
    role: str  # system, user or assistant
    text: str


_TURNS: Mapping[BuiltinFamily, _Turns] = {
    BuiltinFamily.LLAMA3: _Turns(
        "<|start_header_id|>{role}<|end_header_id|>\n\n",
        "<|eot_id|>",
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
    ),
    BuiltinFamily.GEMMA: _Turns(
        "<start_of_turn>{role}\n", "<end_of_turn>\n", "<start_of_turn>model\n", model_role="model", has_system=False
    ),
    BuiltinFamily.PHI4_IM: _Turns("<|im_start|>{role}<|im_sep|>", "<|im_end|>", "<|im_start|>assistant<|im_sep|>"),
    BuiltinFamily.CHATML: _Turns("<|im_start|>{role}\n", "<|im_end|>\n", "<|im_start|>assistant\n"),
    BuiltinFamily.PHI4_MINI: _Turns("<|{role}|>", "<|end|>", "<|assistant|>"),
    BuiltinFamily.PHI3: _Turns("<|{role}|>\n", "<|end|>\n", "<|assistant|>\n"),
}


def family_of_template(source: str) -> BuiltinFamily | None:
    """The family whose marks stand in a template; None when there are none that are known."""
    if "<｜Assistant｜>" in source or "<｜User｜>" in source:
        return BuiltinFamily.DEEPSEEK

    if "<|start_header_id|>" in source:
        return BuiltinFamily.LLAMA3

    if "<start_of_turn>" in source:
        return BuiltinFamily.GEMMA

    # Llama 2 has [INST], too, but is no Mistral.
    if "[INST]" in source and "<<SYS>>" not in source:
        return BuiltinFamily.MISTRAL_V02 if " [/INST]" in source else BuiltinFamily.MISTRAL

    if "<|im_sep|>" in source:
        return BuiltinFamily.PHI4_IM

    if "<|im_start|>" in source:
        return BuiltinFamily.CHATML

    if "<|end|>" in source:
        built_from_role = any(code in source for code in ("message['role']", 'message["role"]', "message.role"))
        return BuiltinFamily.PHI4_MINI if built_from_role else BuiltinFamily.PHI3

    return None


def family_of_name(model_name: str) -> BuiltinFamily:
    """The family that a model's name speaks for; ChatML when it speaks for none."""
    name = model_name.lower()

    if "gemma" in name:
        return BuiltinFamily.GEMMA

    if "mistral" in name or "mixtral" in name:
        return BuiltinFamily.MISTRAL_V02 if "v0.1" in name or "v0.2" in name else BuiltinFamily.MISTRAL

    if "phi-4" in name or "phi4" in name:
        return BuiltinFamily.PHI4_MINI if "mini" in name else BuiltinFamily.PHI4_IM

    if "phi" in name.replace("-", " ").replace("_", " ").replace(".", " ").split() or "phi-3" in name or "phi3" in name:
        return BuiltinFamily.PHI3

    if "deepseek" in name:
        return BuiltinFamily.DEEPSEEK

    return BuiltinFamily.LLAMA3 if "llama" in name else BuiltinFamily.CHATML


def control_tokens_of(family: BuiltinFamily) -> frozenset[str]:
    """The control tokens that a prompt of the family is made of, for a model whose tokenizer files do not name them."""
    match family:
        case BuiltinFamily.DEEPSEEK:
            return frozenset({"<｜User｜>", "<｜Assistant｜>", "<｜end▁of▁sentence｜>"})
        case BuiltinFamily.MISTRAL | BuiltinFamily.MISTRAL_V02:
            return frozenset({"[INST]", "[/INST]", "</s>"})
        case BuiltinFamily.PHI4_MINI | BuiltinFamily.PHI3:
            return frozenset({"<|system|>", "<|user|>", "<|assistant|>", "<|end|>"})
        case BuiltinFamily.LLAMA3:
            return frozenset({"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"})
        case BuiltinFamily.GEMMA:
            return frozenset({"<start_of_turn>", "<end_of_turn>"})
        case BuiltinFamily.PHI4_IM:
            return frozenset({"<|im_start|>", "<|im_sep|>", "<|im_end|>"})
        case BuiltinFamily.CHATML:
            return frozenset({"<|im_start|>", "<|im_end|>"})


def render_builtin(family: BuiltinFamily, messages: Sequence[Message]) -> str:
    """Return the prompt, which ends where the model's answer begins. Writes no BOS token."""
    turns = _plain_turns(messages)

    match family:
        case BuiltinFamily.DEEPSEEK:
            return _deepseek(turns)
        case BuiltinFamily.MISTRAL_V02:
            return _mistral(turns, "[INST] ", " [/INST]", "</s>")
        case BuiltinFamily.MISTRAL:
            return _mistral(turns, "[INST] ", "[/INST] ", "</s>")
        case _:
            return _by_table(_TURNS[family], turns)


def tool_calls_as_json(message: Message) -> list[str]:
    """The calls of an assistant turn, each as `{"name": …, "arguments": …}`."""
    calls = message.get("tool_calls")
    texts: list[str] = []

    for call in calls if isinstance(calls, Sequence) and not isinstance(calls, str) else ():
        function = call.get("function", call) if isinstance(call, Mapping) else {}
        named = {"name": function.get("name"), "arguments": function.get("arguments", {})}
        texts.append(json.dumps(named, ensure_ascii=False))

    return texts


def _plain_turns(messages: Sequence[Message]) -> list[_Turn]:
    """Turns of the three roles that every family knows, the system texts first and as one."""
    system = [
        text for message in messages if message.get("role") in ("system", "developer") and (text := _content(message))
    ]
    turns = [_Turn("system", "\n\n".join(system))] if system else []
    names = _names_by_id(messages)

    for message in messages:
        role = message.get("role")

        if role == "assistant":
            calls = [f"<tool_call>\n{call}\n</tool_call>" for call in tool_calls_as_json(message)]
            turns.append(_Turn("assistant", "\n".join([text for text in (_content(message), *calls) if text])))
        elif role == "tool":
            _add_result(turns, message, names)
        elif role not in ("system", "developer"):
            turns.append(_Turn("user", _content(message)))

    return turns


def _add_result(turns: list[_Turn], message: Message, names: Mapping[object, str]) -> None:
    """Results of one assistant turn's calls share a user turn, so that the roles go on alternating."""
    name = message.get("name") or names.get(message.get("tool_call_id"))
    heading = f"Result of {name}:" if name else "Result:"
    text = f"{heading}\n{_content(message)}"

    if turns and turns[-1].role == "user" and turns[-1].text.startswith("Result"):
        turns[-1] = _Turn("user", f"{turns[-1].text}\n\n{text}")
    else:
        turns.append(_Turn("user", text))


def _names_by_id(messages: Sequence[Message]) -> dict[object, str]:
    names: dict[object, str] = {}

    for message in messages:
        calls = message.get("tool_calls")

        for call in calls if isinstance(calls, list | tuple) else ():
            function = call.get("function") if isinstance(call, Mapping) else None

            if isinstance(function, Mapping):
                names[call.get("id")] = str(function.get("name"))

    return names


def _content(message: Message) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else ""


def _by_table(family: _Turns, turns: Sequence[_Turn]) -> str:
    text_of: Callable[[str], str] = str.strip if not family.has_system else str
    prompt: list[str] = []

    for turn in turns if family.has_system else _system_in_user(turns, at=0):
        role = family.model_role if turn.role == "assistant" else turn.role
        prompt += [family.before.format(role=role), text_of(turn.text), family.after]

    return "".join([*prompt, family.answer])


def _deepseek(turns: Sequence[_Turn]) -> str:
    around = {"system": ("", ""), "user": ("<｜User｜>", ""), "assistant": ("<｜Assistant｜>", "<｜end▁of▁sentence｜>")}
    written = [around[turn.role][0] + turn.text + around[turn.role][1] for turn in turns]
    return "".join([*written, "<｜Assistant｜>"])


def _mistral(turns: Sequence[_Turn], before: str, after: str, end: str) -> str:
    written = [
        f"{before}{turn.text}{after}" if turn.role == "user" else f"{turn.text}{end}"
        for turn in _system_in_user(turns, at=-1)
    ]
    return "".join(written)


def _system_in_user(turns: Sequence[_Turn], *, at: int) -> list[_Turn]:
    """Move the system text to the head of a user turn: the first (at=0) or the last (at=-1)."""
    system = [turn.text for turn in turns if turn.role == "system"]
    rest = [turn for turn in turns if turn.role != "system"]
    places = [index for index, turn in enumerate(rest) if turn.role == "user"]

    if not system:
        return rest

    if not places:
        return [_Turn("user", system[0]), *rest]

    rest[places[at]] = _Turn("user", f"{system[0]}\n\n{rest[places[at]].text}")
    return rest

"""What an answer has to be, as the worker's engine is told it: from `response_format` and `tool_choice` to a grammar.

Called by the chat handler in the thread where prompts are made. All that can be known to be impossible is refused here.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ipc.messages import Guidance
from prism.api.chat_request import ChatRequest, effective_reasoning_effort
from prism.api.free_json import decode_object
from prism.api.refusals import invalid_request
from prism.api.response_format import SCHEMA_FIELD, answer_schema
from prism.api.schema_faults import SchemaUnsupported
from prism.api.schema_rewriting import compiler_schema
from prism.api.tools import NamedToolChoice, Tool, must_call, offered_tools
from prism.chat.answer_grammar import GrammarWords, answer_grammar, json_part, thinking_pairs
from prism.chat.call_grammar import CallableTool, call_rules
from prism.chat.effort_levels import NO_EFFORT
from prism.chat.prompt import ChatTemplate, Prompt
from prism.chat.reasoning_tags import THINK, TagPair, is_named_thinker, pairs_for_template


@dataclass(frozen=True, slots=True)
class AnswerRules:
    """What the client wants, checked. At least one of the two is given; with both, the answer is one or the other.

    schema: of a JSON answer, for the compiler. tools: those that may be called.
    is_single: at most one call. field: the field of the request that is at fault when the engine cannot keep to it.
    """

    schema: Mapping[str, object] | None
    tools: tuple[CallableTool, ...]
    is_single: bool
    field: str


def answer_rules(chat: ChatRequest) -> AnswerRules | None:
    """Return what the answer has to be; None when it may be anything. Raises ApiError (400) for what cannot be enforced."""
    offered = offered_tools(chat.tools or [], chat.tool_choice)
    is_called = bool(offered) and must_call(chat.tool_choice)
    # A call is no content, so that the format of the content says nothing about it.
    schema = None if is_called else answer_schema(chat.response_format)

    if schema is None and not is_called:
        return None

    is_own = chat.response_format is not None and chat.response_format.type == "json_schema"
    return AnswerRules(
        schema=None if schema is None else _checked(schema, SCHEMA_FIELD),
        tools=tuple(_callable(tool, f"tools[{(chat.tools or []).index(tool)}].function") for tool in offered),
        is_single=chat.parallel_tool_calls is False or isinstance(chat.tool_choice, NamedToolChoice),
        field="tools" if is_called else SCHEMA_FIELD if is_own else "response_format",
    )


def guidance_for(
    rules: AnswerRules, chat: ChatRequest, template: ChatTemplate, prompt: Prompt, model_id: str
) -> Guidance:
    """Return the constraint for an answer to this prompt."""
    words = GrammarWords(template.special_ids)
    parts, more_rules = [], ""

    if rules.schema is not None:
        parts.append("content")
        more_rules += f"content: {json_part(rules.schema)}\n"

    if rules.tools:
        text = template.source or ""
        calls, call_rule_lines = call_rules(
            rules.tools, prompt.family, words, template_text=text, is_single=rules.is_single
        )
        parts.append("calls")
        more_rules += f"calls: {calls}\n{call_rule_lines}"

    return answer_grammar(
        " | ".join(parts), more_rules, words=words, pairs=_pairs(chat, template, model_id), opened=prompt.opened_pair
    )


def _pairs(chat: ChatRequest, template: ChatTemplate, model_id: str) -> tuple[TagPair, ...]:
    """The tags in which the model may think before it answers."""
    if effective_reasoning_effort(chat) == NO_EFFORT:
        return ()

    known = thinking_pairs(pairs_for_template(template.source), template.source or "", template.special_ids)
    return known or ((THINK,) if is_named_thinker(model_id) else ())


def _callable(tool: Tool, field: str) -> CallableTool:
    name = tool.function.name

    if name != name.strip():
        raise invalid_request(f"'{field}.name' must not begin or end with white space.", f"{field}.name")

    parameters_field = f"{field}.parameters"
    written = decode_object(tool.function.parameters, parameters_field)

    if written.setdefault("type", "object") != "object":
        raise invalid_request(f"'{parameters_field}' must be the schema of an object.", parameters_field)

    if written.keys() == {"type"}:
        # No word about arguments means that there are none.
        written["properties"] = {}

    return CallableTool(name, _checked(written, parameters_field, is_call=True), written)


def _checked(schema: Mapping[str, object], field: str, *, is_call: bool = False) -> dict[str, object]:
    try:
        return compiler_schema(schema, has_plain_numbers=is_call)
    except SchemaUnsupported as error:
        raise invalid_request(f"'{field}' cannot be enforced: {error.path} {error}.", field) from error

"""What an answer has to be, as the worker's engine is told it: from `response_format` and `tool_choice` to a grammar.

Called by the chat handler in the thread where prompts are made. All that can be known to be impossible is refused here.
"""

from dataclasses import dataclass

from ipc.messages import Guidance
from prism.api.chat_request import ChatRequest, effective_reasoning_effort
from prism.api.errors import ApiError
from prism.api.refusals import invalid_request
from prism.api.response_format import SCHEMA_FIELD, answer_schema
from prism.api.schema_faults import SchemaUnsupported
from prism.api.schema_rewriting import Schema, compiler_schema
from prism.chat.answer_grammar import GrammarWords, answer_grammar, json_part, thinking_pairs
from prism.chat.prompt import ChatTemplate, Prompt
from prism.chat.prompt_reasoning import NO_EFFORT
from prism.chat.reasoning_tags import TagPair, pairs_for_template


@dataclass(frozen=True, slots=True)
class AnswerRules:
    """What the client wants, checked. schema: of a JSON answer, for the compiler; None for free text.

    field: the field of the request that is at fault when the engine cannot keep to it.
    """

    schema: Schema | None
    field: str


def answer_rules(chat: ChatRequest) -> AnswerRules | None:
    """Return what the answer has to be; None when it may be anything. Raises ApiError (400) for what cannot be enforced."""
    schema = answer_schema(chat.response_format)

    if schema is None:
        return None

    is_own = chat.response_format is not None and chat.response_format.type == "json_schema"
    return AnswerRules(_checked(schema, SCHEMA_FIELD), SCHEMA_FIELD if is_own else "response_format")


def guidance_for(rules: AnswerRules, chat: ChatRequest, template: ChatTemplate, prompt: Prompt) -> Guidance | None:
    """Return the constraint for an answer to this prompt."""
    if rules.schema is None:
        return None

    return answer_grammar(
        json_part(rules.schema),
        "",
        words=GrammarWords(template.special_ids),
        pairs=_pairs(chat, template),
        opened=prompt.opened_pair,
    )


def _pairs(chat: ChatRequest, template: ChatTemplate) -> tuple[TagPair, ...]:
    """The tags in which the model may think before it answers."""
    if effective_reasoning_effort(chat) == NO_EFFORT:
        return ()

    return thinking_pairs(pairs_for_template(template.source), template.source or "", template.special_ids)


def _checked(schema: Schema, field: str) -> Schema:
    try:
        return compiler_schema(schema)
    except SchemaUnsupported as error:
        raise _unenforceable(field, error) from error


def _unenforceable(field: str, error: SchemaUnsupported) -> ApiError:
    return invalid_request(f"'{field}' cannot be enforced: {error.path} {error}.", field)

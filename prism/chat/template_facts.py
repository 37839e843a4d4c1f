"""What the parsed text of a chat template tells about its model. Read by `template.py`, judged by `tool_support.py` and `prompt.py`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TemplateFacts:
    """Facts of the template's code: comments, raw prose and look-alike names do not count.

    source: the template as it was read.
    variables: names that it takes from outside.
    literals: its string constants, each by itself.
    text: all that it can write by itself: literals and plain text, one a line.
    reads_message_tools: takes the tools out of a message (`message['tools']`), as Phi-4-mini's template does.
    reads_tool_calls: shows the calls of earlier assistant turns.
    reads_thinking: shows the thinking of earlier assistant turns under the key `thinking`, as gpt-oss's template does.
    tests_null_content: tells an assistant turn without content (None) from one with an empty text.
    counts_id_length: looks at how long the ids of tool calls are, as Mistral's templates do.
    """

    source: str
    variables: frozenset[str]
    literals: frozenset[str]
    text: str
    reads_message_tools: bool
    reads_tool_calls: bool
    reads_thinking: bool
    tests_null_content: bool
    counts_id_length: bool

"""A model that calls a tool and, once it has been told the result, answers in words, the same each time: for the tools loops of clients.

A reciting model with two ends. Its script is the call, an end, the words, an end. A chat template that sees a result as the last message
puts the call and its end into the prompt, so that the model goes on with the words.
"""

import json
from pathlib import Path

from prism.export.reciting_model import write_reciting_model
from prism.export.tiny_tokenizer import tiny_tokenizer
from prism.export.tokenizer_files import TokenizerSpec, byte_spelling
from tests.export.bpe_reference import ReferenceTokenizer

TOOL = "get_weather"
ARGUMENTS = {"city": "Paris"}
WORDS = "It is 21 degrees in Paris."

_CALL = json.dumps({"name": TOOL, "arguments": ARGUMENTS})
_OPEN, _CLOSE, _END = "<tool_call>", "</tool_call>", "<|endoftext|>"

_TEMPLATE = """
{%- if tools %}<|im_start|>system
You may call:{% for tool in tools %} {{ tool | tojson }}{% endfor %} as <tool_call>{"name": "", "arguments": {}}</tool_call><|im_end|>
{% endif %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content or "" }}
{%- for call in message.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% if messages[-1].role == "tool" %}SAID{% endif %}
{%- endif %}"""


def write_calling_model(folder: Path) -> None:
    """Write the model. It calls `TOOL` with `ARGUMENTS`, and answers a result with `WORDS`."""
    tokenizer = tiny_tokenizer()
    said = _OPEN + _CALL + _CLOSE + _END
    script = [_OPEN.encode(), *_pieces(tokenizer, _CALL), _CLOSE.encode(), _END.encode(), *_pieces(tokenizer, WORDS)]
    write_reciting_model(folder, script, chat_template=_TEMPLATE.replace("SAID", said))

    path = folder / "genai_config.json"
    config = json.loads(path.read_text())
    config["model"]["eos_token_id"] = [tokenizer.eos_id, tokenizer.tokens.index(_END)]
    path.write_text(json.dumps(config))


def _pieces(tokenizer: TokenizerSpec, text: str) -> list[bytes]:
    """Cut a text as the tokenizer will: what the template puts into a prompt must come out as the tokens of the script."""
    bytes_of = {character: byte for byte, character in enumerate(byte_spelling())}
    tokens = (tokenizer.tokens[index] for index in ReferenceTokenizer(tokenizer).encode(text))
    return [bytes(bytes_of[character] for character in token) for token in tokens]

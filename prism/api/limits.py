"""The bounds of a request, in one place.

Read by every other file of this package. Each is far above what a real client sends and low enough that a hostile body stays cheap.
"""

from typing import Final

MAX_MESSAGES: Final = 2_048
MAX_CONTENT_PARTS: Final = 16_384  # over all messages of a request
MAX_IMAGES: Final = 32  # over all messages of a request
MAX_TOOL_CALLS: Final = 8_192  # over all messages of a request
MAX_TOOLS: Final = 128
MAX_STOP_STRINGS: Final = 4
MAX_STOP_CHARS: Final = 256
MAX_PROMPTS: Final = 16
MAX_EMBEDDING_INPUTS: Final = 256
MAX_CACHE_KEY_CHARS: Final = 256
MAX_MODEL_CHARS: Final = 4_096  # a model may be named by the path of its folder

# JSON that the client shapes freely (schemas of tools and answers, arguments of earlier calls) becomes Python objects, and a hostile
# megabyte of it costs 100 ms. These bounds are past 100,000 tokens.
MAX_SCHEMA_BYTES: Final = 1 << 19  # over all tools of a request and the schema of its answer
MAX_ARGUMENTS_CHARS: Final = 1 << 19  # over all calls of a request; calls past it reach the template as text
MAX_JSON_DEPTH: Final = 64
# Texts and names in a whole body, ignored fields included. Each may become a Python object before the list that holds it is found too long.
# All the messages, parts and calls that are allowed above, with schemas that say something, have fewer.
MAX_JSON_TEXTS: Final = 1 << 18

DEFAULT_MAX_TOKENS: Final = 512
LARGEST_COUNT: Final = 2**31 - 1  # the engine counts tokens in 32 bits
LARGEST_SEED: Final = 2**63 - 1
MAX_DRAIN_WAIT_MS: Final = 24 * 60 * 60 * 1_000

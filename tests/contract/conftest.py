"""One server for all cases, with its model loaded; and the servers of a test's own."""

from collections.abc import Iterator

import pytest

from tests.contract.client import Client
from tests.ollama.fake_process import serving_daemon
from tests.served import serving, write_model
from tests.whole.conftest import start_process, start_server

__all__ = ["start_process", "start_server"]

KEYS = ("first-key", "second-key")
PAGE = "http://page.example"

# Tools in the convention of Hermes, thinking as a part of the history, and nothing that knows a developer.
TEMPLATE = """
{%- if tools %}<|im_start|>system
You may call:{% for tool in tools %} {{ tool | tojson }}{% endfor %} as <tool_call>{"name": "", "arguments": {}}</tool_call><|im_end|>
{% endif %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}
{%- for call in message.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
PLAIN_TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant: "
RAISING_TEMPLATE = (
    "{% for tool in tools %}{{ raise_exception('no tool of the name ' ~ tool.function.name) }}{% endfor %}"
)


@pytest.fixture(scope="package")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A server without keys, beside an Ollama daemon. Its cases never make it load another model, so its processes stay the same."""
    folder = tmp_path_factory.mktemp("served")
    write_model(folder, "stand-in", {"prompt_tokens": 7}, TEMPLATE)
    write_model(folder, "plain", template=PLAIN_TEMPLATE)
    write_model(folder, "raising", template=RAISING_TEMPLATE)
    write_model(folder, "twin-one")
    write_model(folder, "twin-two")
    write_model(folder, "Phi-4-mini-instruct-generic-cpu")

    with serving_daemon() as daemon, serving(folder, preload="stand-in", OLLAMA_HOST=daemon) as base_url:
        yield Client(base_url)


@pytest.fixture(scope="package")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A server with two keys, which a page of one origin may use."""
    folder = tmp_path_factory.mktemp("locked")
    (folder / "models").mkdir()
    (folder / "keys").write_text("\n".join(KEYS))

    with serving(folder, PRISM_API_KEY_FILE=str(folder / "keys"), PRISM_CORS_ORIGINS=PAGE) as base_url:
        yield Client(base_url)


@pytest.fixture(scope="package")
def open_to_pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A server that every page may use."""
    folder = tmp_path_factory.mktemp("open")
    write_model(folder, "stand-in", {"text": ["Hello"]})

    with serving(folder, preload="stand-in", PRISM_CORS_ORIGINS="*") as base_url:
        yield Client(base_url)

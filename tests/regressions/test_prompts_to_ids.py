"""What the model reads in the end: from messages to ids, with the engine's own tokenizer."""

import json
import shutil
from pathlib import Path

import pytest

from gpu_worker.engine import GenAiEngine, import_library, load_engine
from gpu_worker.load_options import LoadOptions
from gpu_worker.model_folder import read_model_folder
from ipc.messages import DeviceChoice
from prism.chat.prompt import ChatTemplate, PromptRequest, TemplateMode
from prism.export.tiny_model import write_tiny_model
from prism.export.tiny_tokenizer import CHATML_TEMPLATE
from tests.whole.conftest import Start

pytestmark = pytest.mark.engine

BOS = "<|endoftext|>"
WRITES_BOS = "{{ bos_token }}" + CHATML_TEMPLATE
MESSAGES = [{"role": "user", "content": "Wow! Great!"}]


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny") / "tiny"
    write_tiny_model(folder)
    return folder


def load(folder: Path) -> GenAiEngine:
    return load_engine(import_library(), read_model_folder(folder), DeviceChoice.CPU, None, LoadOptions(threads=1))


def ids_of(folder: Path) -> list[int]:
    prompt = ChatTemplate.load(folder, folder.name, TemplateMode.AUTO).render(PromptRequest(messages=MESSAGES))
    return load(folder).encode(prompt.pieces)


def with_bos(tiny_model: Path, folder: Path, template: str, bos_token: object, *, is_wanted: bool) -> Path:
    shutil.copytree(tiny_model, folder)
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text()) | {"bos_token": bos_token, "add_bos_token": is_wanted}
    path.write_text(json.dumps(config))
    (folder / "chat_template.jinja").write_text(template)
    return folder


@pytest.mark.parametrize("bos_token", [BOS, {"content": BOS, "lstrip": False}], ids=["text", "object"])
@pytest.mark.parametrize(
    ("template", "is_wanted", "count"),
    [(CHATML_TEMPLATE, True, 1), (CHATML_TEMPLATE, False, 0), (WRITES_BOS, True, 1), (WRITES_BOS, False, 1)],
    ids=["added", "none", "written and wanted", "written"],
)
def test_bos_stands_once_at_the_beginning_or_not_at_all(
    tiny_model: Path, tmp_path: Path, template: str, bos_token: object, is_wanted: bool, count: int
) -> None:
    """B-49: a template that writes BOS and a tokenizer that adds it made two; a token may be told as an object."""
    ids = ids_of(with_bos(tiny_model, tmp_path / "model", template, bos_token, is_wanted=is_wanted))
    bos_id = json.loads((tiny_model / "tokenizer.json").read_text())["model"]["vocab"].get(BOS, 0)
    assert ids.count(bos_id) == count
    assert (ids[0] == bos_id) == (count == 1)


async def test_a_prompt_is_counted_in_tokens_and_not_in_words(
    start_server: Start, tiny_model: Path, tmp_path: Path
) -> None:
    """B-24: `prompt_tokens` was a count of words."""
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "tiny").symlink_to(tiny_model)
    server = await start_server(None)
    text = "one two  three\nDonaudampfschifffahrt €5 日本"
    body = {"model": "tiny", "prompt": text, "max_tokens": 3, "temperature": 0}

    async with server.post("/v1/completions", body) as response:
        usage = (await response.json())["usage"]

    expected = len(load(tiny_model).encode([text]))
    assert expected > len(text.split())
    assert (usage["prompt_tokens"], usage["total_tokens"]) == (expected, expected + usage["completion_tokens"])
    chat = await server.chat("tiny", content="Wow! Great!", max_tokens=1)
    assert chat["usage"]["prompt_tokens"] == len(ids_of(tiny_model))

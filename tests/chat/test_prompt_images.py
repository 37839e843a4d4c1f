"""Messages with pictures on their way into the prompts of different families."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import pytest

from prism.chat.prompt import ChatTemplate, PromptRequest, TemplateMode
from prism.chat.template_errors import TemplateRenderFailed
from prism.chat.template_files import DEFAULT_TEMPLATE, TemplateFiles
from prism.export.seeing_model import write_seeing_model
from prism.image_families import ImageFamily, image_family
from prism.model_folder import read_model_folder, regular_files

Content = str | list[dict[str, object]]
IMAGE: dict[str, object] = {"type": "image"}

PARTS = (  # as Qwen's and Gemma's templates do it
    "{% for m in messages %}<{{ m['role'] }}>{% if m['content'] is string %}{{ m['content'] }}{% else %}"
    "{% for part in m['content'] %}{% if part['type'] == 'image' %}MARK{% elif part['type'] == 'text' %}{{ part['text'] }}"
    "{% endif %}{% endfor %}{% endif %}{% endfor %}"
)
TEXT = "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}{% endfor %}"
STRICT_TEXT = "{% for m in messages %}{{ '<' + m['role'] + '>' + m['content'] }}{% endfor %}"
BLIND = "{% for m in messages %}<{{ m['role'] }}>{% if m['content'] is string %}{{ m['content'] | upper }}{% endif %}{% endfor %}"


def family(model_type: str) -> ImageFamily:
    found = image_family(model_type)
    assert found is not None
    return found


def template(source: str | None, model_type: str, special: Sequence[str] = ()) -> ChatTemplate:
    templates: Mapping[str, str] = {} if source is None else {DEFAULT_TEMPLATE: source}
    files = TemplateFiles(MappingProxyType(dict(templates)), MappingProxyType({}), frozenset(special), adds_bos=False)
    return ChatTemplate("a-model", files, TemplateMode.AUTO, family(model_type))


def text(words: str) -> dict[str, object]:
    return {"type": "text", "text": words}


def rendered(made: ChatTemplate, *contents: Content) -> tuple[str, ...]:
    return made.render(PromptRequest(messages=[{"role": "user", "content": content} for content in contents])).pieces


MARKERS = {
    "qwen2_5_vl": "<|vision_start|><|image_pad|><|vision_end|>",
    "qwen3_vl": "<|vision_start|><|image_pad|><|vision_end|>",
    "qwen3_5": "<|vision_start|><|image_pad|><|vision_end|>",
    "fara": "<|vision_start|><|image_pad|><|vision_end|>",
    "gemma3": "<start_of_image>",
    "gemma4": "<|image|>",
    "mistral3": "[IMG]",
}


@pytest.mark.parametrize("model_type", MARKERS)
def test_templates_that_take_parts_get_parts(model_type: str) -> None:
    marker = MARKERS[model_type]
    made = template(PARTS.replace("MARK", f"{{{{ '{marker}' }}}}"), model_type)
    assert rendered(made, [text("a "), IMAGE, text(" b")], "plain") == (f"<user>a {marker} b<user>plain",)


@pytest.mark.parametrize("source", [TEXT, STRICT_TEXT])
@pytest.mark.parametrize("model_type", MARKERS)
def test_templates_that_take_texts_only_get_markers_in_texts(model_type: str, source: str) -> None:
    marker = MARKERS[model_type]
    made = template(source, model_type)
    assert rendered(made, [text("a "), IMAGE, text(" b")], [IMAGE]) == (f"<user>a {marker} b<user>{marker}",)


@pytest.mark.parametrize("model_type", ["phi3v", "phi4mm"])
def test_phi_numbers_its_pictures_through_the_conversation(model_type: str) -> None:
    made = template(TEXT, model_type)
    pieces = rendered(made, [IMAGE, IMAGE, text("both?")], "no", [text("and "), IMAGE])
    assert pieces == ("<user><|image_1|>\n<|image_2|>\nboth?<user>no<user>and <|image_3|>\n",)


def test_mistral_keeps_markers_apart() -> None:
    made = template(PARTS.replace("MARK", "[IMG]"), "mistral3")
    assert rendered(made, [IMAGE, IMAGE, IMAGE, text("x")]) == ("<user>[IMG]\n[IMG]\n[IMG]x",)


def test_a_template_that_shows_no_pictures_at_all_is_told() -> None:
    with pytest.raises(TemplateRenderFailed, match="images"):
        rendered(template(BLIND, "gemma3"), [IMAGE, text("x")])


def test_without_a_template_the_built_in_one_has_the_markers() -> None:
    (prompt,) = rendered(template(None, "phi3v"), [IMAGE, text("what?")])
    assert "<|image_1|>\nwhat?" in prompt


@pytest.mark.parametrize(
    ("model_type", "typed"),
    [
        *((model_type, marker) for model_type, marker in MARKERS.items()),
        ("phi3v", "<|image_1|>"),
        ("phi4mm", "<|image_99|>"),
        ("gemma4", "<|image>"),
        ("gemma3", "<image_soft_token>"),
    ],
)
def test_markers_that_are_typed_are_cut_whatever_the_tokenizer_says(model_type: str, typed: str) -> None:
    made = template(TEXT, model_type)
    pieces = rendered(made, [text(f"is {typed} it"), IMAGE], typed)
    (marker,) = family(model_type).markers(1)
    assert "".join(pieces).count(typed) == (3 if typed == marker else 2)
    assert sum(piece.count(marker) for piece in pieces) == 1
    assert all(typed not in piece.replace(marker, "") for piece in pieces)


def test_repairs_lose_no_picture_and_no_word() -> None:
    no_system = (
        "{% for m in messages %}{% if m['role'] == 'system' %}{{ raise_exception('no') }}{% endif %}{% endfor %}"
    )
    made = template(no_system + PARTS.replace("MARK", "[IMG]"), "mistral3")
    request = PromptRequest(
        messages=[
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": [IMAGE, text("what?")]},
        ]
    )
    assert made.render(request).pieces == ("<user>be brief\n\n[IMG]what?",)


def test_kinds_that_are_not_known_to_see_have_no_family() -> None:
    assert image_family("llama") is None
    assert image_family("whisper") is None
    assert image_family(None) is None


def test_a_folder_sees_when_its_type_and_its_files_do(tmp_path: Path) -> None:
    write_seeing_model(tmp_path / "a")
    entry = read_model_folder(tmp_path / "a", "a", regular_files(tmp_path / "a"))
    assert entry.images is family("qwen2_5_vl")
    config = tmp_path / "a" / "genai_config.json"
    config.write_text(config.read_text().replace('"type": "qwen2_5_vl"', '"type": "llama"'))
    assert read_model_folder(tmp_path / "a", "a", regular_files(tmp_path / "a")).images is None
    config.write_text(config.read_text().replace('"type": "llama"', '"type": "fara"').replace('"vision": {', '"x": {'))
    assert read_model_folder(tmp_path / "a", "a", regular_files(tmp_path / "a")).images is None

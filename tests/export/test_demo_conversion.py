"""The demo model as it is pulled, against its source.

The default layout multiplies the source's own 4-bit levels in float32, so its logits differ from a float64 forward pass by rounding alone:
measured 1.5e-6 to 4e-6 (relative, root mean square). The bound leaves room for other processors' kernels.
"""

from pathlib import Path

import pytest

from prism.export.convert import convert_gguf
from prism.export.genai_config import DynamicBatching
from prism.export.gguf_model import GgufModel
from tests.export.bpe_reference import ReferenceTokenizer
from tests.export.engine_helpers import Engine
from tests.export.llama_reference import reference_of_gguf, relative_error
from tests.export.paged_engine import PagedEngine

pytestmark = [pytest.mark.demo, pytest.mark.engine, pytest.mark.timeout(600)]

SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
PROMPT = f"<|im_start|>system\n{SYSTEM}<|im_end|>\n<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
END = 2


@pytest.fixture(scope="module")
def engine(demo_model_dir: Path) -> Engine:
    return Engine(demo_model_dir)


def test_logits_are_those_of_the_source(engine: Engine, demo_gguf: Path) -> None:
    ids = engine.encode(PROMPT)
    expected = reference_of_gguf(demo_gguf).last_logits(ids)

    logits = engine.last_logits(ids)

    assert relative_error(logits, expected) < 1e-4
    assert logits.argmax() == expected.argmax()


def test_it_knows_the_capital_of_france_and_ends_its_answer(engine: Engine) -> None:
    answer = engine.answer_ids(engine.encode(PROMPT), most=40)

    assert "Paris" in engine.decode(answer)
    assert answer[-1] == END


def test_the_paged_form_answers_as_the_source_does_alone_and_among_others(
    engine: Engine, demo_gguf: Path, tmp_path: Path
) -> None:
    convert_gguf(demo_gguf, tmp_path, progress=lambda *_: None, batching=DynamicBatching(blocks=64))
    paged, ids = PagedEngine(tmp_path), engine.encode(PROMPT)
    prompts = {"first": ids, "second": engine.encode(PROMPT.replace("France", "Italy")), "third": ids}

    alone = paged.answers({"only": ids}, {"only": 0}, most=20)["only"]
    together = paged.answers(prompts, {"first": 0, "second": 2, "third": 4}, most=20)

    assert "The capital of France is Paris." in engine.decode(alone)
    assert together["first"] == together["third"] == alone == engine.answer_ids(ids, most=20)[:-1]


def test_slicing_the_prompt_does_not_change_the_answer(engine: Engine) -> None:
    ids = engine.encode(PROMPT)

    assert engine.answer_ids(ids, most=30, slice_length=16) == engine.answer_ids(ids, most=30)


@pytest.fixture(scope="module")
def trained(demo_gguf: Path) -> ReferenceTokenizer:
    return ReferenceTokenizer(GgufModel(demo_gguf).tokenizer())


@pytest.mark.parametrize(
    "text",
    [
        "What is the capital of France?",
        "12345 + 67 = 12412, about 3.5 %, or 1,000.50",
        "1. one\n2. two\n\n\nthree 4",
        "😀👩‍👩‍👧 and 🇩🇪🇫🇷",
        "日本語のテキスト 한국어 中文",
        "def f(x):\n    if x > 10:\n        return x ** 2\n\n\n\treturn 'a'\n",
        "   leading and trailing   ",
        "it's we'll I'VE don't",
        "naïve café Ünïcödé e\u0301",
        "مرحبا हिन्दी ไทย",
        "\r\n\r\nend",
    ],
)
def test_ids_are_those_of_the_trained_tokenizer(engine: Engine, trained: ReferenceTokenizer, text: str) -> None:
    ids = engine.encode(text)

    assert ids == trained.encode(text)
    assert engine.decode(ids) == text


def test_control_tokens_in_a_prompt_are_one_id_each(engine: Engine) -> None:
    assert engine.encode("<|im_start|>a<|im_end|>\n") == [1, *engine.encode("a"), 2, *engine.encode("\n")]

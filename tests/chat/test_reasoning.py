"""Thinking and answer told apart: the rules, the same for any split, and in linear time."""

import re
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from prism.chat.answer_pieces import AnswerPiece, ContentText, ReasoningText
from prism.chat.reasoning import ReasoningSplitter
from prism.chat.reasoning_tags import DEFAULT_PAIRS, THINK, TagPair, pairs_for_template

FRAGMENTS = [
    "<think>", "</think>", "<think", "</", "<", ">", "think", "[THINK]", "[/THINK]", "[", "<div>", "```", "~~", "`",
    "\n", "\r\n", " ", "        ", "\t", "a", "word ", "é", "<|channel|>analysis<|message|>", "<|end|>",
    "<|start|>assistant<|channel|>final<|message|>", "x" * 250,
]  # fmt: skip
TEXT = st.lists(st.sampled_from(FRAGMENTS), max_size=14).map("".join)
OPENED = st.sampled_from([None, THINK])


def gather(pieces: list[AnswerPiece]) -> tuple[str, str]:
    reasoning = "".join(piece.text for piece in pieces if isinstance(piece, ReasoningText))
    content = "".join(piece.text for piece in pieces if isinstance(piece, ContentText))
    return reasoning, content


def split(*texts: str, opened: TagPair | None = None) -> tuple[str, str]:
    splitter = ReasoningSplitter(opened_by_prompt=opened)
    pieces = [piece for text in texts for piece in splitter.feed(text)]
    return gather(pieces + splitter.finish())


@st.composite
def texts_in_pieces(draw: st.DrawFn) -> list[str]:
    text = draw(TEXT)
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=10)))
    return [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


@given(pieces=texts_in_pieces(), opened=OPENED)
@settings(deadline=None)
def test_any_split_gives_the_same_as_the_whole(pieces: list[str], opened: TagPair | None) -> None:
    assert split(*pieces, opened=opened) == split("".join(pieces), opened=opened)


@given(text=TEXT, opened=OPENED)
@settings(deadline=None)
def test_single_characters_give_the_same_as_the_whole(text: str, opened: TagPair | None) -> None:
    assert split(*text, opened=opened) == split(text, opened=opened)


@given(text=st.text(alphabet="ab \n\t<>`", max_size=60))
@settings(deadline=None)
@example("def f():\n        return 1")
@example("\n       \n return")
@example("   \n\n        ")
def test_text_without_tags_is_kept_to_the_last_blank(text: str) -> None:
    """D-01: white space of an ordinary answer was dropped."""
    assert split(*text) == ("", text)


OPENING = "|".join(re.escape(pair.opening) for pair in DEFAULT_PAIRS)
ANSWER_OPENING = "|".join(re.escape(opening) for pair in DEFAULT_PAIRS for opening in pair.answer_openings)
PAIRS = {pair.opening: pair for pair in DEFAULT_PAIRS}
BLANK = "[ \\t\\r\\n]*"


def split_slowly(text: str, opened: TagPair | None) -> tuple[str, str]:
    """The rules once more, said for a whole text."""
    preamble = ""
    blocks: list[str] = []

    if opened is None:
        preamble, opened, text = find_first_block(text)

        if opened is None:
            return "", preamble

    while opened is not None:
        text = re.sub(rf"^({BLANK}){re.escape(opened.opening)}", r"\1", text, count=1)
        body, closing, text = text.partition(opened.closing)
        blocks.append(body.strip("\r\n") if body.strip(" \t\r\n") else "")
        opening = re.match(f"{BLANK}({OPENING})", text)
        opened = PAIRS[opening[1]] if opening and closing else None
        text = text[opening.end() :] if opening and closing else text

    answer_opening = re.match(f"{BLANK}(?:{ANSWER_OPENING})", text)
    rest = text[answer_opening.end() :] if answer_opening else text.lstrip("\r\n")
    return "\n\n".join(filter(None, blocks)), preamble + rest


def find_first_block(text: str) -> tuple[str, TagPair | None, str]:
    """What stands before the first block, its pair (None if there is no block), and what stands behind its opening tag."""
    if (answer_opening := re.match(f"{BLANK}(?:{ANSWER_OPENING})", text)) is not None:
        return text[answer_opening.end() :], None, ""

    begin = len(text) - len(text.lstrip(" \t\r\n"))

    for line in re.finditer(f"(?:^|\n){BLANK}(?=[^ \\t\\r\\n])", text):
        opening = re.compile(OPENING).match(text, line.end())

        if line.end() - begin >= 256 or re.compile("```|~~~").match(text, line.end()):
            break

        if opening is not None:
            return "" if line.end() == begin else text[: line.end()], PAIRS[opening[0]], text[opening.end() :]

    return text, None, ""


@given(text=TEXT, opened=OPENED)
@settings(max_examples=400, deadline=None)
def test_rules_hold_for_any_text(text: str, opened: TagPair | None) -> None:
    assert split(text, opened=opened) == split_slowly(text, opened)


@pytest.mark.parametrize(
    ("text", "reasoning", "content"),
    [
        ("<think>hm</think>Answer", "hm", "Answer"),
        (" \n<think>\nhm\n\n</think>\n\nAnswer", "hm", "Answer"),
        ("<think>hm</think>\n\n    code", "hm", "    code"),
        ("<think>hm", "hm", ""),
        ("<think>hm\n", "hm", ""),
        ("<think>a\n\nb</think>c", "a\n\nb", "c"),
        ("<think></think>Answer", "", "Answer"),
        ("<think>\n\n</think>\n\nAnswer", "", "Answer"),
        ("<think> \n </think>Answer", "", "Answer"),
        ("<think>a</think>\n<think>b</think>\nAnswer", "a\n\nb", "Answer"),
        ("<think></think><think>b</think>Answer", "b", "Answer"),
        ("<think>a</think><think></think>Answer", "a", "Answer"),
        ("<think>a</think>Answer <think>b</think>", "a", "Answer <think>b</think>"),
        ("<think>a</think>Answer\n<think>b</think>", "a", "Answer\n<think>b</think>"),
        ("<div>hello</div>", "", "<div>hello</div>"),
        ("<thin", "", "<thin"),
        ("<think>a </thin", "a </thin", ""),
        ("<think>use <think> twice</think>ok", "use <think> twice", "ok"),
        ("a</think>b", "", "a</think>b"),
        ("[THINK]hm[/THINK]Answer", "hm", "Answer"),
        ("[THINK]hm</think>[/THINK]Answer", "hm</think>", "Answer"),
        ("<|START_THINKING|>plan<|END_THINKING|><|START_RESPONSE|>Hello", "plan", "Hello"),
        ("<seed:think>hm</seed:think>Answer", "hm", "Answer"),
        ("<|channel>thought\nhm\n<channel|>Answer", "hm", "Answer"),
        ("<|channel>thought\n<channel|>Answer", "", "Answer"),
        (
            "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>Answer",
            "hm",
            "Answer",
        ),
        ("<|channel|>final<|message|>\nAnswer", "", "\nAnswer"),
        ("", "", ""),
        ("\n\n", "", "\n\n"),
    ],
)
def test_thinking_is_told_from_the_answer(text: str, reasoning: str, content: str) -> None:
    """B-55 and D-18."""
    assert split(text) == (reasoning, content)
    assert split(*text) == (reasoning, content)


@pytest.mark.parametrize(
    ("text", "reasoning", "content"),
    [
        ("hm\n</think>\n\nAnswer", "hm", "Answer"),
        ("<think>\nhm</think>Answer", "hm", "Answer"),
        ("\n<think>\nhm</think>Answer", "hm", "Answer"),
        ("<thi", "<thi", ""),
        ("hm", "hm", ""),
        ("</think>Answer", "", "Answer"),
        ("hm</think>\n<think>more</think>Answer", "hm\n\nmore", "Answer"),
        ("hm</think>Answer\n<think>x</think>", "hm", "Answer\n<think>x</think>"),
    ],
)
def test_thinking_that_the_prompt_opened(text: str, reasoning: str, content: str) -> None:
    """D-04."""
    assert split(text, opened=THINK) == (reasoning, content)
    assert split(*text, opened=THINK) == (reasoning, content)


@pytest.mark.parametrize(
    ("text", "reasoning", "content"),
    [
        ("Let me see.\n<think>hm</think>\n\nAnswer", "hm", "Let me see.\nAnswer"),
        ("Let me see.\n\n  <think>hm</think>Answer", "hm", "Let me see.\n\n  Answer"),
        ("Sure.\n<think>hm", "hm", "Sure.\n"),
        ("Use <think> to think.</think>", "", "Use <think> to think.</think>"),
        ("Like so:\n```\n<think>\nhm\n</think>\n```", "", "Like so:\n```\n<think>\nhm\n</think>\n```"),
        ("```xml\n<think>a</think>\n```", "", "```xml\n<think>a</think>\n```"),
        ("x" * 254 + "\n<think>a</think>b", "a", "x" * 254 + "\nb"),
        ("x" * 256 + "\n<think>a</think>", "", "x" * 256 + "\n<think>a</think>"),
    ],
)
def test_preamble_before_thinking_is_content_and_a_mentioned_tag_stays(text: str, reasoning: str, content: str) -> None:
    """B-55 (preamble) and D-18 (a literal tag in an answer was eaten)."""
    assert split(text) == (reasoning, content)
    assert split(*text) == (reasoning, content)


def test_ordinary_text_passes_at_once() -> None:
    splitter = ReasoningSplitter()
    assert splitter.feed("Hel") == [ContentText("Hel")]
    assert splitter.feed("lo <") == [ContentText("lo <")]
    assert splitter.feed("b>") == [ContentText("b>")]


def test_thinking_streams_and_only_a_possible_tag_is_held() -> None:
    splitter = ReasoningSplitter()
    assert splitter.feed("<think>a") == [ReasoningText("a")]
    assert splitter.feed("b </th") == [ReasoningText("b ")]
    assert splitter.feed("e") == [ReasoningText("</the")]
    assert splitter.feed(" c\n") == [ReasoningText(" c")]
    assert splitter.feed("d</think>\n") == [ReasoningText("\nd")]
    assert splitter.feed("e") == [ContentText("e")]
    assert splitter.is_passing


def test_piece_that_looked_like_a_tag_is_released_as_soon_as_it_is_not() -> None:
    splitter = ReasoningSplitter()
    assert splitter.feed(" <thi") == []
    assert splitter.feed("s>") == [ContentText(" "), ContentText("<this>")]


def test_tags_from_common_prompts_count_only_for_models_that_use_them() -> None:
    text = "<thinking>a</thinking>b"
    plain = ReasoningSplitter(pairs=pairs_for_template("{{ messages }}<think>"))
    assert gather(plain.feed(text) + plain.finish()) == ("", text)
    taught = ReasoningSplitter(pairs=pairs_for_template("... <thinking> ..."))
    assert gather(taught.feed(text) + taught.finish()) == ("a", "b")


def test_model_without_a_template_gets_the_default_pairs() -> None:
    assert pairs_for_template(None) == DEFAULT_PAIRS


def seconds(unit: str, count: int, piece_length: int) -> float:
    text = unit * count
    splitter = ReasoningSplitter()
    begin = time.process_time()

    for start in range(0, len(text), piece_length):
        splitter.feed(text[start : start + piece_length])

    splitter.finish()
    return time.process_time() - begin


@pytest.mark.parametrize("unit", ["\n", "<think>\n</think>", "<think></thin", "<think>", "</think", "\n<thin", "a"])
@pytest.mark.parametrize("piece_length", [3, 1 << 30])
def test_cost_grows_linearly(unit: str, piece_length: int) -> None:
    base = max(1_000, 12_000 // len(unit))
    short = min(seconds(unit, base, piece_length) for _ in range(3))
    long = min(seconds(unit, base * 16, piece_length) for _ in range(2))
    assert long < 40 * short + 0.02

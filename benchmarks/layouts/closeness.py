"""How close logits are to float32's, over the answers that float32 gives. Called by `command.py`; blocks for a minute a layout."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from prism.chat.prompt import ChatTemplate, PromptRequest, TemplateMode

Logits: TypeAlias = npt.NDArray[np.float32]

ANSWER_TOKENS = 12
_PARIS_TOKENS = 24
_CAPITAL = "What is the capital of France?"

# What people ask a small assistant: facts, sums, code, other languages, short texts, and questions of one word.
QUESTIONS = (
    _CAPITAL,
    "Who wrote Hamlet?",
    "What is 12 + 30?",
    "What is 7 times 8?",
    "Name three planets.",
    "Name five fruits, separated by commas.",
    "Why is the sky blue?",
    "How do plants make food?",
    "Explain gravity to a child.",
    "What is a black hole?",
    "Write a haiku about rain.",
    "Write two sentences about a lighthouse.",
    "Write the first line of a detective story.",
    "Write a limerick about a cat.",
    "Write a thank-you note to a teacher.",
    "Translate 'good morning' to Spanish.",
    "Translate 'I am hungry' to French.",
    "¿Cuál es la capital de España?",
    "Wie heißt die Hauptstadt von Deutschland?",
    "日本の首都はどこですか。",
    "Write a Python function that adds two numbers.",
    "What does `for i in range(3): print(i)` print?",
    "Write a SQL query that counts the rows of the table users.",
    "What is a list comprehension in Python?",
    "Explain what an HTTP status code is.",
    "Give a recipe for pancakes.",
    "How long do I boil an egg?",
    "What should I pack for a day of hiking?",
    "How can I sleep better?",
    "Give me three tips for a job interview.",
    "Is a tomato a fruit or a vegetable?",
    "What is the boiling point of water in degrees Celsius?",
    "How many days are in a leap year?",
    "What is the largest ocean?",
    "Who was the first person on the Moon?",
    "What is the speed of light?",
    "What causes the tides?",
    "What is the difference between weather and climate?",
    "Summarise in one sentence: The river rose after days of rain, and the village moved its animals to the hill.",
    "Is this review positive or negative? 'The food was cold and the waiter was rude.'",
    "Correct the grammar: 'She go to school yesterday.'",
    "Give a synonym of 'happy'.",
    "What is the opposite of 'ancient'?",
    "Spell the word 'necessary'.",
    "Continue the sequence: 2, 4, 8, 16,",
    "If I have 3 apples and eat one, how many are left?",
    "Which is heavier, a kilogram of iron or a kilogram of feathers?",
    "Return the JSON object with the keys name and age for Anna, 30 years old.",
    "Hello!",
    "Thanks",
)


@dataclass(frozen=True, slots=True)
class Reference:
    """sequences: prompt and greedy answer of each question. logits: after the prompt and after each token of the answer."""

    sequences: Sequence[Sequence[int]]
    answer_tokens: Sequence[int]
    logits: Sequence[Logits]


@dataclass(frozen=True, slots=True)
class Closeness:
    """error: mean distance of the logits, relative, root mean square. agreement: share of positions with the same best token.

    divergence: mean Kullback-Leibler divergence of the next token, in nats. knows_paris: whether the greedy answer names it.
    """

    error: float
    agreement: float
    divergence: float
    knows_paris: bool


def reference_of(folder: Path) -> Reference:
    """Answer every question greedily."""
    model, tokenizer = _load(folder)
    sequences, counts, logits = [], [], []

    for question in QUESTIONS:
        prompt = _prompt_ids(folder, tokenizer, question)
        answer, rows = _answer(model, prompt, ANSWER_TOKENS)
        sequences.append([*prompt, *answer])
        counts.append(len(answer))
        logits.append(rows)

    return Reference(sequences, counts, logits)


def closeness_of(folder: Path, reference: Reference) -> Closeness:
    """Feed the reference's answers token by token, and compare the logits before each."""
    model, tokenizer = _load(folder)
    compared = [
        _compared(expected, _forced(model, sequence, count))
        for sequence, count, expected in zip(
            reference.sequences, reference.answer_tokens, reference.logits, strict=True
        )
    ]
    errors, agreements, divergences = (np.concatenate(values) for values in zip(*compared, strict=True))
    answer, _ = _answer(model, _prompt_ids(folder, tokenizer, _CAPITAL), _PARIS_TOKENS)
    knows_paris = "Paris" in tokenizer.decode(np.asarray(answer, np.int32))

    return Closeness(float(errors.mean()), float(agreements.mean()), float(divergences.mean()), knows_paris)


# The engine's library has no type information.
def _load(folder: Path) -> tuple[Any, Any]:
    import onnxruntime_genai as og

    model = og.Model(str(folder))

    return model, og.Tokenizer(model)


def _prompt_ids(folder: Path, tokenizer: Any, question: str) -> list[int]:
    template = ChatTemplate.load(folder, folder.name, TemplateMode.AUTO)
    rendered = template.render(PromptRequest(messages=[{"role": "user", "content": question}]))

    return [int(token) for token in tokenizer.encode("".join(rendered.pieces))]


def _generator(model: Any, ids: Sequence[int], room: int) -> Any:
    import onnxruntime_genai as og

    params = og.GeneratorParams(model)
    params.set_search_options(max_length=len(ids) + room, do_sample=False)
    generator = og.Generator(model, params)
    generator.append_tokens(np.asarray(ids, np.int32))

    return generator


def _row(generator: Any) -> Logits:
    return np.array(generator.get_logits(), np.float32).reshape(-1)


def _answer(model: Any, prompt: Sequence[int], most: int) -> tuple[list[int], Logits]:
    """The greedy answer, and the logits before each of its tokens."""
    generator = _generator(model, prompt, most)
    answer: list[int] = []
    rows = []

    while not generator.is_done():
        rows.append(_row(generator))
        generator.generate_next_token()
        answer.append(int(generator.get_next_tokens()[0]))

    return answer, np.array(rows)


def _forced(model: Any, sequence: Sequence[int], answer_tokens: int) -> Logits:
    """The logits before each token of the answer that `sequence` ends with."""
    split = len(sequence) - answer_tokens
    generator = _generator(model, sequence[:split], answer_tokens + 1)
    rows = [_row(generator)]

    for token in sequence[split:-1]:
        generator.append_tokens(np.asarray([token], np.int32))
        rows.append(_row(generator))

    return np.array(rows)


def _compared(expected: Logits, got: Logits) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
    """Error, agreement and divergence at each position. A shift of all logits means nothing."""
    expected_64, got_64 = expected.astype(np.float64), got.astype(np.float64)
    centred = expected_64 - expected_64.mean(axis=1, keepdims=True)
    difference = centred - (got_64 - got_64.mean(axis=1, keepdims=True))
    errors = np.linalg.norm(difference, axis=1) / np.linalg.norm(centred, axis=1)
    log_p, log_q = _log_softmax(expected_64), _log_softmax(got_64)

    return (
        errors,
        expected.argmax(axis=1) == got.argmax(axis=1),
        (np.exp(log_p) * (log_p - log_q)).sum(axis=1),
    )


def _log_softmax(logits: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    shifted = logits - logits.max(axis=1, keepdims=True)
    result: npt.NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))

    return result

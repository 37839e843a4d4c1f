"""What a kept prefix saves: the second turn of a long conversation, and the same prompt again, against the first turn in the same run."""

from dataclasses import dataclass
from pathlib import Path

from benchmarks.result import Result, at_most, median, rounded
from benchmarks.server import Server, Streamed, running_server

_ROUNDS = 5
_ANSWER_TOKENS = 32
# About a thousand tokens, with what the template puts round them.
_SENTENCE = "The river is long, and the people of the valley live beside it in small houses of stone. "
_SENTENCES = 48


@dataclass(frozen=True, slots=True)
class _Round:
    """One conversation: its first turn, its second, and the second asked again."""

    first: Streamed
    second: Streamed
    again: Streamed


def measure_reuse(models: Path) -> list[Result]:
    """Each round is a conversation that begins otherwise than all before it."""
    with running_server(models) as server:
        rounds = [_converse(server, number) for number in range(_ROUNDS)]

    return [_second_turn(rounds), _same_prompt(rounds)]


def _converse(server: Server, number: int) -> _Round:
    messages = [{"role": "user", "content": f"Story {number}. {_SENTENCE * _SENTENCES}Who lives there?"}]
    first = server.stream_chat(messages, _ANSWER_TOKENS)
    messages += [{"role": "assistant", "content": first.text}, {"role": "user", "content": "And what do they do?"}]
    return _Round(first, server.stream_chat(messages, _ANSWER_TOKENS), server.stream_chat(messages, _ANSWER_TOKENS))


def _second_turn(rounds: list[_Round]) -> Result:
    return at_most(
        "second_turn_over_first",
        median([each.second.ttft_s / each.first.ttft_s for each in rounds]),
        "ratio",
        0.05,
        first_ms=rounded([1000 * each.first.ttft_s for each in rounds], 1),
        second_ms=rounded([1000 * each.second.ttft_s for each in rounds], 1),
        prompt_tokens=[each.second.usage["prompt_tokens"] for each in rounds],
        cached_tokens=[each.second.cached_tokens for each in rounds],
    )


def _same_prompt(rounds: list[_Round]) -> Result:
    """One token is fed, so the time of one token of the answer is what it cannot be below."""
    return at_most(
        "same_prompt_again",
        median([1000 * each.again.ttft_s for each in rounds]),
        "ms",
        20,
        again_ms=rounded([1000 * each.again.ttft_s for each in rounds], 1),
        token_ms=rounded([1000 / each.again.tokens_per_s for each in rounds], 1),
    )

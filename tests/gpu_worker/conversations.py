"""Clients that talk to an engine in turn and do what clients do to a history. Each answer is compared with that of a fresh sequence."""

from random import Random

from gpu_worker.engine_port import Engine, TokenSequence
from gpu_worker.sampling import search_options
from ipc.messages import PrefixReuse, Sampling

_SYSTEM = list(range(40, 60))
_SLICE = 16
_LONGEST_PROMPT = 220


class Conversation:
    """One client's history: turns of tokens, its own and the model's in turn."""

    def __init__(self, random: Random, name: str | None) -> None:
        self._random = random
        self.name = name
        self.turns = [self._words()]

    @property
    def prompt(self) -> list[int]:
        return [*_SYSTEM, *(token for turn in self.turns for token in turn)]

    def go_on(self, answer: list[int]) -> None:
        """Take the answer in, or change the history in another way."""
        changes = (self._grow, self._grow, self._grow, self._regenerate, self._edit, self._shorten, self._begin_anew)
        self._random.choice(changes)(answer)

        if len(self.prompt) > _LONGEST_PROMPT:
            self._begin_anew(answer)

    def _grow(self, answer: list[int]) -> None:
        """The next question, or the result of a tool."""
        self.turns += [answer, self._words()]

    def _regenerate(self, answer: list[int]) -> None:
        del answer

    def _edit(self, answer: list[int]) -> None:
        del answer
        self.turns[self._random.randrange(len(self.turns))] = self._words()

    def _shorten(self, answer: list[int]) -> None:
        del answer
        self.turns = self.turns[: self._random.randint(1, len(self.turns))]

    def _begin_anew(self, answer: list[int]) -> None:
        del answer
        self.turns = [self._words()]

    def _words(self) -> list[int]:
        return [self._random.randrange(100, 250) for _ in range(self._random.randint(1, 12))]


class Talk:
    """Several conversations with one engine. prompt_tokens, cached_tokens: asked and reused in all."""

    def __init__(self, engine: Engine, random: Random) -> None:
        self._engine = engine
        self._random = random
        self.prompt_tokens = 0
        self.cached_tokens = 0

    def run(self, requests: int) -> None:
        names = [None, self._random.choice([None, "a"]), "b"]
        conversations = [Conversation(self._random, name) for name in names]

        for _ in range(requests):
            conversation = self._random.choice(conversations)
            conversation.go_on(self._ask(conversation))

    def _ask(self, conversation: Conversation) -> list[int]:
        """Ask as far as the client stays; return the answer as far as it got."""
        prompt = conversation.prompt
        sequence = self._start(prompt, PrefixReuse(conversation=conversation.name))
        assert sequence.cached_tokens < len(prompt)
        self.prompt_tokens += len(prompt)
        self.cached_tokens += sequence.cached_tokens
        leaves_early = self._random.random() < 0.1
        end = self._random.randint(sequence.cached_tokens, len(prompt)) if leaves_early else len(prompt)
        feed(sequence, prompt[:end])
        answer = [] if leaves_early else self._answer(sequence, self._random.choice([1, 2, 9, 17]))

        if self._random.random() < 0.1:
            sequence.close()
        else:
            sequence.keep()
            sequence.close()

        assert answer == self._fresh_answer(prompt, len(answer)), (prompt, sequence.cached_tokens)
        return answer

    def _fresh_answer(self, prompt: list[int], count: int) -> list[int]:
        sequence = self._start(prompt, None)
        feed(sequence, prompt)
        answer = [sequence.step() for _ in range(count)]
        sequence.close()
        return answer

    def _answer(self, sequence: TokenSequence, count: int) -> list[int]:
        answer: list[int] = []

        while len(answer) < count and not self._engine.facts.eos_ids & set(answer):
            answer.append(sequence.step())

        return answer

    def _start(self, prompt: list[int], reuse: PrefixReuse | None) -> TokenSequence:
        options = search_options(
            Sampling(temperature=0.0), max_length=len(prompt) + 20, model_top_k=None, vocabulary_size=None
        )
        return self._engine.start(prompt, options, reuse)


def feed(sequence: TokenSequence, prompt: list[int]) -> None:
    """Feed what the sequence does not know, in slices."""
    for first in range(sequence.cached_tokens, len(prompt), _SLICE):
        sequence.feed(prompt[first : first + _SLICE])

"""Short ways to run an exported folder through the engine, as the worker does."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime_genai as og


class Engine:
    """A loaded model with its tokenizer."""

    def __init__(self, folder: Path) -> None:
        self.model = og.Model(str(folder))
        self.tokenizer = og.Tokenizer(self.model)

    def encode(self, text: str) -> list[int]:
        """The ids of a text."""
        return [int(token) for token in self.tokenizer.encode(text)]

    def last_logits(self, ids: Sequence[int], *, slice_length: int = 10_000) -> npt.NDArray[np.float32]:
        """The logits after `ids`, which are fed in slices."""
        generator = self._generator(len(ids) + 1)
        self._feed(generator, ids, slice_length)

        return np.array(generator.get_logits()).reshape(-1)

    def answer_ids(self, ids: Sequence[int], *, most: int = 60, slice_length: int = 10_000) -> list[int]:
        """The greedy answer, with the end token if it came."""
        generator = self._generator(len(ids) + most)
        self._feed(generator, ids, slice_length)
        answer: list[int] = []

        while not generator.is_done():
            generator.generate_next_token()
            answer.append(int(generator.get_next_tokens()[0]))

        return answer

    def decode(self, ids: Sequence[int]) -> str:
        """The text of some ids."""
        return str(self.tokenizer.decode(np.asarray(ids, np.int32)))

    def _generator(self, max_length: int) -> og.Generator:
        params = og.GeneratorParams(self.model)
        params.set_search_options(max_length=max_length, do_sample=False)

        return og.Generator(self.model, params)

    @staticmethod
    def _feed(generator: og.Generator, ids: Sequence[int], slice_length: int) -> None:
        for start in range(0, len(ids), slice_length):
            generator.append_tokens(np.asarray(ids[start : start + slice_length], np.int32))

"""One prompt and its answer in a generator of ONNX Runtime GenAI. Made by `engine.py`, fed and stepped by the batch.

Each call blocks for a forward pass and holds the GIL. Every exception of the library leaves as an EngineFault, or a RequestFault
where a constraint is to blame.
"""

from collections.abc import Sequence

from gpu_worker.errors import EngineFault
from gpu_worker.fault_text import engine_fault
from gpu_worker.genai_api import NativeGenerator, NativeGeneratorParams, NativeInputs
from gpu_worker.guidance import guided_fault
from gpu_worker.sampling import SearchOptions
from ipc.messages import FailCode


class GenAiSequence:
    """One generator. See `TokenSequence` in `engine_port.py`."""

    cached_tokens = 0

    def __init__(self, generator: NativeGenerator, params: NativeGeneratorParams, *, is_guided: bool = False) -> None:
        self._generator: NativeGenerator | None = generator
        self._params = params
        self._fault = guided_fault if is_guided else engine_fault

    def rewind(self, length: int, options: SearchOptions) -> None:
        generator = self._open_generator()

        try:
            # The generator reads these at each token. Its length and its random numbers are its own and stay.
            self._params.set_search_options(temperature=options.temperature, top_p=options.top_p, top_k=options.top_k)

            if length < generator.token_count():
                generator.rewind_to(length)
        except Exception as error:  # the library raises RuntimeError for everything
            raise engine_fault(error) from error

    def show(self, tensors: NativeInputs) -> None:
        try:
            self._open_generator().set_inputs(tensors)
        except EngineFault:
            raise
        except Exception as error:  # the library raises RuntimeError for everything
            raise engine_fault(error) from error

    def feed(self, tokens: Sequence[int]) -> None:
        try:
            self._open_generator().append_tokens(list(tokens))
        except EngineFault:
            raise
        except Exception as error:  # the library raises RuntimeError for everything
            raise self._fault(error) from error

    def step(self) -> int:
        generator = self._open_generator()

        try:
            generator.generate_next_token()
            return int(generator.get_next_tokens()[0])
        except Exception as error:  # the library raises RuntimeError for everything
            raise self._fault(error) from error

    def _open_generator(self) -> NativeGenerator:
        if self._generator is None:
            raise EngineFault(FailCode.ENGINE_ERROR, "the sequence is closed", is_fatal=False)

        return self._generator

    def keep(self) -> None:
        self.close()

    def close(self) -> None:
        # The generator holds the cache of the whole sequence; dropping the last reference frees it.
        self._generator = None


def native_options(options: SearchOptions) -> dict[str, float]:
    """Return the options under the names of the library."""
    native: dict[str, float] = {
        "max_length": options.max_length,
        "do_sample": options.do_sample,
        "temperature": options.temperature,
        "top_p": options.top_p,
        "top_k": options.top_k,
        "random_seed": options.seed,
        # A config may ask for beams, whose tokens change after the fact and cannot be streamed.
        "num_beams": 1,
        "num_return_sequences": 1,
    }

    if options.repetition_penalty is not None:
        native["repetition_penalty"] = options.repetition_penalty

    return native

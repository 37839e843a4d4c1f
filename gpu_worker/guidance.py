"""Constraints on answers: hand one to the engine's grammar compiler, and say in one line why it would not take it.

Called by `engine.py` and `paged_batch.py` when a sequence with a constraint begins. Compiling blocks for milliseconds, the first time for
some tenths of a second (the vocabulary's tree is built). The compiler's own bounds on work keep the worst text below some seconds, and it
burns CPU meanwhile, so the front does not take it for a hang. A compiled grammar belongs to one generator.
"""

import re

from gpu_worker.errors import EngineFault, RequestFault
from gpu_worker.fault_text import cause_of, engine_fault, one_line
from gpu_worker.genai_api import GenAi, NativeGenerator, NativeGeneratorParams, NativeModel
from ipc.messages import Guidance, GuidanceKind, RejectCode

# No compiler takes this, so a build that does has none, and would make free text in silence.
_BROKEN = Guidance(GuidanceKind.LARK, "start: nowhere")

_NO_COMPILER = "this build of the engine has no constrained decoding"

# How the engine (0.18) begins what it says about a text that it cannot compile.
_REFUSED = "Error creating grammar: "
_NO_TOKENIZER = "llg_tokenizer"
# What it says when the work for one token grows past its bounds; the constraint is to blame, and the engine is fine.
_TOO_MUCH = re.compile(r"Error (?:committing tokens|computing mask): *(.*)", re.DOTALL)
# Where in the text it was, as seen by nobody but us: the text is made by the front.
_POSITION = re.compile(r"^at \d+\(\d+\): ")
_WRAPPING = "failed to compile JSON schema: "
_EXCERPT = re.compile(r"\n +\d+ \| .*|\n<(?:state|backtrace)>.*", re.DOTALL)


class Constrainer:
    """Begins generators whose answers are constrained, for one model."""

    def __init__(self, library: GenAi, model: NativeModel) -> None:
        self._library = library
        self._model = model
        self._is_proven = False

    def begin(self, params: NativeGeneratorParams, guidance: Guidance) -> NativeGenerator:
        """Return a generator that keeps to the constraint.

        Raises RequestFault: GUIDANCE_REFUSED when the text cannot be compiled, GUIDANCE_UNSUPPORTED when this engine cannot constrain
        this model; EngineFault for all else.
        """
        if not self._is_proven:
            self._prove()
            self._is_proven = True

        return self._begin(params, guidance)

    def _begin(self, params: NativeGeneratorParams, guidance: Guidance) -> NativeGenerator:
        try:
            params.set_guidance(guidance.kind.value, guidance.text)
            return self._library.Generator(self._model, params)
        except Exception as error:  # the library raises RuntimeError for everything
            raise begin_fault(error) from error

    def _prove(self) -> None:
        """A build without a compiler ignores every constraint, and says so in its own log only."""
        params = self._library.GeneratorParams(self._model)
        params.set_search_options(max_length=2)

        try:
            self._begin(params, _BROKEN)
        except RequestFault as fault:
            if fault.code is RejectCode.GUIDANCE_REFUSED:
                return

            raise

        raise _unsupported(_NO_COMPILER)


def guided_fault(error: BaseException) -> RequestFault | EngineFault:
    """Name a fault of a step under a constraint."""
    too_much = _TOO_MUCH.search(str(error))

    if too_much is None:
        return engine_fault(error)

    return RequestFault(
        RejectCode.GUIDANCE_REFUSED, f"it allows too much at once for the engine to follow: {_reason(too_much[1])}"
    )


def begin_fault(error: Exception) -> RequestFault | EngineFault:
    """Name a fault of beginning a sequence under a constraint."""
    text = str(error)

    if isinstance(error, AttributeError):
        return _unsupported(_NO_COMPILER)

    if text.startswith(_REFUSED):
        return RequestFault(RejectCode.GUIDANCE_REFUSED, _reason(text.removeprefix(_REFUSED)))

    if _NO_TOKENIZER in text:
        return _unsupported(f"the engine cannot read the model's tokenizer for it: {cause_of(error)}")

    return engine_fault(error)


def _unsupported(reason: str) -> RequestFault:
    return RequestFault(RejectCode.GUIDANCE_UNSUPPORTED, reason)


def _reason(text: str) -> str:
    """The compiler's words on one line, without the place in a text that the client has never seen."""
    return one_line(_POSITION.sub("", _EXCERPT.sub("", text)).removeprefix(_WRAPPING))

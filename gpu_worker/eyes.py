"""The sight of a model: pictures and a prompt into token ids and tensors, by the engine's multimodal processor.

Made by `engine.py` when the first picture comes. Each call blocks for some hundredths of a second a picture and holds the GIL. The pictures
are PNG files of our own making (`picture_files.py`); client's bytes never come here.
"""

from collections.abc import Sequence

from gpu_worker.engine_port import Picture, ReadPrompt, ShownPictures
from gpu_worker.errors import EngineFault, RequestFault
from gpu_worker.fault_text import cause_of, engine_fault
from gpu_worker.genai_api import GenAi, NativeModel, NativeProcessor
from gpu_worker.picture_prompt import common_end, picture_prompt, without_separator
from gpu_worker.prompt import PromptEncoder
from gpu_worker.tokenizer_files import AddedToken
from ipc.messages import RejectCode

_IDS = "input_ids"


class Eyes:
    """Reads prompts with pictures for one model."""

    def __init__(self, library: GenAi, model: NativeModel, prompts: PromptEncoder, spare: Sequence[AddedToken]) -> None:
        """Raises EngineFault when the model has no processor."""
        self._library = library
        self._prompts = prompts
        self._spare = spare

        try:
            self._processor: NativeProcessor = model.create_multimodal_processor()
        except Exception as error:  # the library raises RuntimeError for everything
            raise engine_fault(error) from error

    def read(self, pieces: Sequence[str], pictures: Sequence[Picture]) -> ReadPrompt:
        """Return the ids of the prompt and what goes with them. Raises RequestFault, and EngineFault when memory runs out."""
        prompt = picture_prompt(pieces, [picture.marker for picture in pictures], self._spare)

        try:
            files = self._library.Images.open_bytes(*(picture.png for picture in pictures))
            tensors = self._processor(prompt.text, images=files)
            raw = tensors[_IDS].as_numpy().ravel().tolist()
            del tensors[_IDS]
        except Exception as error:  # the library raises RuntimeError for everything
            raise _fault(error, pictures) from error

        ids = self._prompts.with_one_frame(without_separator(raw, prompt))
        # Whatever of the end of the prompt is what its text alone gives holds nothing of a picture.
        text_tokens = common_end(ids, self._prompts.encode(prompt.tail)) if prompt.tail else 0
        return ReadPrompt(ids, ShownPictures(tensors, len(ids) - text_tokens))


def _fault(error: Exception, pictures: Sequence[Picture]) -> RequestFault | EngineFault:
    fault = engine_fault(error)

    # A step of the processor names itself, "[Resize]: ... (invalid parameters, unsupported mode, or out of memory)": that it is memory is
    # a guess which is always wrong.
    if fault.is_fatal and not str(fault).startswith("["):
        return fault

    # It does not say of which picture it speaks.
    field = pictures[0].field if len(pictures) == 1 else "messages"
    return RequestFault(
        RejectCode.IMAGE_REFUSED, f"The model's processor refused the images: {cause_of(error)}", field=field
    )

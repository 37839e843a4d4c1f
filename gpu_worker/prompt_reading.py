"""The prompt of one request on its way into the engine's form: at once when it is text, a picture at a time when it has pictures.

Made and called by `generation.py`. Between two calls the loop looks whether anybody still wants the answer.
"""

from typing import TYPE_CHECKING

from gpu_worker.engine_port import Engine, Picture, ReadPrompt
from gpu_worker.errors import RequestFault
from gpu_worker.inbox import Channel
from ipc.messages import Generate, Phase, Progress, RejectCode

if TYPE_CHECKING:
    from gpu_worker.picture_intake import PictureIntake


class PromptReader:
    """Reads one prompt."""

    def __init__(self, request: Generate, engine: Engine, channel: Channel) -> None:
        self._request = request
        self._engine = engine
        self._channel = channel
        self._intake: PictureIntake | None = None
        self._pictures: list[Picture] = []

    def read_on(self) -> ReadPrompt | None:
        """Return the prompt, or None when a piece of work was done and there is more. Raises RequestFault and EngineFault.

        Blocks for one picture (see `picture_files.py`), or for the encoding.
        """
        if not self._request.images:
            return ReadPrompt(self._engine.encode(self._request.prompt))

        if self._intake is None:
            self._intake = self._opened()

        if len(self._pictures) < len(self._request.images):
            self._read_picture(self._intake)
            return None

        return self._engine.read(self._request.prompt, self._pictures)

    def _opened(self) -> "PictureIntake":
        if not self._engine.facts.sees:
            raise RequestFault(RejectCode.INVALID_REQUEST, "this model takes no images")

        # Most workers never see a picture, and Pillow takes a tenth of a second and some megabytes.
        from gpu_worker.picture_intake import PictureIntake

        return PictureIntake(self._request.images, wants_one_size=self._engine.facts.wants_one_size)

    def _read_picture(self, intake: "PictureIntake") -> None:
        number, images = len(self._pictures), self._request.images
        image = images[number]
        self._channel.send(
            Progress(phase=Phase.PICTURES, request_id=self._request.request_id, done=number, total=len(images))
        )
        self._pictures.append(Picture(intake.decoded(image), image.marker, image.field))

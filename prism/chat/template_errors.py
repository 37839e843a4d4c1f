"""How a chat template can fail. Raised by `template.py`, judged by `prompt_rendering.py` and `prompt.py`.

TemplateInvalid: at compilation. TemplateFailed: at a rendering. TemplateRenderFailed: what is left of either for the client.
"""

from enum import Enum, auto


class TemplateInvalid(Exception):
    """The text is no template that can be used: it does not parse, or it is far too long."""


class FailureKind(Enum):
    RAISED = auto()  # the template itself refused the messages, with `raise_exception`
    BROKE = auto()  # an operation failed: a value was of another type than the template expects
    LIMIT = auto()  # it would have cost too much; trying again is useless


class TemplateFailed(Exception):
    """A rendering ended without a prompt. The message is the cause in words."""

    def __init__(self, kind: FailureKind, cause: str) -> None:
        super().__init__(cause)
        self.kind = kind


class TemplateRenderFailed(Exception):
    """The template made no prompt that holds what the client sent. model and cause are for the client."""

    def __init__(self, model: str, cause: str) -> None:
        super().__init__(f"the chat template of {model} failed: {cause}")
        self.model = model
        self.cause = cause

"""From the messages of a chat to the prompt of a model: the public face of this package's input side.

Called by the chat handler in a thread of its own. Loading a template blocks for some small file reads, the first time and after the
files changed; rendering blocks for some hundred microseconds, and for about a second at the very most (`template_budget.py`).
"""

import contextlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from pathlib import Path

from prism.chat.builtin_templates import (
    BuiltinFamily,
    control_tokens_of,
    family_of_name,
    family_of_template,
    render_builtin,
)
from prism.chat.control_tokens import NoMarkLeft, pieces_of, texts_in
from prism.chat.effort_levels import NO_EFFORT
from prism.chat.prompt_images import image_count, images_as_text, kept_apart, shows_images
from prism.chat.prompt_marking import Marked, Marking
from prism.chat.prompt_messages import Message, fitted_messages
from prism.chat.prompt_reasoning import (
    effort_variables,
    end_of_thinking,
    end_without_switch,
    opened_by_template,
)
from prism.chat.prompt_rendering import render_repairing
from prism.chat.reasoning_tags import TagPair
from prism.chat.template import CompiledTemplate
from prism.chat.template_budget import RenderBudget
from prism.chat.template_errors import TemplateFailed, TemplateInvalid, TemplateRenderFailed
from prism.chat.template_files import (
    DEFAULT_TEMPLATE,
    TOOL_TEMPLATE,
    FileStamp,
    TemplateFiles,
    read_template_files,
    stamps_of,
)
from prism.chat.tool_family import ToolFamily
from prism.chat.tool_support import ToolSlot, missing_tools, tool_family, tool_slot, with_message_tools
from prism.image_families import ImageFamily

# Families whose models were trained with the BOS token before everything.
_BOS_FAMILIES = frozenset(
    {
        BuiltinFamily.DEEPSEEK,
        BuiltinFamily.LLAMA3,
        BuiltinFamily.GEMMA,
        BuiltinFamily.MISTRAL,
        BuiltinFamily.MISTRAL_V02,
    }
)

logger = logging.getLogger(__name__)


class TemplateMode(StrEnum):
    """Where prompts come from. AUTO and JINJA render the model's template where there is one; BUILTIN never does."""

    AUTO = "auto"
    JINJA = "jinja"
    BUILTIN = "builtin"


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptRequest:
    """A chat to be answered.

    messages: as the client sent them, contents flattened to texts (or lists with pictures, see `prompt_images.py`), arguments of
        calls decoded.
    tools: the offered tools in OpenAI's form; None or empty when there are none.
    reasoning_effort: None when the client did not say.
    allow_special_tokens: texts of control tokens in the messages become control tokens.
    """

    messages: Sequence[Message]
    tools: Sequence[Mapping[str, object]] | None = None
    reasoning_effort: str | None = None
    allow_special_tokens: bool = False


@dataclass(frozen=True, slots=True)
class Prompt:
    """A rendered prompt.

    pieces: for `Generate.prompt`; none is empty, and joined they are the prompt.
    family: how this model writes its calls of tools.
    opened_pair: the tags of the thinking that the prompt has begun; the answer goes on inside it. None when it has not.
    """

    pieces: tuple[str, ...]
    family: ToolFamily
    opened_pair: TagPair | None

    @property
    def opens_reasoning(self) -> str | None:
        """The opening tag that the prompt ends with."""
        return None if self.opened_pair is None else self.opened_pair.opening


class ChatTemplate:
    """The way of one model folder from messages to prompts. Has no state but what it was made of."""

    def __init__(
        self, model_name: str, files: TemplateFiles, mode: TemplateMode, images: ImageFamily | None = None
    ) -> None:
        sources = {} if mode is TemplateMode.BUILTIN else files.templates
        self._model_name = model_name
        self._files = files
        self._default = _compiled(model_name, sources.get(DEFAULT_TEMPLATE))
        self._for_tools = _compiled(model_name, sources.get(TOOL_TEMPLATE)) or self._default
        facts = self._for_tools.facts if self._for_tools is not None else None
        self._slot = tool_slot(facts)
        self._tool_family = tool_family(facts, files.special_tokens)
        source = files.templates.get(DEFAULT_TEMPLATE)
        self._builtin = (family_of_template(source) if source else None) or family_of_name(model_name)
        self._images = images
        tokens = files.special_tokens or control_tokens_of(self._builtin)
        tokens |= images.beginnings if images is not None else frozenset()
        self._marking = Marking(tokens, files.templates.values())

        if mode is TemplateMode.JINJA and self._default is None:
            logger.warning("[%s] no usable chat template: the built-in format %s is used", model_name, self._builtin)

    @staticmethod
    def load(folder: Path, model_name: str, mode: TemplateMode, images: ImageFamily | None = None) -> "ChatTemplate":
        """Return the folder's template; the same object until a file changes. images: how its prompts show pictures, if they do."""
        return _loaded(folder, model_name, mode, images, stamps_of(folder))

    @property
    def supports_tools(self) -> bool:
        return self._slot is not ToolSlot.NOWHERE

    @property
    def source(self) -> str | None:
        """The text of the default template; None when prompts are built in."""
        return None if self._default is None else self._default.facts.source

    @property
    def special_ids(self) -> Mapping[str, int]:
        """The control tokens of the model's tokenizer, as far as their ids are known."""
        return self._files.special_ids

    def render(self, request: PromptRequest) -> Prompt:
        """Return the prompt.

        Raises TemplateRenderFailed when tools or pictures were sent and cannot be told to the model, or when the texts use up every
        private character, so that control tokens in them cannot be kept apart.
        """
        if request.tools and not self.supports_tools:
            raise TemplateRenderFailed(self._model_name, "it takes no tools")

        compiled = self._for_tools if request.tools else self._default
        texts = list(texts_in([request.messages, request.tools or []]))
        marked = self._marked(request, texts)
        messages, tools, mark = marked.messages, marked.tools, marked.mark
        budget = RenderBudget(input_chars=sum(map(len, texts)))

        if count := image_count(messages):
            return self._render_seeing(compiled, request, messages, tools, mark, budget, count)

        return self._render_or_build(compiled, request, messages, tools, mark, budget)

    def _render_seeing(
        self,
        compiled: CompiledTemplate | None,
        request: PromptRequest,
        messages: list[Message],
        tools: list[Mapping[str, object]],
        mark: str | None,
        budget: RenderBudget,
        count: int,
    ) -> Prompt:
        """Render with lists of parts, and with markers in texts where the template loses pictures that way."""
        family = self._images
        assert family is not None, "pictures are only asked for where the family is known"
        markers = family.markers(count)

        if compiled is not None and family.takes_parts:
            with contextlib.suppress(TemplateFailed):
                prompt = self._render_with(compiled, request, messages, tools, mark, budget)

                if shows_images(prompt.pieces, markers):
                    return replace(prompt, pieces=kept_apart(prompt.pieces, family))

        prompt = self._render_or_build(compiled, request, images_as_text(messages, family), tools, mark, budget)

        if not shows_images(prompt.pieces, markers):
            raise TemplateRenderFailed(self._model_name, "it does not show the model where the images are")

        return replace(prompt, pieces=kept_apart(prompt.pieces, family))

    def _render_or_build(
        self,
        compiled: CompiledTemplate | None,
        request: PromptRequest,
        messages: list[Message],
        tools: list[Mapping[str, object]],
        mark: str | None,
        budget: RenderBudget,
    ) -> Prompt:
        if compiled is not None:
            try:
                return self._render_with(compiled, request, messages, tools, mark, budget)
            except TemplateFailed as error:
                if request.tools:
                    raise TemplateRenderFailed(self._model_name, str(error)) from error

                logger.warning(
                    "[%s] template failed, built-in format %s used: %s", self._model_name, self._builtin, error
                )

        text = self._bos_of_builtin() + render_builtin(self._builtin, messages)

        if request.reasoning_effort == NO_EFFORT:
            source = self._files.templates.get(DEFAULT_TEMPLATE, "")
            text += end_without_switch(text, source, self._files.special_tokens, self._model_name)

        return Prompt(_pieces(text, mark), self._tool_family, None)

    def _render_with(
        self,
        compiled: CompiledTemplate,
        request: PromptRequest,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, object]],
        mark: str | None,
        budget: RenderBudget,
    ) -> Prompt:
        facts = compiled.facts
        fitted = fitted_messages(messages, facts, self._tool_family)

        if tools and self._slot is ToolSlot.MESSAGE:
            fitted = list(with_message_tools(fitted, tools))

        variables = {
            **self._files.named_tokens,
            **effort_variables(request.reasoning_effort, facts),
            "tools": list(tools) if tools and self._slot is ToolSlot.VARIABLE else None,
            "documents": None,
            "add_generation_prompt": True,
        }
        text = render_repairing(compiled, fitted, variables, budget)

        if request.reasoning_effort == NO_EFFORT:
            text += end_of_thinking(text, facts, self._files.special_tokens, self._model_name)

        pieces = _pieces(text, mark)
        self._check_tools(request, "".join(pieces))
        return Prompt(pieces, self._tool_family, opened_by_template(text, facts))

    def _check_tools(self, request: PromptRequest, prompt: str) -> None:
        """A template may mention tools and still not tell the model about them; silence would be the worst answer."""
        missing = missing_tools(request.tools, prompt) if request.tools else []

        if missing:
            raise TemplateRenderFailed(self._model_name, f"the prompt does not name the tools {', '.join(missing)}")

    def _marked(self, request: PromptRequest, texts: Sequence[str]) -> Marked:
        if request.allow_special_tokens:
            return Marked(list(request.messages), list(request.tools or []), None)

        try:
            return self._marking.marked(request.messages, request.tools or [], texts)
        except NoMarkLeft:
            raise TemplateRenderFailed(
                self._model_name, "the texts leave no character to keep control tokens apart"
            ) from None

    def _bos_of_builtin(self) -> str:
        """The worker looks at the ids and never doubles it."""
        return self._files.named_tokens.get("bos_token", "") if self._builtin in _BOS_FAMILIES else ""


@lru_cache(maxsize=32)
def _loaded(
    folder: Path, model_name: str, mode: TemplateMode, images: ImageFamily | None, stamps: tuple[FileStamp, ...]
) -> ChatTemplate:
    return ChatTemplate(model_name, read_template_files(folder), mode, images)


def _compiled(model_name: str, source: str | None) -> CompiledTemplate | None:
    if source is None:
        return None

    try:
        return CompiledTemplate(source)
    except TemplateInvalid as error:
        logger.warning("[%s] chat template left out: %s", model_name, error)
        return None


def _pieces(prompt: str, mark: str | None) -> tuple[str, ...]:
    return (prompt,) if mark is None else pieces_of(prompt, mark)

"""The one file that imports ONNX Runtime GenAI: load a model, encode, decode, begin sequences.

Called by `worker.py` to load and by `generation.py` for each request. Everything here blocks for as long as the native call does and
holds the GIL meanwhile. Every exception of the library leaves as a LoadFault or an EngineFault.
"""

import json
import logging
from collections.abc import Hashable, Sequence
from dataclasses import replace

from gpu_worker.batch import Batch, OneByOne
from gpu_worker.detokenizer import Detokenizer, TableDetokenizer, WindowDetokenizer
from gpu_worker.engine_port import EngineFacts, Picture, ReadPrompt, TokenSequence
from gpu_worker.errors import EngineFault, LoadFault, RequestFault
from gpu_worker.eyes import Eyes
from gpu_worker.fault_text import cause_of, engine_fault, load_fault, one_line
from gpu_worker.genai_api import GenAi, NativeConfig, NativeModel, NativeTokenizer
from gpu_worker.genai_sequence import GenAiSequence, native_options
from gpu_worker.guidance import Constrainer
from gpu_worker.kv_facts import KvFacts
from gpu_worker.kv_slots import SlotBounds
from gpu_worker.load_options import NO_SLOTS, LoadOptions
from gpu_worker.model_folder import ModelFolder
from gpu_worker.paged_batch import PagedBatch, PoolSize
from gpu_worker.prefix_cache import PrefixCache, SequenceCosts
from gpu_worker.prompt import PromptEncoder, PromptRules
from gpu_worker.sampling import SearchOptions
from ipc.messages import Device, DeviceChoice, LoadFailCode, PrefixReuse, RejectCode

logger = logging.getLogger(__name__)

# Types of models whose vision part (0.18) fails on pictures of several shapes in one prompt.
_ONE_SIZE = frozenset({"mistral3"})
# Seen in this version: a generator made for a method of search takes other numbers for it later.
_RETUNED_VERSION = "0.18."


def import_library() -> GenAi:
    """Import the engine, which takes a good part of a second. Raises LoadFault(ENGINE_MISSING)."""
    try:
        import onnxruntime_genai
    except (ImportError, OSError) as error:
        # OSError: a shared library of it is missing or was built for another machine.
        raise LoadFault(
            LoadFailCode.ENGINE_MISSING, one_line(f"onnxruntime-genai cannot be imported: {cause_of(error)}")
        ) from error

    # Untyped; `genai_api.py` says what of it we rely on.
    library: GenAi = onnxruntime_genai
    return library


def load_engine(
    library: GenAi, folder: ModelFolder, choice: DeviceChoice, no_cuda_reason: str | None, options: LoadOptions
) -> "GenAiEngine":
    """Load the model where `choice` wants it.

    no_cuda_reason: why CUDA is known not to work; AUTO does not try it then. CUDA is tried all the same: the engine's word counts.
    Raises LoadFault.
    """
    loader = _Loader(library, folder, options)

    match choice:
        case DeviceChoice.CPU:
            return loader.load(Device.CPU, None)
        case DeviceChoice.CUDA:
            return _load_on_cuda(loader, no_cuda_reason)
        case DeviceChoice.AUTO if no_cuda_reason is not None:
            return loader.load(Device.CPU, no_cuda_reason)
        case DeviceChoice.AUTO:
            return _load_anywhere(loader)


def _load_on_cuda(loader: "_Loader", no_cuda_reason: str | None) -> "GenAiEngine":
    try:
        return loader.load(Device.CUDA, None)
    except LoadFault as fault:
        if no_cuda_reason is None or fault.code is not LoadFailCode.DEVICE_UNAVAILABLE:
            raise

        raise LoadFault(fault.code, one_line(f"{fault} ({no_cuda_reason})")) from fault


def _load_anywhere(loader: "_Loader") -> "GenAiEngine":
    try:
        return loader.load(Device.CUDA, None)
    except LoadFault as fault:
        reason = str(fault)

    logger.warning("falling back to the CPU: %s", reason)
    return loader.load(Device.CPU, reason)


class _Loader:
    """One model folder on its way into memory."""

    def __init__(self, library: GenAi, folder: ModelFolder, options: LoadOptions) -> None:
        self._library = library
        self._folder = folder
        self._options = options
        self._pool = options.pool(folder.config)

    def load(self, device: Device, fallback_reason: str | None) -> "GenAiEngine":
        try:
            model = self._library.Model(self._config(device))
            tokenizer = self._library.Tokenizer(model)

            paged = self._paged(model)

            if device is Device.CUDA:
                self._prove(model, paged)

            return GenAiEngine(
                self._library, model, tokenizer, self._folder, fallback_reason, self._options.slots, paged
            )
        except LoadFault:
            raise
        except (
            Exception
        ) as error:  # the library raises RuntimeError for everything, and bindings raise TypeError and MemoryError
            raise load_fault(error, str(self._folder.path)) from error

    def _config(self, device: Device) -> NativeConfig:
        config = self._library.Config(str(self._folder.path))
        # What the file says about devices is where the model was exported for; where it runs is the operator's word.
        config.clear_providers()

        if device is Device.CUDA:
            config.append_provider("cuda")

        # A config without end tokens would make the engine stop at token 0, which is text in most vocabularies.
        overlay: dict[str, object] = {"eos_token_id": sorted(self._folder.eos_ids)}

        if self._options.threads is not None:
            overlay["decoder"] = {"session_options": {"intra_op_num_threads": self._options.threads}}

        config.overlay(json.dumps({"model": overlay}))

        if self._pool is not None:
            config.overlay(json.dumps(_pool_overlay(self._pool, self._options.parallel)))

        return config

    def _paged(self, model: NativeModel) -> PagedBatch | None:
        """The pool is taken here, so that a lack of memory is a fault of loading."""
        return None if self._pool is None else PagedBatch(self._library, model, self._pool, self._options.parallel)

    def _prove(self, model: NativeModel, paged: PagedBatch | None) -> None:
        """Make one token. CUDA's libraries are opened one by one when first used; a load that says it worked must have worked."""
        if model.device_type.upper() != "CUDA":
            raise LoadFault(
                LoadFailCode.DEVICE_UNAVAILABLE, f"CUDA cannot be used: the engine chose {model.device_type}"
            )

        if paged is not None:
            paged.prove(min(self._folder.eos_ids))
            return

        params = self._library.GeneratorParams(model)
        params.set_search_options(max_length=2, do_sample=False)
        generator = self._library.Generator(model, params)
        generator.append_tokens([min(self._folder.eos_ids)])
        generator.generate_next_token()


class GenAiEngine:
    """A loaded model. See `Engine` in `engine_port.py`."""

    def __init__(
        self,
        library: GenAi,
        model: NativeModel,
        tokenizer: NativeTokenizer,
        folder: ModelFolder,
        fallback_reason: str | None,
        slots: SlotBounds,
        paged: PagedBatch | None = None,
    ) -> None:
        self._library = library
        self._paged = paged
        self._model = model
        self._tokenizer = tokenizer
        self._constrainer = Constrainer(library, model)
        self._vocabulary = folder.vocabulary
        self._shown = folder.shown
        self._added_ids = folder.added_ids
        rules = PromptRules(folder.bos_id, folder.eos_ids, folder.added_ids, folder.wants_bos)
        self._prompts = PromptEncoder(self._encode, rules)
        self._folder = folder
        self._eyes: Eyes | None = None
        self.facts = EngineFacts(
            device=Device.CUDA if model.device_type.upper() == "CUDA" else Device.CPU,
            fallback_reason=fallback_reason,
            engine_version=str(library.__version__),
            context_length=_window(folder.config.context_length, paged),
            vocabulary_size=folder.config.vocabulary_size,
            top_k=folder.config.top_k,
            eos_ids=folder.eos_ids,
            parallel=1 if paged is None else paged.capacity,
            # What works on several sequences (0.18) takes tokens only.
            sees=folder.config.sees and paged is None,
            wants_one_size=folder.config.model_type in _ONE_SIZE,
        )
        self._cache = self._open_cache(folder.config.kv, slots)

    def _open_cache(self, kv: KvFacts, slots: SlotBounds) -> PrefixCache:
        return PrefixCache(
            begin=self._begin,
            traits_of=self._traits,
            costs=SequenceCosts(
                token_bytes=kv.token_bytes(self.facts.device),
                is_preallocated=kv.is_preallocated,
                longest_kept=kv.longest_kept,
                window=self.facts.context_length,
            ),
            eos_ids=self.facts.eos_ids,
            bounds=slots if kv.can_rewind else NO_SLOTS,
        )

    def open_batch(self, prefill_chunk: int) -> Batch:
        """Return where the sequences of this model live: the one place for all of them. To be called once."""
        return OneByOne(self, prefill_chunk) if self._paged is None else self._paged

    def encode(self, pieces: Sequence[str]) -> list[int]:
        return self._prompts.encode(pieces)

    def read(self, pieces: Sequence[str], pictures: Sequence[Picture]) -> ReadPrompt:
        if not self.facts.sees:
            raise RequestFault(RejectCode.INVALID_REQUEST, "this model takes no images")

        if self._eyes is None:
            self._eyes = Eyes(self._library, self._model, self._prompts, self._folder.spare_tokens)

        return self._eyes.read(pieces, pictures)

    def _encode(self, text: str) -> list[int]:
        try:
            ids: list[int] = self._tokenizer.encode(text).tolist()
        except (TypeError, ValueError):
            # A text without a UTF-8 form: the request's fault, which `PromptEncoder` names.
            raise
        except Exception as error:  # everything else the library raises is RuntimeError or MemoryError
            raise engine_fault(error) from error

        return ids

    def detokenizer(self, prompt_ids: Sequence[int]) -> Detokenizer:
        if self._vocabulary is None:
            return WindowDetokenizer(self._decode, self._shown)

        # After a token that is no text (a turn's header) the answer is a text of its own; after text it goes on with that text, and its
        # first space is a real one.
        is_own_text = not prompt_ids or prompt_ids[-1] in self._added_ids
        return TableDetokenizer(self._vocabulary, drops_leading_spaces=is_own_text)

    def _decode(self, tokens: Sequence[int]) -> str:
        try:
            return str(self._tokenizer.decode(list(tokens)))
        except Exception as error:  # the library raises RuntimeError for everything
            raise engine_fault(error) from error

    def start(
        self, prompt_ids: Sequence[int], options: SearchOptions, reuse: PrefixReuse | None = None
    ) -> TokenSequence:
        return self._cache.start(prompt_ids, options, reuse)

    def _begin(self, options: SearchOptions) -> GenAiSequence:
        try:
            params = self._library.GeneratorParams(self._model)
            params.set_search_options(**native_options(options))

            # Memory for max_length tokens is taken here.
            if options.guidance is None:
                return GenAiSequence(self._library.Generator(self._model, params), params)

            return GenAiSequence(self._constrainer.begin(params, options.guidance), params, is_guided=True)
        except (EngineFault, RequestFault):
            raise
        except Exception as error:  # the library raises RuntimeError for everything
            raise engine_fault(error) from error

    def forget_expired(self) -> float | None:
        return self._cache.forget_expired()

    def _traits(self, options: SearchOptions) -> Hashable:
        """Return what is fixed when a generator is made."""
        if self.facts.engine_version.startswith(_RETUNED_VERSION):
            return options.method, options.repetition_penalty

        return replace(options, max_length=0, seed=0)


def _pool_overlay(pool: PoolSize, parallel: int) -> dict[str, object]:
    batching: dict[str, object] = {
        "block_size": pool.block_size,
        "num_blocks": pool.blocks,
        "max_batch_size": parallel,
        "prefix_caching": pool.keeps_prefixes,
    }
    return {"engine": {"dynamic_batching": batching}, "search": {"chunk_size": pool.chunk_size}}


def _window(context_length: int | None, paged: PagedBatch | None) -> int | None:
    """A sequence cannot be longer than the pool, whatever the model was trained for."""
    if paged is None:
        return context_length

    return paged.longest if context_length is None else min(context_length, paged.longest)

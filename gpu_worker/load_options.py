"""How a model is to be loaded, beside where. Pure; made by `worker.py` from the launch spec, read by `engine.py`."""

from dataclasses import dataclass

from gpu_worker.kv_slots import SlotBounds
from gpu_worker.model_files import ModelConfig
from gpu_worker.paged_batch import PoolSize

# Most tokens of one prompt in a step of a shared batch: the others wait that long for their next token.
_CHUNK = 64
# Where the model's files leave the size of the pool open: so many tokens for each sequence, if its window is as long.
_TOKENS_PER_SEQUENCE = 4096


NO_SLOTS = SlotBounds(max_slots=0, max_bytes=0)


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """threads: intra-op threads; None leaves the choice to the engine. slots: what may be kept of finished requests.

    parallel: sequences at the same time, for a model that can. prefill_chunk: most tokens of a prompt in one step; 0 means no bound.
    shares_prefixes: any request may continue from any other's blocks of a pool.
    """

    threads: int | None = None
    parallel: int = 1
    prefill_chunk: int = 0
    slots: SlotBounds = NO_SLOTS
    shares_prefixes: bool = True

    def pool(self, config: ModelConfig) -> PoolSize | None:
        """Return the pool of a model that takes several sequences; None for one that takes one."""
        batching = config.batching

        if batching is None:
            return None

        window = min(config.context_length or _TOKENS_PER_SEQUENCE, _TOKENS_PER_SEQUENCE)
        blocks = batching.blocks or -(-window // batching.block_size) * self.parallel
        chunk = min(batching.chunk_size or _CHUNK, self.prefill_chunk or _CHUNK)
        return PoolSize(blocks, batching.block_size, chunk, keeps_prefixes=self.shares_prefixes)

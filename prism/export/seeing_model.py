"""A model that sees, for tests: it answers with the colours of the pictures it was shown, in order, and needs no training.

" I see red blue." for a red and a blue picture, " I see nothing." for none; the word " forever" makes it go on without end. It is of the
kind `qwen2_5_vl`, a few hundred kilobytes, and goes through all that a real one of that kind goes through: the engine's processor
(Prism hands it whole PNG files), a vision graph, an embedding that puts rows in the places of pictures, and a decoder with a cache. Each
picture takes one to four tokens, by its shape.
"""

import json
from pathlib import Path

from prism.export.attention import PAST_KEY, PAST_VALUE, PRESENT_KEY, PRESENT_VALUE
from prism.export.graph import Graph
from prism.export.seeing_decoder import SeeingDecoder
from prism.export.seeing_graphs import FRAMES, MERGED, PATCH, write_embedding, write_vision
from prism.export.seeing_scores import scores_of
from prism.export.seeing_tokens import (
    BOS_ID,
    CHANNELS,
    END_ID,
    PAD_ID,
    PICTURE_ID,
    PICTURE_START_ID,
    seeing_tokens,
)
from prism.export.tokenizer_files import write_tokenizer

_PROCESSOR_NAME = "processor_config.json"
# A token covers MERGED x MERGED squares; a picture is scaled to between one and four tokens.
_TOKEN_SIDE = PATCH * MERGED
_MOST_TOKENS = 4


def write_seeing_model(folder: Path, *, context_length: int = 4096, model_type: str = "qwen2_5_vl") -> None:
    """Write the model. The folder is made if it is missing; raises FileExistsError when it holds a model.

    model_type: of the family, one that runs from the same files: qwen2_5_vl, qwen3_vl, fara.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tokens = seeing_tokens()

    with Graph(folder, "vision") as vision:
        write_vision(vision)
        vision.save()

    with Graph(folder, "embedding") as embedding:
        write_embedding(embedding, tokens)
        embedding.save()

    with Graph(folder, "decoder") as decoder:
        SeeingDecoder(decoder, scores_of(tokens)).write()
        decoder.save()

    write_tokenizer(folder, tokens.tokenizer, context_length=context_length)
    _write_json(folder / _PROCESSOR_NAME, _processor())
    _write_json(folder / "genai_config.json", _config(model_type, len(tokens.tokenizer.tokens), context_length))


def _config(model_type: str, vocabulary: int, context_length: int) -> dict[str, object]:
    return {
        "model": {
            "type": model_type,
            "bos_token_id": BOS_ID,
            "eos_token_id": [END_ID],
            "pad_token_id": PAD_ID,
            "vocab_size": vocabulary,
            "context_length": context_length,
            "image_token_id": PICTURE_ID,
            "video_token_id": PAD_ID,
            "vision_start_token_id": PICTURE_START_ID,
            "decoder": _decoder(),
            "embedding": {
                "filename": "embedding.onnx",
                "inputs": _same("input_ids", "image_features"),
                "outputs": _same("inputs_embeds"),
            },
            "vision": {
                "filename": "vision.onnx",
                "config_filename": _PROCESSOR_NAME,
                "patch_size": PATCH,
                "spatial_merge_size": MERGED,
                "tokens_per_second": 2.0,
                "inputs": _same("pixel_values", "image_grid_thw"),
                "outputs": _same("image_features"),
            },
        },
        "search": {
            "do_sample": False,
            "max_length": context_length,
            "min_length": 0,
            "num_beams": 1,
            "num_return_sequences": 1,
            "past_present_share_buffer": True,
            "repetition_penalty": 1.0,
            "temperature": 1.0,
            "top_k": 1,
            "top_p": 1.0,
        },
    }


def _decoder() -> dict[str, object]:
    return {
        "filename": "decoder.onnx",
        "session_options": {"provider_options": []},
        "hidden_size": CHANNELS,
        "head_size": CHANNELS,
        "num_attention_heads": 1,
        "num_key_value_heads": 1,
        "num_hidden_layers": 1,
        "inputs": {
            **_same("inputs_embeds", "attention_mask", "position_ids"),
            "past_key_names": PAST_KEY,
            "past_value_names": PAST_VALUE,
        },
        "outputs": {"logits": "logits", "present_key_names": PRESENT_KEY, "present_value_names": PRESENT_VALUE},
    }


def _processor() -> dict[str, object]:
    """Scale to a whole number of tokens, values from 0 to 1, cut into squares."""
    resize = {
        "width": _TOKEN_SIDE * MERGED,
        "height": _TOKEN_SIDE * MERGED,
        "smart_resize": 1,
        "min_pixels": _TOKEN_SIDE**2,
        "max_pixels": _MOST_TOKENS * _TOKEN_SIDE**2,
        "patch_size": PATCH,
        "merge_size": MERGED,
    }
    steps = [
        _step("DecodeImage", color_space="RGB"),
        # The step that cuts turns the order of the colours round; this one does so before it.
        _step("ConvertRGB"),
        _step("Resize", **resize),
        _step("Rescale", rescale_factor=1 / 255),
        _step("Normalize", mean=[0.0, 0.0, 0.0], std=[1.0, 1.0, 1.0], qwen2_5_vl=1),
        _step("PatchImage", patch_size=PATCH, temporal_patch_size=FRAMES, merge_size=MERGED),
    ]

    return {"processor": {"name": "image_processing", "transforms": steps}}


def _step(kind: str, **attributes: object) -> dict[str, object]:
    return {"operation": {"name": kind.lower(), "type": kind, **({"attrs": attributes} if attributes else {})}}


def _same(*names: str) -> dict[str, str]:
    return {name: name for name in names}


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")

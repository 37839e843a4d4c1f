"""Makes folders that look like ONNX GenAI models to the catalog. The graphs are written byte by byte: no engine reads them."""

import json
from pathlib import Path

LFS_POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 3000000000\n"


def make_model_folder(
    folder: Path,
    *,
    model: dict[str, object] | None = None,
    graph: bytes = b"graph",
    weights: dict[str, bytes] | None = None,
) -> Path:
    """Write a whole model folder; `model` is merged into the config's `model` object, `weights` are further files."""
    folder.mkdir(parents=True)
    described: dict[str, object] = {"type": "llama", "context_length": 2048, "decoder": {"filename": "model.onnx"}}
    (folder / "genai_config.json").write_text(json.dumps({"model": {**described, **(model or {})}}))
    (folder / "model.onnx").write_bytes(graph)
    (folder / "tokenizer.json").write_text("{}")

    for name, content in (weights or {}).items():
        (folder / name).write_bytes(content)

    return folder


def external_data_entry(location: str, *, tag: int = 0x6A) -> bytes:
    """Return what protobuf writes for `external_data { key: "location" value: location }` (another tag: another field)."""
    value = location.encode()
    entry = b"\x0a\x08location\x12" + _varint(len(value)) + value
    return bytes([tag]) + _varint(len(entry)) + entry


def _varint(number: int) -> bytes:
    encoded = b""

    while number > 0x7F:
        encoded += bytes([number & 0x7F | 0x80])
        number >>= 7

    return encoded + bytes([number])

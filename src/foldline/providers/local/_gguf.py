"""Convert the MiniLM sentence encoder to a GGUF file, from the safetensors and vocabulary of its wheel.

GGUF is a header, typed key-value pairs, a table of tensors and their bytes. No library is used: the two formats are
simple, and `foldline[local]` needs only the runtime. Matrices become half floats; tensors that llama.cpp requires as
full floats (norms, biases, positions) are copied. The result is identical on every machine, so its hash is pinned.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, TypedDict

from foldline.exceptions import SchemaError

UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
F32, F16 = 0, 1
ALIGNMENT = 32
CHUNK = 1 << 18

LAYERS, WIDTH, HEADS, FEED_FORWARD, CONTEXT = 6, 384, 12, 1536, 512
MEAN_POOLING = 1

NAMES = {
    "embeddings.word_embeddings.weight": "token_embd.weight",
    "embeddings.position_embeddings.weight": "position_embd.weight",
    "embeddings.token_type_embeddings.weight": "token_types.weight",
    "embeddings.LayerNorm": "token_embd_norm",
}
LAYER_NAMES = {
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
}
FULL_FLOAT_TENSORS = {"position_embd.weight", "token_types.weight"}


class TensorEntry(TypedDict):
    """One row of a safetensors header."""

    dtype: str
    shape: list[int]
    data_offsets: list[int]


def convert_minilm(weights: Path, vocabulary: Path, target: Path) -> None:
    """Write `target` (GGUF) from `weights` (safetensors) and `vocabulary` (one WordPiece per line)."""
    pieces = vocabulary.read_text(encoding="utf-8").split("\n")
    pieces = pieces[:-1] if pieces[-1] == "" else pieces
    with weights.open("rb") as source, target.open("wb") as sink:
        start, entries = _read_header(source, weights)
        renamed = {
            new: entries[old] for old, new in _tensor_names() if _require(old, entries, weights)
        }
        sink.write(_encode_head(pieces, renamed))
        for name, entry in renamed.items():
            source.seek(start + entry["data_offsets"][0])
            _copy_tensor(source, sink, _count(entry), _kind(name, entry))


def _tensor_names() -> Iterator[tuple[str, str]]:
    for old, new in NAMES.items():
        if old.endswith(".weight"):
            yield old, new
        else:
            yield from ((f"{old}.{part}", f"{new}.{part}") for part in ("weight", "bias"))
    for layer in range(LAYERS):
        for old, new in LAYER_NAMES.items():
            for part in ("weight", "bias"):
                yield f"encoder.layer.{layer}.{old}.{part}", f"blk.{layer}.{new}.{part}"


def _read_header(source: BinaryIO, path: Path) -> tuple[int, dict[str, TensorEntry]]:
    try:
        (length,) = struct.unpack("<Q", source.read(8))
        if length > 1 << 24:
            raise SchemaError(f"{path}: not a safetensors file (a header of {length} bytes)")
        return 8 + length, json.loads(source.read(length))
    except (struct.error, ValueError) as error:
        raise SchemaError(f"{path}: not a safetensors file ({error})") from error


def _require(name: str, entries: dict[str, TensorEntry], path: Path) -> bool:
    if name not in entries or entries[name]["dtype"] != "F32":
        raise SchemaError(f"{path}: no float32 tensor named {name!r}; this converts MiniLM-L6 only")
    return True


def _kind(name: str, entry: TensorEntry) -> int:
    return F16 if len(entry["shape"]) == 2 and name not in FULL_FLOAT_TENSORS else F32


def _count(entry: TensorEntry) -> int:
    return entry["shape"][0] * (entry["shape"][1] if len(entry["shape"]) == 2 else 1)


def _padding(size: int) -> int:
    return -size % ALIGNMENT


def _encode_head(pieces: list[str], tensors: dict[str, TensorEntry]) -> bytes:
    pairs = _metadata(pieces)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(pairs)) + b"".join(pairs)
    offset = 0
    for name, entry in tensors.items():
        kind, shape = _kind(name, entry), entry["shape"][::-1]
        head += _string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)
        size = _count(entry) * (2 if kind == F16 else 4)
        offset += size + _padding(size)
    return head + bytes(_padding(len(head)))


def _copy_tensor(source: BinaryIO, sink: BinaryIO, count: int, kind: int) -> None:
    remaining = count
    while remaining:
        step = min(remaining, CHUNK)
        data = source.read(4 * step)
        if len(data) != 4 * step:
            raise SchemaError("the safetensors file ends in the middle of a tensor")
        sink.write(
            struct.pack(f"<{step}e", *struct.unpack(f"<{step}f", data)) if kind == F16 else data
        )
        remaining -= step
    sink.write(bytes(_padding(count * (2 if kind == F16 else 4))))


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _metadata(pieces: list[str]) -> list[bytes]:
    def integer(key: str, value: int) -> bytes:
        return _string(key) + struct.pack("<II", UINT32, value)

    def text(key: str, value: str) -> bytes:
        return _string(key) + struct.pack("<I", STRING) + _string(value)

    ids = {piece: index for index, piece in enumerate(pieces)}
    return [
        text("general.architecture", "bert"),
        text("general.name", "all-MiniLM-L6-v2"),
        text("general.license", "apache-2.0"),
        integer("general.file_type", F16),
        integer("bert.context_length", CONTEXT),
        integer("bert.embedding_length", WIDTH),
        integer("bert.block_count", LAYERS),
        integer("bert.feed_forward_length", FEED_FORWARD),
        integer("bert.attention.head_count", HEADS),
        _string("bert.attention.layer_norm_epsilon") + struct.pack("<If", FLOAT32, 1e-12),
        _string("bert.attention.causal") + struct.pack("<IB", BOOL, 0),
        integer("bert.pooling_type", MEAN_POOLING),
        text("tokenizer.ggml.model", "bert"),
        text("tokenizer.ggml.pre", "default"),
        integer("tokenizer.ggml.token_type_count", 2),
        integer("tokenizer.ggml.bos_token_id", ids["[CLS]"]),
        integer("tokenizer.ggml.eos_token_id", ids["[SEP]"]),
        integer("tokenizer.ggml.unknown_token_id", ids["[UNK]"]),
        integer("tokenizer.ggml.seperator_token_id", ids["[SEP]"]),  # llama.cpp's spelling
        integer("tokenizer.ggml.padding_token_id", ids["[PAD]"]),
        integer("tokenizer.ggml.cls_token_id", ids["[CLS]"]),
        integer("tokenizer.ggml.mask_token_id", ids["[MASK]"]),
        _string("tokenizer.ggml.tokens")
        + struct.pack("<IIQ", ARRAY, STRING, len(pieces))
        + b"".join(_string(_llama_spelling(piece)) for piece in pieces),
        _string("tokenizer.ggml.token_type")
        + struct.pack(f"<IIQ{len(pieces)}i", ARRAY, INT32, len(pieces), *map(_token_type, pieces)),
    ]


def _llama_spelling(piece: str) -> str:
    """Return a piece in llama.cpp's spelling, which marks the start of a word; BERT marks continuations."""
    if _token_type(piece) != 1:
        return piece
    return piece[2:] if piece.startswith("##") else "\u2581" + piece


def _token_type(piece: str) -> int:
    is_control = piece.startswith("[") and piece.endswith("]") and len(piece) > 2
    return 3 if is_control else 1

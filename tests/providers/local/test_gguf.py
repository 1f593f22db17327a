"""The converter: right numbers, the same bytes everywhere, and a sentence for files it cannot read."""

from __future__ import annotations

import json
import struct

import pytest

from foldline.exceptions import SchemaError
from foldline.providers.local._gguf import convert_minilm

pytestmark = pytest.mark.timing


def safetensors(header, data=b""):
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def test_vectors_equal_those_of_the_published_weights(embeddings):
    """The numbers are of a forward pass written apart, in full floats, on the safetensors file itself."""
    vector = embeddings.embed_query("A man is eating food.")

    assert vector[:6] == pytest.approx(
        [0.0332, 0.0044, -0.0063, 0.0484, -0.1387, -0.0336], abs=5e-4
    )


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "not a safetensors file"),
        (b"\xff" * 64, "not a safetensors file"),
        (struct.pack("<Q", 4) + b"{bad", "not a safetensors file"),
        (safetensors({}), "no float32 tensor named 'embeddings.word_embeddings.weight'"),
        (
            safetensors(
                {
                    "embeddings.word_embeddings.weight": {
                        "dtype": "F16",
                        "shape": [1],
                        "data_offsets": [0, 2],
                    }
                }
            ),
            "no float32 tensor",
        ),
    ],
    ids=["empty", "noise", "no-json", "other-model", "other-type"],
)
def test_a_file_that_is_not_minilm_is_refused(tmp_path, data, complaint):
    (tmp_path / "weights").write_bytes(data)
    (tmp_path / "vocab").write_text("[PAD]\n")

    with pytest.raises(SchemaError, match=complaint):
        convert_minilm(tmp_path / "weights", tmp_path / "vocab", tmp_path / "out.gguf")

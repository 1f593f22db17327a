"""Generations of text models."""

from __future__ import annotations

import pytest

from foldline.load import dumpd, load
from foldline.outputs import Generation, GenerationChunk


def test_pieces_add_up_to_text_and_merged_info():
    total = GenerationChunk(text="a", generation_info={"p": [1]}) + GenerationChunk(
        text="b", generation_info={"p": [2], "stop": "end"}
    )
    assert total == GenerationChunk(text="ab", generation_info={"p": [1, 2], "stop": "end"})


def test_info_stays_none_where_no_piece_says_anything():
    assert (GenerationChunk(text="a") + GenerationChunk(text="b")).generation_info is None


def test_adding_does_not_change_the_pieces():
    left = GenerationChunk(text="a", generation_info={"p": [1]})

    left + GenerationChunk(text="b", generation_info={"p": [2]})

    assert left == GenerationChunk(text="a", generation_info={"p": [1]})


def test_only_pieces_can_be_added():
    with pytest.raises(TypeError, match="unsupported operand"):
        GenerationChunk(text="a") + 1


def test_a_trusted_piece_is_like_any_other():
    trusted = GenerationChunk._trusted("a", {"x": 1})

    assert trusted == GenerationChunk(text="a", generation_info={"x": 1})
    assert trusted.model_dump() == {
        "text": "a",
        "generation_info": {"x": 1},
        "type": "Generation",
    }
    assert repr(trusted) == "GenerationChunk(text='a', generation_info={'x': 1})"
    assert trusted.model_copy(deep=True) == trusted


@pytest.mark.parametrize("cls", [Generation, GenerationChunk])
def test_generations_load_as_they_were_dumped(cls):
    generation = cls(text="a", generation_info={"lc": 1, "n": float("inf")})

    loaded_generation = load(dumpd(generation))

    assert type(loaded_generation) is cls
    assert loaded_generation == generation

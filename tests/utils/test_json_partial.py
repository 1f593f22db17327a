"""JSON that grows: however the text is cut, the value is the same."""

from __future__ import annotations

import pytest

from foldline.utils.json import PartialJson


@pytest.mark.parametrize("padding", ["", "x" * 2000])
@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "b": 2, "a": 3, "pad": "PAD", "b": {"c": 4, "c": 5',
        '{"a": {"b": "PAD"}, "c": 1, "a": {"d": 2',
    ],
)
def test_equal_names_have_the_same_place_however_the_text_is_cut(text, padding):
    text = text.replace("PAD", padding)
    values = set()
    for position in (0, 5, 20, len(text) - 5, len(text)):
        parser = PartialJson()
        parser.feed(text[:position])
        parser.feed(text[position:])
        values.add(repr(parser.value()))

    assert len(values) == 1

"""Schemas that cannot be closed: the parts are found, and strict mode refuses them with a way out."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict
from typing_extensions import TypedDict

from foldline.exceptions import UsageError
from foldline.utils._schema_open import open_objects, open_parts
from foldline.utils.function_calling import convert_to_openai_tool


class Scores(BaseModel):
    scores: dict[str, float]


class Rows(BaseModel):
    rows: list[Scores]


class Maybe(BaseModel):
    inner: Scores | None = None


class Tree(BaseModel):
    name: str
    children: list[Tree]


class Extra(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int


class Empty(BaseModel):
    pass


class Anything(BaseModel):
    value: Any
    items: list
    pair: tuple[int, str]
    thing: object


def paths(schema: object) -> list[str]:
    return [part.path for part in open_parts(schema)]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (Scores, ["scores"]),
        (Rows, ["rows[].scores"]),
        (Maybe, ["inner.scores"]),
        (Extra, [""]),
        (Anything, ["value", "items", "pair", "thing"]),
        (Tree, []),
        (Empty, []),
    ],
)
def test_the_parts_that_cannot_be_closed_are_found_by_their_path(kind, expected):
    assert paths(kind.model_json_schema()) == expected


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": ["object", "null"]},
        {"type": "object", "properties": {}, "additionalProperties": {}},
        {"type": "object", "properties": {}, "patternProperties": {"^x": {"type": "string"}}},
        {"anyOf": [{"type": "object", "additionalProperties": True}, {"type": "null"}]},
        {"allOf": [{"type": "object", "additionalProperties": {"type": "string"}}]},
    ],
)
def test_an_object_with_free_keys_is_open_however_it_is_written(schema):
    assert [part.path for part in open_objects(schema)] == [""]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "additionalProperties": False},
        {"type": "object", "properties": {}},
        {"enum": ["a", {"b": 1}]},
        {"$ref": "https://example.org/schema"},
        {"$ref": "#/$defs/missing"},
        {"type": "array", "items": {"type": "string"}},
    ],
)
def test_a_closed_schema_has_no_open_part(schema):
    assert paths(schema) == []


def tag(tags: dict[str, str]) -> str:
    """Tag it."""
    return str(tags)


class Tags(TypedDict):
    """Tags."""

    tags: dict[str, str]


@pytest.mark.parametrize(
    "tool",
    [
        tag,
        Tags,
        {
            "name": "tag",
            "parameters": {"type": "object", "properties": {"tags": {"type": "object"}}},
        },
        {
            "name": "tag",
            "input_schema": {"type": "object", "properties": {"tags": {"type": "object"}}},
        },
    ],
)
def test_a_strict_tool_with_free_keys_is_refused_with_the_field_and_the_way_out(tool):
    with pytest.raises(
        UsageError, match=r"tags is an object with free keys.*leave out strict=True"
    ):
        convert_to_openai_tool(tool, strict=True)

    assert "tags" in convert_to_openai_tool(tool)["function"]["parameters"]["properties"]

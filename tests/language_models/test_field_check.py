"""Structured output is checked field by field while it streams."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator
from typing_extensions import TypedDict

from foldline.exceptions import StructuredOutputError, UsageError
from foldline.language_models import Partial, usage_scope
from foldline.language_models.structured._field_check import FieldCheck
from foldline.language_models.structured._output import OutputSchema
from foldline.testing import Call, ScriptedChatModel


class Wind(BaseModel):
    speed: float = Field(ge=0)
    from_: str = Field(alias="from")


class Weather(BaseModel):
    city: str
    degrees: int = Field(ge=0)
    winds: list[Wind] = []
    note: str = ""

    @field_validator("city")
    @classmethod
    def known(cls, city: str) -> str:
        if city == "Atlantis":
            raise ValueError("no such city")
        return city


GOOD = {"city": "Oslo", "degrees": 4, "winds": [{"speed": 3.5, "from": "north"}], "note": "x" * 40}


def pieces(value: Any, size: int = 3) -> list[str]:
    text = value if isinstance(value, str) else json.dumps(value)
    return [text[start : start + size] for start in range(0, len(text), size)]


def first_issue(schema: Any, value: Any, **options: Any) -> tuple[str | None, str]:
    """The first issue, and the text that was read until it was found."""
    output = OutputSchema(schema)
    check = FieldCheck(
        output.definition, output.json_schema, repairs=True, skips_null=False, **options
    )
    read = ""
    for piece in pieces(value, 1):
        read += piece
        if check.feed(piece) is not None:
            break
    return check.issue, read


@pytest.mark.parametrize(
    ("change", "issue"),
    [
        ({"degrees": -4}, "degrees: Input should be greater than or equal to 0"),
        ({"city": "Atlantis"}, "city: Value error, no such city"),
        ({"degrees": "warm"}, "degrees: Input should be a valid integer"),
        ({"winds": [{"speed": -1, "from": "n"}]}, "winds.0.speed: Input should be greater than"),
        ({"winds": [{"speed": 1, "from": 7}]}, "winds.0.from: Input should be a valid string"),
        ({"winds": "none"}, "winds: Input should be a valid list"),
    ],
    ids=["constraint", "validator", "type", "nested constraint", "alias", "list"],
)
def test_a_field_that_is_complete_and_wrong_is_found_before_the_next(change: Any, issue: str):
    found, read = first_issue(Weather, {**GOOD, **change})

    assert found is not None
    assert found.startswith(issue)
    assert '"note"' not in read


@pytest.mark.parametrize(
    "schema",
    [
        {
            "title": "Weather",
            "type": "object",
            "properties": {"degrees": {"$ref": "#/$defs/Warm"}, "note": {"type": "string"}},
            "$defs": {"Warm": {"type": "integer", "minimum": 0}},
        },
        TypedDict("WeatherDict", {"degrees": Annotated[int, Field(ge=0)], "note": str}),
    ],
    ids=["json schema", "typed dict"],
)
def test_schemas_without_a_class_are_checked_too(schema: Any):
    found, read = first_issue(schema, {"degrees": "warm", "note": "x"})

    assert found is not None
    assert found.startswith("degrees: ")
    assert '"note"' not in read


def test_dataclasses_are_checked_too():
    @dataclass
    class Point:
        x: Annotated[int, Field(ge=0)]
        note: str = ""

    assert (first_issue(Point, {"x": -1, "note": "y"})[0] or "").startswith("x: Input should be")
    assert first_issue(Point, {"x": 1, "note": "y"})[0] is None


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(GOOD),
        "```json\n" + json.dumps(GOOD) + "\n```",
        '{"city": "Oslo", "degrees": "4"}',
        '{"city": "Oslo", "degrees": 4, "winds": "[{\\"speed\\": 1, \\"from\\": \\"n\\"}]"}',
        'Such as {"degrees": -4}? No: {"city": "Oslo", "degrees": 4}',
        "{'city': 'Oslo', 'degrees': -4}",
        '["degrees", -4]',
    ],
    ids=["plain", "fence", "lax", "packed", "example", "quotes", "list"],
)
def test_what_may_still_fit_is_left_to_the_end(text: str):
    assert first_issue(Weather, text)[0] is None


class Converting(BaseModel):
    degrees: int

    @model_validator(mode="before")
    @classmethod
    def convert(cls, data: Any) -> Any:
        return {"degrees": int(str(data["degrees"]).removesuffix("C"))}


class Trimmed(BaseModel):
    parts: Annotated[list[int], BeforeValidator(lambda parts: [p for p in parts if p != "-"])]


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)
    degrees: int = Field(ge=0)


class Pair(BaseModel):
    low: int
    high: int

    @model_validator(mode="after")
    def ordered(self) -> Pair:
        if self.low > self.high:
            raise ValueError("low is above high")
        return self


class Either(BaseModel):
    value: int | list[Wind]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (Converting, {"degrees": "4C"}),
        (Trimmed, {"parts": [1, "-", 2]}),
        (Pair, {"low": 1, "high": 2}),
        (Either, {"value": [{"speed": 1, "from": "n"}]}),
    ],
)
def test_validators_that_see_more_than_a_field_decide_at_the_end(schema: Any, value: Any):
    assert first_issue(schema, value)[0] is None
    schema.model_validate(value)


def test_a_frozen_model_is_checked_by_its_types():
    assert (first_issue(Frozen, {"degrees": -1, "x": 1})[0] or "").startswith("degrees: Input")
    assert first_issue(Frozen, {"degrees": 1, "x": 1})[0] is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", "Oslo", "Atlantis", "3"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["speed", "from", "city", "degrees"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "city": JSON,
            "degrees": JSON,
            "winds": JSON
            | st.lists(
                st.fixed_dictionaries({}, optional={"speed": JSON, "from": JSON}), max_size=3
            ),
            "other": JSON,
        },
    )
)
def test_a_field_is_rejected_only_if_the_finished_answer_would_be(value: dict[str, Any]):
    issue, _ = first_issue(Weather, value)

    if issue is not None:
        assert OutputSchema(Weather).read(value).issues


# -- in a call


def weather_model(*answers: Any, as_tool: bool = False) -> tuple[ScriptedChatModel, dict[str, Any]]:
    turns = [[Call("Weather", answer, "c1")] if as_tool else pieces(answer) for answer in answers]
    method = "tool" if as_tool else "json_schema"
    return ScriptedChatModel(script=turns), {"method": method}


@pytest.mark.parametrize("as_tool", [False, True], ids=["text", "tool"])
def test_a_stream_ends_as_soon_as_a_field_is_wrong(call, as_tool):
    model, options = weather_model({**GOOD, "degrees": -4}, as_tool=as_tool)
    items: list[Any] = []

    with (
        usage_scope() as usage,
        pytest.raises(StructuredOutputError, match="degrees: Input") as caught,
    ):
        items.extend(call.stream(model.with_structured_output(Weather, **options), "x"))

    error = caught.value
    assert error.value["city"] == "Oslo"
    assert "note" not in error.value
    assert error.issues[0].startswith("degrees:")
    assert error.usage["input_tokens"] > 0
    assert error.usage["output_tokens"] > 0
    assert usage.total_tokens == error.usage["total_tokens"]


@pytest.mark.parametrize("as_tool", [False, True], ids=["text", "tool"])
def test_items_before_the_last_are_partial_and_the_last_is_the_object(call, as_tool):
    model, options = weather_model(GOOD, as_tool=as_tool)

    items = call.stream(model.with_structured_output(Weather, **options), "x")

    assert all(isinstance(item, Weather) for item in items)
    assert [isinstance(item, Partial) for item in items] == [True] * (len(items) - 1) + [False]
    assert items[0].degrees is None
    assert items[-1] == Weather.model_validate(GOOD)


def test_a_wrong_field_is_asked_for_again_at_once(call):
    model, options = weather_model({**GOOD, "degrees": -4}, GOOD)

    items = call.stream(model.with_structured_output(Weather, max_retries=1, **options), "x")

    assert items[-1] == Weather.model_validate(GOOD)
    assert len(model.requests) == 2
    assert "degrees: Input should be" in model.requests[1].messages[-1].text


def test_with_validate_at_the_end_the_whole_answer_is_read(call):
    model, options = weather_model({**GOOD, "degrees": -4})
    structured = model.with_structured_output(Weather, validate="end", **options)
    items: list[Any] = []

    def read() -> None:
        items.extend(call.stream(structured, "x"))

    with pytest.raises(StructuredOutputError) as caught:
        read()

    assert str(GOOD["note"]) in caught.value.raw.text


def test_with_the_raw_answer_the_whole_answer_is_read(call):
    model, options = weather_model({**GOOD, "degrees": -4})
    structured = model.with_structured_output(Weather, include_raw=True, **options)

    total = None
    for item in call.stream(structured, "x"):
        total = item if total is None else total + item

    assert str(GOOD["note"]) in total["raw"].text
    assert isinstance(total["parsing_error"], StructuredOutputError)


def test_invoke_reads_the_whole_answer_and_its_usage(call):
    model, options = weather_model({**GOOD, "degrees": -4})
    model.usage = {"input_tokens": 9, "output_tokens": 3, "total_tokens": 12}

    with pytest.raises(StructuredOutputError) as caught:
        call.invoke(model.with_structured_output(Weather, **options), "x")

    assert caught.value.usage["total_tokens"] == 12


def test_another_word_for_validate_is_refused():
    with pytest.raises(UsageError, match="validate='never': \"fields\""):
        ScriptedChatModel(script=[]).with_structured_output(Weather, validate="never")

import typing
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, NotRequired, TypeVar

import pytest
from pydantic import BaseModel, Field

from foldline.exceptions import UsageError
from foldline.tools import InjectedToolArg, StructuredTool, create_schema_from_function, tool
from foldline.tools.base import get_all_basemodel_annotations
from foldline.utils.function_calling import convert_to_openai_function, convert_to_openai_tool

T = TypeVar("T")


class Point(typing.TypedDict):
    """A point.

    Args:
        y: up
    """

    x: Annotated[int, "across"]
    y: int
    name: NotRequired[str]


@dataclass
class Line:
    """A line."""

    start: int
    end: int = 5


def test_a_schema_of_a_function_has_its_parameters_and_words():
    def look(
        city: Annotated[str, "where"],
        unit: Literal["c", "f"] = "c",
        days: Annotated[int, Field(ge=1, description="how far")] = 1,
        user: Annotated[str, InjectedToolArg] = "",
        run_manager: Any = None,
        callbacks: Any = None,
    ) -> str:
        """Look."""
        return city

    schema = create_schema_from_function("Look", look)

    assert list(schema.model_fields) == ["city", "unit", "days", "user"]
    json_schema = create_schema_from_function(
        "Look", look, include_injected=False
    ).model_json_schema()
    assert json_schema == {
        "title": "Look",
        "description": "Look.",
        "type": "object",
        "required": ["city"],
        "properties": {
            "city": {"title": "City", "description": "where", "type": "string"},
            "unit": {"title": "Unit", "default": "c", "enum": ["c", "f"], "type": "string"},
            "days": {
                "title": "Days",
                "description": "how far",
                "default": 1,
                "minimum": 1,
                "type": "integer",
            },
        },
    }
    assert (
        next(iter(create_schema_from_function("Look", look, filter_args=["city"]).model_fields))
        == "unit"
    )


def test_a_typed_dict_stays_a_dict_for_the_function(call):
    @tool
    def move(to: Point, via: list[Point] = []) -> Any:  # noqa: B006
        """Move."""
        return to, via

    assert call.invoke(move, {"to": {"x": "1", "y": 2}, "via": [{"x": 3, "y": 4}]}) == (
        {"x": 1, "y": 2},
        [{"x": 3, "y": 4}],
    )
    assert (
        move.tool_call_schema.model_json_schema()["$defs"]["Point"]["properties"]["x"][
            "description"
        ]
        == "across"
    )


def test_models_inside_arguments_are_models_for_the_function(call):
    class Inner(BaseModel):
        n: int

    @tool
    def nested(inner: Inner, more: list[Inner]) -> Any:
        """Nested."""
        return inner, more

    assert call.invoke(nested, {"inner": {"n": 1}, "more": [{"n": "2"}]}) == (
        Inner(n=1),
        [Inner(n=2)],
    )


def test_keys_a_typed_dict_does_not_require_are_left_out(call):
    point_tool = StructuredTool(
        name="g", description="d", args_schema=Point, func=lambda **kwargs: kwargs
    )

    assert call.invoke(point_tool, {"x": 1, "y": 2}) == {"x": 1, "y": 2}
    assert point_tool.args["y"]["description"] == "up"
    assert call.invoke(point_tool, {"x": 1, "y": 2, "name": "p"})["name"] == "p"
    assert point_tool.tool_call_schema.model_json_schema()["required"] == ["x", "y"]


def test_a_dataclass_is_a_schema(call):
    length = StructuredTool(
        name="l", description="d", args_schema=Line, func=lambda start, end: end - start
    )

    assert call.invoke(length, {"start": "2"}) == 3


def test_defaults_of_the_schema_reach_the_function_if_it_takes_them(call):
    class More(BaseModel):
        a: int
        b: int = 7
        unused: str = "x"

    assert call.invoke(tool(args_schema=More, description="d")(lambda a, b: a + b), {"a": 1}) == 8


def test_types_without_a_schema_still_make_a_tool():
    class Custom:
        pass

    @tool
    def take(thing: Annotated[Custom, InjectedToolArg], a: int) -> Any:
        """Take."""
        return thing

    custom = Custom()
    assert take.invoke({"thing": custom, "a": 1}) is custom
    assert list(take.args) == ["a"]


@pytest.mark.parametrize("strict", [None, True], ids=["loose", "strict"])
def test_convert_to_openai_takes_every_kind_of_tool(strict):
    class Sub(StructuredTool):
        pass

    def add(a: int, b: int = 1) -> int:
        """Add."""
        return a + b

    json_tool = StructuredTool(
        name="add",
        description="Add.",
        func=add,
        args_schema={"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
    )
    for add_tool in (tool(add), Sub.from_function(add), json_tool):
        function = convert_to_openai_tool(add_tool, strict=strict)["function"]
        assert (function["name"], function["description"]) == ("add", "Add.")
        assert function["parameters"]["properties"]["a"] == {"type": "integer"}
        assert ("strict" in function) is bool(strict)


def test_a_described_function_and_its_tool_are_the_same():
    def add(a: int, b: Annotated[int, "second"] = 1) -> int:
        """Add."""
        return a + b

    assert convert_to_openai_function(tool(add)) == convert_to_openai_function(add)


def test_annotations_of_a_model_are_given_with_inherited_and_generic_ones():
    class Base(BaseModel, Generic[T]):
        a: Annotated[int, InjectedToolArg]
        t: T

    class Child(Base[str]):
        b: str

    annotations = get_all_basemodel_annotations(Child)

    assert annotations == {"a": Annotated[int, InjectedToolArg], "t": str, "b": str}
    assert get_all_basemodel_annotations(Base)["t"] is Any
    with pytest.raises(UsageError, match="not a Pydantic model"):
        get_all_basemodel_annotations(int)


def test_the_input_schema_of_any_tool_is_a_model():
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    json_tool = StructuredTool(name="j", description="said", args_schema=schema, func=lambda a: a)

    assert json_tool.get_input_schema().model_json_schema() == {**schema, "description": "said"}
    assert json_tool.get_input_jsonschema() == {**schema, "description": "said"}

from __future__ import annotations

import functools
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field, field_serializer
from typing_extensions import TypedDict

from foldline.exceptions import BlockingCallError, UsageError
from foldline.messages import ToolMessage
from foldline.runnables import RunnableLambda
from foldline.tools import InjectedToolArg, StructuredTool, Tool, convert_runnable_to_tool, tool


def multiply(a: int, b: int = 2) -> int:
    """Multiply two numbers."""
    return a * b


class Pair(BaseModel):
    """A pair of numbers."""

    a: int = Field(description="the first")
    b: int = 3


class PairDict(TypedDict):
    a: Annotated[int, "the first"]
    b: int


# -- forms of the decorator


@pytest.mark.parametrize(
    ("made_tool", "name"),
    [
        (tool(multiply), "multiply"),
        (tool()(multiply), "multiply"),
        (tool("times")(multiply), "times"),
        (tool("times", description="other")(multiply), "times"),
        (tool(functools.partial(multiply)), "multiply"),
    ],
)
def test_every_form_makes_a_tool(call, made_tool, name):
    assert made_tool.name == name
    assert made_tool.description in ("Multiply two numbers.", "other")
    assert call.invoke(made_tool, {"a": 3}) == 6


def test_options_are_fields_of_the_tool():
    configured_tool = tool(
        return_direct=True,
        extras={"x": 1},
        tags=["t"],
        timeout=2.0,
        eager=True,
        max_output=5,
        metadata={"m": 1},
    )(multiply)

    assert (
        configured_tool.return_direct,
        configured_tool.extras,
        configured_tool.tags,
        configured_tool.timeout,
    ) == (
        True,
        {"x": 1},
        ["t"],
        2.0,
    )
    assert (configured_tool.eager, configured_tool.max_output, configured_tool.metadata) == (
        True,
        5,
        {"m": 1},
    )


def test_an_async_function_is_a_tool_of_async_calls(call):
    @tool
    async def double(a: int) -> int:
        """Double."""
        return 2 * a

    assert double.func is None
    if call.is_async:
        assert call.invoke(double, {"a": 2}) == 4
        return
    with pytest.raises(BlockingCallError, match="double is async"):
        call.invoke(double, {"a": 2})


def test_a_method_is_bound_in_a_class_body_and_outside(call):
    class Counter:
        def __init__(self, start: int) -> None:
            self.start = start

        def plain(self, by: int) -> int:
            """Count."""
            return self.start + by

        @tool
        def count(self, by: int) -> int:
            """Count."""
            return self.start + by

        @tool
        async def acount(self, by: int) -> int:
            """Count."""
            return self.start + by

    assert call.invoke(tool(Counter(5).plain), {"by": 2}) == 7
    assert call.invoke(Counter(5).count, {"by": 2}) == 7
    assert list(Counter.count.args) == ["by"]
    if call.is_async:
        assert call.invoke(Counter(1).acount, {"by": 2}) == 3


def test_a_callable_object_is_a_tool(call):
    class Adder:
        """Add one."""

        def __call__(self, a: int) -> int:
            return a + 1

    assert call.invoke(tool(Adder()), {"a": 1}) == 2
    assert tool(Adder()).name == "Adder"


def test_without_a_schema_it_takes_one_string(call):
    @tool(infer_schema=False)
    def shout(text: str) -> str:
        """Shout."""
        return text.upper()

    assert isinstance(shout, Tool)
    assert call.invoke(shout, "hi") == "HI"
    assert call.invoke(
        shout, {"type": "tool_call", "name": "shout", "args": {"__arg1": "hi"}, "id": "1"}
    ) == ToolMessage("HI", name="shout", tool_call_id="1")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: tool(lambda x: x), "must have a docstring"),
        (lambda: tool(infer_schema=False)(lambda x: x), "a docstring or description"),
        (lambda: tool(5), "made from a function or a runnable"),
        (lambda: tool("a", "b", "c"), "pass other options by name"),
        (lambda: tool(multiply, RunnableLambda(multiply)), "needs a name"),
        (lambda: tool(tool(multiply)), "is a tool already"),
        (lambda: tool("n", RunnableLambda(lambda x: x)), "takes named arguments"),
        (lambda: StructuredTool.from_function(), "needs a function"),
        (lambda: Tool.from_function(None, "n", "d"), "needs a function"),
    ],
)
def test_what_makes_no_tool_says_why(make, says):
    with pytest.raises(UsageError, match=says):
        make()


# -- descriptions and schemas


def test_the_description_is_the_argument_the_docstring_or_the_schemas():
    def bare(a: int, b: int = 1) -> int:
        return a

    assert tool(description="said")(multiply).description == "said"
    assert tool(args_schema=Pair)(multiply).description == "Multiply two numbers."
    assert tool(args_schema=Pair)(bare).description == "A pair of numbers."
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "description": "of the schema",
    }
    assert tool(args_schema=schema)(bare).description == "of the schema"


@pytest.mark.parametrize("schema", [Pair, PairDict], ids=["model", "TypedDict"])
def test_a_schema_may_be_a_model_or_a_typed_dict(call, schema):
    typed_tool = tool(args_schema=schema)(multiply)

    assert typed_tool.args["a"]["description"] == "the first"
    assert call.invoke(typed_tool, {"a": "4", "b": 3}) == 12


def test_parse_docstring_takes_descriptions_of_arguments():
    @tool(parse_docstring=True)
    def look(city: str, days: int = 1) -> str:
        """Look at the weather.

        Args:
            city: Where to look,
                in any language.
            days (int): How far.

        Returns:
            A sentence.
        """
        return city

    assert look.description == "Look at the weather."
    assert look.args["city"]["description"] == "Where to look, in any language."
    assert look.args["days"]["description"] == "How far."


def test_a_docstring_that_does_not_fit_is_refused_or_passed_over():
    def wrong(a: int) -> int:
        """Wrong.

        Args:
            b: There is no b.
        """
        return a

    def silent(a: int) -> int:
        return a

    with pytest.raises(UsageError, match="Arg b in docstring not found"):
        tool(parse_docstring=True)(wrong)
    with pytest.raises(UsageError, match="has no docstring to parse"):
        tool(parse_docstring=True)(silent)
    assert (
        tool(parse_docstring=True, error_on_invalid_docstring=False)(wrong).description == "Wrong."
    )


def test_a_docstring_without_sections_is_refused_where_it_should_be_parsed():
    def plain(a: int) -> int:
        """Say nothing of a."""
        return a

    def told(a: int, callbacks=None) -> int:
        """Count.

        Args:
            a: A number.
        """
        return a

    with pytest.raises(UsageError, match="invalid Google-Style docstring"):
        tool(parse_docstring=True)(plain)
    assert tool(parse_docstring=True)(told).args["a"]["description"] == "A number."


def test_a_docstring_that_is_not_parsed_is_told_as_it_is_written():
    def act(a: int) -> int:
        """Act.

        Args:
            a: A number.
        """
        return a

    assert tool(act).description == act.__doc__.strip()


class Opaque: ...


def test_an_author_may_say_how_a_tool_is_written_as_json():
    class Mine(StructuredTool):
        @field_serializer("func", when_used="json-unless-none")
        def _own(self, func):
            return "mine"

    @tool
    def act(a: int, conn: Annotated[Opaque, InjectedToolArg]) -> str:
        """Act."""
        return "x"

    json_tool = Mine.from_function(lambda a: a, name="m", description="d")

    assert json_tool.model_dump(mode="json")["func"] == "mine"
    assert json_tool.model_dump(mode="json")["args_schema"]["title"] == "m"
    assert "act" in act.model_dump(mode="json")["func"]
    assert act.model_dump(mode="json")["args_schema"].startswith("<class ")


# -- runnables


def test_a_runnable_becomes_a_tool(call):
    double = RunnableLambda(lambda d: d["a"] * 2)

    double_tool = double.as_tool(arg_types={"a": int}, name="double", description="Double.")

    assert double_tool.args == {"a": {"title": "A", "type": "integer"}}
    assert call.invoke(double_tool, {"a": "3"}) == 6
    assert (
        call.invoke(
            double_tool, {"type": "tool_call", "name": "double", "args": {"a": 3}, "id": "1"}
        ).content
        == "6"
    )


def test_a_runnable_of_a_string_becomes_a_tool_of_one_string(call):
    shout_tool = (
        RunnableLambda(lambda text: text + "!").with_types(input_type=str).as_tool(name="shout")
    )

    assert isinstance(shout_tool, Tool)
    assert call.invoke(shout_tool, "hi") == "hi!"


@pytest.mark.parametrize("schema", [Pair, None], ids=["given", "read off"])
def test_a_runnable_takes_its_schema_from_a_model_or_its_types(call, schema):
    sum_runnable = RunnableLambda(lambda d: d["a"] + d["b"])
    if schema is None:
        sum_runnable = sum_runnable.with_types(input_type=PairDict)

    sum_tool = convert_runnable_to_tool(sum_runnable, schema, name="sum")

    assert sum_tool.description.startswith("Takes {")
    assert call.invoke(sum_tool, {"a": 1, "b": 2}) == 3


def test_a_runnable_of_any_dict_takes_any_arguments(call):
    keys_tool = RunnableLambda(lambda d: sorted(d)).as_tool(name="keys")

    assert call.invoke(keys_tool, {"x": 1, "y": 2}) == ["x", "y"]


def test_a_runnable_of_a_list_says_what_to_do():
    list_runnable: Any = RunnableLambda(lambda x: x).with_types(input_type=list[int])

    with pytest.raises(UsageError, match="arg_types="):
        list_runnable.as_tool()


def test_tool_of_a_runnable_runs_it_as_its_child(call):
    sum_runnable = RunnableLambda(lambda d: d["a"] + d["b"], name="summed").with_types(
        input_type=PairDict
    )

    assert call.invoke(tool("sum", sum_runnable, description="Sum."), {"a": 1, "b": 2}) == 3
    assert call.invoke(tool(sum_runnable, description="Sum."), {"a": 1, "b": 2}) == 3


def test_an_option_that_no_tool_has_is_an_error():
    with pytest.raises(UsageError, match=r"has no option 'descripton' \(did you mean"):
        tool(descripton="misspelt")  # type: ignore[call-overload]

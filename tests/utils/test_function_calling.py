"""Descriptions of functions for a model; `langchain_functions.json` holds those of langchain-core 1.7.2.

Where foldline differs on purpose, a test of its own says so.
"""

import dataclasses
import enum
import functools
import gc
import json
import weakref
from pathlib import Path
from typing import Annotated, Literal, NotRequired, Optional, TypedDict, Union

import pytest
import typing_extensions
from pydantic import BaseModel, Field

from foldline.exceptions import UsageError
from foldline.messages import AIMessage, HumanMessage
from foldline.utils.function_calling import (
    convert_to_json_schema,
    convert_to_openai_function,
    convert_to_openai_tool,
    is_server_tool,
    tool_example_to_messages,
)
from foldline.utils.json_schema import validate

RECORDED = json.loads((Path(__file__).parent / "langchain_functions.json").read_text())


def plain(a: int, b: str = "x") -> int:
    """Add things.

    More text
    on two lines.

    Args:
        a: The first
            and more.
        b: The second.

    Returns:
        The sum.
    """


def nodoc(a: int, b, c=3): ...


def annotated(
    a: Annotated[int, "the a"],
    b: Annotated[str, Field(description="the b")] = "q",
    c: Annotated[list[str], "many", 3] = (),
) -> str:
    """Do it."""


def lit(
    m: Literal["x", "y"],
    o: Optional[int] = None,  # noqa: UP045  the old spelling is a case
    u: Union[int, str] = 1,  # noqa: UP007
    l: list[int] = [],  # noqa: E741, B006
    d: dict[str, int] = {},  # noqa: B006
    n: int | None = None,
    ol: Optional[list[str]] = None,  # noqa: UP045
):
    """Lit."""


class Color(enum.Enum):
    red = "r"
    blue = "b"


class Inner(BaseModel):
    """Inner doc."""

    x: int = Field(description="an x", ge=0)
    c: Color = Color.red


class Outer(BaseModel):
    """Outer doc."""

    name: str = Field(..., description="nm")
    opt: Inner | None = None


class Tree(BaseModel):
    v: int
    kids: list["Tree"] = []


@dataclasses.dataclass
class DC:
    """A dc."""

    a: int
    b: str = "z"


async def asy(a: int) -> int:
    """Async one."""


class Fn:
    def meth(self, a: int) -> int:
        """Meth.

        Args:
            a: A.
        """


FLAT = {"type": "object", "properties": {"a": {"type": "integer"}}}
EMPTY = {"type": "object", "properties": {}}
TITLED = {"a": {"type": "integer", "title": "A"}, "title": {"type": "string"}}
CASES = {
    "plain": plain,
    "nodoc": nodoc,
    "annotated": annotated,
    "lit": lit,
    "dc": DC,
    "asy": asy,
    "meth": Fn().meth,
    "js": {
        "title": "Get",
        "description": "Gets",
        "type": "object",
        "properties": TITLED,
        "required": ["a"],
    },
    "js_nodesc": {"title": "T", **FLAT},
    "oaf": {"name": "f", "description": "d", "parameters": EMPTY},
    "oaf_noparams": {"name": "f"},
    "oaf_strict": {"name": "f", "description": "d", "parameters": FLAT, "strict": True},
    "oat": {"type": "function", "function": {"name": "f", "description": "d", "parameters": FLAT}},
    "anth": {"name": "f", "description": "d", "input_schema": FLAT},
    "anth_cache": {"name": "f", "input_schema": EMPTY, "cache_control": {"type": "ephemeral"}},
    "bedrock": {"toolSpec": {"name": "f", "description": "d", "inputSchema": {"json": EMPTY}}},
    "web": {"type": "web_search"},
    "websp": {"type": "web_search_preview", "x": 1},
    "comp": {"type": "computer_use_preview"},
    "mcps": {"type": "mcp", "server_label": "x"},
}
FUNCTIONS = {
    "convert_to_openai_function": convert_to_openai_function,
    "convert_to_openai_tool": convert_to_openai_tool,
    "convert_to_json_schema": convert_to_json_schema,
}


REFUSED = {key for key in RECORDED if key.startswith(("lit/", "nodoc/")) and key.endswith("/True")}
"""LangChain closes `dict[str, int]` to `{}` and sends a value without a type."""


@pytest.mark.parametrize("recorded", sorted(REFUSED))
def test_a_schema_that_cannot_be_closed_is_refused_where_langchain_empties_it(recorded):
    case, function, _ = recorded.split("/")

    with pytest.raises(UsageError, match="strict=True cannot describe"):
        FUNCTIONS[function](CASES[case], strict=True)


@pytest.mark.parametrize(
    "recorded", [key for key in sorted(RECORDED.keys() - REFUSED) if key.split("/")[0] in CASES]
)
def test_says_what_langchain_says(recorded):
    case, function, strict = recorded.split("/")

    schema = FUNCTIONS[function](
        CASES[case], strict={"None": None, "True": True, "False": False}[strict]
    )

    assert json.loads(json.dumps(schema)) == RECORDED[recorded]


def parameters(function):
    return convert_to_openai_function(function)["parameters"]


def test_titles_go_everywhere_also_inside_alternatives():
    assert "title" not in json.dumps(convert_to_openai_function(Outer)["parameters"])
    assert parameters(Outer)["properties"]["opt"]["anyOf"][0]["properties"]["x"] == {
        "description": "an x",
        "minimum": 0,
        "type": "integer",
    }


def test_a_recursive_model_keeps_its_definition_where_langchain_forgets_it():
    schema = parameters(Tree)

    assert schema["properties"]["kids"]["items"] == {"$ref": "#/$defs/Tree"}
    assert (
        validate({"v": 1, "kids": [{"v": 2, "kids": [{"v": "x"}]}]}, schema)[0].path
        == "$.kids[0].kids[0].v"
    )


def test_star_arguments_are_not_offered():
    def star(a: int, *args: int, k: int, **kwargs: str):
        """Star."""

    assert list(parameters(star)["properties"]) == ["a", "k"]


class Address(TypedDict):
    """Where.

    Args:
        street: the street
    """

    street: str


class Person(TypedDict, total=False):
    """A person."""

    name: Annotated[str, ..., "the name"]
    age: Annotated[int, 5, "the age"]
    tags: Annotated[list[str], None]
    note: Annotated[str, "a note"]
    home: Address
    homes: list[Address]
    other: Address | None


class New(typing_extensions.TypedDict):
    a: int
    b: NotRequired[str]


def test_a_typed_dict_has_defaults_descriptions_and_optional_keys():
    address = {
        "description": "Where.",
        "properties": {"street": {"description": "the street", "type": "string"}},
        "required": ["street"],
        "type": "object",
    }

    assert convert_to_openai_function(Person) == {
        "name": "Person",
        "description": "A person.",
        "parameters": {
            "type": "object",
            "properties": {
                "name": {"description": "the name", "type": "string"},
                "age": {"default": 5, "description": "the age", "type": "integer"},
                "tags": {"items": {"type": "string"}, "type": "array"},
                "note": {"description": "a note", "type": "string"},
                "home": address,
                "homes": {"items": address, "type": "array"},
                "other": {"anyOf": [address, {"type": "null"}]},
            },
            "required": ["name"],
        },
    }
    assert convert_to_openai_function(New)["description"] == ""
    assert parameters(New)["required"] == ["a"]


def test_a_partial_and_a_callable_object_are_functions():
    class Adder:
        def __call__(self, a: int) -> int:
            """Call.

            Args:
                a: the a
            """

    assert list(parameters(functools.partial(plain, b="y"))["properties"]) == ["a", "b"]
    assert convert_to_openai_function(functools.partial(plain, b="y"))["name"] == "plain"
    assert convert_to_openai_function(Adder()) == {
        "name": "Adder",
        "description": "Call.",
        "parameters": {
            "properties": {"a": {"description": "the a", "type": "integer"}},
            "required": ["a"],
            "type": "object",
        },
    }


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "bash_20250124", "name": "bash"},
        {"type": "custom", "name": "n", "format": {"type": "text"}},
        {"type": "local_shell"},
        {"type": "some_future_tool", "anything": 1},
        {"google_search": {}},
        {"codeExecution": {}},
        {"cachePoint": {"type": "default"}},
    ],
)
def test_tools_of_the_provider_pass_through_untouched(tool):
    assert is_server_tool(tool)
    assert convert_to_openai_tool(tool, strict=True) == tool
    with pytest.raises(UsageError, match="tool of the provider"):
        convert_to_json_schema(tool)


def test_an_mcp_tool_keeps_its_schema():
    tool = {"name": "f", "description": "d", "inputSchema": FLAT, "annotations": {"title": "F"}}

    assert convert_to_openai_function(tool) == {"name": "f", "description": "d", "parameters": FLAT}


class Tool:
    name = "t"
    description = "says t"

    def __init__(self, **fields):
        self.__dict__.update(fields)


def test_a_tool_is_known_by_its_shape():
    expected = {"name": "t", "description": "says t"}

    assert convert_to_openai_function(Tool(tool_call_schema=Tree)) == {
        **expected,
        "parameters": parameters(Tree),
    }
    assert convert_to_openai_function(Tool(args_schema={"title": "x", **FLAT})) == {
        **expected,
        "parameters": FLAT,
    }
    assert convert_to_openai_function(Tool())["parameters"]["required"] == ["__arg1"]
    assert convert_to_openai_tool(
        Tool(metadata={"type": "custom_tool", "format": {"type": "text"}})
    ) == {
        "type": "custom",
        **expected,
        "format": {"type": "text"},
    }


def test_arguments_the_program_gives_are_not_told_to_the_model():
    class InjectedToolArg: ...

    class InjectedState(InjectedToolArg): ...

    def act(
        a: int, state: Annotated[dict, InjectedState()], other: Annotated[int, InjectedToolArg] = 1
    ):
        """Act."""

    assert list(parameters(act)["properties"]) == ["a"]


def test_a_docstring_that_describes_what_is_not_there_is_refused():
    def wrong(a: int):
        """Do.

        Args:
            b: gone
        """

    with pytest.raises(UsageError, match="describes 'b'"):
        convert_to_openai_function(wrong)


@pytest.mark.parametrize("value", [3, {"x": 1}, None, []])
def test_what_is_no_function_is_refused_with_what_to_pass(value):
    with pytest.raises(UsageError, match="pass a function"):
        convert_to_openai_function(value)


def test_a_schema_without_a_title_is_refused_because_the_title_is_the_name():
    with pytest.raises(UsageError, match="top-level 'title' key"):
        convert_to_openai_function({"type": "object", "properties": {}})


def test_a_method_taken_from_its_class_does_not_ask_the_model_for_self():
    class Shop:
        def sell(self, item: str) -> str:
            """Sell."""
            return item

        @classmethod
        def open(cls, day: str) -> str:
            """Open."""
            return day

    functions = [
        convert_to_openai_function(method) for method in (Shop.sell, Shop.open, Shop().sell)
    ]

    assert [list(function["parameters"]["properties"]) for function in functions] == [
        ["item"],
        ["day"],
        ["item"],
    ]


def test_a_plain_function_may_have_a_parameter_named_self():
    def act(self: str) -> str:
        """Act."""
        return self

    assert list(convert_to_openai_function(act)["parameters"]["properties"]) == ["self"]


def test_an_example_of_tool_calls_is_a_conversation():
    class Person(BaseModel):
        name: str

    question, calls, first, second, answer = tool_example_to_messages(
        "Ann and Bob", [Person(name="Ann"), Person(name="Bob")], ai_response="two"
    )

    assert question == HumanMessage("Ann and Bob")
    assert [call["args"] for call in calls.tool_calls] == [{"name": "Ann"}, {"name": "Bob"}]
    assert [first.tool_call_id, second.tool_call_id] == [call["id"] for call in calls.tool_calls]
    assert answer == AIMessage("two")
    with pytest.raises(ValueError, match="must match"):
        tool_example_to_messages("x", [Person(name="Ann")], ["one", "two"])


def test_a_parameter_without_json_schema_is_refused_by_name():
    class Opaque: ...

    def act(a: Opaque):
        """Act."""

    with pytest.raises(UsageError, match="act"):
        convert_to_openai_function(act)


def test_strict_that_contradicts_the_dict_is_refused():
    with pytest.raises(UsageError, match="strict"):
        convert_to_openai_function(CASES["oaf_strict"], strict=False)


def test_what_is_given_is_not_changed():
    before = json.dumps(CASES["anth"])
    convert_to_openai_tool(CASES["anth"], strict=True)

    assert json.dumps(CASES["anth"]) == before


def test_a_model_is_described_as_it_is_now_and_each_description_is_the_callers_own():
    class Part(BaseModel):
        """A part."""

        sizes: list[int] = [1]

    first = convert_to_openai_tool(Part)
    first["function"]["parameters"]["properties"]["sizes"]["default"].append(2)
    assert convert_to_openai_tool(Part)["function"]["parameters"]["properties"]["sizes"][
        "default"
    ] == [1]
    Part.__doc__ = "A spare part."
    assert convert_to_openai_tool(Part)["function"]["description"] == "A spare part."
    Part.model_fields["sizes"].description = "In millimetres."
    Part.model_rebuild(force=True)
    sizes = convert_to_openai_tool(Part)["function"]["parameters"]["properties"]["sizes"]
    assert sizes["description"] == "In millimetres."

    class Heavy(Part):
        """A heavy part."""

    assert convert_to_openai_tool(Heavy)["function"]["name"] == "Heavy"


def test_a_model_that_was_described_is_freed_with_its_last_reference():
    class Short(BaseModel):
        x: int

    convert_to_openai_tool(Short)
    reference = weakref.ref(Short)
    del Short
    gc.collect()
    assert reference() is None

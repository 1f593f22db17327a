"""What runnables say of their input and output, compared with what LangChain says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from operator import itemgetter
from typing import Any, Generic, TypeVar

import pytest
from pydantic import BaseModel

from foldline.runnables import (
    RouterRunnable,
    Runnable,
    RunnableBranch,
    RunnableGenerator,
    RunnableLambda,
    RunnableParallel,
    RunnablePassthrough,
    RunnablePick,
    RunnableSerializable,
)
from foldline.runnables.utils import ConfigurableFieldSpec

T = TypeVar("T")


class Point(BaseModel):
    x: int


def typed(x: int) -> str:
    return str(x)


def keys(d: Any) -> Any:
    return d["a"] + d.get("b")


def words(numbers: Iterator[int]) -> Iterator[str]:
    yield "a"


async def awords(numbers: AsyncIterator[int]) -> AsyncIterator[str]:
    yield "a"


def letters(x: int) -> Iterator[str]:
    yield "a"


def move(point: Point) -> Point:
    return point


class Plain(Runnable[str, int]):
    pass


class WithFields(RunnableSerializable[str, int]):
    pass


class Child(WithFields):
    pass


class Lists(Runnable[T, list[T]], Generic[T]):
    pass


class IntLists(Lists[int]):
    pass


class Pieces(Runnable[str, list[int], int]):
    pass


class PiecesWithFields(RunnableSerializable[str, list[int], int]):
    pass


class Unsaid(Runnable):  # type: ignore[type-arg]
    pass


@pytest.mark.parametrize(
    ("runnable", "takes", "gives"),
    [
        (RunnableLambda(typed), int, str),
        (RunnableLambda(lambda x: x), Any, Any),
        (RunnableLambda(letters), int, str),
        (RunnableGenerator(words), int, str),
        (RunnableGenerator(awords), int, str),
        (Plain(), str, int),
        (WithFields(), str, int),
        (Child(), str, int),
        (IntLists(), int, list[int]),
        (Pieces(), str, list[int]),
        (PiecesWithFields(), str, list[int]),
        (RunnableBranch[int, str]((typed, typed), typed), int, str),
        (Unsaid(), Any, Any),
        (RunnableLambda(typed) | (lambda x: x), int, Any),
        (RunnableParallel(a=typed, b=itemgetter("z")), int, dict[str, Any]),
        (RunnablePassthrough(), Any, Any),
        (RunnablePassthrough(input_type=int), int, int),
        (RunnablePassthrough.assign(a=typed), dict[str, Any], dict[str, Any]),
        (RunnablePick("a"), dict[str, Any], Any),
        (RunnableLambda(typed).map(), list[int], list[str]),
        (RunnableLambda(typed).bind(k=1), int, str),
    ],
)
def test_types(runnable, takes, gives):
    assert runnable.InputType == takes
    assert runnable.OutputType == gives


def field(title: str, **more: Any) -> dict[str, Any]:
    return {"title": title, **more}


@pytest.mark.parametrize(
    ("runnable", "schema"),
    [
        (RunnableLambda(typed), {"title": "typed_input", "type": "integer"}),
        (RunnableLambda(lambda x: x), {"title": "RunnableLambdaInput"}),
        (RunnableLambda(typed, name="Nice"), {"title": "NiceInput", "type": "integer"}),
        (
            RunnableLambda(keys),
            {
                "properties": {"a": field("A"), "b": field("B")},
                "required": ["a", "b"],
                "title": "keys_input",
                "type": "object",
            },
        ),
        (
            RunnableLambda(itemgetter("a", "b")),
            {
                "properties": {"a": field("A"), "b": field("B")},
                "required": ["a", "b"],
                "title": "RunnableLambdaInput",
                "type": "object",
            },
        ),
        (
            RunnableLambda(itemgetter(0)),
            {"items": {}, "title": "RunnableLambdaInput", "type": "array"},
        ),
        (
            RunnableParallel(a=itemgetter("q"), b=itemgetter("z")),
            {
                "properties": {"q": field("Q"), "z": field("Z")},
                "required": ["q", "z"],
                "title": "RunnableParallel<a,b>Input",
                "type": "object",
            },
        ),
        (RunnableParallel(a=typed), {"title": "RunnableParallel<a>Input", "type": "integer"}),
        (
            RunnablePassthrough.assign(b=itemgetter("a")) | RunnablePick("b"),
            {
                "properties": {"a": field("A")},
                "required": ["a"],
                "title": "RunnableParallel<b>Input",
                "type": "object",
            },
        ),
        (
            RunnablePassthrough.assign(context=itemgetter("question"))
            | itemgetter("context", "style"),
            {
                "properties": {"style": field("Style"), "question": field("Question")},
                "required": ["style", "question"],
                "title": "RunnableSequenceInput",
                "type": "object",
            },
        ),
        (
            RunnableBranch((lambda x: True, typed), RunnableLambda(typed)),
            {"title": "typed_input", "type": "integer"},
        ),
        (RunnableLambda(move), Point.model_json_schema()),
    ],
)
def test_input_schemas(runnable, schema):
    assert runnable.get_input_jsonschema() == schema
    assert runnable.input_schema.model_json_schema() == schema


@pytest.mark.parametrize(
    ("runnable", "schema"),
    [
        (RunnableLambda(typed), {"title": "typed_output", "type": "string"}),
        (
            RunnableParallel(a=typed, b=itemgetter("z")),
            {
                "properties": {"a": field("A", type="string"), "b": field("B")},
                "required": ["a", "b"],
                "title": "RunnableParallel<a,b>Output",
                "type": "object",
            },
        ),
        (
            RunnableParallel(a=typed).assign(c=lambda d: d["a"]),
            {
                "properties": {"a": field("A", type="string"), "c": field("C")},
                "required": ["a", "c"],
                "title": "RunnableSequenceOutput",
                "type": "object",
            },
        ),
        (
            RunnableParallel(a=typed, b=typed).pick("a"),
            {"title": "RunnableSequenceOutput", "type": "string"},
        ),
        (
            RunnableLambda(typed).map(),
            {
                "$defs": {"typed_output": {"title": "typed_output", "type": "string"}},
                "items": {"$ref": "#/$defs/typed_output"},
                "title": "RunnableEach<typed>Output",
                "type": "array",
            },
        ),
        (RouterRunnable({"a": typed}), {"title": "RouterRunnableOutput"}),
    ],
)
def test_output_schemas(runnable, schema):
    assert runnable.get_output_jsonschema() == schema
    assert runnable.output_schema.model_json_schema() == schema


def test_a_schema_checks_values():
    assert RunnableLambda(typed).input_schema.model_validate(3).root == 3  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="integer"):
        RunnableLambda(typed).input_schema.model_validate("x")
    assert RunnableLambda(move).input_schema is Point


def test_keys_that_are_no_python_names_keep_their_name():
    parallel = RunnableParallel({"_x": typed, "model_dump": typed, "with space": typed})

    assert list(parallel.get_output_jsonschema()["properties"]) == [
        "_x",
        "model_dump",
        "with space",
    ]


def test_config_schema_has_the_keys_asked_for():
    assert RunnableLambda(typed).get_config_jsonschema() == {
        "properties": {},
        "title": "typed_config",
        "type": "object",
    }
    schema = RunnableLambda(typed).get_config_jsonschema(
        include=["tags", "metadata", "configurable"]
    )
    assert list(schema["properties"]) == ["tags", "metadata"]
    assert schema["properties"]["tags"]["items"] == {"type": "string"}
    assert (RunnableLambda(typed) | typed).config_specs == []


def test_names():
    assert RunnableLambda(typed).get_name() == "typed"
    assert Plain().get_name("Input") == "PlainInput"
    assert RunnableParallel(a=typed).get_name(name="other") == "other"


class Prompt(Runnable[dict[str, Any], str]):
    _run_type = "prompt"


def test_the_prompts_of_a_chain_can_be_asked_for():
    prompt = Prompt()

    assert (prompt | RunnableLambda(typed)).get_prompts() == [prompt]
    assert RunnableLambda(typed).get_prompts() == []


class Configurable(RunnableLambda[Any, Any]):
    @property
    def config_specs(self) -> list[Any]:
        return [ConfigurableFieldSpec(id="style", annotation=str, name="Style", default="plain")]


@pytest.mark.parametrize(
    "runnable",
    [
        Configurable(typed) | typed,
        RunnableParallel(a=Configurable(typed), b=Configurable(typed)),
        RunnablePassthrough.assign(a=Configurable(typed)),
        RunnableBranch((typed, Configurable(typed)), typed),
        RouterRunnable({"a": Configurable(typed)}),
        Configurable(typed).map(),
        Configurable(typed).bind(k=1),
    ],
)
def test_what_is_configurable_in_a_part_is_configurable_in_the_whole(runnable):
    assert [spec.id for spec in runnable.config_specs] == ["style"]
    schema = runnable.get_config_jsonschema()
    assert schema["$defs"]["Configurable"]["properties"] == {
        "style": {"default": "plain", "title": "Style", "type": "string"}
    }


def test_a_binding_speaks_for_what_is_bound():
    bound = RunnablePassthrough.assign(c=itemgetter("q")).with_config(tags=["t"])
    chain = RunnableParallel(q=typed) | bound | RunnablePick("q").with_config(tags=["t"])

    assert bound.get_input_jsonschema()["required"] == ["q"]
    assert bound.get_output_jsonschema()["required"] == ["q", "c"]
    assert chain.get_output_jsonschema() == {"title": "RunnableSequenceOutput", "type": "string"}
    said = bound.with_types(input_type=dict[str, int], output_type=dict[str, int])
    chain = said | said
    assert chain.get_input_jsonschema()["additionalProperties"] == {"type": "integer"}
    assert chain.get_output_jsonschema()["additionalProperties"] == {"type": "integer"}


def test_several_keys_picked_keep_their_types():
    picked = RunnableParallel(a=typed, b=typed).pick(["a", "z"])

    assert picked.get_output_jsonschema()["properties"] == {"a": field("A", type="string")}
    assert (RunnableLambda(typed) | RunnablePick(["a"])).get_output_jsonschema() == field(
        "RunnablePick<a>Output"
    )
    assert RunnablePassthrough.assign(b=typed).get_input_jsonschema()["type"] == "object"
    assert RunnablePassthrough.assign(b=typed).get_output_jsonschema()["required"] == ["b"]
    assert RunnableLambda(typed).map().get_input_jsonschema()["type"] == "array"


def test_annotations_that_cannot_be_resolved_are_left():
    def strange(x: Unknown) -> Missing:  # type: ignore[name-defined]  # noqa: F821
        return x

    assert RunnableLambda(strange).InputType == "Unknown"

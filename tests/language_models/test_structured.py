from __future__ import annotations

import sys
from dataclasses import dataclass

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from foldline.callbacks import BaseCallbackHandler
from foldline.exceptions import (
    ModelOverloadedError,
    ModelRateLimitError,
    StructuredOutputError,
    UsageError,
)
from foldline.language_models import Partial, RetryPolicy
from foldline.language_models.structured._output import OutputSchema, choose_method
from foldline.messages import AIMessage
from foldline.testing import Fail, ScriptedChatModel
from foldline.utils.function_calling import convert_to_json_schema
from tests.language_models.scripted import KINDS, Speaking, calls, usage
from tests.runnables.recording import Recorder


class Pet(BaseModel):
    """A pet."""

    name: str
    age: int = Field(ge=0)


class Owner(BaseModel):
    name: str
    pets: list[Pet] = []


class Scored(BaseModel):
    scores: dict[str, float]


class PetDict(TypedDict):
    """A pet."""

    name: str
    age: int


@dataclass
class PetData:
    name: str
    age: int


@dataclass(frozen=True, slots=True)
class Kennel:
    """A house for dogs; its first field is called as a method of Pydantic's models is."""

    json: str
    pets: list[PetData]

    def __post_init__(self) -> None:
        if self.pets is None:
            raise ValueError("a partial object must not come here")


JSON_PET = {
    "title": "Pet",
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"$ref": "#/$defs/Age"}},
    "required": ["name", "age"],
    "$defs": {"Age": {"type": "integer", "minimum": 0}},
}
GOOD, BAD = '{"name": "Rex", "age": 3}', '{"name": "Rex", "age": -3}'
METHODS = ["json_schema", "tool", "function_calling", "json_mode"]
SCHEMAS = [Pet, PetDict, PetData, JSON_PET]


def answer_with(method, text):
    if method in ("tool", "function_calling"):
        import json

        return calls(("Pet", json.loads(text)))
    return AIMessage(text)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", METHODS)
def test_the_answer_is_an_object_of_the_schema(call, method, kind):
    model = kind(answers=[answer_with(method, GOOD)])

    assert call.invoke(model.with_structured_output(Pet, method=method), "x") == Pet(
        name="Rex", age=3
    )


@pytest.mark.parametrize("schema", SCHEMAS)
def test_every_kind_of_schema_is_read_and_checked(call, schema):
    model = Speaking(answers=[GOOD])
    structured = model.with_structured_output(schema, method="json_schema")

    answer = call.invoke(structured, "x")

    expected = {Pet: Pet(name="Rex", age=3), PetData: PetData("Rex", 3)}
    assert answer == (
        expected.get(schema)
        if isinstance(schema, type) and schema in expected
        else {"name": "Rex", "age": 3}
    )
    assert "checks" not in model.requests[0].options


@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_wrong_answer_is_asked_for_again_with_the_issues(call, schema):
    model = Speaking(answers=['{"name": "Rex", "age": "old"}', GOOD])

    call.invoke(model.with_structured_output(schema, method="json_schema", max_retries=2), "x")

    messages = model.requests[1].messages
    assert [message.type for message in messages] == ["human", "ai", "human"]
    assert "age" in messages[-1].text
    assert "old" in messages[1].text


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_given_up_with_the_raw_answer_the_issues_and_the_usage_of_all_attempts(call, kind):
    model = kind(answers=[AIMessage(BAD, usage_metadata=usage(10, 5, cache_read=4))])

    with pytest.raises(StructuredOutputError, match="age") as excinfo:
        call.invoke(model.with_structured_output(Pet, method="json_schema", max_retries=1), "x")

    assert len(model.requests) == 2
    assert excinfo.value.raw.text.strip() == BAD
    assert "age" in excinfo.value.issues[0]
    assert excinfo.value.usage["total_tokens"] == 30
    assert excinfo.value.usage["input_token_details"]["cache_read"] == 8


def test_transport_failures_and_wrong_answers_share_the_attempts_of_one_call(call):
    model = Speaking(answers=[ModelRateLimitError("slow"), BAD, GOOD])

    raw = call.invoke(
        model.with_structured_output(Pet, method="json_schema", include_raw=True, max_retries=2),
        "x",
    )

    assert raw["parsed"] == Pet(name="Rex", age=3)
    assert raw["raw"].response_metadata["retries"] == 2


def test_include_raw_gives_what_could_not_be_read(call):
    model = Speaking(answers=["no"])

    raw = call.invoke(
        model.with_structured_output(Pet, method="json_schema", include_raw=True, max_retries=1),
        "x",
    )

    assert raw["parsed"] is None
    assert isinstance(raw["parsing_error"], StructuredOutputError)
    assert raw["raw"].text.strip() == "no"
    assert raw["raw"].response_metadata["issues"]
    assert len(model.requests) == 2


@pytest.mark.parametrize(
    ("text", "repair"),
    [
        (f"```json\n{GOOD}\n```", "code fence"),
        ('{"name": "Rex", "age": 3,}', "trailing comma"),
        ('"{\\"name\\": \\"Rex\\", \\"age\\": 3}"', "out of a string"),
        (f"Sure! {GOOD}", "before the JSON"),
        ('{"name": "Rex", "age": 3, "colour": "red"}', "left out colour"),
    ],
)
def test_repairs_are_recorded_and_never_silent(call, text, repair):
    model = Speaking(answers=[text])

    raw = call.invoke(
        model.with_structured_output(Pet, method="json_schema", include_raw=True), "x"
    )

    assert raw["parsed"] == Pet(name="Rex", age=3)
    assert any(repair in text for text in raw["raw"].response_metadata["repairs"])


def test_without_repair_a_fence_is_asked_for_again(call):
    model = Speaking(answers=[f"```\n{GOOD}\n```", GOOD])

    call.invoke(
        model.with_structured_output(Pet, method="json_schema", repair=False, max_retries=1), "x"
    )

    assert len(model.requests) == 2


def test_a_property_deep_inside_is_not_dropped_silently():
    answer = OutputSchema(Owner).read({"name": "A", "pets": [{"name": "R", "age": 1, "x": 2}]})

    assert answer.repairs == ["left out pets[0].x, which Owner does not have"]


def test_a_json_schema_answer_keeps_properties_the_schema_does_not_name():
    assert OutputSchema(JSON_PET).read({"name": "R", "age": 1, "x": 2}).value["x"] == 2


def test_a_reference_is_followed_when_checking():
    assert OutputSchema(JSON_PET).read({"name": "R", "age": "x"}).issues


def test_the_native_format_is_openais_and_strict_closes_it(call):
    model = Speaking(answers=[GOOD])

    call.invoke(model.with_structured_output(Pet, method="json_schema", strict=True), "x")

    response_format = model.requests[0].options["response_format"]
    assert response_format["type"] == "json_schema"
    assert response_format["json_schema"]["name"] == "Pet"
    assert response_format["json_schema"]["strict"] is True
    assert response_format["json_schema"]["schema"]["additionalProperties"] is False


def test_with_strict_a_null_stands_for_what_was_left_out(call):
    class Lax(BaseModel):
        name: str
        size: int = 7

    model = Speaking(answers=['{"name": "a", "size": null}'])

    assert call.invoke(
        model.with_structured_output(Lax, method="json_schema", strict=True), "x"
    ) == Lax(name="a")


def test_as_a_tool_the_schema_is_the_only_choice(call):
    model = Speaking(answers=[calls(("Pet", {"name": "Rex", "age": 3}))])

    call.invoke(model.with_structured_output(Pet, method="tool"), "x")

    options = model.requests[0].options
    assert options["tool_choice"] == {"type": "function", "function": {"name": "Pet"}}
    assert options["tools"][0]["function"]["parameters"]["required"] == ["name", "age"]


def test_an_answer_in_the_text_instead_of_the_tool_is_taken_and_told(call):
    model = Speaking(answers=[GOOD])

    raw = call.invoke(model.with_structured_output(Pet, method="tool", include_raw=True), "x")

    assert raw["parsed"] == Pet(name="Rex", age=3)
    assert "the tool was not called" in raw["raw"].response_metadata["repairs"][0]


def test_F_U01_a_tool_answer_cut_by_length_is_never_repaired(call):
    truncated_message = AIMessage(
        "",
        invalid_tool_calls=[
            {"id": "1", "name": "Pet", "args": '{"name": "Rex", "age": 3', "error": "cut"}
        ],
        finish_reason="length",
    )
    model = Speaking(answers=[truncated_message])

    with pytest.raises(StructuredOutputError, match="cut off"):
        call.invoke(model.with_structured_output(Pet, method="tool", max_retries=0), "x")


def test_json_mode_tells_the_model_the_schema(call):
    model = Speaking(answers=[GOOD])

    call.invoke(model.with_structured_output(Pet, method="json_mode"), "x")

    assert model.requests[0].options == {"response_format": {"type": "json_object"}}
    assert '"age"' in model.requests[0].messages[0].text


@pytest.mark.parametrize(
    ("profile", "has_tools", "method"),
    [
        ({"structured_output": True}, False, "json_schema"),
        ({"structured_output": True, "structured_output_with_tools": False}, True, "tool"),
        ({"tool_calling": True}, False, "tool"),
        ({"tool_calling": False}, False, "json_mode"),
        (None, False, "tool"),
        ({"structured_output": True, "structured_output_closed": True}, False, "json_schema"),
    ],
)
def test_auto_chooses_by_what_the_model_can_do(profile, has_tools, method):
    assert choose_method("auto", profile, Pet, has_tools=has_tools) == method


def test_auto_asks_with_a_tool_if_the_native_format_would_close_a_dict():
    profile = {"structured_output": True, "structured_output_closed": True}

    assert choose_method("auto", profile, Scored, has_tools=False) == "tool"


@pytest.mark.parametrize(
    ("schema", "options", "error_text"),
    [
        (Pet, {"method": "magic"}, "method='magic'"),
        (Pet, {"tools": [Owner]}, "include_raw=True"),
        (Pet, {"max_retries": -1}, "max_retries"),
        ("Pet", {}, "is not a schema"),
        ({}, {}, "empty dict"),
        ({"type": "web_search"}, {}, "tool of the provider"),
        (Pet, {"tools": [Pet], "include_raw": True, "method": "tool"}, "both named"),
    ],
)
def test_what_cannot_be_asked_for_says_so_at_once(schema, options, error_text):
    with pytest.raises(UsageError, match=error_text):
        Speaking(answers=["x"]).with_structured_output(schema, **options)


def test_beside_tools_the_model_may_call_one_or_answer(call):
    model = Speaking(
        answers=[calls(("Owner", {"name": "A"})), calls(("Pet", {"name": "Rex", "age": 3}))]
    )
    structured = model.with_structured_output(Pet, tools=[Owner], include_raw=True)

    first, second = call.invoke(structured, "x"), call.invoke(structured, "x")

    assert first["parsed"] is None
    assert first["parsing_error"] is None
    assert first["raw"].tool_calls[0]["name"] == "Owner"
    assert second["parsed"] == Pet(name="Rex", age=3)
    assert model.requests[0].options["tool_choice"] == "required"


@pytest.mark.parametrize("reason", ["refusal", "content_filter"])
@pytest.mark.parametrize("method", ["json_schema", "json_mode", "tool"])
@pytest.mark.parametrize("include_raw", [False, True])
def test_a_model_that_declines_is_not_asked_again(call, reason, method, include_raw):
    model = Speaking(answers=[AIMessage("No.", finish_reason=reason)] * 3)
    chain = model.with_structured_output(Pet, method=method, include_raw=include_raw)

    if include_raw:
        assert call.invoke(chain, "?")["parsing_error"] is not None
    else:
        with pytest.raises(StructuredOutputError, match=r"refused|cut off"):
            call.invoke(chain, "?")

    assert len(model.requests) == 1


@pytest.mark.parametrize("method", ["json_schema", "json_mode", "tool"])
def test_an_answer_that_was_cut_says_so_by_every_method(call, method):
    model = Speaking(answers=[AIMessage('{"name": "Ad', finish_reason="length")] * 3)
    chain = model.with_structured_output(Pet, method=method, max_retries=0)

    with pytest.raises(StructuredOutputError, match="was cut off before its end"):
        call.invoke(chain, "?")


def test_a_stream_gives_partial_objects_and_the_checked_one_last(call):
    model = Speaking(answers=['{"name": "Rex of Ham", "age": 3}'])

    dicts = call.stream(model.with_structured_output(PetDict, method="json_schema"), "x")
    pets = call.stream(model.with_structured_output(Pet, method="json_schema"), "x")

    assert {"name": "Rex of "} in dicts
    assert dicts[-1] == {"name": "Rex of Ham", "age": 3}
    assert all(isinstance(pet, Pet) for pet in pets)
    assert pets[0].age is None
    assert pets[-1] == Pet(name="Rex of Ham", age=3)
    assert type(pets[-1]) is Pet


def test_nested_models_are_partial_too(call):
    model = Speaking(
        answers=['{"name": "A", "pets": [{"name": "R", "age": 1}, {"name": "S", "age": 2}]}']
    )

    owners = call.stream(model.with_structured_output(Owner, method="json_schema"), "x")

    assert any(owner.pets and owner.pets[0].age is None for owner in owners)
    assert owners[-1].pets[1] == Pet(name="S", age=2)


def test_dataclasses_are_partial_in_a_stream_too(call):
    model = Speaking(
        answers=['{"json": "A B", "pets": [{"name": "R", "age": 1}, {"name": "S", "age": 2}]}']
    )

    kennels = call.stream(model.with_structured_output(Kennel, method="json_schema"), "x")

    assert all(isinstance(kennel, Kennel) for kennel in kennels)
    assert [isinstance(kennel, Partial) for kennel in kennels] == [True] * (len(kennels) - 1) + [
        False
    ]
    assert any(kennel.pets is None for kennel in kennels)
    assert any(
        kennel.pets and isinstance(kennel.pets[0], PetData) and kennel.pets[0].age is None
        for kennel in kennels
    )
    assert kennels[-1] == Kennel("A B", [PetData("R", 1), PetData("S", 2)])


def test_a_streamed_tool_call_gives_partial_objects(call):
    model = Speaking(answers=[calls(("Pet", {"name": "Rex", "age": 3}))])

    pets = call.stream(model.with_structured_output(Pet, method="tool"), "x")

    assert pets[-1] == Pet(name="Rex", age=3)


def test_a_stream_that_does_not_fit_begins_again_and_ends_right(call):
    model = Speaking(answers=['{"name": "Wrong one", "age": -3}', GOOD])

    pets = call.stream(
        model.with_structured_output(JSON_PET, method="json_schema", max_retries=2), "x"
    )

    assert {"name": "Wrong "} in pets
    assert pets[-1] == {"name": "Rex", "age": 3}
    assert (
        "minimum" in model.requests[1].messages[-1].text
        or "age" in model.requests[1].messages[-1].text
    )


def test_include_raw_streams_the_raw_pieces_and_ends_with_the_object(call):
    model = Speaking(answers=[GOOD])

    pieces = call.stream(
        model.with_structured_output(Pet, method="json_schema", include_raw=True), "x"
    )

    total = pieces[0]
    for piece in pieces[1:]:
        total = total + piece
    assert total["raw"].text.strip() == GOOD
    assert total["parsed"] == Pet(name="Rex", age=3)
    assert total["parsing_error"] is None


@pytest.mark.timing
def test_partial_objects_cost_linear_work():
    import time

    def cost(size):
        text = '{"name": "' + "word " * size + '", "age": 3}'
        model = Speaking(answers=[text])
        structured = model.with_structured_output(JSON_PET, method="json_schema")
        start = time.perf_counter()
        for _ in structured.stream("x"):
            pass
        return time.perf_counter() - start

    cost(200)
    assert min(cost(4000) for _ in range(3)) < 6 * min(cost(2000) for _ in range(3))


def test_traces_show_the_model_and_the_parser_in_a_sequence(call):
    recorder = Recorder()
    model = Speaking(answers=[GOOD])

    call.invoke(
        model.with_structured_output(Pet, method="json_schema"), "x", {"callbacks": [recorder]}
    )

    assert recorder.names() == ["RunnableSequence", "StructuredParser"]


def test_a_batch_reads_each_answer_by_itself(call):
    model = Speaking(
        answers=[lambda request: f'{{"name": "{request.messages[0].text}", "age": 1}}']
    )

    pets = call.batch(model.with_structured_output(Pet, method="json_schema"), ["a", "b", "c"])

    assert [pet.name.strip() for pet in pets] == ["a", "b", "c"]


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="pydantic.v1 ends with Python 3.13")
def test_a_model_of_pydantic_v1_is_a_schema(call):
    from pydantic.v1 import create_model

    Leg = create_model("Leg", length=(int, ...))
    OldPet = create_model("OldPet", name=(str, ...), legs=(list[Leg], []))
    model = Speaking(answers=['{"name": "Rex", "legs": [{"length": 3}]}', '{"legs": []}'])
    model = model.with_structured_output(OldPet, method="json_schema")

    pet = call.invoke(model, "go")

    assert (type(pet), pet.name, pet.legs[0].length) == (OldPet, "Rex", 3)
    with pytest.raises(StructuredOutputError, match="name: field required"):
        call.invoke(model, "go")


def test_traces_are_told_the_schema(call):
    class Start(BaseCallbackHandler):
        def on_chat_model_start(self, serialized, messages, *, options, **kwargs):
            self.options = options

    start = Start()
    model = Speaking(answers=['{"name": "Rex", "age": 1}'])

    call.invoke(model.with_structured_output(Pet), "go", {"callbacks": [start]})

    schema_format = start.options["ls_structured_output_format"]
    assert schema_format["schema"] == convert_to_json_schema(Pet)
    assert schema_format["kwargs"] == {"method": "auto", "strict": None}
    assert "ls_structured_output_format" not in model.requests[0].options


def test_a_failed_request_is_sent_again_as_it_was(call):
    failing = ModelOverloadedError("busy", retry_after=0)
    model = ScriptedChatModel(
        script=[[Fail(failing)], '{"name": "Rex"}', '{"name": "Rex", "age": 3}'],
        retry_on_error=RetryPolicy(max_retries=1),
    )

    pet = call.invoke(
        model.with_structured_output(Pet, method="json_schema", max_retries=1), "describe a pet"
    )

    assert pet == Pet(name="Rex", age=3)
    assert [len(request.messages) for request in model.requests] == [1, 1, 3]

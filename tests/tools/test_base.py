from __future__ import annotations

import asyncio
import copy
import pickle
import threading
import time
from typing import Any

import pytest
from pydantic import AliasChoices, AliasPath, BaseModel, Field, ValidationError

from foldline.exceptions import BlockingCallError, UsageError
from foldline.messages import ToolMessage
from foldline.runnables import RunnableLambda
from foldline.tools import (
    BaseTool,
    BaseToolkit,
    SchemaAnnotationError,
    StructuredTool,
    ToolException,
    ToolTimeoutError,
    describe_validation_error,
    tool,
    tools_by_name,
)
from tests.tools.helpers import Recorder, add, calling

pytestmark = pytest.mark.timing


class Words(BaseTool):
    name: str = "words"
    description: str = "Repeat a word."

    def _run(self, word: str, times: int = 2) -> str:
        return " ".join([word] * times)


class Slowly(BaseTool):
    name: str = "slowly"
    description: str = "Only async."

    async def _arun(self, word: str) -> str:
        await asyncio.sleep(0)
        return f"slowly {word}"


# -- running


def test_arguments_are_a_dict_a_string_or_a_tool_call(call):
    assert call.invoke(add, {"a": 1}) == 3
    assert call.invoke(add, "3") == 5
    assert call.invoke(add, calling("add", {"a": 1, "b": 1})) == ToolMessage(
        "2", name="add", tool_call_id="call_1"
    )


def test_a_tool_call_without_an_id_gives_the_value_itself(call):
    assert call.invoke(add, calling("add", {"a": 1}, None)) == 3


def test_every_way_to_run_gives_the_same(call):
    assert call.run(add, "run", {"a": 1}) == 3
    assert call.run(add, "run", {"a": 1}, tool_call_id="x").content == "3"
    assert call.stream(add, {"a": 1}) == [3]
    assert call.batch(add, [{"a": 1}, {"a": 2}]) == [3, 4]
    assert call.transform(add, [{"a": 1}]) == [3]
    assert call.invoke(RunnableLambda(lambda x: {"a": x}) | add, 5) == 7


def test_an_instance_of_the_schema_is_arguments_too(call):
    class Pair(BaseModel):
        a: int
        b: int

    sum_tool = StructuredTool.from_function(
        lambda a, b: a + b, name="s", description="d", args_schema=Pair
    )

    assert call.invoke(sum_tool, Pair(a=1, b=2)) == 3


def test_a_subclass_writes_run_arun_or_both(call):
    assert call.invoke(Words(), {"word": "hi", "times": "3"}) == "hi hi hi"
    assert call.invoke(Words(), "hi") == "hi hi"
    if call.is_async:
        assert call.invoke(Slowly(), {"word": "hi"}) == "slowly hi"
        return
    with pytest.raises(BlockingCallError, match=r"slowly is async.*use ainvoke"):
        call.invoke(Slowly(), {"word": "hi"})


def test_a_subclass_that_takes_anything_gets_everything(call):
    class Anything(BaseTool):
        name: str = "anything"
        description: str = "d"

        def _run(self, *args: Any, **kwargs: Any) -> Any:
            return args, kwargs

    assert call.invoke(Anything(), {"x": 1}) == ((), {"x": 1})
    assert call.invoke(Anything(), "text") == (("text",), {})


def test_a_tool_that_does_nothing_says_so(call):
    with pytest.raises(UsageError, match="idle has no function"):
        call.invoke(BaseTool(name="idle", description="d"), {})


def test_hooks_of_langchain_are_honoured(call):
    class Trimming(Words):
        def _parse_input(self, tool_input: Any, tool_call_id: str | None) -> Any:
            return super()._parse_input({"word": tool_input["word"].strip()}, tool_call_id)

    class Positional(Words):
        def _to_args_and_kwargs(self, tool_input: Any, tool_call_id: str | None) -> Any:
            return ("fixed",), {}

    assert call.invoke(Trimming(), {"word": " hi "}) == "hi hi"
    assert call.invoke(Positional(), {"word": "x"}) == "fixed fixed"


def test_an_overridden_invoke_is_what_a_sequence_calls(call):
    class UpperCaseTool(Words):
        def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
            return super().invoke(input, config, **kwargs).upper()

    chain = RunnableLambda(lambda x: {"word": x}) | UpperCaseTool()

    if not call.is_async:
        assert call.invoke(chain, "hi") == "HI HI"
    else:  # as in LangChain, whose `arun` does not go through `invoke`
        assert call.invoke(chain, "hi") == "hi hi"


# -- arguments that do not fit


@pytest.mark.parametrize(
    "args",
    [{}, {"a": "x"}, {"a": None}, {"a": 1, "c": 2}, {1: 2}, {"a": 1, "b": [1]}, {"a": 2.5}],
    ids=str,
)
def test_F_U04_arguments_that_do_not_fit_never_reach_the_function(call, args):
    values = []
    spy = StructuredTool.from_function(
        lambda a, b=2: values.append(a), name="spy", description="d", args_schema=add.args_schema
    )

    for arguments in (args, calling("spy", args)):
        with pytest.raises(ValidationError):
            call.invoke(spy, arguments)
    assert values == []


@pytest.mark.parametrize("value", [None, 3, [1], 2.5, True], ids=repr)
def test_F_U03_input_that_is_no_object_is_refused(call, value):
    with pytest.raises(ValidationError, match="dictionary of arguments"):
        call.invoke(add, value)
    with pytest.raises(UsageError, match="arguments of a tool call must be an object"):
        call.invoke(add, {**calling("add"), "args": value})


def test_an_unknown_argument_is_named_together_with_what_else_is_wrong():
    with pytest.raises(ValidationError) as excinfo:
        add.invoke({"a": "x", "zzz": 1})

    assert [(error["loc"], error["type"]) for error in excinfo.value.errors()] == [
        (("zzz",), "unexpected_argument"),
        (("a",), "int_parsing"),
    ]


def test_a_users_own_schema_decides_on_unknown_arguments(call):
    class Lenient(BaseModel):
        a: int

    class ClosedArguments(BaseModel, extra="forbid"):
        a: int

    def own(a: int) -> int:
        """Own."""
        return a

    assert call.invoke(tool(args_schema=Lenient)(own), {"a": 1, "b": 2}) == 1
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        call.invoke(tool(args_schema=ClosedArguments)(own), {"a": 1, "b": 2})


def test_a_json_schema_is_checked_too(call):
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": 1}},
        "required": ["n"],
    }
    count_tool = StructuredTool(name="c", description="d", args_schema=schema, func=lambda n: n)

    assert call.invoke(count_tool, {"n": 3}) == 3
    for arguments in ({"n": 0}, {"n": "3"}, {}, {"n": 1, "m": 2}):
        with pytest.raises(ValidationError):
            call.invoke(count_tool, arguments)
    with pytest.raises(UsageError, match="pass a dict, not a string"):
        call.invoke(count_tool, "3")


@pytest.mark.parametrize("kind", ["invalid_tool_call", "tool_call_chunk"])
def test_F_U01_a_call_that_did_not_finish_is_never_run(call, kind):
    runs = []
    spy = StructuredTool.from_function(lambda **kwargs: runs.append(1), name="spy", description="d")

    with pytest.raises(UsageError, match="is not run"):
        call.invoke(spy, {"type": kind, "name": "spy", "args": '{"a": ', "id": "1", "error": None})
    assert runs == []


@pytest.mark.parametrize(
    ("flag", "expected"),
    [
        (True, "Tool input validation error"),
        ("Try again.", "Try again."),
        (lambda error: f"{error.error_count()} wrong", "1 wrong"),
    ],
)
def test_invalid_arguments_can_be_an_answer_instead(call, flag, expected):
    forgiving = add.model_copy(update={"handle_validation_error": flag})

    assert call.invoke(forgiving, {"a": "x"}) == expected
    message = call.invoke(forgiving, calling("add", {"a": "x"}))
    assert (message.content, message.status) == (expected, "error")


def test_a_model_can_be_told_what_was_wrong():
    forgiving = add.model_copy(update={"handle_validation_error": describe_validation_error})

    answer = forgiving.invoke({"a": "x", "q": 1})

    assert answer.startswith(
        "The arguments do not fit. q: add takes no such argument; it takes a, b; a: Input"
    )


# -- a tool that fails


@pytest.mark.parametrize(
    ("flag", "expected"),
    [
        (True, "no such city"),
        ("Something broke.", "Something broke."),
        (
            lambda error: [{"type": "text", "text": f"sorry: {error}"}],
            [{"type": "text", "text": "sorry: no such city"}],
        ),
    ],
)
def test_F_U10_a_tool_exception_can_be_an_answer(call, flag, expected):
    @tool(handle_tool_error=flag)
    def look(city: str) -> str:
        """Look."""
        raise ToolException("no such city")

    assert call.invoke(look, {"city": "x"}) == expected
    assert call.invoke(look, calling("look", {"city": "x"})) == ToolMessage(
        expected, name="look", tool_call_id="call_1", status="error"
    )


@pytest.mark.parametrize(
    "error", [ToolException("t"), ValueError("v"), KeyboardInterrupt(), SystemExit(3)], ids=repr
)
def test_F_U10_what_a_tool_raises_passes_and_is_told_once(call, error):
    recorder = Recorder()

    @tool
    def fail() -> None:
        """Fail."""
        raise error

    if call.is_async and not isinstance(error, Exception):
        async_fail = StructuredTool.from_function(
            coroutine=_raising(error), name="fail", description="d"
        )
        with pytest.raises(type(error)):
            call.invoke(async_fail, {}, {"callbacks": [recorder]})
    else:
        with pytest.raises(type(error)):
            call.invoke(fail, {}, {"callbacks": [recorder]})
    assert recorder.events == ["start", "error"]


def _raising(error: BaseException) -> Any:
    async def fail() -> None:
        raise error

    return fail


def test_F_U10_cancellation_passes_through_a_tool_that_handles_errors():
    @tool(handle_tool_error=True, timeout=5)
    async def wait() -> None:
        """Wait."""
        await asyncio.sleep(10)

    async def cancel() -> None:
        task = asyncio.ensure_future(wait.ainvoke({}))
        await asyncio.sleep(0.01)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancel())


def test_F_U10_a_tool_that_hangs_is_given_up(call):
    stop = threading.Event()

    @tool(timeout=0.05)
    def hang() -> None:
        """Hang."""
        stop.wait(10)

    start = time.perf_counter()
    try:
        with pytest.raises(ToolTimeoutError, match=r"hang took longer than its 0\.05 s"):
            call.invoke(hang, {})
        forgiving = hang.model_copy(update={"handle_tool_error": True})
        message = call.invoke(forgiving, calling("hang"))
    finally:
        stop.set()
    assert time.perf_counter() - start < 5
    assert message.status == "error"


def test_a_tool_in_time_sees_its_context_and_its_own_timeouts_pass(call):
    inner = RunnableLambda(lambda x: x)
    recorder = Recorder()

    @tool(timeout=5)
    def nest(a: int) -> int:
        """Nest."""
        if a < 0:
            raise TimeoutError("mine")
        return inner.invoke(a)

    assert call.invoke(nest, {"a": 1}, {"callbacks": [recorder]}) == 1
    assert recorder.records[1][2]["parent_run_id"] == recorder.records[0][2]["run_id"]
    with pytest.raises(TimeoutError, match="mine"):
        call.invoke(nest, {"a": -1})


def test_F_U10_a_flood_is_cut_with_a_notice_for_the_model_only(call):
    @tool(max_output=10)
    def flood(size: int) -> str:
        """Flood."""
        return "x" * size

    message = call.invoke(flood, calling("flood", {"size": 100_000_000}))

    assert (
        message.content
        == "xxxxxxxxxx\n[cut: 100,000,000 characters, of which a tool may return 10]"
    )
    assert len(call.invoke(flood, {"size": 100})) == 100
    assert call.invoke(flood, calling("flood", {"size": 10})).content == "x" * 10


def test_F_U10_something_unserialisable_is_text_with_a_notice(call):
    @tool
    def strange() -> object:
        """Strange."""
        return object()

    message = call.invoke(strange, calling("strange"))

    assert message.content.endswith("[a object that is not JSON: this is its text]")
    assert message.status == "success"


# -- content and artifact


def test_a_pair_is_content_and_artifact(call):
    @tool(response_format="content_and_artifact")
    def search(query: str) -> tuple[str, dict[str, int]]:
        """Search."""
        return query, {"hits": 3}

    assert call.invoke(search, "q") == "q"
    assert call.invoke(search, calling("search", {"query": "q"})).artifact == {"hits": 3}


@pytest.mark.parametrize("output", ["only", ("a", "b", "c"), ["a", "b"], None], ids=repr)
def test_what_is_no_pair_says_what_is_expected(call, output):
    pair = StructuredTool.from_function(
        lambda: output, name="pair", description="d", response_format="content_and_artifact"
    )

    with pytest.raises(UsageError, match=r"pair has response_format=.*must return a pair"):
        call.invoke(pair, {})


# -- a tool as a value


def test_a_copy_and_a_changed_tool_forget_what_was_worked_out(call):
    words_tool = Words()
    assert call.invoke(words_tool, "a") == "a a"

    class Shorter(BaseModel):
        word: str
        times: int = 1

    for other in (
        copy.copy(words_tool),
        copy.deepcopy(words_tool),
        words_tool.model_copy(),
        pickle.loads(pickle.dumps(words_tool)),
    ):
        other.args_schema = Shorter
        assert call.invoke(other, "a") == "a"
    assert call.invoke(words_tool, "a") == "a a"


def test_a_tool_dumps_its_schema_as_json():
    dumped = add.model_dump(mode="json")

    assert dumped["args_schema"]["properties"]["a"] == {"title": "A", "type": "integer"}
    assert dumped["func"].endswith(".add")
    assert "callbacks" not in dumped


def test_a_schema_that_is_annotated_as_a_model_is_refused():
    with pytest.raises(SchemaAnnotationError, match=r"annotate it `type\[BaseModel\]`"):

        class Wrong(BaseTool):
            name: str = "w"
            description: str = "d"
            args_schema: BaseModel = BaseModel  # type: ignore[assignment]


@pytest.mark.parametrize("schema", [3, "text", int, [1]], ids=repr)
def test_what_is_no_schema_is_refused(schema):
    with pytest.raises(TypeError, match="args_schema must be"):
        StructuredTool(name="x", description="d", args_schema=schema, func=len)


def test_limits_must_be_positive():
    for field in ("timeout", "max_output"):
        with pytest.raises(ValidationError):
            Words(**{field: 0})


def test_two_tools_of_one_name_are_refused():
    assert tools_by_name([add, Words()]) == {"add": add, "words": Words()}
    with pytest.raises(UsageError, match="two tools are named 'add'"):
        tools_by_name([add, add])


def test_a_toolkit_gives_tools():
    class Kit(BaseToolkit):
        def get_tools(self) -> list[BaseTool]:
            return [add]

    assert Kit().get_tools() == [add]
    with pytest.raises(TypeError):
        BaseToolkit()


class KeyTool(BaseTool):
    name: str = "search"
    description: str = "Search."
    key: str = Field(default="", validation_alias=AliasChoices("api_key", AliasPath("keys", "api")))

    def _run(self, text: str) -> str:
        return text


@pytest.mark.parametrize("options", [{"api_key": "k"}, {"keys": {"api": "k"}}])
def test_a_tool_takes_every_alias_of_its_fields(options):
    assert KeyTool(**options).key == "k"


def test_a_tool_with_aliases_still_refuses_unknown_options():
    with pytest.raises(ValueError, match=r"KeyTool has no option 'api_kay' \(did you mean"):
        KeyTool(api_kay="k")

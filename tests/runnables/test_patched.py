"""A public method that a user's test patched is called, also inside a chain."""

from __future__ import annotations

import asyncio
from unittest import mock

import pytest

from foldline.callbacks import BaseCallbackHandler
from foldline.language_models import FakeListChatModel, GenericFakeChatModel
from foldline.messages import AIMessage, AIMessageChunk
from foldline.output_parsers import StrOutputParser
from foldline.prompts import ChatPromptTemplate
from foldline.runnables import Runnable, RunnableLambda, RunnableParallel, ensure_config
from foldline.runnables.config import get_async_callback_manager_for_config
from foldline.tracers.run_collector import RunCollectorCallbackHandler

PROMPT = ChatPromptTemplate.from_template("{x}")
NAMES = {
    "blocking": {"invoke": "invoke", "stream": "stream", "batch": "batch"},
    "async": {"invoke": "ainvoke", "stream": "astream", "batch": "abatch"},
}


@pytest.fixture
def names(call):
    return NAMES[call_name(call)]


def call_name(call) -> str:
    return "async" if call.mode == "async" else "blocking"


def patch_method(cls: type, name: str, value: object) -> mock._patch:
    method = mock.AsyncMock if name.startswith("a") else mock.Mock
    return mock.patch.object(cls, name, method(return_value=value))


def test_a_patched_model_is_not_asked(call, names):
    model = FakeListChatModel(responses=["real"])
    chain = PROMPT | model | StrOutputParser()
    parallel = RunnableParallel(a=chain, b=PROMPT | model.bind(stop=["x"]))

    with patch_method(FakeListChatModel, names["invoke"], AIMessage("patched")) as patch:
        assert call.invoke(chain, {"x": 1}) == "patched"
        assert call.invoke(parallel, {"x": 1}) == {"a": "patched", "b": AIMessage("patched")}

    assert patch.call_count == 3
    assert call.invoke(chain, {"x": 1}) == "real"


def test_a_patch_of_a_base_class_counts_for_its_subclasses(call, names):
    class Mine(FakeListChatModel):
        pass

    chain = PROMPT | Mine(responses=["real"]) | StrOutputParser()

    with patch_method(FakeListChatModel, names["invoke"], AIMessage("patched")):
        assert call.invoke(chain, {"x": 1}) == "patched"
    assert call.invoke(chain, {"x": 1}) == "real"


def test_a_spy_sees_the_input_and_the_real_answer_comes(call, names):
    chain = PROMPT | FakeListChatModel(responses=["real"]) | StrOutputParser()
    real = getattr(FakeListChatModel, names["invoke"])

    with mock.patch.object(FakeListChatModel, names["invoke"], autospec=True) as spy:
        spy.side_effect = real
        assert call.invoke(chain, {"x": "hi"}) == "real"

    assert spy.call_args.args[1].to_string() == "Human: hi"


def test_a_patched_stream_is_read(call, names):
    chain = PROMPT | FakeListChatModel(responses=["real"]) | StrOutputParser()

    def pieces(*args, **kwargs):
        yield AIMessageChunk("pa")
        yield AIMessageChunk("tched")

    async def async_pieces(*args, **kwargs):
        for piece in pieces():
            yield piece

    source = async_pieces if names["stream"] == "astream" else pieces
    with mock.patch.object(FakeListChatModel, names["stream"], source):
        assert call.stream(chain, {"x": 1}) == ["pa", "tched"]
    assert call.stream(chain, {"x": 1}) == list("real")


def test_a_patched_prompt_is_asked_under_a_stream_too(call, names):
    value = PROMPT.invoke({"x": "other"})
    model = GenericFakeChatModel(messages=iter(["one two", "three"]))

    with patch_method(ChatPromptTemplate, names["invoke"], value) as patch:
        pieces = call.stream(PROMPT | model | StrOutputParser(), {"x": 1})

    assert pieces == ["one", " ", "two"]
    assert patch.call_count == 1


def test_a_patched_batch_gets_all_inputs_at_once(call, names):
    chain = PROMPT | FakeListChatModel(responses=["real"]) | StrOutputParser()

    with patch_method(FakeListChatModel, names["batch"], [AIMessage("a"), AIMessage("b")]) as patch:
        assert call.batch(chain, [{"x": 1}, {"x": 2}]) == ["a", "b"]

    assert [value.to_string() for value in patch.call_args.args[0]] == ["Human: 1", "Human: 2"]
    assert call.batch(chain, [{"x": 1}]) == ["real"]


def test_a_function_whose_object_is_patched_is_called_by_the_patch(call, names):
    add, double = RunnableLambda(lambda x: x + 1), RunnableLambda(lambda x: x * 2)
    method = mock.AsyncMock if names["invoke"].startswith("a") else mock.Mock

    with mock.patch.object(add, names["invoke"], method(return_value=10)):
        assert call.invoke(add | double, 1) == 20
    assert call.invoke(add | double, 1) == 4


def test_what_a_patched_batch_raises_is_raised_and_told(call, names):
    runs = RunCollectorCallbackHandler()
    chain = PROMPT | FakeListChatModel(responses=["real"])
    failing = mock.AsyncMock if names["batch"].startswith("a") else mock.Mock

    with (
        mock.patch.object(FakeListChatModel, names["batch"], failing(side_effect=OSError("down"))),
        pytest.raises(OSError, match="down"),
    ):
        call.batch(chain, [{"x": 1}, {"x": 2}], {"callbacks": [runs]})

    assert ["down" in run.error for run in runs.traced_runs] == [True, True]


def test_a_hand_written_stream_that_tells_its_own_run_shows_its_pieces():
    class Counts(Runnable):
        def invoke(self, input, config=None, **kwargs):
            raise NotImplementedError

        async def astream(self, input, config=None, **kwargs):
            config = ensure_config(config)
            manager = get_async_callback_manager_for_config(config)
            run = await manager.on_chain_start(None, input, name="counts", run_id=config["run_id"])
            for piece in ("1", "2"):
                yield piece
            await run.on_chain_end("12")

    async def read():
        return [event async for event in Counts().astream_events(1, version="v2")]

    events = asyncio.run(read())
    assert [event["event"] for event in events] == [
        "on_chain_start",
        "on_chain_stream",
        "on_chain_stream",
        "on_chain_end",
    ]


def test_stream_may_be_asked_for_in_one_call(call):
    model = GenericFakeChatModel(messages=iter([AIMessage("a b"), AIMessage("a b")]))
    tokens = []

    class Tokens(BaseCallbackHandler):
        def on_llm_new_token(self, token, **kwargs):
            tokens.append(token)

    assert call.invoke(model, "x", {"callbacks": [Tokens()]}, stream=True).content == "a b"
    assert "".join(tokens) == "a b"

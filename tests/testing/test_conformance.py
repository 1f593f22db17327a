"""Every chat model in the box passes the kit that authors of models subclass."""

from __future__ import annotations

from typing import Any

import pytest

from foldline.language_models import (
    FakeChatModel,
    FakeListChatModel,
    FakeListLLM,
    FakeMessagesListChatModel,
    FakeStreamingListLLM,
    GenericFakeChatModel,
)
from foldline.messages import AIMessage, AIMessageChunk
from foldline.testing import Call, Finish, Reason, ScriptedChatModel
from foldline.testing._asking import Asker
from foldline.testing.conformance import (
    ChatModelConformance,
    TextModelConformance,
    ToolCallingConformance,
)
from tests.language_models.reading import (
    FINISH,
    AChunked,
    ANative,
    AsyncGenerateOnly,
    Chunked,
    Events,
    GenerateOnly,
    Native,
    start,
    text_events,
    tool_slice,
)

USED = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
RICH = AIMessage(
    content=[
        {"type": "reasoning", "reasoning": "Greet them.", "extras": {"signature": "x"}},
        {"type": "text", "text": "Hello there, how are you?"},
    ],
    usage_metadata=USED,
    response_metadata={"model_name": "m"},
)


class TestFakeList(ChatModelConformance):
    def model(self) -> Any:
        return FakeListChatModel(responses=["Hello there, how are you?"])


class TestFakeMessages(ChatModelConformance):
    def model(self) -> Any:
        return FakeMessagesListChatModel(responses=[RICH])


class TestFakeChat(ChatModelConformance):
    def model(self) -> Any:
        return FakeChatModel()


class TestGenericFake(ChatModelConformance):
    def model(self) -> Any:
        return GenericFakeChatModel(messages=iter([AIMessage("Hello there, you")] * 9))


class TestScripted(ChatModelConformance):
    def model(self) -> Any:
        turn = [Reason("Greet them."), "Hello ", "there, ", "how are you?", Finish("stop", USED)]
        return ScriptedChatModel(script=[turn], is_cyclic=True)


class TestScriptedCalls(ToolCallingConformance):
    def model(self) -> Any:
        turn = ["Let me see. ", Call("add", {"a": 1, "b": [2, 3]}), Call("now", {}, id="second")]
        return ScriptedChatModel(script=[turn], is_cyclic=True, usage=USED)


class TestGenericCalls(ToolCallingConformance):
    def model(self) -> Any:
        call = {"name": "add", "args": {"a": 1, "b": 2}, "id": "c"}
        return GenericFakeChatModel(messages=iter([AIMessage("One moment", tool_calls=[call])] * 9))


HOOKS = {
    "_events": lambda: Events(items=[start(), *text_events("Hello ", "there"), FINISH]),
    "native": lambda: Native(items=[start(), *text_events("Hello ", "there"), FINISH]),
    "async native": lambda: ANative(items=[start(), *text_events("Hello ", "there"), FINISH]),
    "_stream": lambda: Chunked(
        items=["Hel", "lo", AIMessageChunk(content="", usage_metadata=USED), " there"]
    ),
    "_astream": lambda: AChunked(items=["Hello ", "there"]),
    "_generate": lambda: GenerateOnly(items=[RICH]),
    "_agenerate": lambda: AsyncGenerateOnly(items=["Hello there"]),
}


@pytest.mark.parametrize("hook", list(HOOKS), ids=list(HOOKS))
class TestEveryHook(ChatModelConformance):
    hook = ""

    @pytest.fixture(autouse=True)
    def _chosen(self, hook: str) -> None:
        self.hook = hook

    def model(self) -> Any:
        return HOOKS[self.hook]()


class TestStreamedCalls(ToolCallingConformance):
    def model(self) -> Any:
        pieces = [
            tool_slice("", id="c", name="add", index=0),
            tool_slice('{"a"', index=0),
            tool_slice(": 1}", index=0),
        ]
        return Chunked(items=["Let me see", *pieces])


class TestFakeText(TextModelConformance):
    def model(self) -> Any:
        return FakeListLLM(responses=["Hello there"])


class TestFakeStreamingText(TextModelConformance):
    def model(self) -> Any:
        return FakeStreamingListLLM(responses=["Hello there"])


class TestTheKitItself:
    """The kit catches models that break the rules."""

    def test_a_bad_stream_fails_the_grammar(self) -> None:
        class Kit(ChatModelConformance):
            def model(self) -> Any:
                bad = [start(), *text_events("a"), *text_events("b", index=2), FINISH]
                return Native(items=bad)

        with pytest.raises(Exception, match="V4"):
            Kit().test_events_follow_the_grammar_and_fold_to_the_message(Asker("blocking"))

    def test_a_kit_without_a_model_says_so(self) -> None:
        with pytest.raises(NotImplementedError, match="must define model"):
            ChatModelConformance().model()

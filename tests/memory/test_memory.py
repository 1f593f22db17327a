"""Memories: what each gives back, sync and async, with any chat history behind it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from foldline.chains import ConversationChain
from foldline.chat_history import SQLiteChatMessageHistory
from foldline.documents import Document
from foldline.exceptions import UsageError
from foldline.language_models import FakeListChatModel
from foldline.memory import (
    BaseMemory,
    CombinedMemory,
    ConversationBufferMemory,
    ConversationBufferWindowMemory,
    ConversationSummaryBufferMemory,
    ConversationSummaryMemory,
    ConversationTokenBufferMemory,
    ReadOnlySharedMemory,
    SimpleMemory,
    VectorStoreRetrieverMemory,
)
from foldline.messages import AIMessage, HumanMessage, SystemMessage
from foldline.runnables import RunnableLambda


class MemoryCalls:
    """The methods of a memory, called sync or async."""

    def __init__(self, mode: str) -> None:
        self.is_async = mode == "async"

    def save(self, memory: BaseMemory, human: str, ai: str) -> None:
        if self.is_async:
            asyncio.run(memory.asave_context({"input": human}, {"output": ai}))
        else:
            memory.save_context({"input": human}, {"output": ai})

    def load(self, memory: BaseMemory, inputs: dict[str, Any] | None = None) -> dict[str, Any]:
        if self.is_async:
            return asyncio.run(memory.aload_memory_variables(inputs or {}))
        return memory.load_memory_variables(inputs or {})

    def clear(self, memory: BaseMemory) -> None:
        asyncio.run(memory.aclear()) if self.is_async else memory.clear()


@pytest.fixture(params=["blocking", "async"])
def use(request: pytest.FixtureRequest) -> MemoryCalls:
    return MemoryCalls(request.param)


def test_a_buffer_keeps_everything(use: MemoryCalls) -> None:
    memory = ConversationBufferMemory()
    use.save(memory, "hi", "hello")
    use.save(memory, "bye", "ciao")

    assert use.load(memory) == {"history": "Human: hi\nAI: hello\nHuman: bye\nAI: ciao"}
    use.clear(memory)
    assert use.load(memory) == {"history": ""}


def test_a_buffer_gives_messages_where_asked(use: MemoryCalls) -> None:
    memory = ConversationBufferMemory(return_messages=True, memory_key="chat")
    use.save(memory, "hi", "hello")

    assert use.load(memory) == {"chat": [HumanMessage(content="hi"), AIMessage(content="hello")]}


def test_any_history_may_be_behind_it(use: MemoryCalls, tmp_path: Path) -> None:
    memory = ConversationBufferMemory(
        chat_memory=SQLiteChatMessageHistory("s", tmp_path / "chats.db")
    )
    use.save(memory, "hi", "hello")
    second_memory = ConversationBufferMemory(
        chat_memory=SQLiteChatMessageHistory("s", tmp_path / "chats.db")
    )

    assert use.load(second_memory) == {"history": "Human: hi\nAI: hello"}


def test_a_window_keeps_the_last_turns(use: MemoryCalls) -> None:
    memory = ConversationBufferWindowMemory(k=1)
    use.save(memory, "one", "1")
    use.save(memory, "two", "2")

    assert use.load(memory) == {"history": "Human: two\nAI: 2"}
    assert use.load(ConversationBufferWindowMemory(k=0, chat_memory=memory.chat_memory)) == {
        "history": ""
    }


def test_a_token_buffer_drops_what_does_not_fit(use: MemoryCalls) -> None:
    memory = ConversationTokenBufferMemory(
        llm=FakeListChatModel(responses=["x"]), max_token_limit=30
    )
    for number in range(10):
        use.save(memory, f"question {number}", f"answer {number}")

    history = use.load(memory)["history"]
    assert "answer 9" in history
    assert "question 0" not in history
    assert len(memory.chat_memory.messages) < 20


def test_a_summary_is_written_anew_after_each_turn(use: MemoryCalls) -> None:
    memory = ConversationSummaryMemory(llm=FakeListChatModel(responses=["sum 1", "sum 2"]))
    use.save(memory, "hi", "hello")
    assert use.load(memory) == {"history": "sum 1"}
    use.save(memory, "more", "yes")

    assert use.load(memory) == {"history": "sum 2"}
    use.clear(memory)
    assert use.load(memory) == {"history": ""}


def test_a_summary_buffer_sums_up_only_what_does_not_fit(use: MemoryCalls) -> None:
    memory = ConversationSummaryBufferMemory(
        llm=FakeListChatModel(responses=["the sum"]), max_token_limit=30, return_messages=True
    )
    for number in range(6):
        use.save(memory, f"question {number}", f"answer {number}")

    messages = use.load(memory)["history"]
    assert messages[0] == SystemMessage(content="the sum")
    assert messages[-1] == AIMessage(content="answer 5")
    assert len(messages) < 13
    assert memory.buffer == messages[1:]
    assert memory.predict_new_summary(messages[1:], "before") == "the sum"
    assert asyncio.run(memory.apredict_new_summary([], "")) == "the sum"


def test_what_no_longer_fits_goes_without_harm_to_what_others_add(
    use: MemoryCalls, tmp_path: Path
) -> None:
    """Another process may add to a stored history while a memory is being shortened."""
    other = SQLiteChatMessageHistory("s", tmp_path / "chats.db")

    class Busy(SQLiteChatMessageHistory):
        def drop_oldest(self, count: int) -> None:
            other.add_user_message("from elsewhere")
            super().drop_oldest(count)

    memory = ConversationTokenBufferMemory(
        llm=FakeListChatModel(responses=["x"]),
        max_token_limit=1,
        chat_memory=Busy("s", tmp_path / "chats.db"),
    )

    use.save(memory, "hi", "hello")

    assert [message.text for message in other.messages] == ["from elsewhere"]


def test_a_model_that_fails_loses_no_message(use: MemoryCalls) -> None:
    class Failing(FakeListChatModel):
        def _generate(self, *args: Any, **kwargs: Any) -> Any:
            raise RuntimeError("no")

    memory = ConversationSummaryBufferMemory(llm=Failing(responses=["x"]), max_token_limit=1)

    with pytest.raises(RuntimeError):
        use.save(memory, "hi", "hello")

    assert [message.content for message in memory.chat_memory.messages] == ["hi", "hello"]


def test_turns_are_found_again_by_meaning(use: MemoryCalls) -> None:
    class Store:
        def __init__(self) -> None:
            self.documents: list[Document] = []

        def add_documents(self, documents: list[Document]) -> None:
            self.documents += documents

    store = Store()
    retriever = RunnableLambda(
        lambda query: [document for document in store.documents if query in document.page_content]
    )
    retriever.vectorstore = store  # type: ignore[attr-defined]
    memory = VectorStoreRetrieverMemory(retriever=retriever)
    use.save(memory, "I like tea", "noted")
    use.save(memory, "I like rain", "noted")

    assert use.load(memory, {"input": "tea"}) == {"history": "input: I like tea\noutput: noted"}
    with pytest.raises(UsageError, match="not cleared"):
        use.clear(memory)


def test_memories_combine_and_may_be_read_only(use: MemoryCalls) -> None:
    buffer = ConversationBufferMemory()
    combined = CombinedMemory(memories=[buffer, SimpleMemory(memories={"name": "Ada"})])
    use.save(combined, "hi", "hello")
    use.save(ReadOnlySharedMemory(memory=buffer), "not", "kept")

    assert use.load(combined) == {"history": "Human: hi\nAI: hello", "name": "Ada"}
    with pytest.raises(ValidationError, match="same variable"):
        CombinedMemory(memories=[buffer, ConversationBufferMemory()])


def test_a_memory_that_cannot_tell_its_sides_says_so(use: MemoryCalls) -> None:
    memory = ConversationBufferMemory()

    with pytest.raises(UsageError, match="set input_key"):
        memory.save_context({"a": 1, "b": 2}, {"output": "x"})
    with pytest.raises(UsageError, match="set output_key"):
        memory.save_context({"a": "1"}, {"x": "x", "y": "y"})
    ConversationBufferMemory(input_key="a", output_key="x").save_context(
        {"a": "1", "b": 2}, {"x": "x", "y": "y"}
    )


def test_an_author_may_write_only_the_async_half() -> None:
    class AsyncMemory(BaseMemory):
        @property
        def memory_variables(self) -> list[str]:
            return ["x"]

        async def aload_memory_variables(self, inputs: dict[str, Any]) -> dict[str, Any]:
            return {"x": 1}

    assert asyncio.run(AsyncMemory().aload_memory_variables({})) == {"x": 1}
    with pytest.raises(NotImplementedError, match="load_memory_variables"):
        AsyncMemory().load_memory_variables({})


def test_a_method_that_a_subclass_of_ours_writes_is_obeyed_by_chains(call: Any) -> None:
    class Short(ConversationBufferMemory):
        def save_context(self, inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
            super().save_context(inputs, {name: f"{value}"[:2] for name, value in outputs.items()})

        def load_memory_variables(self, inputs: dict[str, Any]) -> dict[str, Any]:
            variables = super().load_memory_variables(inputs)
            return {name: value.upper() for name, value in variables.items()}

    chain = ConversationChain(llm=FakeListChatModel(responses=["hello", "x"]), memory=Short())

    call.invoke(chain, {"input": "hi"})

    assert call.invoke(chain, {"input": "more"})["history"] == "HUMAN: HI\nAI: HE"
    assert call.run(Short(), "load_memory_variables", {}) == {"history": ""}
    combined = CombinedMemory(memories=[Short()])
    call.run(combined, "save_context", {"input": "a"}, {"output": "hello"})
    assert call.run(combined, "load_memory_variables", {}) == {"history": "HUMAN: A\nAI: HE"}


def test_an_awaited_method_that_a_subclass_writes_is_obeyed() -> None:
    class AsyncMemory(ConversationBufferMemory):
        async def aload_memory_variables(self, inputs: dict[str, Any]) -> dict[str, Any]:
            variables = await super().aload_memory_variables(inputs)
            return {name: f"later: {value}" for name, value in variables.items()}

    chain = ConversationChain(llm=FakeListChatModel(responses=["hello"]), memory=AsyncMemory())

    assert asyncio.run(chain.ainvoke({"input": "hi"}))["history"] == "later: "
    assert chain.invoke({"input": "hi"})["history"] == "Human: hi\nAI: hello"

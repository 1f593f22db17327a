from __future__ import annotations

import asyncio
from typing import Any

import pytest

from foldline.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from foldline.callbacks.manager import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from foldline.documents import Document
from foldline.exceptions import BlockingCallError
from foldline.retrievers import BaseRetriever
from foldline.runnables import RunnableLambda


class Recorder(BaseCallbackHandler):
    def __init__(self):
        self.events = []

    def on_retriever_start(self, serialized, query, **kwargs):
        self.events.append(("start", query, kwargs["name"], kwargs["tags"], kwargs["metadata"]))
        self.run_id = kwargs["run_id"]

    def on_retriever_end(self, documents, **kwargs):
        self.events.append(("end", [document.page_content for document in documents]))

    def on_retriever_error(self, error, **kwargs):
        self.events.append(("error", str(error)))

    def on_chain_start(self, serialized, inputs, **kwargs):
        self.events.append(("chain", kwargs["name"], kwargs["parent_run_id"]))

    def on_custom_event(self, name, data, **kwargs):
        self.events.append((name, data))


class Echo(BaseRetriever):
    def _get_relevant_documents(self, query, *, run_manager):
        if query == "boom":
            raise ValueError("no")
        return [Document(query)]


def names(recorder):
    return [event[0] for event in recorder.events]


@pytest.mark.parametrize("method", ["invoke", "stream", "batch", "transform"])
def test_a_run_is_told_as_a_retrievers_run(call, method):
    recorder = Recorder()
    config = {"callbacks": [recorder], "tags": ["given"], "metadata": {"m": 1}}
    echo = Echo(tags=["own"], metadata={"o": 2})
    inputs = {"invoke": "a", "stream": "a", "batch": ["a"], "transform": ["a"]}[method]
    getattr(call, method)(echo, inputs, config)
    start = (
        "start",
        "a",
        "Echo",
        ["given", "own"],
        {"m": 1, "ls_retriever_name": "echo", "o": 2},
    )
    assert recorder.events == [start, ("end", ["a"])]


def test_a_failure_is_told_and_raised(call):
    recorder = Recorder()
    with pytest.raises(ValueError, match="no"):
        call.invoke(Echo(), "boom", {"callbacks": [recorder]})
    assert recorder.events[-1] == ("error", "no")
    assert names(recorder) == ["start", "error"]


def test_it_composes(call):
    chain = Echo() | RunnableLambda(lambda documents: documents[0].page_content)
    assert call.invoke(chain, "hi") == "hi"
    assert call.batch(chain, ["a", "b"]) == ["a", "b"]


def test_the_hook_of_the_calls_mode_is_taken(call):
    class SyncAndAsync(Echo):
        async def _aget_relevant_documents(self, query, *, run_manager):
            assert isinstance(run_manager, AsyncCallbackManagerForRetrieverRun)
            return [Document("async")]

        def _get_relevant_documents(self, query, *, run_manager):
            assert isinstance(run_manager, CallbackManagerForRetrieverRun)
            return [Document("sync")]

    assert call.invoke(SyncAndAsync(), "x")[0].page_content == call.mode


def test_a_blocking_hook_under_an_awaited_call_gets_a_blocking_manager(call):
    managers = []

    class Looks(BaseRetriever):
        def _get_relevant_documents(self, query, *, run_manager):
            managers.append(run_manager)
            return []

    call.invoke(Looks(), "x", {"callbacks": [Recorder()]})
    assert isinstance(managers[0], CallbackManagerForRetrieverRun)


def test_an_async_only_hook_says_so_in_a_blocking_call(call):
    class OnlyAsync(BaseRetriever):
        async def _aget_relevant_documents(self, query, *, run_manager):
            return [Document("ok")]

    if call.is_async:
        assert call.invoke(OnlyAsync(), "x")[0].page_content == "ok"
    else:
        with pytest.raises(BlockingCallError, match="use ainvoke"):
            call.invoke(OnlyAsync(), "x")


def test_a_hook_without_a_run_manager_and_one_with_more_arguments(call):
    class Old(BaseRetriever):
        def _get_relevant_documents(self, query):
            return [Document(query)]

    class More(BaseRetriever):
        def _get_relevant_documents(self, query, *, run_manager, times=1):
            return [Document(query)] * times

    assert call.invoke(Old(), "a", unknown=1) == [Document("a")]
    assert len(call.invoke(More(), "a", times=3)) == 3


def test_nothing_written_says_so(call):
    with pytest.raises(NotImplementedError, match="neither"):
        call.invoke(BaseRetriever(), "x")


def test_runnables_called_in_the_hook_are_children_of_the_run(call):
    class Nested(BaseRetriever):
        def _get_relevant_documents(self, query, *, run_manager):
            return RunnableLambda(lambda text: [Document(text)], name="inner").invoke(query)

    recorder = Recorder()
    call.invoke(Nested(), "q", {"callbacks": [recorder]})
    assert ("chain", "inner", recorder.run_id) in recorder.events


def test_an_overridden_invoke_is_what_parents_and_streams_call(call):
    class ByHand(Echo):
        def invoke(self, input, config=None, **kwargs):
            return [Document("by hand"), *super().invoke(input, config, **kwargs)]

    documents = call.stream(ByHand(), "x")[0]
    assert [document.page_content for document in documents][-1] == "x"
    if not call.is_async:
        assert documents[0].page_content == "by hand"


def test_a_run_name_names_the_run(call):
    recorder = Recorder()
    call.invoke(Echo(), "a", {"callbacks": [recorder], "run_name": "look it up"})
    assert recorder.events[0][2] == "look it up"


def test_FC03_a_retriever_cancelled_at_its_start_still_ends_once() -> None:
    class Slow(AsyncCallbackHandler):
        def __init__(self) -> None:
            self.events: list[str] = []

        async def on_retriever_start(self, *args: Any, **kwargs: Any) -> None:
            self.events.append("start")
            await asyncio.sleep(0)

        async def on_retriever_error(self, error: BaseException, **kwargs: Any) -> None:
            self.events.append(type(error).__name__)

    class Finds(BaseRetriever):
        async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> Any:
            await asyncio.sleep(0)
            return []

    async def main(ticks: int) -> list[str]:
        slow = Slow()
        task = asyncio.ensure_future(Finds().ainvoke("?", {"callbacks": [slow]}))
        for _ in range(ticks):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        return slow.events

    assert [asyncio.run(main(ticks)) for ticks in (1, 2)] == [["start", "CancelledError"]] * 2


def test_the_older_name_of_invoke_finds_the_same_and_tells_the_same(call: Any):
    class TagRecorder(BaseCallbackHandler):
        def __init__(self) -> None:
            self.events: list[Any] = []

        def on_retriever_start(self, serialized: Any, query: str, **kwargs: Any) -> None:
            self.events.append((query, kwargs["tags"], kwargs["name"]))

    class Echo(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            return [Document(query)]

    recorder = TagRecorder()
    options = {"callbacks": [recorder], "tags": ["t"], "metadata": {"a": 1}, "run_name": "n"}

    documents = call.run(Echo(), "get_relevant_documents", "why?", **options)

    assert documents == [Document("why?")]
    assert recorder.events == [("why?", ["t"], "n")]

"""Tracers keep a `Run` of every run: the tree, the values, the times; exactly one end or error for each start."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import suppress
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given, strategies as st

from foldline.callbacks import BaseCallbackHandler
from foldline.documents import Document
from foldline.exceptions import TracerException
from foldline.language_models.fake_chat_models import FakeListChatModel, FakeListChatModelError
from foldline.messages import AIMessage, HumanMessage
from foldline.outputs import ChatGeneration, LLMResult
from foldline.runnables import Runnable, RunnableLambda, RunnableParallel
from foldline.tracers import AsyncBaseTracer, Run, RunCollectorCallbackHandler
from foldline.tracers.context import collect_runs

pytestmark = pytest.mark.timing


def step_named(function: Any, name: str) -> Any:
    return RunnableLambda(function).with_config(run_name=name)


class AsyncCollector(AsyncBaseTracer):
    def __init__(self) -> None:
        super().__init__()
        self.traced_runs: list[Run] = []

    async def _persist_run(self, run: Run) -> None:
        await asyncio.sleep(0)
        self.traced_runs.append(run)


@pytest.mark.slow
@pytest.mark.parametrize("make", [RunCollectorCallbackHandler, AsyncCollector])
def test_runs_form_a_tree(call: Any, make: Any, no_leaks: Any):
    tracer = make()
    chain = step_named(lambda x: x + 1, "inc") | step_named(lambda x: {"twice": x * 2}, "twice")

    call.invoke(chain, 1, {"callbacks": [tracer], "tags": ["t"], "metadata": {"m": 1}})
    [root] = tracer.traced_runs

    assert (root.name, root.run_type, root.inputs, root.outputs) == (
        "RunnableSequence",
        "chain",
        {"input": 1},
        {"twice": 4},
    )
    assert [(run.name, run.inputs, run.outputs) for run in root.child_runs] == [
        ("inc", {"input": 1}, {"output": 2}),
        ("twice", {"input": 2}, {"twice": 4}),
    ]
    assert all(run.trace_id == root.id and run.parent_run_id == root.id for run in root.child_runs)
    assert root.child_runs[0].dotted_order.startswith(f"{root.dotted_order}.")
    assert (root.tags, root.metadata) == (["t"], {"m": 1})
    assert [event["name"] for event in root.events] == ["start", "end"]
    assert root.latency is not None
    assert root.latency >= sum(run.latency or 0 for run in root.child_runs)
    assert tracer.run_map == {}


def test_an_error_is_kept_with_where_it_was_raised(call: Any):
    def fail(x: int) -> int:
        raise ValueError("no")

    tracer = RunCollectorCallbackHandler()
    with pytest.raises(ValueError, match="no"):
        call.invoke(
            step_named(lambda x: x, "ok") | step_named(fail, "fail"), 1, {"callbacks": [tracer]}
        )
    [root] = tracer.traced_runs

    assert root.error is not None
    assert root.error.startswith("ValueError('no')")
    assert "in fail" in root.error
    assert [run.error is None for run in root.child_runs] == [True, False]
    assert root.events[-1]["name"] == "error"


def test_a_streamed_step_says_its_input_at_the_end(call: Any):
    def letters(text: str) -> Any:
        yield from text

    tracer = RunCollectorCallbackHandler()
    call.stream(
        step_named(letters, "letters") | step_named(lambda s: s.upper(), "upper"),
        "ab",
        {"callbacks": [tracer]},
    )
    [root] = tracer.traced_runs

    assert [(run.inputs, run.outputs) for run in root.child_runs] == [
        ({"input": "ab"}, {"output": "ab"}),
        ({"input": "ab"}, {"output": "AB"}),
    ]


def answer(**kwargs: Any) -> LLMResult:
    usage = {"input_tokens": 8, "output_tokens": 2, "total_tokens": 10}
    return LLMResult(
        generations=[[ChatGeneration(message=AIMessage("hi", usage_metadata=usage, **kwargs))]]
    )


def test_the_first_token_of_either_streaming_api_is_timed():
    for event in ("token", "event"):
        tracer, run_id = RunCollectorCallbackHandler(), uuid4()
        tracer.on_chat_model_start({"name": "M"}, [[HumanMessage("q")]], run_id=run_id)
        for _ in range(2):
            if event == "token":
                tracer.on_llm_new_token("h", run_id=run_id)
            else:
                tracer.on_stream_event({"event": "message-start"}, run_id=run_id)
                tracer.on_stream_event({"event": "content-block-delta"}, run_id=run_id)
        tracer.on_llm_end(answer(), run_id=run_id)
        [run] = tracer.traced_runs

        assert run.time_to_first_token is not None
        assert run.latency is not None
        assert 0 <= run.time_to_first_token <= run.latency


@pytest.mark.parametrize("make", [RunCollectorCallbackHandler, AsyncCollector])
def test_the_first_piece_of_a_streamed_chain_is_timed(call: Any, make: Any):
    def slowly(x: int) -> Any:
        yield 1
        time.sleep(0.05)
        yield 2

    stream_tracer, invoke_tracer = make(), make()
    call.stream(RunnableLambda(slowly), 1, {"callbacks": [stream_tracer]})
    call.invoke(RunnableLambda(slowly), 1, {"callbacks": [invoke_tracer]})

    assert (
        stream_tracer.traced_runs[0].time_to_first_token
        < stream_tracer.traced_runs[0].latency - 0.04
    )
    assert invoke_tracer.traced_runs[0].time_to_first_token is None


def test_a_run_that_streamed_nothing_has_no_first_token():
    assert Run(name="x").time_to_first_token is None
    assert Run(name="x").latency is None


def test_a_model_run_keeps_its_answer_and_its_tokens():
    tracer, run_id = RunCollectorCallbackHandler(), uuid4()

    tracer.on_chat_model_start(
        {"name": "M"}, [[HumanMessage("q")]], run_id=run_id, invocation_params={"t": 1}
    )
    tracer.on_llm_end(answer(), run_id=run_id)
    [run] = tracer.traced_runs

    assert run.inputs == {"prompts": ["Human: q"]}
    assert run.outputs is not None
    assert run.outputs["generations"][0][0]["message"]["kwargs"]["content"] == "hi"
    assert run.usage == {"input_tokens": 8, "output_tokens": 2, "total_tokens": 10}
    assert run.extra == {"invocation_params": {"t": 1}}


def test_E2_what_had_arrived_when_a_model_failed_is_in_the_trace():
    tracer, run_id = RunCollectorCallbackHandler(_schema_format="original+chat"), uuid4()

    tracer.on_chat_model_start({"name": "M"}, [[HumanMessage("q")]], run_id=run_id)
    tracer.on_llm_error(ValueError("cut"), run_id=run_id, response=answer())
    [run] = tracer.traced_runs

    assert run.inputs["messages"] == [[HumanMessage("q")]]
    assert run.outputs is not None
    assert run.outputs["generations"][0][0]["text"] == "hi"
    assert run.error is not None


def test_tools_and_retrievers_are_runs_too():
    tracer, tool, retriever, failed = RunCollectorCallbackHandler(), uuid4(), uuid4(), uuid4()

    tracer.on_tool_start({"name": "add"}, "1", run_id=tool, inputs={"a": 1})
    tracer.on_tool_end(3, run_id=tool)
    tracer.on_retriever_start({}, "q", run_id=retriever, name="R")
    tracer.on_retriever_end([Document(page_content="d")], run_id=retriever)
    tracer.on_tool_start({"name": "add"}, "raw", run_id=failed)
    tracer.on_tool_error(ValueError("x"), run_id=failed)

    assert [(run.name, run.run_type, run.inputs) for run in tracer.traced_runs] == [
        ("add", "tool", {"a": 1}),
        ("R", "retriever", {"query": "q"}),
        ("add", "tool", {"input": "raw"}),
    ]


def test_retries_are_noted():
    tracer, run_id = RunCollectorCallbackHandler(), uuid4()
    tracer.on_llm_start({"name": "M"}, ["q"], run_id=run_id)
    tracer.on_retry({"attempt": 1, "error": ValueError("x"), "delay": 0.5}, run_id=run_id)
    tracer.on_llm_error(ValueError("x"), run_id=run_id)

    [_, retry, _] = tracer.traced_runs[0].events
    assert retry["kwargs"] == {"attempt": 1, "error": "ValueError('x')", "delay": 0.5}


def test_a_run_without_a_start_is_refused_in_words():
    tracer = RunCollectorCallbackHandler()
    with pytest.raises(TracerException, match="never of its start"):
        tracer.on_chain_end({}, run_id=uuid4())
    run = tracer.on_chain_start({}, {}, run_id=uuid4())
    with pytest.raises(TracerException, match="is a chain run, not 'tool'"):
        tracer.on_tool_end({}, run_id=run.id)


def test_every_trace_of_a_context_is_collected(call: Any):
    chain = RunnableLambda(lambda x: x + 1) | RunnableLambda(lambda x: x + 1)
    with collect_runs() as runs:
        call.invoke(chain, 1)
        call.invoke(chain, 1)
    call.invoke(chain, 1)

    assert [len(run.child_runs) for run in runs.traced_runs] == [2, 2]


class Balance(BaseCallbackHandler):
    """Counts starts and outcomes of every run."""

    run_inline = True

    def __init__(self) -> None:
        self.started: Counter[Any] = Counter()
        self.ended: Counter[Any] = Counter()

    def on_chain_start(self, *args: Any, run_id: Any, **kwargs: Any) -> None:
        self.started[run_id] += 1

    def on_chain_end(self, *args: Any, run_id: Any, **kwargs: Any) -> None:
        self.ended[run_id] += 1

    def on_chain_error(self, *args: Any, run_id: Any, **kwargs: Any) -> None:
        self.ended[run_id] += 1


def boom(x: int) -> int:
    raise ValueError("boom")


def pieces(x: int) -> Any:
    yield from range(3)


def half(x: int) -> Any:
    yield 1
    raise ValueError("half-way")


LEAVES = {"ok": lambda x: 1, "boom": boom, "pieces": pieces, "half": half}
PLANS = st.recursive(
    st.sampled_from(sorted(LEAVES)),
    lambda plans: st.tuples(
        st.sampled_from(["seq", "par"]), st.lists(plans, min_size=2, max_size=3)
    ),
    max_leaves=6,
)


def build(plan: Any) -> Runnable[Any, Any]:
    if isinstance(plan, str):
        return RunnableLambda(LEAVES[plan])
    kind, parts = plan
    built = [build(part) for part in parts]
    if kind == "par":
        return RunnableParallel({str(place): part for place, part in enumerate(built)})
    chain = built[0]
    for part in built[1:]:
        chain = chain | part
    return chain


async def perform_awaited(runnable: Any, method: str, config: Any) -> None:
    if method == "invoke":
        await runnable.ainvoke(1, config)
    elif method == "batch":
        await runnable.abatch([1, 2], config)
    else:
        stream = runnable.astream(1, config)
        async for _ in stream:
            if method == "leave":
                break
        await stream.aclose()


def perform(runnable: Any, method: str, config: Any) -> None:
    if method == "invoke":
        runnable.invoke(1, config)
    elif method == "batch":
        runnable.batch([1, 2], config)
    else:
        stream = runnable.stream(1, config)
        for _ in stream:
            if method == "leave":
                break
        stream.close()


@given(
    plan=PLANS, how=st.sampled_from(["invoke", "stream", "leave", "batch"]), is_async=st.booleans()
)
def test_every_started_run_has_exactly_one_end_or_error(plan: Any, how: str, is_async: bool):
    balance, tracer = Balance(), RunCollectorCallbackHandler()
    runnable, config = build(plan), {"callbacks": [balance, tracer]}

    with suppress(ValueError, TypeError):
        if is_async:
            asyncio.run(perform_awaited(runnable, how, config))
        else:
            perform(runnable, how, config)

    assert balance.started == balance.ended
    assert set(balance.started.values()) <= {1}
    assert tracer.run_map == {}


def test_a_cancelled_run_ends_once_with_its_cancellation():
    balance, tracer = Balance(), RunCollectorCallbackHandler()

    async def wait(x: int) -> int:
        await asyncio.sleep(10)
        return x

    async def main() -> None:
        chain = RunnableLambda(lambda x: x) | RunnableLambda(wait)
        task = asyncio.ensure_future(chain.ainvoke(1, {"callbacks": [balance, tracer]}))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())

    assert balance.started == balance.ended
    assert len(balance.started) == 3
    assert (tracer.traced_runs[0].error or "").startswith("CancelledError")


def test_E2_a_stream_cut_in_the_middle_leaves_its_beginning_in_the_trace(call: Any):
    tracer = RunCollectorCallbackHandler()
    model = FakeListChatModel(responses=["hello"], error_on_chunk_number=2)

    with pytest.raises(FakeListChatModelError):
        call.stream(model, "x", {"callbacks": [tracer]})
    [run] = tracer.traced_runs

    assert run.outputs is not None
    assert run.outputs["generations"][0][0]["text"] == "he"
    assert (run.error or "").startswith("FakeListChatModelError")
    assert run.time_to_first_token is not None

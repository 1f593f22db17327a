"""A run cancelled at any await: the cancellation is not lost, every run that began ends once, and what was done so far
can be reached.

Everything here waits by ticks of the loop (`sleep(0)`), so that cancelling after 1, 2, 3, … ticks meets every await.
"""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from foldline.agents import AgentExecutor, Command, create_agent, create_tool_calling_agent
from foldline.agents.checkpoint import InMemorySaver
from foldline.agents.middleware import (
    AgentMiddleware,
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    HumanInTheLoopMiddleware,
    ModelCallLimitMiddleware,
    ModelFallbackMiddleware,
    ModelRetryMiddleware,
    PIIMiddleware,
    SummarizationMiddleware,
    ToolCallLimitMiddleware,
    ToolRetryMiddleware,
)
from foldline.callbacks import AsyncCallbackHandler
from foldline.exceptions import ModelAPIError
from foldline.prompts import ChatPromptTemplate
from foldline.testing import Call, Fail, ScriptedChatModel, Stall
from foldline.tools import tool
from tests.agents.conftest import Recorder
from tests.servers.databases import wait_until

THREAD = {"configurable": {"thread_id": "t1"}}
MOST_TICKS = 2000
PROMPT = ChatPromptTemplate.from_messages(
    [("human", "{input}"), ("placeholder", "{agent_scratchpad}")]
)


class SlowRecorder(AsyncCallbackHandler):
    """Takes a tick for every start and end, and counts those that it saw to their end."""

    def __init__(self) -> None:
        self.starts: Counter[object] = Counter()
        self.ends: Counter[object] = Counter()

    async def _start(self, *args, run_id, **kwargs):
        self.starts[run_id] += 1
        await asyncio.sleep(0)

    async def _end(self, *args, run_id, **kwargs):
        await asyncio.sleep(0)
        self.ends[run_id] += 1

    on_chain_start = on_chat_model_start = on_tool_start = _start
    on_chain_end = on_llm_end = on_tool_end = _end
    on_chain_error = on_llm_error = on_tool_error = _end


class Trial:
    """One attempt: what ran, and what was left when it was cancelled."""

    def __init__(self) -> None:
        self.slow = SlowRecorder()
        self.plain = Recorder()
        self.plain.run_inline = True  # no thread, whose time no tick tells
        self.done: list[int] = []
        self.error: BaseException | None = None
        self.saver = InMemorySaver()

        @tool
        async def nap(n: int) -> int:
            """Sleep."""
            for _ in range(n):
                await asyncio.sleep(0)
            self.done.append(n)
            return n

        self.tool = nap

    @property
    def config(self):
        return {"callbacks": [self.slow, self.plain], **THREAD}

    def check(self) -> None:
        assert self.slow.starts == self.slow.ends
        assert set(self.slow.starts.values()) <= {1}
        assert self.plain.starts() == self.plain.ends(), self.plain.events


async def cancelled_after(ticks: int, trial: Trial, body) -> bool:
    """Run a body, cancel it after some ticks; say whether it was over before that."""

    async def watched():
        try:
            return await body(trial)
        except BaseException as error:
            trial.error = error
            raise

    task = asyncio.ensure_future(watched())
    for _ in range(ticks):
        await asyncio.sleep(0)
    if task.done():
        await task
        return True
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled(), f"the cancellation was lost: {task!r}"
    assert asyncio.all_tasks() == {asyncio.current_task()}
    return False


def cancel_everywhere(body, afterwards) -> int:
    """Cancel a body after 1, 2, 3, … ticks until it comes to its end; give how many there were."""

    async def main() -> int:
        for ticks in range(MOST_TICKS):
            trial = Trial()
            is_over = await cancelled_after(ticks, trial, body)
            trial.check()
            await afterwards(trial)
            if is_over:
                return ticks
        raise AssertionError("it never came to its end")

    return asyncio.run(main())


def scripted(*turns, **kwargs):
    return ScriptedChatModel(script=list(turns), **kwargs)


NAPS = ["a ", Call("nap", {"n": 1}), Call("nap", {"n": 3})]
ONE_NAP = ["a ", Call("nap", {"n": 3})]
LAST = [Stall(0), "ok"]
APPROVED = Command(resume={"decisions": [{"type": "approve"}] * 2})


class Around(AgentMiddleware):
    """Hooks of a user's own, all of them awaited."""

    async def abefore_agent(self, state, runtime):
        await asyncio.sleep(0)

    async def abefore_model(self, state, runtime):
        await asyncio.sleep(0)

    async def aafter_model(self, state, runtime):
        await asyncio.sleep(0)

    async def aafter_agent(self, state, runtime):
        await asyncio.sleep(0)

    async def awrap_model_call(self, request, handler):
        await asyncio.sleep(0)
        return await handler(request)

    async def awrap_tool_call(self, request, handler):
        await asyncio.sleep(0)
        return await handler(request)


def down():
    return Fail(ModelAPIError("down", is_retryable=False))


PATIENT = {"initial_delay": 0.0, "max_delay": 0.0, "retry_on": (Exception,)}
MIDDLEWARE = {
    "none": list,
    "one call": list,
    "hooks": lambda: [Around()],
    "model calls": lambda: [ModelCallLimitMiddleware(run_limit=5)],
    "tool calls": lambda: [ToolCallLimitMiddleware(run_limit=5)],
    "context": lambda: [ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=1, keep=1)])],
    "fallback": lambda: [ModelFallbackMiddleware(scripted(NAPS, LAST))],
    "model retry": lambda: [ModelRetryMiddleware(**PATIENT)],
    "tool retry": lambda: [ToolRetryMiddleware(**PATIENT)],
    "approval": lambda: [HumanInTheLoopMiddleware({"nap": True})],
    "pii": lambda: [PIIMiddleware("email")],
    "summary": lambda: [
        SummarizationMiddleware(
            scripted([Stall(0), "they napped"]), trigger=("messages", 3), keep=("messages", 1)
        )
    ],
}


def naps_agent(trial: Trial, name: str, *, fails: bool):
    """Call some tools, then say ok: what comes next is read off the conversation, in whichever process."""
    turns = iter([[down()]] if fails else [])
    naps = ONE_NAP if name == "one call" else NAPS

    def turn(request):
        is_done = any(message.type == "tool" for message in request.messages)
        return next(turns, None) or (LAST if is_done else naps)

    return create_agent(
        ScriptedChatModel(script=turn),
        [trial.tool],
        middleware=MIDDLEWARE[name](),
        checkpointer=trial.saver,
    )


async def to_its_end(agent, trial: Trial) -> list[str]:
    """Carry on with what the thread holds; give the tools' results and the last words."""
    while (state := await agent.aget_state(THREAD)).next:
        await agent.ainvoke(APPROVED if state.interrupts else None, THREAD)
    messages = state.values.get("messages", ())
    return [message.text for message in messages if message.type == "tool"] + [
        message.text for message in messages[-1:]
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "mode"),
    [(name, None) for name in MIDDLEWARE]
    + [(name, "events") for name in ("one call", "hooks", "approval")],
)
def test_FC03_an_agent_cancelled_at_any_await_goes_on_where_it_was(name, mode):
    async def once(agent, agent_input, config):
        if mode is None:
            await agent.ainvoke(agent_input, config)
        else:
            assert [item async for item in agent.astream(agent_input, config, stream_mode=mode)]

    async def body(trial: Trial):
        agent = naps_agent(trial, name, fails=name in ("fallback", "model retry"))
        await once(agent, "?", trial.config)
        if (await agent.aget_state(THREAD)).interrupts:
            await once(agent, APPROVED, trial.config)

    async def afterwards(trial: Trial):
        texts = [
            message.text
            for message in getattr(trial.error, "messages", ())
            if message.type == "tool"
        ]
        finished_numbers = list(trial.done)
        final_texts = await to_its_end(naps_agent(trial, name, fails=False), trial)
        assert final_texts in ([], ["3", "ok"] if name == "one call" else ["1", "3", "ok"])
        assert set(texts) <= {str(n) for n in finished_numbers}
        assert all(trial.done.count(int(text)) == 1 for text in texts)  # never run twice

    assert cancel_everywhere(body, afterwards) > 30


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["invoke", "iter"])
def test_FC03_an_executor_cancelled_at_any_await_gives_its_steps(mode):
    async def body(trial: Trial):
        agent = create_tool_calling_agent(scripted(NAPS, NAPS, LAST), [trial.tool], PROMPT)
        executor = AgentExecutor(agent=agent, tools=[trial.tool])
        if mode == "invoke":
            return await executor.ainvoke({"input": "?"}, trial.config)
        steps = executor.iter({"input": "?"}, callbacks=trial.config["callbacks"])
        return [step async for step in steps]

    async def afterwards(trial: Trial):
        observed = [
            observation for _, observation in getattr(trial.error, "intermediate_steps", ())
        ]
        end_count = sum(event == "tool_end" for event, _ in trial.plain.events)
        is_told = ("chain_end", "AgentExecutor") in trial.plain.events  # then the outputs are known
        if trial.error is not None and not is_told:
            assert (
                end_count - 2 <= len(observed) <= end_count
            )  # a call that is being reported just now may miss
            assert observed == [1, 3, 1, 3][: len(observed)]

    assert cancel_everywhere(body, afterwards) > 30


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("kind", ["agent", "executor"])
def test_ctrl_c_in_a_blocking_run_ends_every_run_once_and_gives_what_was_done(
    kind, count, recorder
):
    @tool
    def stop(n: int) -> int:
        """Press Ctrl-C in the second turn."""
        if n:
            raise KeyboardInterrupt
        return n

    turns = [[Call("stop", {"n": n}) for _ in range(count)] for n in (0, 1)]
    if kind == "agent":
        runnable, agent_input = create_agent(scripted(*turns, "ok"), [stop]), "?"
    else:
        agent = create_tool_calling_agent(scripted(*turns, "ok"), [stop], PROMPT)
        runnable, agent_input = AgentExecutor(agent=agent, tools=[stop]), {"input": "?"}

    with pytest.raises(KeyboardInterrupt) as excinfo:
        runnable.invoke(agent_input, {"callbacks": [recorder]})

    # The other tool's thread may still be telling of its end.
    wait_until(lambda: recorder.starts() == recorder.ends(), "the end of every run", seconds=5)
    if kind == "agent":
        types = [message.type for message in excinfo.value.messages]
        assert types == ["human", "ai", *["tool"] * count, "ai"]
    else:
        assert [step for _, step in excinfo.value.intermediate_steps] == [0] * count

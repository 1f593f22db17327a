"""How handlers are called: sync and async, errors contained, nothing shared, no cost without a handler."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from typing import Any
from uuid import uuid4

import pytest

from foldline import _run
from foldline._io import ASYNC
from foldline.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from foldline.callbacks.dispatch import dispatch
from foldline.callbacks.manager import ahandle_event, handle_event
from foldline.runnables import RunnableLambda

pytestmark = pytest.mark.timing

ADD = RunnableLambda(lambda x: x + 1)


class Recorder(BaseCallbackHandler):
    """Writes down every event of chains and the thread it came in."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.threads: set[int] = set()

    def on_chain_start(self, serialized: Any, inputs: Any, **kwargs: Any) -> None:
        self.events.append("start")
        self.threads.add(threading.get_ident())

    def on_chain_end(self, outputs: Any, **kwargs: Any) -> None:
        self.events.append("end")

    def on_chain_error(self, error: BaseException, **kwargs: Any) -> None:
        self.events.append(f"error {error!r}")


class AsyncRecorder(AsyncCallbackHandler):
    """The same with `async def` hooks, calling the inherited ones as LangChain's users do."""

    def __init__(self) -> None:
        self.events: list[str] = []

    async def on_chain_start(self, serialized: Any, inputs: Any, **kwargs: Any) -> None:
        await super().on_chain_start(serialized, inputs, **kwargs)
        await asyncio.sleep(0)
        self.events.append("start")

    async def on_chain_end(self, outputs: Any, **kwargs: Any) -> None:
        await super().on_chain_end(outputs, **kwargs)
        self.events.append("end")


class Broken(BaseCallbackHandler):
    def on_chain_start(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError("broken handler")


def test_blocking_and_async_handlers_hear_sync_and_async_calls(call: Any, no_leaks: Any):
    plain, async_recorder = Recorder(), AsyncRecorder()

    assert call.invoke(ADD, 1, {"callbacks": [plain, async_recorder]}) == 2

    assert plain.events == async_recorder.events == ["start", "end"]


def test_a_blocking_handler_does_not_block_the_loop():
    class Slow(BaseCallbackHandler):
        def on_chain_start(self, *args: Any, **kwargs: Any) -> None:
            time.sleep(0.2)

    async def main() -> int:
        ticks = 0
        task = asyncio.ensure_future(ADD.ainvoke(1, {"callbacks": [Slow()]}))
        while not task.done():
            await asyncio.sleep(0.01)
            ticks += 1
        assert await task == 2
        return ticks

    assert asyncio.run(main()) >= 5


def test_run_inline_keeps_a_handler_in_the_thread_of_the_run(call: Any):
    handler = Recorder()
    handler.run_inline = True

    call.invoke(ADD, 1, {"callbacks": [handler]})

    assert handler.threads == {threading.get_ident()}


def test_F_C08_a_handler_that_raises_is_logged_once_and_the_run_goes_on(
    call: Any, caplog: pytest.LogCaptureFixture
):
    broken, good = Broken(), Recorder()
    config = {"callbacks": [broken, good]}

    with caplog.at_level(logging.WARNING, "foldline.callbacks"):
        assert [call.invoke(ADD, x, config) for x in (1, 2, 3)] == [2, 3, 4]

    assert good.events == ["start", "end"] * 3
    assert [record.getMessage() for record in caplog.records] == [
        "Broken.on_chain_start raised RuntimeError('broken handler'); the run goes on, "
        "the same fault is not logged again"
    ]


def test_F_C08_a_handler_with_raise_error_breaks_the_run_and_the_others_hear_of_it(call: Any):
    broken, good = Broken(), Recorder()
    broken.raise_error = True

    with pytest.raises(RuntimeError, match="broken handler"):
        call.invoke(ADD, 1, {"callbacks": [good, broken]})

    assert good.events == ["start", "error RuntimeError('broken handler')"]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_F_C08_what_is_no_exception_passes_through_a_handler(kind: type[BaseException]):
    class Stops(BaseCallbackHandler):
        def on_chain_start(self, *args: Any, **kwargs: Any) -> None:
            raise kind

    with pytest.raises(kind):
        ADD.invoke(1, {"callbacks": [Stops()]})


def test_F_C08_a_handler_that_changes_what_it_is_told_harms_nobody(call: Any):
    class MutatingHandler(BaseCallbackHandler):
        run_inline = True

        def on_chain_start(self, *args: Any, tags: Any, metadata: Any, **kwargs: Any) -> None:
            tags.append("vandal")
            metadata["vandal"] = True
            kwargs.clear()

        def on_stream_event(self, event: Any, **kwargs: Any) -> None:
            event["delta"]["text"] = "vandal"
            event.clear()

    class Witness(BaseCallbackHandler):
        run_inline = True
        starts: list[Any]

        def on_chain_start(self, *args: Any, tags: Any, metadata: Any, **kwargs: Any) -> None:
            self.starts = [*getattr(self, "starts", []), (tags, metadata)]

        def on_stream_event(self, event: Any, **kwargs: Any) -> None:
            self.event = event

    witness = Witness()
    call.invoke(
        ADD | ADD,
        1,
        {"callbacks": [MutatingHandler(), witness], "tags": ["a"], "metadata": {"b": 1}},
    )

    assert [tags for tags, _ in witness.starts] == [["a"], ["seq:step:1", "a"], ["seq:step:2", "a"]]
    assert all(metadata == {"b": 1} for _, metadata in witness.starts)

    event = {
        "event": "content-block-delta",
        "index": 0,
        "delta": {"type": "text-delta", "text": "x"},
    }
    handle_event(
        [MutatingHandler(), witness], "on_stream_event", "ignore_llm", event, run_id=uuid4()
    )
    assert witness.event == event
    assert event["delta"] == {"type": "text-delta", "text": "x"}


def test_a_handler_may_ignore_kinds_of_events(call: Any):
    class IgnoringRecorder(Recorder):
        @property
        def ignore_chain(self) -> bool:
            return True

    deaf = IgnoringRecorder()
    call.invoke(ADD, 1, {"callbacks": [deaf]})

    assert deaf.events == []


def test_handle_event_tells_any_handler_and_respects_what_it_ignores():
    class Llm(BaseCallbackHandler):
        ignore_llm = True  # type: ignore[assignment]
        calls = 0

        def on_llm_end(self, *args: Any, **kwargs: Any) -> None:
            self.calls += 1

    handler = Llm()
    handle_event([handler], "on_llm_end", "ignore_llm", None, run_id=uuid4())
    asyncio.run(ahandle_event([handler], "on_llm_end", None, None, run_id=uuid4()))

    assert handler.calls == 1


def test_a_handler_of_text_models_gets_messages_as_text():
    from foldline.messages import HumanMessage

    class Old(BaseCallbackHandler):
        def on_llm_start(self, serialized: Any, prompts: list[str], **kwargs: Any) -> None:
            self.prompts = prompts

    old = Old()
    handle_event(
        [old],
        "on_chat_model_start",
        "ignore_chat_model",
        {},
        [[HumanMessage("hi")]],
        run_id=uuid4(),
    )

    assert old.prompts == ["Human: hi"]


def test_a_hook_may_be_set_on_the_instance_and_a_proxy_may_answer(call: Any):
    sources = []
    handler = BaseCallbackHandler()
    handler.on_chain_start = lambda *a, **k: sources.append("instance")  # type: ignore[method-assign]

    class Proxy:
        raise_error = run_inline = False

        def __getattr__(self, name: str) -> Any:
            if name.startswith("ignore_"):
                return False
            return lambda *a, **k: sources.append(name)

    call.invoke(ADD, 1, {"callbacks": [handler, Proxy()]})

    assert sources == ["instance", "on_chain_start", "on_chain_end"]


def test_without_a_handler_nothing_is_made(call: Any, monkeypatch: pytest.MonkeyPatch):
    """No uuid, no manager, no child run: a sequence of ten runs on the very run of the call."""
    ids: list[str] = []
    monkeypatch.setattr(_run, "uuid7", lambda: ids.append("uuid"))
    monkeypatch.setattr(_run, "child_manager", lambda *a, **k: ids.append("manager"))
    monkeypatch.setattr(_run, "ensure_config", lambda *a, **k: ids.append("config"))
    runs: set[int] = set()
    monkeypatch.setattr(_run.Run, "__init__", counting(_run.Run.__init__, runs), raising=True)
    chain = ADD
    for _ in range(9):
        chain = chain | ADD

    assert call.invoke(chain, 0) == 10

    assert ids == []
    assert len(runs) == 1


def counting(function: Any, instances: set[int]) -> Any:
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> None:
        instances.add(id(self))
        function(self, *args, **kwargs)

    return wrapper


@pytest.mark.parametrize("event", ["on_chain_start", "on_chain_end", "on_chain_error"])
def test_every_handler_hears_of_a_start_and_an_end_although_the_caller_is_cancelled(event):
    class Slow(AsyncCallbackHandler):
        starts = finished = 0

        async def _hear(self, *args, **kwargs):
            self.starts += 1
            await asyncio.sleep(0.01)
            self.finished += 1

        on_chain_start = on_chain_end = on_chain_error = _hear

    handlers = [Slow(), Slow()]

    async def main():
        task = asyncio.ensure_future(dispatch(ASYNC, handlers, event, {}, run_id=None))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert asyncio.run(main())
    assert [handler.starts for handler in handlers] == [1, 1]
    assert handlers[1].finished == 1
    assert handlers[0].finished == (0 if event == "on_chain_start" else 1)


class Hanging(Recorder):
    """Hangs at the start and at the end of a run until it is let go."""

    def __init__(self, event: str, *, patience: float | None) -> None:
        super().__init__()
        self.patience = patience
        self.let_go = threading.Event()
        setattr(self, event, lambda *args, **kwargs: self.let_go.wait(30))


class AsyncHanging(AsyncCallbackHandler):
    def __init__(self, event: str, *, patience: float | None) -> None:
        self.patience = patience
        self.let_go = threading.Event()
        setattr(self, event, self._hang)

    async def _hang(self, *args: Any, **kwargs: Any) -> None:
        while not self.let_go.is_set():
            await asyncio.sleep(0.01)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Hanging, AsyncHanging])
@pytest.mark.parametrize("event", ["on_chain_start", "on_chain_end"])
def test_a_handler_that_hangs_holds_a_run_no_longer_than_its_patience(
    call: Any, event: str, kind: Any, caplog: pytest.LogCaptureFixture, no_leaks: Any
):
    hanging, good = kind(event, patience=0.05), Recorder()

    try:
        with caplog.at_level(logging.WARNING, "foldline.callbacks"):
            assert call.invoke(ADD, 1, {"callbacks": [hanging, good]}) == 2
    finally:
        hanging.let_go.set()

    assert good.events == ["start", "end"]
    assert [record.getMessage() for record in caplog.records] == [
        f"{kind.__name__}.{event} raised TimeoutError('the hook took longer than the 0.05 s of "
        "`patience` its handler has: let it hand its work to a queue, or give it more'); the run "
        "goes on, the same fault is not logged again"
    ]


@pytest.mark.slow
def test_a_handler_that_hangs_and_has_raise_error_breaks_the_run(call: Any, no_leaks: Any):
    hanging, good = Hanging("on_chain_start", patience=0.05), Recorder()
    hanging.raise_error = True

    try:
        with pytest.raises(TimeoutError, match=r"longer than the 0\.05 s"):
            call.invoke(ADD, 1, {"callbacks": [hanging, good]})
    finally:
        hanging.let_go.set()

    assert [event.split("(")[0] for event in good.events] == ["start", "error TimeoutError"]


@pytest.mark.slow
@pytest.mark.parametrize("event", ["on_chain_start", "on_chain_end"])
def test_a_run_whose_handler_hangs_can_be_cancelled_and_ends_once_for_the_others(
    event: str, no_leaks: Any
):
    hanging, good = Hanging(event, patience=None), Recorder()

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await ADD.ainvoke(1, {"callbacks": [hanging, good]})
        hanging.let_go.set()

    asyncio.run(main())

    ending = "end" if event == "on_chain_end" else "error CancelledError()"
    assert good.events == ["start", ending]

"""What a chat model costs besides its network: invoke, stream, add up, events, memory; beside langchain-core.

Each function takes the interpreter's own framework (`weft`, or `langchain_core` under another interpreter) and gives a
number, so that `scripts/bench` can run the same file twice:

    python benchmarks/models.py                 # weft
    /path/to/other/python benchmarks/models.py  # langchain-core, the same scenarios

CPU time is measured (`process_time`), the best of several rounds, because the machine may be busy.
"""

from __future__ import annotations

import gc
import json
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

ROUNDS = 5


def framework() -> str:
    """Name the framework that this interpreter has."""
    try:
        import_module("weft")
    except ImportError:
        return "langchain_core"
    return "weft"


def load(name: str) -> Any:
    """Import a module of the framework at hand."""
    return import_module(f"{framework()}.{name}")


def best(run: Callable[[], int], rounds: int = ROUNDS) -> float:
    """Give the fewest microseconds per unit that a run took; a run says how many units it did."""
    run()
    times = []
    for _ in range(rounds):
        gc.collect()
        begin = time.process_time()
        units = run()
        times.append((time.process_time() - begin) / units * 1e6)
    return min(times)


def chunk_model(chunks: list[Any]) -> Any:
    """A model whose author wrote `_stream`, as every LangChain model did."""
    models, outputs = load("language_models"), load("outputs")

    class Chunked(models.BaseChatModel):  # type: ignore[misc,name-defined]
        def _generate(self, *args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError

        def _stream(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
            for make in chunks:
                yield outputs.ChatGenerationChunk(message=make())

        @property
        def _llm_type(self) -> str:
            return "bench"

    return Chunked()


def native_model(count: int) -> Any:
    """A model that gives events itself: one text block of many deltas."""
    models = load("language_models")

    def events() -> Iterator[dict[str, Any]]:
        yield {"event": "message-start", "role": "ai", "id": "m"}
        yield {"event": "content-block-start", "index": 0, "content": {"type": "text", "text": ""}}
        for _ in range(count):
            delta = {"type": "text-delta", "text": "word "}
            yield {"event": "content-block-delta", "index": 0, "delta": delta}
        final = {"type": "text", "text": "word " * count}
        yield {"event": "content-block-finish", "index": 0, "content": final}
        yield {"event": "message-finish"}

    class Native(models.BaseChatModel):  # type: ignore[misc,name-defined]
        def _generate(self, *args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError

        def _stream_chat_model_events(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
            return events()

        @property
        def _llm_type(self) -> str:
            return "bench"

    return Native()


def v2(model: Any) -> Any:
    """Open a stream of events."""
    if framework() == "weft":
        return model.stream_v2("hi")
    return model.stream_events("hi", version="v3")


def text_chunks(count: int) -> list[Any]:
    """Make `count` chunks of plain text."""
    chunk = load("messages").AIMessageChunk
    return [lambda: chunk(content="word ")] * count


def tool_chunks(count: int) -> list[Any]:
    """Make a tool call whose arguments come in `count` slices."""
    chunk = load("messages").AIMessageChunk

    def opener() -> Any:
        part = {"name": "f", "args": '{"a": "', "id": "c", "index": 0, "type": "tool_call_chunk"}
        return chunk(content="", tool_call_chunks=[part])

    def piece() -> Any:
        part = {
            "name": None,
            "args": "0123456789",
            "id": None,
            "index": 0,
            "type": "tool_call_chunk",
        }
        return chunk(content="", tool_call_chunks=[part])

    return [opener, *[piece] * count]


def invoke() -> float:
    """Microseconds of one call of a fake model."""
    model = load("language_models").FakeListChatModel(responses=["hello"])

    def run() -> int:
        for _ in range(300):
            model.invoke("hi")
        return 300

    return best(run)


def stream_text(count: int = 2000) -> float:
    """Microseconds per chunk of a v1 stream of text from the fake model."""
    model = load("language_models").FakeListChatModel(responses=["x" * count])

    def run() -> int:
        return sum(1 for _ in model.stream("hi"))

    return best(run)


def stream_chunks(count: int = 2000) -> float:
    """Microseconds per chunk of a v1 stream from a model whose author wrote `_stream`, making the chunks included."""
    model = chunk_model(text_chunks(count))

    def run() -> int:
        return sum(1 for _ in model.stream("hi"))

    return best(run)


def add_up_text(count: int = 4000) -> float:
    """Microseconds per chunk to stream text and add it up."""
    return _add_up(text_chunks(count))


def add_up_tools(count: int = 4000) -> float:
    """Microseconds per chunk to stream slices of a tool call and add them up."""
    return _add_up(tool_chunks(count), rounds=1)


def accumulate_tools(count: int = 4000) -> float:
    """Microseconds per chunk to add up slices of a tool call that are there already, and to read the call."""
    made = [make() for make in tool_chunks(count)]

    def run() -> int:
        whole = made[0]
        for chunk in made[1:]:
            whole = whole + chunk
        assert whole.tool_calls is not None
        return len(made)

    return best(run, 1)


def _add_up(chunks: list[Any], rounds: int = 2) -> float:
    model = chunk_model(chunks)

    def run() -> int:
        whole = None
        for chunk in model.stream("hi"):
            whole = chunk if whole is None else whole + chunk
        assert whole is not None
        assert whole.tool_calls is not None
        return len(chunks)

    return best(run, rounds)


def events(count: int = 10_000, rounds: int = 3) -> float:
    """Microseconds per event of a v2 stream from a native model."""
    model = native_model(count)

    def run() -> int:
        return sum(1 for _ in v2(model))

    return best(run, rounds)


def bridged_events(count: int = 5000) -> float:
    """Microseconds per event of a v2 stream from a model whose author wrote `_stream`."""
    model = chunk_model(text_chunks(count))

    def run() -> int:
        return sum(1 for _ in v2(model))

    return best(run, 3)


def replay_memory(count: int = 80_000) -> float:
    """Bytes that a finished stream of 400 kB of text holds, all of it ready to be read again."""
    model = native_model(count)
    for _ in v2(native_model(10)):
        pass
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    stream = v2(model)
    for _ in stream:
        pass
    gc.collect()
    held = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert sum(1 for _ in stream) == count + 4
    return float(held)


ALL: dict[str, Callable[[], float]] = {
    "invoke": invoke,
    "stream_text": stream_text,
    "stream_chunks": stream_chunks,
    "add_up_text": add_up_text,
    "add_up_tools": add_up_tools,
    "accumulate_tools": accumulate_tools,
    "events_1000": lambda: events(1000),
    "events_10000": events,
    "events_200000": lambda: events(200_000, 1),
    "bridged_events": bridged_events,
    "replay_memory": replay_memory,
}
"""Name -> measurement; memory in bytes, the rest in microseconds."""

if __name__ == "__main__":
    wanted = sys.argv[1:] or list(ALL)
    print(
        json.dumps({"framework": framework(), **{name: round(ALL[name](), 3) for name in wanted}})
    )

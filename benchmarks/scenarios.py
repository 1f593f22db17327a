"""Scenarios in one process: each makes a run, which does some units of work and returns how many.

The same code measures foldline and langchain-core, because `langchain_core` -> `foldline` is a rename; the side "floor"
is the same work with dicts, lists and plain functions.
"""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

Run = Callable[[], float]
ROOTS = {"foldline": "foldline", "langchain": "langchain_core"}


def load(side: str, name: str) -> Any:
    """Import a module of a side's framework."""
    return import_module(f"{ROOTS[side]}.{name}")


def times(count: int, work: Callable[[], Any]) -> Run:
    """Make a run that does something many times."""

    def run() -> int:
        for _ in range(count):
            work()
        return count

    return run


# -- messages


def make_message(side: str) -> Run:
    """One HumanMessage."""
    if side == "floor":
        return times(2000, lambda: {"type": "human", "content": "hello"})
    message = load(side, "messages").HumanMessage
    return times(2000, lambda: message("hello"))


def make_chunk(side: str) -> Run:
    """One AIMessageChunk of plain text."""
    chunk_class = load(side, "messages").AIMessageChunk
    return times(2000, lambda: chunk_class(content="word "))


def add_two(side: str) -> Run:
    """Add two chunks without reading the sum."""
    first, second = _chunks(side, "text", 2)
    return times(1000, lambda: first + second)


def add_chunks(side: str, kind: str = "text", count: int = 4000) -> Run:
    """Add up chunks that are there already, and read the sum."""
    chunks = list(_chunks(side, kind, count))

    def run() -> int:
        total = chunks[0]
        for chunk in chunks[1:]:
            total = total + chunk
        assert total.content is not None
        assert total.tool_calls is not None
        return count

    return run


def _chunks(side: str, kind: str, count: int) -> Iterator[Any]:
    chunk_class = load(side, "messages").AIMessageChunk
    if kind == "text":
        for _ in range(count):
            yield chunk_class(content="word ")
    elif kind == "reasoning":
        for _ in range(count):
            yield chunk_class(content=[{"type": "reasoning", "reasoning": "word ", "index": 0}])
    else:
        part = {"name": "write", "args": '{"text": "', "id": "c"}
        for _ in range(count):
            tool_slice = {**part, "index": 0, "type": "tool_call_chunk"}
            yield chunk_class(content="", tool_call_chunks=[tool_slice])
            part = {"name": None, "args": "0123456789", "id": None}


# -- chat models


def invoke(side: str, *, handler: bool = False) -> Run:
    """One call of a fake model, with or without a handler that listens to everything."""
    if side == "floor":
        return times(300, lambda: {"role": "ai", "content": ["hello"][0]})
    model = load(side, "language_models").FakeListChatModel(responses=["hello"])
    if not handler:
        return times(300, lambda: model.invoke("hi"))
    config = {"callbacks": [_listener(side)]}
    return times(300, lambda: model.invoke("hi", config))


def handlers(side: str, count: int = 1) -> Run:
    """One call of a fake model under some handlers that listen to everything."""
    model = load(side, "language_models").FakeListChatModel(responses=["hello"])
    config = {"callbacks": [_listener(side) for _ in range(count)]}
    return times(100, lambda: model.invoke("hi", config))


def nesting(side: str, depth: int = 10) -> Run:
    """Functions that call one another as runnables, so many deep, under one handler; a unit is one of the runs."""
    lambda_class = load(side, "runnables").RunnableLambda
    inner = lambda_class(_add)
    for _ in range(depth - 1):
        inner = lambda_class(_calling(inner))
    config = {"callbacks": [_listener(side)]}

    def run() -> int:
        for _ in range(20):
            inner.invoke(1, config)
        return 20 * depth

    return run


def _calling(inner: Any) -> Callable[[int], int]:
    def call(x: int) -> int:
        result: int = inner.invoke(x)
        return result

    return call


def _conversation(side: str, length: int) -> list[Any]:
    messages = load(side, "messages")
    kinds = (messages.HumanMessage, messages.AIMessage)
    return [kinds[place % 2](f"message {place}") for place in range(length)]


def history(side: str, length: int = 1000) -> Run:
    """One call with a long history: through the fake model, so that what is measured is ours and no provider's."""
    model = load(side, "language_models").FakeListChatModel(responses=["hello"])
    messages = _conversation(side, length)
    return times(10, lambda: model.invoke(messages))


def bound_tools(side: str, count: int = 100) -> Run:
    """One call of a fake model that tools were bound to."""
    models = load(side, "language_models")

    class Bound(models.FakeListChatModel):  # type: ignore[misc,name-defined]
        def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
            convert = load(side, "utils.function_calling").convert_to_openai_tool
            return self.bind(tools=[convert(tool) for tool in tools], **kwargs)

    model = Bound(responses=["hello"]).bind_tools(_tools(side, count))
    return times(20, lambda: model.invoke("hi"))


def bind_tools(side: str, count: int = 200) -> Run:
    """Bind tools to a model, as an agent does for every turn; a unit is one tool."""
    home = "foldline.providers.openai" if side == "foldline" else "langchain_openai"
    model = import_module(home).ChatOpenAI(model="gpt-5", api_key="k")
    tools = _tools(side, count)

    def run() -> int:
        model.bind_tools(tools)
        return count

    return run


def _tools(side: str, count: int) -> list[Any]:
    make_tool = load(side, "tools").tool

    def numbered(number: int) -> Any:
        def add(a: int, b: int = 2) -> int:
            """Add two numbers."""
            return a + b

        add.__name__ = f"add_{number}"
        return make_tool(add)

    return [numbered(number) for number in range(count)]


def _listener(side: str) -> Any:
    class Listener(load(side, "callbacks").BaseCallbackHandler):  # type: ignore[misc]
        def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None: ...

        def on_llm_new_token(self, *args: Any, **kwargs: Any) -> None: ...

        def on_llm_end(self, *args: Any, **kwargs: Any) -> None: ...

        def on_chain_start(self, *args: Any, **kwargs: Any) -> None: ...

        def on_chain_end(self, *args: Any, **kwargs: Any) -> None: ...

    return Listener()


def stream_text(side: str, count: int = 2000, *, handler: bool = False) -> Run:
    """A v1 stream of text, a letter at a time, from the fake model."""
    if side == "floor":
        return lambda: sum(1 for _ in [{"content": letter} for letter in "x" * count])
    model = load(side, "language_models").FakeListChatModel(responses=["x" * count])
    config = {"callbacks": [_listener(side)]} if handler else None
    return lambda: sum(1 for _ in model.stream("hi", config))


def stream_and_add(
    side: str, kind: str = "text", count: int = 4000, *, native: bool = False
) -> Run:
    """Stream and add the chunks up: from a model whose author wrote `_stream`, or ours from one that gives events."""
    model = _native(kind, count) if native and side == "foldline" else _chunked(side, kind, count)

    def run() -> int:
        total = None
        for chunk in model.stream("hi"):
            total = chunk if total is None else total + chunk
        assert total is not None
        assert total.tool_calls is not None
        return count

    return run


def _chunked(side: str, kind: str, count: int) -> Any:
    models, chunk_class = load(side, "language_models"), load(side, "outputs").ChatGenerationChunk

    class Chunked(models.BaseChatModel):  # type: ignore[misc,name-defined]
        def _generate(self, *args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError

        def _stream(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
            for chunk in _chunks(side, kind, count):
                yield chunk_class(message=chunk)

        @property
        def _llm_type(self) -> str:
            return "bench"

    return Chunked()


DELTAS = {
    "text": ({"type": "text", "text": ""}, {"type": "text-delta", "text": "word "}),
    "reasoning": (
        {"type": "reasoning", "reasoning": ""},
        {"type": "reasoning-delta", "reasoning": "word "},
    ),
    "tool": (
        {"type": "tool_call_chunk", "name": "write", "id": "c", "args": ""},
        {"type": "tool-call-delta", "args": "0123456789"},
    ),
}


def _events(kind: str, count: int) -> Iterator[dict[str, Any]]:
    block, delta = DELTAS[kind]
    yield {"event": "message-start", "role": "ai", "id": "m"}
    yield {"event": "content-block-start", "index": 0, "content": dict(block)}
    for _ in range(count):
        yield {"event": "content-block-delta", "index": 0, "delta": dict(delta)}
    final = dict(block)
    if kind == "tool":
        final["args"] = "0123456789" * count
        final["type"] = "invalid_tool_call"
    else:
        final[kind] = "word " * count
    yield {"event": "content-block-finish", "index": 0, "content": final}
    yield {"event": "message-finish"}


def events(side: str, kind: str = "text", count: int = 10_000) -> Run:
    """A stream of events: ours from a native model; LangChain's from its bridge over `_stream`, its users' path."""
    if side == "floor":
        return lambda: _drained(iter(list(_events(kind, count))))
    if side == "foldline":
        model = _native(kind, count)
        return lambda: _drained(model.stream_v2("hi"))
    bridged = _chunked(side, kind, count)
    return lambda: _drained(bridged.stream_events("hi", version="v3"))


def bridged_events(side: str, kind: str = "text", count: int = 10_000) -> Run:
    """A stream of events from a model whose author wrote `_stream`, on both sides."""
    model = _chunked(side, kind, count)
    if side == "foldline":
        return lambda: _drained(model.stream_v2("hi"))
    return lambda: _drained(model.stream_events("hi", version="v3"))


def _drained(stream: Any) -> int:
    return sum(1 for _ in stream)


def _native(kind: str, count: int) -> Any:
    models = load("foldline", "language_models")

    class Native(models.BaseChatModel):  # type: ignore[misc,name-defined]
        def _generate(self, *args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError

        def _stream_chat_model_events(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
            return _events(kind, count)

        @property
        def _llm_type(self) -> str:
            return "bench"

    return Native()


def replay_memory(side: str, count: int = 20_000) -> Run:
    """Bytes per delta that a finished stream holds, ready to be read again."""
    model = _native("text", count) if side == "foldline" else _chunked(side, "text", count)

    def run() -> float:
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        version = {} if side == "foldline" else {"version": "v3"}
        open_stream = model.stream_v2 if side == "foldline" else model.stream_events
        stream = open_stream("hi", **version)
        _drained(stream)
        memory = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        return memory / count

    return run


def history_memory(side: str, count: int = 1000) -> Run:
    """Bytes per message of a history of pairs."""

    def run() -> float:
        messages = load(side, "messages") if side != "floor" else None
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        history: list[Any] = []
        for place in range(count // 2):
            content = f"message {place}"
            if messages is None:
                history += [
                    {"role": "human", "content": content},
                    {"role": "ai", "content": content},
                ]
            else:
                history += [messages.HumanMessage(content), messages.AIMessage(content)]
        memory = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        return memory / len(history)

    return run


# -- chains


def _add(x: int) -> int:
    return x + 1


def ten_lambdas(side: str) -> Run:
    """Ten functions in a sequence."""
    if side == "floor":
        steps = [_add] * 10

        def call() -> int:
            value = 1
            for step in steps:
                value = step(value)
            return value

        return times(200, call)
    runnables = load(side, "runnables")
    chain = runnables.RunnableLambda(_add)
    for _ in range(9):
        chain = chain | runnables.RunnableLambda(_add)
    return times(100, lambda: chain.invoke(1))


def _prompt_model_parser(side: str, letters: int = 5) -> Any:
    prompt = load(side, "prompts").ChatPromptTemplate.from_messages(
        [("system", "Be brief."), ("human", "Tell me about {topic}.")]
    )
    model = load(side, "language_models").FakeListChatModel(responses=["x" * letters])
    return prompt | model | load(side, "output_parsers").StrOutputParser()


def chain(side: str, way: str = "invoke", *, handler: bool = False) -> Run:
    """`prompt | model | parser`: one call; or a batch of 1,000, blocking or async; or its stream, or its events."""
    letters = {"astream_events": 200, "stream": 1000, "astream_events_whole": 5}.get(way, 5)
    pipeline = _prompt_model_parser(side, letters)
    topic = {"topic": "bears"}
    if way == "stream":
        return lambda: _drained(pipeline.stream(topic))
    if way == "invoke":
        config = {"callbacks": [_listener(side)]} if handler else None
        return times(50, lambda: pipeline.invoke(topic, config))
    if way == "astream_events":
        return lambda: asyncio.run(_count(pipeline.astream_events(topic, version="v2")))
    if way == "astream_events_whole":
        return lambda: asyncio.run(_streams(pipeline, topic, 20))
    inputs = [topic] * 1000
    if way == "batch":
        return lambda: len(pipeline.batch(inputs))
    return lambda: len(asyncio.run(pipeline.abatch(inputs)))


async def _streams(pipeline: Any, topic: Any, count: int) -> int:
    for _ in range(count):
        await _count(pipeline.astream_events(topic, version="v2"))
    return count


async def _count(items: Any) -> int:
    count = 0
    async for _ in items:
        count += 1
    return count


def streamed_item(side: str, count: int = 1000) -> Run:
    """One item through three generator steps."""

    def source(starts: Any) -> Any:
        for start in starts:
            yield from range(start, start + count)

    def step(numbers: Any) -> Any:
        for number in numbers:
            yield number + 1

    if side == "floor":
        return lambda: _drained(step(step(source([0]))))
    pipeline = load(side, "runnables").RunnableGenerator(source) | step | step
    return lambda: _drained(pipeline.stream(0))


def json_parser(side: str, count: int = 2000) -> Run:
    """Partial JSON objects out of a stream of slices."""
    parser = load(side, "output_parsers").JsonOutputParser()
    text = json.dumps({"rows": [{"name": f"n{place}", "value": place} for place in range(400)]})
    size = -(-len(text) // count)
    slices = [text[place : place + size] for place in range(0, len(text), size)]

    def run() -> int:
        *_, last = parser.transform(iter(slices))
        assert len(last["rows"]) == 400
        return len(slices)

    return run


def prompt(side: str) -> Run:
    """Format a chat prompt of two messages."""
    if side == "floor":
        return times(500, lambda: ["Be brief.", "Tell me about {topic}.".format(topic="bears")])
    template = load(side, "prompts").ChatPromptTemplate.from_messages(
        [("system", "Be brief."), ("human", "Tell me about {topic}.")]
    )
    return times(200, lambda: template.invoke({"topic": "bears"}))


def text_prompt(side: str) -> Run:
    """Format a PromptTemplate of two variables."""
    text = "Tell me a {adjective} joke about {content}."
    if side == "floor":
        return times(1000, lambda: text.format(adjective="funny", content="chickens"))
    template = load(side, "prompts").PromptTemplate.from_template(text)
    return times(500, lambda: template.format(adjective="funny", content="chickens"))


def tool(side: str) -> Run:
    """A call of a tool, as a model makes it."""

    def add(a: int, b: int = 2) -> int:
        """Add two numbers."""
        return a + b

    if side == "floor":
        return times(1000, lambda: add(a=1, b=2))
    add_tool = load(side, "tools").tool(add)
    call = {"type": "tool_call", "name": "add", "args": {"a": 1, "b": 2}, "id": "call_1"}
    return times(300, lambda: add_tool.invoke(call))


TURNS = 10


def agent_turn(side: str) -> Run:
    """A turn of an agent: nine calls of a tool and an answer, by a scripted model."""
    models, outputs = load(side, "language_models"), load(side, "outputs")
    message = load(side, "messages").AIMessage
    home = "foldline.agents" if side == "foldline" else "langchain.agents"

    class Scripted(models.BaseChatModel):  # type: ignore[misc,name-defined]
        turn: int = 0

        @property
        def _llm_type(self) -> str:
            return "scripted"

        def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
            return self

        def _generate(self, *args: Any, **kwargs: Any) -> Any:
            self.turn += 1
            answer = message("done")
            if self.turn % TURNS:
                call = {"name": "add", "args": {"a": 1, "b": 2}, "id": f"c{self.turn}"}
                answer = message("", tool_calls=[call])
            return outputs.ChatResult(generations=[outputs.ChatGeneration(message=answer)])

    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    agent = import_module(home).create_agent(Scripted(), [add])

    def run() -> int:
        assert len(agent.invoke({"messages": [("human", "go")]})["messages"]) == 2 * TURNS
        return TURNS

    return run


WORDS = "the little bear went down to the river to look for fish and found a red boat"


def embeddings(side: str, count: int = 8) -> Run:
    """Embed texts of 200 words in this process: ours, or llama.cpp's own server asked directly, the same batch."""
    words = (WORDS + " ").split() * 12
    texts = [" ".join([f"text {place}", *words[place : place + 198]]) for place in range(count)]
    model = load("foldline", "providers.local").LocalEmbeddings()
    model.embed_documents(texts[:1])
    if side == "foldline":
        return lambda: len(model.embed_documents(texts))
    runtime = load("foldline", "providers.local.session").load(model.model, model._settings)
    return lambda: len(runtime._server.handle_embeddings({"input": texts})["data"])


def vectors(side: str) -> Run:
    """Search 100,000 vectors of 384 numbers: ours, or the bare product of NumPy."""
    from benchmarks import vectors as search

    store, units, query = search._filled_store()
    numbers = query.tolist()
    if side == "foldline":
        return times(5, lambda: store.similarity_search_by_vector(numbers, k=search.K))
    import numpy as np

    top = search.COUNT - search.K
    return times(5, lambda: np.argpartition(units @ query, top)[top:])

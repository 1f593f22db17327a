"""Thirty small programs on graphs, as LangGraph's users write them. Each takes the names of a library and gives JSON.

`python -m tests.graph.measure` runs them with LangGraph itself and writes what they gave to `programs.json`; the tests
run them with foldline and compare. The programs are ours; only their results come from LangGraph.
"""

import asyncio
import json
import operator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict

from pydantic import BaseModel

PROGRAMS: dict[str, Any] = {}
ONE = {"configurable": {"thread_id": "1"}}


def program(function: Any) -> Any:
    PROGRAMS[function.__name__] = function
    return function


class Items(TypedDict):
    items: Annotated[list, operator.add]
    n: int


def chain(lib: Any, schema: Any, *nodes: Any, **options: Any) -> Any:
    graph = lib.StateGraph(schema)
    graph.add_sequence(list(nodes))
    first = nodes[0][0] if isinstance(nodes[0], tuple) else nodes[0].__name__
    graph.add_edge(lib.START, first)
    return graph.compile(**options)


def giving(item: str) -> Any:
    def node(state: Items) -> dict:
        return {"items": [item]}

    return item, node


@program
def a_sequence(lib: Any) -> Any:
    return chain(lib, Items, giving("a"), giving("b"), giving("c")).invoke({"items": ["x"], "n": 1})


@program
def reducers_begin_empty(lib: Any) -> Any:
    states = []

    def look(state: Items) -> None:
        states.append(dict(state))

    return [chain(lib, Items, look).invoke({"n": 2}), states]


@program
def fan_out_and_in(lib: Any) -> Any:
    graph = lib.StateGraph(Items)
    for name in ("a", "c", "b", "d"):
        graph.add_node(*giving(name))
    graph.add_edge(lib.START, "a")
    graph.add_edge("a", "c")
    graph.add_edge("a", "b")
    graph.add_edge("b", "d")
    graph.add_edge("c", "d")
    return graph.compile().invoke({"items": []})


@program
def wait_for_both_ways(lib: Any) -> Any:
    graph = lib.StateGraph(Items)
    for name in ("a", "b", "b2", "c", "d"):
        graph.add_node(*giving(name))
    graph.add_edge(lib.START, "a")
    graph.add_edge("a", "b")
    graph.add_edge("a", "c")
    graph.add_edge("b", "b2")
    graph.add_edge(["b2", "c"], "d")
    graph.add_edge("d", lib.END)
    return graph.compile().invoke({"items": []})


@program
def deferred_node(lib: Any) -> Any:
    graph = lib.StateGraph(Items)
    for name in ("a", "b", "b2", "c"):
        graph.add_node(*giving(name))
    graph.add_node(*giving("d"), defer=True)
    graph.add_edge(lib.START, "a")
    graph.add_edge("a", "b")
    graph.add_edge("a", "c")
    graph.add_edge("b", "b2")
    graph.add_edge("b2", "d")
    graph.add_edge("c", "d")
    return graph.compile().invoke({"items": []})


@program
def conditional_edges(lib: Any) -> Any:
    graph = lib.StateGraph(Items)
    for name in ("odd", "even"):
        graph.add_node(*giving(name))
    graph.add_conditional_edges(
        lib.START, lambda state: state["n"] % 2 == 0, {True: "even", False: "odd"}
    )
    compiled = graph.compile()
    return [compiled.invoke({"n": 1}), compiled.invoke({"n": 2})]


@program
def a_loop(lib: Any) -> Any:
    graph = lib.StateGraph(Items)

    def count(state: Items) -> dict:
        return {"n": state["n"] + 1, "items": [state["n"]]}

    def more(state: Items) -> Literal["count", "__end__"]:
        return "count" if state["n"] < 4 else lib.END

    graph.add_node(count)
    graph.add_edge(lib.START, "count")
    graph.add_conditional_edges("count", more)
    return graph.compile().invoke({"n": 0})


@program
def recursion_limit(lib: Any) -> Any:
    graph = lib.StateGraph(Items)
    graph.add_node("again", lambda state: {"items": [1]})
    graph.add_edge(lib.START, "again")
    graph.add_edge("again", "again")
    try:
        graph.compile().invoke({"n": 0}, {"recursion_limit": 3})
    except lib.GraphRecursionError as error:
        return [isinstance(error, RecursionError)]


@program
def map_reduce_by_send(lib: Any) -> Any:
    class Topic(TypedDict):
        topic: str

    def write(state: Topic) -> dict:
        return {"items": [f"about {state['topic']}"]}

    def spread(state: Items) -> list:
        return [lib.Send("write", {"topic": topic}) for topic in ("cats", "dogs", "ants")]

    def best(state: Items) -> dict:
        return {"n": len(state["items"])}

    graph = lib.StateGraph(Items)
    graph.add_node(write)
    graph.add_node(best)
    graph.add_conditional_edges(lib.START, spread, ["write"])
    graph.add_edge("write", "best")
    return graph.compile().invoke({"n": 0})


@program
def command_goto_and_update(lib: Any) -> Any:
    def decide(state: Items) -> lib.Command[Literal["left", "right"]]:
        return lib.Command(update={"items": ["decide"]}, goto="left" if state["n"] else "right")

    decide.__annotations__["return"] = lib.Command[Literal["left", "right"]]
    graph = lib.StateGraph(Items)
    graph.add_node(decide)
    graph.add_node(*giving("left"))
    graph.add_node(*giving("right"))
    graph.add_edge(lib.START, "decide")
    compiled = graph.compile()
    return [compiled.invoke({"n": 0}), compiled.invoke({"n": 1})]


@program
def private_state(lib: Any) -> Any:
    class Private(TypedDict):
        secret: str

    def first(state: Items) -> Private:
        return {"secret": "s"}

    def second(state: Private) -> Items:
        return {"items": [state["secret"], sorted(state)]}

    return chain(lib, Items, first, second).invoke({"n": 1})


@program
def input_and_output_schemas(lib: Any) -> Any:
    class In(TypedDict):
        question: str

    class Out(TypedDict):
        answer: str

    class All(In, Out):
        pass

    def answer(state: In) -> dict:
        return {"answer": state["question"] + "!"}

    graph = lib.StateGraph(All, input_schema=In, output_schema=Out)
    graph.add_node(answer)
    graph.add_edge(lib.START, "answer")
    return graph.compile().invoke({"question": "why"})


@program
def pydantic_state(lib: Any) -> Any:
    class State(BaseModel):
        a: str
        n: int = 3

    states = []

    def node(state: State) -> dict:
        states.append([type(state).__name__, state.n])
        return {"a": state.a + "!"}

    return [chain(lib, State, node).invoke({"a": "x"})["a"], states]


@program
def dataclass_state(lib: Any) -> Any:
    @dataclass
    class State:
        a: str
        n: int = 3

    def node(state: State) -> dict:
        return {"a": state.a + str(state.n)}

    return chain(lib, State, node).invoke({"a": "x"})


@program
def messages_state(lib: Any) -> Any:
    def answer(state: Any) -> dict:
        return {"messages": [{"role": "assistant", "content": "hi"}]}

    result = chain(lib, lib.MessagesState, answer).invoke({"messages": [("user", "hello")]})
    return [[message.type, message.content] for message in result["messages"]]


@program
def messages_replaced_and_removed(lib: Any) -> Any:
    human, remove = lib.HumanMessage, lib.RemoveMessage
    messages = [human("a", id="1"), human("b", id="2")]
    merged = lib.add_messages(messages, [human("B", id="2"), remove(id="1"), human("c", id="3")])
    return [[message.id, message.content] for message in merged]


@program
def memory_of_a_thread(lib: Any) -> Any:
    graph = chain(lib, Items, giving("a"), checkpointer=lib.InMemorySaver())
    graph.invoke({"items": ["x"], "n": 1}, ONE)
    return [
        graph.invoke({"items": ["y"]}, ONE),
        graph.invoke({"n": 0}, {"configurable": {"thread_id": "2"}}),
    ]


@program
def interrupt_and_resume(lib: Any) -> Any:
    def ask(state: Items) -> dict:
        return {"items": [lib.interrupt({"question": state["n"]})]}

    graph = chain(lib, Items, ask, giving("after"), checkpointer=lib.InMemorySaver())
    first = graph.invoke({"n": 7}, ONE)
    questions = [question.value for question in first["__interrupt__"]]
    return [questions, graph.get_state(ONE).next, graph.invoke(lib.Command(resume="yes"), ONE)]


@program
def two_questions_in_one_node(lib: Any) -> Any:
    def ask(state: Items) -> dict:
        return {"items": [lib.interrupt("a"), lib.interrupt("b")]}

    graph = chain(lib, Items, ask, checkpointer=lib.InMemorySaver())
    graph.invoke({"n": 7}, ONE)
    second = graph.invoke(lib.Command(resume="1"), ONE)
    return [
        [item.value for item in second["__interrupt__"]],
        graph.invoke(lib.Command(resume="2"), ONE),
    ]


@program
def questions_of_parallel_nodes(lib: Any) -> Any:
    def left(state: Items) -> dict:
        return {"items": ["left " + lib.interrupt("left?")]}

    def right(state: Items) -> dict:
        return {"items": ["right " + lib.interrupt("right?")]}

    graph = lib.StateGraph(Items)
    for node in (left, right):
        graph.add_node(node)
        graph.add_edge(lib.START, node.__name__)
    compiled = graph.compile(checkpointer=lib.InMemorySaver())
    interrupts = compiled.invoke({"n": 0}, ONE)["__interrupt__"]
    answers = {item.id: item.value.upper() for item in interrupts}
    questions = sorted(item.value for item in interrupts)
    return [questions, compiled.invoke(lib.Command(resume=answers), ONE)]


@program
def static_breakpoint(lib: Any) -> Any:
    graph = chain(
        lib,
        Items,
        giving("a"),
        giving("b"),
        checkpointer=lib.InMemorySaver(),
        interrupt_before=["b"],
    )
    first = graph.invoke({"n": 1}, ONE)
    return [first, graph.get_state(ONE).next, graph.invoke(None, ONE)]


@program
def breakpoint_after(lib: Any) -> Any:
    graph = chain(
        lib,
        Items,
        giving("a"),
        giving("b"),
        checkpointer=lib.InMemorySaver(),
        interrupt_after=["a"],
    )
    return [graph.invoke({"n": 1}, ONE), graph.invoke(None, ONE)]


@program
def edit_the_state(lib: Any) -> Any:
    graph = chain(
        lib,
        Items,
        giving("a"),
        giving("b"),
        checkpointer=lib.InMemorySaver(),
        interrupt_before=["b"],
    )
    graph.invoke({"n": 1}, ONE)
    graph.update_state(ONE, {"items": ["edited"], "n": 9})
    return [graph.get_state(ONE).values, graph.get_state(ONE).next, graph.invoke(None, ONE)]


@program
def update_as_a_node(lib: Any) -> Any:
    graph = chain(
        lib, Items, giving("a"), giving("b"), giving("c"), checkpointer=lib.InMemorySaver()
    )
    graph.invoke({"n": 1}, ONE)
    graph.update_state(ONE, {"items": ["as b"]}, as_node="b")
    return [graph.get_state(ONE).next, graph.invoke(None, ONE)]


@program
def time_travel(lib: Any) -> Any:
    graph = chain(
        lib, Items, giving("a"), giving("b"), giving("c"), checkpointer=lib.InMemorySaver()
    )
    graph.invoke({"n": 1}, ONE)
    before_b = next(entry for entry in graph.get_state_history(ONE) if entry.next == ("b",))
    fork = graph.update_state(before_b.config, {"items": ["fork"]})
    return [before_b.values, graph.invoke(None, fork), graph.invoke(None, before_b.config)]


@program
def streams_of_updates_and_values(lib: Any) -> Any:
    graph = chain(lib, Items, giving("a"), giving("b"))
    return [
        list(graph.stream({"n": 1}, stream_mode="updates")),
        list(graph.stream({"n": 1}, stream_mode="values")),
        [list(item) for item in graph.stream({"n": 1}, stream_mode=["updates", "values"])],
    ]


@program
def custom_stream(lib: Any) -> Any:
    def work(state: Items) -> dict:
        write = lib.get_stream_writer()
        write({"progress": 1})
        write("done")
        return {"n": 2}

    graph = chain(lib, Items, work)
    return [list(graph.stream({"n": 1}, stream_mode="custom"))]


@program
def a_graph_as_a_node(lib: Any) -> Any:
    inner = chain(lib, Items, giving("inner"))
    graph = lib.StateGraph(Items)
    graph.add_node("sub", inner)
    graph.add_edge(lib.START, "sub")
    compiled = graph.compile()
    names = [
        [[part.partition(":")[0] for part in namespace], update]
        for namespace, update in compiled.stream({"n": 1}, subgraphs=True)
    ]
    return [compiled.invoke({"n": 1}), names]


@program
def a_graph_called_inside_a_node(lib: Any) -> Any:
    class Inner(TypedDict):
        word: str

    def shout(state: Inner) -> dict:
        return {"word": state["word"].upper() + lib.interrupt("how loud?")}

    inner = chain(lib, Inner, shout)

    def outer(state: Items) -> dict:
        return {"items": [inner.invoke({"word": "hey"})["word"]]}

    graph = chain(lib, Items, outer, checkpointer=lib.InMemorySaver())
    first = graph.invoke({"n": 1}, ONE)
    return [first["__interrupt__"][0].value, graph.invoke(lib.Command(resume="!!"), ONE)]


@program
def command_to_the_parent(lib: Any) -> Any:
    def leave(state: Items) -> Any:
        return lib.Command(
            goto="other", update={"items": ["from inside"]}, graph=lib.Command.PARENT
        )

    inner = chain(lib, Items, leave)
    graph = lib.StateGraph(Items)
    graph.add_node("sub", inner, destinations=("other",))
    graph.add_node(*giving("other"))
    graph.add_edge(lib.START, "sub")
    return graph.compile().invoke({"n": 1})


@program
def context_of_a_run(lib: Any) -> Any:
    @dataclass
    class Context:
        name: str

    def greet(state: Items, runtime: lib.Runtime[Context]) -> dict:
        return {"items": [f"hello {runtime.context.name}"]}

    greet.__annotations__["runtime"] = lib.Runtime[Context]
    graph = lib.StateGraph(Items, context_schema=Context)
    graph.add_node(greet)
    graph.add_edge(lib.START, "greet")
    return graph.compile().invoke({"n": 1}, context=Context("Ann"))


@program
def a_store_across_threads(lib: Any) -> Any:
    store = lib.InMemoryStore()

    def remember(state: Items, *, store: Any) -> dict:
        numbers = [item.value["n"] for item in store.search(("notes",))]
        store.put(("notes",), str(state["n"]), {"n": state["n"]})
        return {"items": sorted(numbers)}

    remember.__annotations__["store"] = lib.BaseStore
    graph = chain(lib, Items, remember, checkpointer=lib.InMemorySaver(), store=store)
    return [
        graph.invoke({"n": number}, {"configurable": {"thread_id": str(number)}})["items"]
        for number in range(3)
    ]


@program
def retries(lib: Any) -> Any:
    calls = []

    def flaky(state: Items) -> dict:
        calls.append(1)
        if len(calls) < 3:
            raise ConnectionError("again")
        return {"n": len(calls)}

    graph = lib.StateGraph(Items)
    policy = lib.RetryPolicy(initial_interval=0.01, max_attempts=3, jitter=False)
    graph.add_node("flaky", flaky, retry_policy=policy)
    graph.add_edge(lib.START, "flaky")
    return graph.compile().invoke({"n": 0})


@program
def a_failed_step_is_taken_again(lib: Any) -> Any:
    calls: list[str] = []

    def good(state: Items) -> dict:
        calls.append("good")
        return {"items": ["good"]}

    def bad(state: Items) -> dict:
        calls.append("bad")
        if calls.count("bad") == 1:
            raise ValueError("no")
        return {"items": ["bad"]}

    graph = lib.StateGraph(Items)
    for node in (good, bad):
        graph.add_node(node)
        graph.add_edge(lib.START, node.__name__)
    compiled = graph.compile(checkpointer=lib.InMemorySaver())
    try:
        compiled.invoke({"n": 0}, ONE)
    except ValueError as error:
        calls.append(str(error))
    return [compiled.invoke(None, ONE), sorted(calls)]


@program
def tools_and_their_condition(lib: Any) -> Any:
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    call = {"name": "add", "args": {"a": 1, "b": 2}, "id": "c1", "type": "tool_call"}

    def model(state: Any) -> dict:
        if state["messages"][-1].type == "tool":
            return {"messages": [lib.AIMessage("it is " + state["messages"][-1].content)]}
        return {"messages": [lib.AIMessage("", tool_calls=[call])]}

    graph = lib.StateGraph(lib.MessagesState)
    graph.add_node("model", model)
    graph.add_node("tools", lib.ToolNode([add]))
    graph.add_edge(lib.START, "model")
    graph.add_conditional_edges("model", lib.tools_condition)
    graph.add_edge("tools", "model")
    messages = graph.compile().invoke({"messages": [("user", "1 + 2?")]})["messages"]
    return [[message.type, message.content] for message in messages]


@program
def tasks_of_an_entrypoint(lib: Any) -> Any:
    @lib.task
    def double(x: int) -> int:
        return 2 * x

    @lib.entrypoint(checkpointer=lib.InMemorySaver())
    def flow(numbers: list[int], *, previous: Any = None) -> Any:
        futures = [double(number) for number in numbers]
        total = sum(future.result() for future in futures) + (previous or 0)
        return lib.entrypoint.final(value={"total": total}, save=total)

    return [flow.invoke([1, 2], ONE), flow.invoke([3], ONE)]


@program
def review_in_an_entrypoint(lib: Any) -> Any:
    calls = []

    @lib.task
    def draft(topic: str) -> str:
        calls.append(topic)
        return f"essay on {topic}"

    @lib.entrypoint(checkpointer=lib.InMemorySaver())
    def flow(topic: str) -> dict:
        essay = draft(topic).result()
        return {"essay": essay, "approved": lib.interrupt({"essay": essay})}

    list(flow.stream("cats", ONE))
    return [flow.invoke(lib.Command(resume=True), ONE), calls]


@program
def async_nodes(lib: Any) -> Any:
    async def one(state: Items) -> dict:
        await asyncio.sleep(0)
        return {"items": ["async"]}

    graph = chain(lib, Items, one, giving("sync"))

    async def body() -> Any:
        return [await graph.ainvoke({"n": 1}), [part async for part in graph.astream({"n": 1})]]

    return asyncio.run(body())


@program
def the_drawing(lib: Any) -> Any:
    graph = chain(lib, Items, giving("a"), giving("b"))
    return graph.get_graph().draw_mermaid()


def results(lib: Any) -> dict[str, Any]:
    return {name: json.loads(json.dumps(run(lib))) for name, run in PROGRAMS.items()}

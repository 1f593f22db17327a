"""The `repr` of a public object is short, names its class, and hides what may be secret."""

import importlib
import inspect
import pkgutil
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import foldline
from foldline.agents import create_agent
from foldline.caches import InMemoryCache
from foldline.checkpoint import InMemorySaver
from foldline.embeddings import DeterministicFakeEmbedding
from foldline.graph import START, MessagesState, RetryPolicy, Runtime, StateGraph
from foldline.language_models import FakeListChatModel
from foldline.prompts import ChatPromptTemplate, MessagesPlaceholder, PromptTemplate
from foldline.providers.openai import ChatOpenAI
from foldline.rate_limiters import InMemoryRateLimiter
from foldline.runnables import RunnableLambda, RunnablePassthrough
from foldline.stores import InMemoryStore
from foldline.text_splitters import RecursiveCharacterTextSplitter
from foldline.tools import Tool, tool
from foldline.tracers import TraceStore
from foldline.tracers.run_collector import RunCollectorCallbackHandler
from foldline.utils._short_repr import readable, short_repr
from foldline.vectorstores import InMemoryVectorStore

MIXINS = {"LLMManagerMixin", "ChainManagerMixin", "ToolManagerMixin", "RetrieverManagerMixin"}


@pytest.mark.filterwarnings("ignore:.*private and moved:DeprecationWarning")
def test_no_public_class_is_shown_by_its_address():
    bare = set()
    for module_info in pkgutil.walk_packages(foldline.__path__, "foldline."):
        if "._" in module_info.name or not (module_info.ispkg or module_info.name.count(".") == 1):
            continue
        module = importlib.import_module(module_info.name)
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            is_protocol = getattr(value, "_is_protocol", False) or inspect.isabstract(value)
            is_ours = inspect.isclass(value) and value.__module__.startswith("foldline")
            if is_ours and value.__repr__ is object.__repr__ and not is_protocol:
                bare.add(name)

    assert bare == MIXINS


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def compiled() -> Any:
    builder = StateGraph(MessagesState)
    builder.add_node("think", lambda state: state)
    builder.add_edge(START, "think")
    return builder.compile()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (InMemoryRateLimiter(requests_per_second=5), "InMemoryRateLimiter(requests_per_second=5)"),
        (InMemoryCache(maxsize=3), "InMemoryCache(maxsize=3)"),
        (InMemoryCache(), "InMemoryCache()"),
        (InMemorySaver(), "InMemorySaver()"),
        (InMemoryStore(), "InMemoryStore()"),
        (
            InMemoryVectorStore.from_texts(["a", "b"], DeterministicFakeEmbedding(size=3)),
            "InMemoryVectorStore(embedding=DeterministicFakeEmbedding(size=3), documents=2)",
        ),
        (StateGraph(MessagesState), "StateGraph(MessagesState, nodes=[])"),
        (RetryPolicy(), "RetryPolicy()"),
        (
            RetryPolicy(max_attempts=5, retry_on=(OSError, KeyError)),
            "RetryPolicy(max_attempts=5, retry_on=(OSError, KeyError))",
        ),
        (Runtime(context={"user": 1}), "Runtime(context={'user': 1})"),
        (DeterministicFakeEmbedding(size=3), "DeterministicFakeEmbedding(size=3)"),
        (RunCollectorCallbackHandler(), "RunCollectorCallbackHandler()"),
        (
            create_agent(FakeListChatModel(responses=["x"]), [add], name="helper"),
            "Agent('helper', model='FakeListChatModel', tools=['add'])",
        ),
        (compiled(), "CompiledStateGraph('LangGraph', nodes=['think'])"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_object_says_what_it_is(value: object, expected: str):
    assert repr(value) == expected


def test_a_path_and_the_size_of_pieces_are_shown(tmp_path: Path):
    assert repr(TraceStore(tmp_path / "t.db")) == f"TraceStore(path={str(tmp_path / 't.db')!r})"
    assert "chunk_size=7" in repr(RecursiveCharacterTextSplitter(chunk_size=7, chunk_overlap=0))


def test_what_may_be_secret_is_not_shown():
    class Connected:
        __repr__ = short_repr

        def __init__(self, conninfo: str, api_key: str, name: str) -> None:
            self.conninfo, self.api_key, self.name = conninfo, api_key, name

    assert repr(Connected("postgres://me:pw@host", "sk-1", "n")) == "Connected(name='n')"


def test_a_property_is_not_asked():
    class Lazy:
        __repr__ = short_repr

        def __init__(self, size: int = 0) -> None: ...

        @property
        def size(self) -> int:
            raise AssertionError("a repr opens nothing")

    assert repr(Lazy()) == "Lazy()"


def test_streams_and_runs_say_how_far_they_are():
    stream = FakeListChatModel(responses=["Hello"]).stream_v2("hi")
    next(iter(stream.text))
    assert repr(stream) == "<ChatModelStream so far: 'H' …>"
    assert stream.output.text == "Hello"
    assert repr(stream) == "<ChatModelStream so far: 'Hello'>"

    runs = RunCollectorCallbackHandler()
    RunnableLambda(str).with_config(run_name="text").invoke("x" * 9999, {"callbacks": [runs]})
    assert repr(runs.traced_runs[0]).startswith("Run('text', chain, 0.")
    assert len(repr(runs.traced_runs[0])) < 200


class Joke(BaseModel):
    """A joke."""

    text: str


def double(value: int) -> int:
    return value * 2


PROMPT = ChatPromptTemplate([("system", "You."), MessagesPlaceholder("history"), ("human", "{q}")])
MODEL = ChatOpenAI(model="gpt-5-mini", api_key="k")


@pytest.mark.parametrize(
    "value",
    [
        PROMPT,
        PROMPT | MODEL,
        (PROMPT | MODEL).get_graph(),
        MODEL.with_structured_output(Joke),
        MODEL.with_listeners(on_start=print),
        add,
        Tool("double", double, "Double."),
        RunnablePassthrough(double),
        PromptTemplate.from_template("{a}{b}").partial(a=lambda: "x"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_holds_functions_and_types_is_short_and_without_an_address(value: object):
    text = repr(value)
    assert "0x" not in text
    assert len(text) < 700


def test_a_function_and_a_schema_are_shown_by_name():
    expected = (
        "StructuredTool(name='add', description='Add two numbers.', args_schema=add, func=add)"
    )
    assert repr(add) == expected


def test_a_container_that_contains_itself_ends():
    knot: dict[str, object] = {}
    knot["knot"] = knot
    assert "knot" in repr(readable(knot))

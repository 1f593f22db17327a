"""Objects in a notebook: each is made in a real kernel and rendered by a real browser."""

from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests._display.conftest import Browse

CELLS: dict[str, tuple[str, list[str]]] = {
    "message": (
        """AIMessage("# Plan\\n\\nBuy **bread** and `milk`.\\n\\n| item | price |\\n|---|---|\\n| bread | 3 |",
                  usage_metadata={"input_tokens": 4, "output_tokens": 6, "total_tokens": 10})""",
        ["Plan", "Buy bread and milk.", "item", "4 + 6 tokens"],
    ),
    "picture": (
        """HumanMessage([{"type": "image", "mime_type": "image/png", "base64": "iVBORw0KGgo="},
                         {"type": "image", "url": "http://example.org/x.png"}])""",
        ["[image]"],
    ),
    "refusal": (
        """AIMessage([{"type": "refusal", "refusal": "I will not."}])""",
        ["refusal", "I will not."],
    ),
    "reasoning": (
        """AIMessage([{"type": "reasoning", "reasoning": "Let me think."}, {"type": "text", "text": "Yes."}])""",
        ["reasoning", "Yes."],
    ),
    "conversation": (
        """show([SystemMessage("Be kind."), HumanMessage("Hi"), AIMessage("Hello _there_")])""",
        ["system", "Be kind.", "human", "Hello there"],
    ),
    "agent's result": (
        """agent.invoke({"messages": [("human", "add 1 and 2")]})""",
        ["add", "3", "Three."],
    ),
    "history": (
        """history = InMemoryChatMessageHistory(); history.add_user_message("remember me"); history""",
        ["remember me"],
    ),
    "prompt": (
        """ChatPromptTemplate([("human", "Hi {name}")]).invoke({"name": "Ann"})""",
        ["Hi Ann"],
    ),
    "tool calls": (
        """AIMessage("", tool_calls=[{"name": "search", "args": {"query": "cats & dogs"}, "id": "c1"}])""",
        ["calls search", "query", "cats & dogs", "c1"],
    ),
    "one tool call": (
        """show({"name": "search", "args": {"query": "cats"}, "id": "c2", "type": "tool_call"})""",
        ["calls search", "cats"],
    ),
    "tool message": (
        """ToolMessage('{"a": 1}', tool_call_id="c1", name="search", status="error")""",
        ["tool · search", "error"],
    ),
    "document": (
        """Document("Some *text*", id="d7", metadata={"page": 3})""",
        ["document d7", "Some text", "metadata"],
    ),
    "documents": (
        """show([Document("first one"), Document("second one")])""",
        ["first one", "second one"],
    ),
    "agent": ("agent", ["helper", "scripted:scripted", "add", "Add two numbers.", "Be brief."]),
    "run": (
        """runs = RunCollectorCallbackHandler()
(RunnableLambda(lambda x: x + 1).with_config(run_name="plus") | RunnableLambda(str)).invoke(1, {"callbacks": [runs]})
runs.traced_runs[0]""",
        ["RunnableSequence", "plus", "inputs", "ms"],
    ),
    "traces": (
        """failing = RunnableLambda(lambda x: 1 / 0).with_config(run_name="divide")
try:
    failing.invoke(1, {"callbacks": [runs]})
except ZeroDivisionError:
    pass
runs""",
        ["plus", "divide", "failed", "division by zero"],
    ),
    "graph": ("""agent.get_graph()""", ["model", "tools"]),
    "compiled graph": (
        """builder = StateGraph(MessagesState); builder.add_node("think", lambda s: s); builder.add_edge(START, "think")
builder.compile()""",
        ["think"],
    ),
    "usage": (
        """with get_usage_metadata_callback() as usage:
    spent = {"input_tokens": 1000, "output_tokens": 24, "total_tokens": 1024}
    answer = AIMessage("x", usage_metadata=spent, response_metadata={"model_name": "tiny"})
    GenericFakeChatModel(messages=iter([answer])).invoke("hi")
usage""",
        ["tiny", "input tokens", "1,000", "1,024"],
    ),
    "stream so far": (
        """stream = FakeListChatModel(responses=["Hello **world**"]).stream_v2("hi")
events = iter(stream.text); next(events)
HTML(stream._repr_html_())""",
        ["H", "so far"],
    ),
    "stream": (
        """stream = FakeListChatModel(responses=["Hello **world** again"], sleep=0.03).stream_v2("hi")
display(stream)""",
        ["Hello world again"],
    ),
    "async stream": (
        """stream = await FakeListChatModel(responses=["Good **night** all"], sleep=0.03).astream_v2("hi")
display(stream)
_ = await stream""",
        ["Good night all"],
    ),
    "failed stream": (
        """broken = ["Half an ", Fail(ModelError("the wire broke"))]
display(ScriptedChatModel(script=[broken], retry_on_error=False).stream_v2("hi"))""",
        ["Half an", "ModelError", "the wire broke"],
    ),
}
SETUP = """\
from IPython.display import HTML, display
from foldline import *
from foldline.callbacks import get_usage_metadata_callback
from foldline.chat_history import InMemoryChatMessageHistory
from foldline.documents import Document
from foldline.exceptions import ModelError
from foldline.graph import START, MessagesState, StateGraph
from foldline.language_models import FakeListChatModel, GenericFakeChatModel
from foldline.notebook import show
from foldline.runnables import RunnableLambda
from foldline.testing import Call, Fail, ScriptedChatModel
from foldline.tracers.run_collector import RunCollectorCallbackHandler

%load_ext foldline.notebook

@tool
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b

model = ScriptedChatModel(script=[[Call("add", {"a": 1, "b": 2})], ["Three."]])
agent = create_agent(model, [add], name="helper", system_prompt="Be brief.")
"""


class CountingClient(NotebookClient):
    """Runs a notebook, and counts how often an output was renewed, by cell."""

    def process_message(self, msg: dict[str, Any], cell: Any, cell_index: int) -> Any:
        if msg["msg_type"] == "update_display_data":
            counts = self.__dict__.setdefault("renewed", {})
            counts[cell_index] = counts.get(cell_index, 0) + 1
        return super().process_message(msg, cell, cell_index)


@pytest.fixture(scope="module")
def notebook() -> CountingClient:
    sources = [SETUP, *(source for source, _ in CELLS.values())]
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    client = CountingClient(
        nbformat.v4.new_notebook(cells=cells), timeout=60, kernel_name="python3"
    )
    client.execute()
    return client


def html_of(client: CountingClient, name: str) -> str:
    cell = client.nb.cells[1 + list(CELLS).index(name)]
    data = [output["data"] for output in cell.outputs if "data" in output]
    return "".join(item.get("text/html") or item.get("image/svg+xml") or "" for item in data)


@pytest.fixture(scope="module")
def pages(notebook: CountingClient, browse: Browse) -> dict[str, str]:
    """The text of each cell, as one visit of the browser shows it."""
    document = "".join(f"<h1>@@{name}@@</h1>{html_of(notebook, name)}" for name in CELLS)
    parts = browse(document).split("@@")[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", CELLS)
def test_a_person_sees_the_words(name: str, pages: dict[str, str]):
    page = pages[name].replace("&amp;", "&")

    for text in CELLS[name][1]:
        assert text in page
    assert "object at 0x" not in page
    assert "**" not in page


@pytest.mark.slow
@pytest.mark.parametrize("name", ["stream", "async stream"])
def test_a_stream_is_drawn_while_it_is_read(name: str, notebook: CountingClient):
    renewed: dict[int, int] = notebook.__dict__["renewed"]

    assert renewed[1 + list(CELLS).index(name)] >= 3


@pytest.mark.slow
def test_nothing_that_is_shown_is_fetched_or_run(notebook: CountingClient):
    html = "".join(html_of(notebook, name) for name in CELLS).lower()

    assert "<script" not in html
    assert 'src="http' not in html

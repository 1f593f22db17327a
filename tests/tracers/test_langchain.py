"""`LangChainTracer` with LangSmith's real client, against an endpoint on this machine."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from langsmith import Client
from urllib3 import Retry

from foldline.agents import create_agent
from foldline.checkpoint import InMemorySaver
from foldline.messages import HumanMessage
from foldline.runnables import RunnableLambda
from foldline.testing import Call, ScriptedChatModel
from foldline.tools import tool
from foldline.tracers import LangChainTracer
from foldline.tracers._environment import langsmith_tracer, tracing_variable
from foldline.tracers.context import tracing_v2_enabled
from foldline.tracers.langchain import get_client, wait_for_all_tracers
from foldline.workflows import interrupt

INGEST = {
    "use_multipart_endpoint": False,
    "size_limit": 100,
    "size_limit_bytes": 20_000_000,
    "scale_up_nthreads_limit": 1,
    "scale_up_qsize_trigger": 1000,
    "scale_down_nempty_trigger": 4,
}
"""How this endpoint wants its runs: as one JSON, not in parts."""


class LangSmith:
    """Takes runs as LangSmith's endpoint does."""

    def __init__(self) -> None:
        self.posts: list[dict[str, Any]] = []
        self.patches: list[dict[str, Any]] = []
        self.keys: set[str | None] = set()
        self._clients: list[Client] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer({"version": "1", "batch_ingest_config": INGEST})

            def do_POST(self) -> None:
                server.keys.add(self.headers.get("x-api-key"))
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                server.posts += body.get("post", [])
                server.patches += body.get("patch", [])
                self._answer({})

            def _answer(self, value: Any) -> None:
                body = json.dumps(value).encode()
                self.send_response(200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        threading.Thread(target=self._http.serve_forever, args=[0.02], daemon=True).start()

    def client(self) -> Client:
        client = Client(self.url, api_key="ls-key", retry_config=Retry(0))
        self._clients.append(client)
        return client

    def runs(self) -> dict[str, dict[str, Any]]:
        """Return the fields of each run by its name: those of its start, updated by its end."""
        runs_by_id: dict[str, dict[str, Any]] = {}
        for part in (*self.posts, *self.patches):
            runs_by_id.setdefault(part["id"], {}).update(
                {key: value for key, value in part.items() if value is not None}
            )
        return {run["name"]: run for run in runs_by_id.values()}

    def stop(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def close_clients(self) -> None:
        """Wait until no client sends: one that tries again draws from `random`, which fails a property test."""
        for client in self._clients:
            client.close()


@pytest.fixture
def langsmith(monkeypatch: pytest.MonkeyPatch) -> Iterator[LangSmith]:
    for name in ("LANGSMITH_TRACING", "LANGCHAIN_TRACING_V2", "LANGSMITH_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    server = LangSmith()
    yield server
    server.close_clients()
    server.stop()


@tool
def shout(text: str) -> str:
    """Say it louder."""
    return text.upper() + "!"


def test_a_trace_arrives_whole_and_nested(langsmith: LangSmith, call: Any):
    tracer = LangChainTracer(project_name="demo", client=langsmith.client(), tags=["mine"])
    usage = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
    model = ScriptedChatModel(script=["Hello!"], usage=usage)
    ask = RunnableLambda(lambda x: [HumanMessage(x)]).with_config(run_name="ask")
    chain = (ask | model).with_config(run_name="chain")

    call.invoke(chain, "Hi", {"callbacks": [tracer], "metadata": {"user": "ann"}})
    call.invoke(shout, {"text": "hi"}, {"callbacks": [tracer]})
    tracer.wait_for_futures()

    runs = langsmith.runs()
    root, inner, tool_run = runs["chain"], runs["ScriptedChatModel"], runs["shout"]
    assert langsmith.keys == {"ls-key"}
    assert {run["session_name"] for run in runs.values()} == {"demo"}
    assert (inner["parent_run_id"], inner["trace_id"]) == (root["id"], root["id"])
    assert inner["dotted_order"].startswith(root["dotted_order"] + ".")
    assert [run["run_type"] for run in (root, inner, tool_run)] == ["chain", "llm", "tool"]
    assert "mine" in root["tags"]
    assert root["extra"]["metadata"]["user"] == "ann"
    assert (tool_run["inputs"], tool_run["outputs"]) == ({"text": "hi"}, {"output": "HI!"})
    assert all(run["end_time"] for run in runs.values())


def test_the_thread_of_the_config_and_questions_arrive(langsmith: LangSmith, call: Any):
    @tool
    def ask(question: str) -> str:
        """Ask a person."""
        return str(interrupt({"question": question}))

    tracer = LangChainTracer(client=langsmith.client())
    model = ScriptedChatModel(script=[[Call("ask", {"question": "Really?"})]])
    agent = create_agent(model, [ask], checkpointer=InMemorySaver(), name="asker")
    config: Any = {"configurable": {"thread_id": "t", "token": "x"}, "callbacks": [tracer]}

    call.invoke(agent, {"messages": "hi"}, config)
    tracer.wait_for_futures()

    root = langsmith.runs()["asker"]
    assert root["extra"]["metadata"]["thread_id"] == "t"
    assert "token" not in root["extra"]["metadata"]
    [question] = root["outputs"]["__interrupt__"]
    assert question["value"] == {"question": "Really?"}


def test_messages_are_written_as_langsmith_reads_them(langsmith: LangSmith, call: Any):
    tracer = LangChainTracer(client=langsmith.client())
    model = ScriptedChatModel(script=[[Call("shout", {"text": "hi"}, id="c1")]])

    call.invoke(model, "Hi", {"callbacks": [tracer]})
    tracer.wait_for_futures()

    run = langsmith.runs()["ScriptedChatModel"]
    (question,) = run["inputs"]["messages"][0]
    answer = run["outputs"]["generations"][0][0]["message"]
    assert question["id"] == ["langchain", "schema", "messages", "HumanMessage"]
    assert question["kwargs"]["content"] == "Hi"
    assert answer["id"][-1] == "AIMessage"
    assert answer["kwargs"]["tool_calls"][0]["args"] == {"text": "hi"}
    assert run["extra"]["metadata"]["ls_model_type"] == "chat"


def test_an_error_is_told_without_its_secrets(langsmith: LangSmith, call: Any):
    tracer = LangChainTracer(client=langsmith.client(), secrets=["my-own-secret"])

    def fail(x: str) -> str:
        raise ValueError(f"sk-abcdefghijklmnopqrstuv, {x}")

    with pytest.raises(ValueError, match="sk-"):
        call.invoke(RunnableLambda(fail), "my-own-secret", {"callbacks": [tracer]})
    tracer.wait_for_futures()

    run = langsmith.runs()["fail"]
    assert run["error"].startswith("ValueError('[redacted], [redacted]')")
    assert run["inputs"] == {"input": "[redacted]"}


def test_a_streamed_run_tells_its_first_token_and_its_sum(langsmith: LangSmith, call: Any):
    tracer = LangChainTracer(client=langsmith.client())

    call.stream(ScriptedChatModel(script=["Hello there!"]), "Hi", {"callbacks": [tracer]})
    tracer.wait_for_futures()

    run = langsmith.runs()["ScriptedChatModel"]
    names = [event["name"] for event in run["events"]]
    assert names == ["start", "new_token", "end"]
    assert run["outputs"]["generations"][0][0]["text"] == "Hello there!"


def test_a_block_can_be_traced(langsmith: LangSmith, call: Any):
    with tracing_v2_enabled("demo", client=langsmith.client()) as tracer:
        call.invoke(RunnableLambda(lambda x: x + 1).with_config(run_name="add"), 1)
    call.invoke(RunnableLambda(lambda x: x + 1).with_config(run_name="after"), 1)
    wait_for_all_tracers()

    assert list(langsmith.runs()) == ["add"]
    assert tracer.latest_run is not None
    assert tracer.latest_run.outputs == {"output": 2}


def test_an_endpoint_that_is_gone_disturbs_no_run(langsmith: LangSmith, call: Any, caplog: Any):
    tracer = LangChainTracer(client=langsmith.client())
    langsmith.stop()

    assert call.invoke(RunnableLambda(lambda x: x + 1), 1, {"callbacks": [tracer]}) == 2


@pytest.fixture
def switch(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    langsmith_tracer.cache_clear()
    yield monkeypatch
    langsmith_tracer.cache_clear()


@pytest.mark.parametrize("variable", ["LANGSMITH_TRACING", "LANGCHAIN_TRACING_V2"])
def test_the_environment_attaches_a_tracer_to_every_run(
    variable: str, langsmith: LangSmith, switch: pytest.MonkeyPatch, call: Any
):
    switch.setenv(variable, "true")
    switch.setattr("foldline.tracers.langchain._clients", [langsmith.client()])

    call.invoke(RunnableLambda(lambda x: x + 1).with_config(run_name="add"), 1)
    get_client().flush()

    assert list(langsmith.runs()) == ["add"]


def test_false_switches_it_off(switch: pytest.MonkeyPatch):
    switch.setenv("LANGSMITH_TRACING", "false")
    switch.setenv("LANGCHAIN_TRACING", "1")

    assert tracing_variable() is None
    assert langsmith_tracer() is None


def test_without_the_extra_the_switch_says_what_to_install():
    """In a process of its own, where `langsmith` cannot be imported."""
    program = textwrap.dedent("""
        import sys, warnings
        sys.modules["langsmith"] = None
        from foldline.runnables import RunnableLambda
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(2):
                print(RunnableLambda(lambda x: x + 1).invoke(1))
        print([str(warning.message) for warning in caught])
    """)
    environment = {"LANGSMITH_TRACING": "true", "PATH": ""}

    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True
    )

    assert result.stdout.splitlines() == [
        "2",
        "2",
        "['LANGSMITH_TRACING=true, but no run is traced: LangSmith is not installed: "
        'pip install "foldline[langsmith]"\']',
    ]

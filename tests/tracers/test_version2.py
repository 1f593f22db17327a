"""The trace file: what lists, searches and figures say is right."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from foldline import tracing
from foldline.callbacks import hooks
from foldline.language_models.fake_chat_models import GenericFakeChatModel
from foldline.load import dumpd
from foldline.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from foldline.output_parsers import StrOutputParser
from foldline.prompts import ChatPromptTemplate
from foldline.runnables import RunnableLambda
from foldline.tracers import SQLiteTracer, TraceStore
from foldline.tracers._open import open_tracer
from foldline.tracers._rows import dump_message
from foldline.utils._data_places import TracePlace

DATA = Path(__file__).parent / "data"
USAGE = {
    "input_tokens": 1_000_000,
    "output_tokens": 0,
    "total_tokens": 1_000_000,
    "input_token_details": {"cache_read": 0},
}
PROVIDER = {"model_provider": "openai", "model_name": "gpt-4o-mini"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "traces.db"


def chain(*answers: str) -> Any:
    messages = [
        AIMessage(text, usage_metadata=USAGE, response_metadata=PROVIDER) for text in answers
    ]
    prompt = ChatPromptTemplate([("system", "Be short."), ("human", "{question}")])
    return prompt | GenericFakeChatModel(messages=iter(messages)) | StrOutputParser()


def ask(place: TracePlace, question: str, answer: str, **metadata: Any) -> None:
    with open_tracer(place) as tracer:
        chain(answer).invoke(
            {"question": question}, {"callbacks": [tracer], "metadata": metadata, "tags": ["t"]}
        )


# -- the columns of a run


def test_a_run_knows_its_model_tokens_cost_session_and_first_words(path: Path):
    ask(path, "Why?", "Because.", session_id="s", thread_id="t", user_id="u")
    [trace] = TraceStore(path).find()

    assert trace.models == ["gpt-4o-mini"]
    assert (trace.input_tokens, trace.output_tokens, trace.cost) == (1_000_000, 0, 0.15)
    assert (trace.session_id, trace.thread_id, trace.user_id) == ("s", "t", "u")
    assert (trace.question, trace.answer) == ("Why?", "Because.")
    assert (trace.runs, trace.calls, trace.failed_runs) == (4, 1, 0)
    with sqlite3.connect(path) as connection:
        [(usage,)] = connection.execute("SELECT usage FROM foldline_runs WHERE usage IS NOT NULL")
    connection.close()
    assert json.loads(usage) == USAGE


def test_the_request_is_kept_as_it_was_sent_without_its_key(path: Path):
    from foldline.providers.openai import ChatOpenAI
    from foldline.transports import Request

    with SQLiteTracer(path) as tracer:
        model = ChatOpenAI(
            model="gpt-5-mini",
            api_key="sk-abcdefghijklmnopqrst",
            base_url="http://127.0.0.1:9/v1",
            max_retries=0,
        )
        with pytest.raises(Exception, match=r"127\.0\.0\.1"):
            model.invoke("hello", {"callbacks": [tracer]})
    [run] = TraceStore(path).recent()

    assert Request is not None
    assert run.request["url"] == "http://127.0.0.1:9/v1/chat/completions"
    assert run.request["body"]["messages"] == [{"role": "user", "content": "hello"}]
    assert "headers" not in run.request
    assert b"sk-abcdef" not in path.read_bytes()
    assert run.error_class == "ModelConnectionError"


@pytest.mark.parametrize(
    "message",
    [
        HumanMessage("x"),
        HumanMessage("x", name="ada", id="1"),
        SystemMessage("s", additional_kwargs={"a": 1}),
        AIMessage(""),
        AIMessage("y", usage_metadata=USAGE, response_metadata=PROVIDER, id="i"),
        AIMessage("", tool_calls=[{"name": "f", "args": {"lc": 1}, "id": "c"}]),
        AIMessage([{"type": "text", "text": "z"}]),
        ToolMessage("r", tool_call_id="c"),
        ToolMessage("r", tool_call_id="c", status="error", artifact={"n": 1}),
    ],
    ids=lambda message: type(message).__name__,
)
def test_the_quick_dump_of_a_message_is_the_dump(message: Any):
    assert dump_message(message) == dumpd(message)


def test_a_hook_sees_everything_before_it_is_written(path: Path):
    def redact(run: dict[str, Any]) -> dict[str, Any] | None:
        if run.get("name") == "secret":
            return None
        text = json.dumps(run).replace("Ada", "[a person]")
        return json.loads(text)

    with SQLiteTracer(path, redact=redact) as tracer:
        step = RunnableLambda(lambda x: x, name="open")
        step.invoke({"question": "Who is Ada?"}, {"callbacks": [tracer], "tags": ["Ada"]})
        RunnableLambda(lambda x: x, name="secret").invoke("Ada", {"callbacks": [tracer]})
    [run] = TraceStore(path).recent()

    assert run.inputs == {"question": "Who is [a person]?"}
    assert run.question == "Who is [a person]?"
    assert all(b"Who is Ada" not in file.read_bytes() for file in path.parent.iterdir())


def test_the_file_is_its_owners(path: Path):
    ask(path, "a", "b")

    assert stat.S_IMODE(path.stat().st_mode) == 0o600


# -- without a change to the code


PROGRAM = """
from foldline.runnables import RunnableLambda
print(RunnableLambda(lambda x: x + 1, name="add").invoke(1))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("value", "file"), [("1", "traces.db"), ("mine/t.db", "mine/t.db"), ("0", None), ("", None)]
)
def test_a_variable_turns_tracing_on(tmp_path: Path, value: str, file: str | None):
    location = str(tmp_path / value) if "/" in value else value
    env = {**os.environ, "FOLDLINE_DATA_DIR": str(tmp_path), "FOLDLINE_TRACES": location}
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True
    )

    assert (result.stdout, result.stderr) == ("2\n", "")
    if file is None:
        assert list(tmp_path.iterdir()) == []
    else:
        assert [run.name for run in TraceStore(tmp_path / file).recent()] == ["add"]


def test_a_file_that_cannot_be_written_is_told_and_the_program_goes_on(tmp_path: Path):
    (tmp_path / "notes.txt").write_text("hello " * 1000)
    env = {**os.environ, "FOLDLINE_TRACES": str(tmp_path / "notes.txt")}
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True
    )

    assert result.stdout == "2\n"
    assert "FOLDLINE_TRACES is set, but no run is traced" in result.stderr


def test_tracing_is_enabled_and_disabled(call: Any, path: Path):
    step = RunnableLambda(lambda x: x, name="step")
    tracer = tracing.enable(path)
    assert tracing.enable(path) is tracer
    assert tracing.is_enabled()
    call.invoke(step, 1)
    tracing.flush()
    assert len(TraceStore(path).recent()) == 1
    tracing.disable()
    call.invoke(step, 2)

    assert len(TraceStore(path).recent()) == 1
    assert tracer not in hooks.EVERYWHERE

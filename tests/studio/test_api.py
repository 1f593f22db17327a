"""The JSON API: lists, traces, figures, the playground, threads, datasets."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from foldline.agents import create_agent
from foldline.checkpoint import InMemorySaver
from foldline.load import loads
from foldline.runnables import RunnableLambda
from foldline.testing import Call, ScriptedChatModel
from foldline.tools import tool
from foldline.tracers import SQLiteTracer, TraceStore
from foldline.workflows import interrupt


def events(answer: Any) -> list[tuple[str, Any]]:
    parsed_events = []
    for piece in answer.text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in piece.splitlines() if ": " in line)
        if "event" in lines:
            parsed_events.append((lines["event"], json.loads(lines["data"])))
    return parsed_events


def test_traces_are_listed_found_and_opened(studio: Any):
    listing = studio.get("traces?limit=5")
    assert len(listing["traces"]) == 5
    assert listing["total"] > 60
    traces = studio.get("traces?q=weather+Kyoto")["traces"]
    assert [trace["question"] for trace in traces] == ["What is the weather in Kyoto?"]
    trace = studio.get(f"traces/{traces[0]['id']}")
    kinds = [(run["run_type"], run["depth"]) for run in trace["runs"]]
    assert ("tool", 2) in kinds
    call = next(run for run in trace["runs"] if run["run_type"] == "llm")
    content = studio.get(f"runs/{call['id']}")
    blocks = [block["type"] for block in content["answers"][0]["blocks"]]
    assert blocks == ["reasoning", "tool_call"]
    assert {trace["error_class"] for trace in studio.get("traces?errors=1")["traces"]} >= {
        "ModelRateLimitError"
    }
    assert studio.get("traces?model=gpt-4o-mini&limit=1")["total"] == 20
    assert "ada" in studio.get("choices")["users"]


def test_partial_output_of_a_failed_run_is_there(studio: Any):
    [failed] = [
        trace
        for trace in studio.get("traces?errors=1")["traces"]
        if trace["error_class"] == "ModelRateLimitError"
    ]
    content = studio.get(f"runs/{failed['id']}")

    assert content["answers"][0]["blocks"][0]["text"].startswith("The beginning of an")
    assert "slow down" in content["error"]


def test_figures_scores_exports_and_deletion(studio: Any):
    figures = studio.get("figures?steps=10")["figures"]
    assert len(figures) == 10
    assert sum(step["calls"] for step in figures) > 10
    trace = studio.get("traces?limit=1")["traces"][0]
    studio.post(f"runs/{trace['id']}/scores", {"name": "thumb", "value": 1})
    assert studio.get(f"traces/{trace['id']}")["trace"]["scores"]["thumb"] == 1
    with studio.client() as client:
        assert client.post(f"/api/runs/{trace['id']}/scores", json={"name": ""}).status_code == 400
        for form in ("otel", "jsonl"):
            exported = client.get(f"/api/traces/{trace['id']}/export", params={"form": form})
            assert all(json.loads(line) for line in exported.text.splitlines())
        assert client.get(f"/api/traces/{trace['id']}/export?form=pdf").status_code == 400
        assert client.delete(f"/api/traces/{trace['id']}").json()["deleted"] >= 1
        assert client.get(f"/api/traces/{trace['id']}").status_code == 404


def test_figures_by_model_and_in_all_are_the_same(studio: Any):
    models = studio.get("figures/models?since=1")["models"]
    steps = studio.get("figures?since=1&steps=3")["figures"]

    assert {"gpt-5-mini", "gpt-4o-mini", "claude-sonnet-4-5"} <= {row["model"] for row in models}
    assert [row["calls"] for row in models] == sorted(
        (row["calls"] for row in models), reverse=True
    )
    for name in ("calls", "errors", "input_tokens", "output_tokens"):
        assert sum(row[name] for row in models) == sum(step[name] for step in steps) >= 1
    assert all(row["p50"] <= row["p95"] for row in models)


def test_a_list_without_its_total_is_counted_apart(studio: Any):
    assert "total" not in studio.get("traces?total=0&limit=5")
    assert studio.get("traces/count")["total"] == studio.get("traces?limit=1")["total"]
    assert studio.get("traces/count?q=weather+Kyoto")["total"] == 1


def test_live_goes_on_after_a_place(studio: Any):
    place = studio.get("traces?limit=1")["place"]
    for number in range(2):
        with SQLiteTracer(studio.folder / "traces.db") as tracer:
            step = RunnableLambda(lambda x: x, name=f"fresh {number}")
            step.invoke("hello", {"callbacks": [tracer]})
        if number == 0:
            later = studio.get("traces?limit=1")["place"]

    def first_names(query: str = "", **headers: str) -> list[str]:
        with (
            studio.client(**headers) as client,
            client.stream("GET", f"/api/live{query}") as answer,
        ):
            data = (line for line in answer.iter_lines() if line.startswith("data:"))
            update = next(line for line in data if "traces" in line)
        return [trace["name"] for trace in json.loads(update.removeprefix("data: "))["traces"]]

    assert first_names(f"?after={place}") == ["fresh 1", "fresh 0"]
    assert first_names(f"?after={place}", **{"last-event-id": str(later)}) == ["fresh 1"]


@pytest.mark.parametrize("query", ["limit=-1", "limit=x", "since=never", "offset=-5"])
def test_a_wrong_query_is_a_sentence(studio: Any, query: str):
    with studio.client() as client:
        answer = client.get(f"/api/traces?{query}")
    assert answer.status_code == 400
    assert answer.json()["error"]


def test_live_tells_of_runs_as_they_happen(studio: Any):
    with studio.client() as client, client.stream("GET", "/api/live") as answer:
        lines = answer.iter_lines()
        assert next(lines) == "event: hello"
        time.sleep(0.6)
        with SQLiteTracer(studio.folder / "traces.db") as tracer:
            RunnableLambda(lambda x: x, name="fresh").invoke("hello", {"callbacks": [tracer]})
        data = next(line for line in lines if line.startswith("data:") and "fresh" in line)
    sent_events = json.loads(data.removeprefix("data: "))

    assert [event["name"] for event in sent_events["traces"]] == ["fresh"]


def test_the_playground_streams_and_its_runs_are_traced(studio: Any):
    body = {"model": "fake:plain", "messages": [{"role": "user", "content": "hi"}]}
    with studio.client() as client:
        sent_events = events(client.post("/api/chat", json=body))
        assert (
            "".join(data for name, data in sent_events if name == "text") == "A **short** answer."
        )
        assert sent_events[-1][0] == "end"
        tools = events(
            client.post("/api/chat", json={**body, "model": "fake:tools", "tools": ["add"]})
        )
        call = tools[-1][1]["message"]["blocks"][-1]
        assert (call["name"], call["args"]) == ("add", {"a": 1, "b": 2})
        result = client.post("/api/tools/add", json={"id": "c", "args": call["args"]}).json()
        assert result["message"]["blocks"] == [{"type": "text", "text": "3"}]
        for wrong_body in (
            {**body, "messages": []},
            {**body, "tools": ["rm"]},
            {**body, "parameters": {"base_url": "http://evil.example"}},
            {**body, "parameters": {"api_key": "x"}},
        ):
            assert client.post("/api/chat", json=wrong_body).status_code == 400
        assert client.post("/api/tools/none", json={}).status_code == 404
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if studio.get("traces?tag=playground")["total"] >= 2:
            break
        time.sleep(0.1)
    assert studio.get("traces?tag=playground")["total"] >= 2


def test_real_models_are_named_by_provider_and_nothing_else(start: Any, tmp_path: Path):
    studio = start(make_model=None, models=())
    assert "local:smollm2" in studio.get("models")["models"]
    body = {"messages": [{"role": "user", "content": "hi"}]}
    with studio.client() as client:
        for model in ("", "none:x", "local:/etc/passwd", "../x", "py:os:system"):
            answer = client.post("/api/chat", json={**body, "model": model})
            assert answer.status_code == 400, model


@pytest.mark.parametrize("form", ["python", "pytest", "prompt"])
def test_the_playground_is_saved_as_a_file_that_runs(studio: Any, tmp_path: Path, form: str):
    text = 'say "hi" {name} \\ \n\'\'\' """'
    state = {
        "form": form,
        "model": "fake:plain",
        "messages": [
            {"role": "system", "content": "Be {short}."},
            {"role": "user", "content": text},
        ],
        "parameters": {"temperature": 0.5, "x; import os": 1},
        "answer": text,
    }
    with studio.client() as client:
        code = client.post("/api/code", json=state).text
    if form == "prompt":
        prompt = loads(code)
        assert [message.content for message in prompt.invoke({}).to_messages()] == [
            "Be {short}.",
            text,
        ]
        return
    compile(code, "written.py", "exec")
    assert "import os" not in code
    stub = (
        "import foldline.chat_models as m\nfrom foldline.testing import ScriptedChatModel\n"
        "m.init_chat_model = lambda name, **options: ScriptedChatModel(script=['fine'])\n"
    )
    program = stub + code + ("\ntest_the_answer()\n" if form == "pytest" else "")
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout == ("fine\n" if form == "python" else "")


def test_conversations_are_listed_shown_and_deleted(studio: Any):
    assert [session["name"] for session in studio.get("sessions")["sessions"]] == ["holiday plans"]
    messages = studio.get("sessions/holiday%20plans")["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant"] * 2
    with studio.client() as client:
        assert client.delete("/api/sessions/none").status_code == 404
        assert client.delete("/api/sessions/holiday%20plans").status_code == 200
    assert studio.get("sessions")["sessions"] == []


@tool
def book(city: str) -> str:
    """Book a trip, when a person agrees."""
    return f"{city}: {interrupt(f'Book {city}?')}"


def asking_agent() -> Any:
    script = [[Call("book", {"city": "Rome"})], "Done.", "And again."]
    return create_agent(ScriptedChatModel(script=script), [book], checkpointer=InMemorySaver())


def test_an_interrupt_is_answered_from_the_page(start: Any):
    agent = asking_agent()
    agent.invoke({"messages": "Book Rome"}, {"configurable": {"thread_id": "trip"}})
    studio = start(apps={"booker": agent})

    newest = studio.get("threads/booker/trip")["checkpoints"][0]
    assert [interrupt["value"] for interrupt in newest["interrupts"]] == ["Book Rome?"]
    after = studio.post("threads/booker/trip/resume", {"resume": "yes"})["checkpoint"]
    assert after["interrupts"] == []
    assert [message["role"] for message in after["messages"]] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert "Rome: yes" in json.dumps(after["messages"])
    checkpoint = studio.post("threads/booker/trip/resume", {"message": "more"})["checkpoint"]
    assert checkpoint["messages"][-1]["blocks"][0]["text"] == "And again."
    assert len(studio.get("threads/booker/trip")["checkpoints"]) > 3
    with studio.client() as client:
        assert client.get("/api/threads/nobody/trip").status_code == 404
        assert client.post("/api/threads/booker/trip/resume", json={}).status_code == 400


def test_a_run_becomes_a_case_and_models_are_scored_beside_each_other(studio: Any):
    trace = studio.get("traces?q=scatters")["traces"][0]
    studio.post("datasets/sky/cases", {"run_id": trace["id"]})
    studio.post(
        "datasets/sky/cases",
        {"messages": [{"role": "user", "content": "hi"}], "expected": "A **short** answer."},
    )
    with studio.client() as client:
        for model in ("fake:plain", "fake:other"):
            sent_events = events(client.post("/api/datasets/sky/run", json={"model": model}))
            assert [name for name, _ in sent_events][-1] == "end"
        assert (
            client.post("/api/datasets/none/run", json={"model": "fake:plain"}).status_code == 404
        )
    dataset = studio.get("datasets/sky")
    assert dataset["models"] == ["fake:other", "fake:plain"]
    assert dataset["cases"][0]["expected"].startswith("Because air")
    assert dataset["cases"][1]["results"]["fake:plain"]["scores"] == {"equal": 1.0, "words": 1.0}
    assert dataset["cases"][1]["results"]["fake:other"]["scores"]["equal"] == 0.0
    assert studio.get("datasets")["datasets"][0]["cases"] == 2
    with studio.client() as client:
        client.delete(f"/api/datasets/sky/cases/{dataset['cases'][0]['id']}")
        assert len(studio.get("datasets/sky")["cases"]) == 1
        client.delete("/api/datasets/sky")
        assert client.get("/api/datasets/sky").status_code == 404


def test_a_studio_without_any_file_is_empty(start: Any):
    studio = start()

    assert studio.get("traces") == {"traces": [], "place": 0, "total": 0}
    assert studio.get("figures")["figures"] == []
    assert studio.get("sessions")["sessions"] == studio.get("datasets")["datasets"] == []
    assert not (studio.folder / "traces.db").exists()


def test_it_is_mounted_into_another_app(tmp_path: Path):
    from starlette.applications import Starlette
    from starlette.routing import Mount
    from starlette.testclient import TestClient

    from foldline.studio import create_app

    inner = create_app(
        traces=tmp_path / "t.db",
        authorize=lambda request: request.headers.get("x-key") == "ours",
        hosts=("testserver",),
    )
    with TestClient(Starlette(routes=[Mount("/studio", inner)])) as client:
        assert client.get("/studio/api/info").status_code == 401
        assert client.get("/studio/api/info", headers={"x-key": "ours"}).status_code == 200
        page = client.get("/studio/", headers={"x-key": "ours"}).text
        assert 'src="./assets/' in page


def test_a_file_of_version_1_is_shown(start: Any, tmp_path: Path):
    import sqlite3

    script = Path(__file__).parents[1] / "tracers" / "data" / "version1.sql"
    connection = sqlite3.connect(tmp_path / "traces.db")
    connection.executescript(script.read_text(encoding="utf-8"))
    connection.close()
    studio = start()

    assert studio.get("traces?q=scattered")["traces"][0]["question"] == "Why is the sky blue?"
    assert len(TraceStore(tmp_path / "traces.db").recent()) == 2

"""Where traces may be: a PostgreSQL database, and a file that may only be read."""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from foldline.exceptions import StoreError
from foldline.tracers import TraceStore
from foldline.tracers.store import TraceFilters
from tests.read_only import open_folder, reading_only
from tests.servers.databases import postgres_server, postgres_url
from tests.studio.test_page import until
from tests.tracers.test_schema import restore
from tests.tracers.test_version2 import ask

__all__ = ["open_folder", "postgres_server", "postgres_url"]


@pytest.mark.slow
def test_a_database_is_listed_searched_scored_and_forgotten(start: Any, postgres_url: str):
    studio = start(traces=postgres_url.replace("@", ":a-password@"))
    assert studio.get("info")["is_there"] is False
    assert studio.get("traces") == {"traces": [], "place": 0, "total": 0}
    ask(postgres_url, "Why is the sky blue?", "Light is scattered.", thread_id="t", user_id="ada")
    ask(postgres_url, "And the sea?", "It mirrors.", thread_id="t")

    info = studio.get("info")
    listing = studio.get("traces")
    [entry] = studio.get("traces?q=scatt")["traces"]
    trace = studio.get(f"traces/{entry['id']}")
    call = next(run for run in trace["runs"] if run["run_type"] == "llm")
    content = studio.get(f"runs/{call['id']}")
    studio.post(f"runs/{call['id']}/scores", {"name": "thumb", "value": 1})

    assert info["is_there"] is True
    assert info["problem"] is None
    assert info["file"] == f"PostgreSQL: {postgres_url.rpartition('/')[2]}"
    assert listing["total"] == 2
    assert entry["question"] == "Why is the sky blue?"
    assert content["answers"][0]["blocks"] == [{"type": "text", "text": "Light is scattered."}]
    assert studio.get("choices")["users"] == ["ada"]
    assert studio.get("threads")["threads"][0]["traces"] == 2
    assert sum(step["calls"] for step in studio.get("figures")["figures"]) == 2
    assert studio.get(f"traces/{entry['id']}")["trace"]["scores"] == {"thumb": 1}
    with studio.client() as client:
        messages = [{"role": "user", "content": "hi"}]
        client.post("/api/chat", json={"model": "fake:plain", "messages": messages})
    deadline = time.monotonic() + 10
    while studio.get("traces")["total"] < 3 and time.monotonic() < deadline:
        time.sleep(0.1)
    with studio.client() as client:
        assert client.delete(f"/api/traces/{entry['id']}").json()["deleted"] == 4
        text = "".join(client.get(f"/api/{name}").text for name in ("info", "traces"))
    assert studio.get("traces")["total"] == 2
    assert "a-password" not in text


def test_a_database_that_is_gone_is_a_sentence(start: Any):
    studio = start(traces="postgresql://ada:a-password@127.0.0.1:9/traces")
    info = studio.get("info")
    with studio.client() as client:
        answer = client.get("/api/traces")

    assert "refused" in info["problem"]
    assert answer.status_code == 409
    assert "a-password" not in info["problem"] + answer.text


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_runs_of_a_database_appear_in_the_page(start: Any, open_page: Any, postgres_url: str):
    ask(postgres_url, "Why is the sky blue?", "Light is scattered.")
    page = open_page(start(traces=postgres_url))
    page.wait_for_selector("text=Why is the sky blue?")
    page.wait_for_timeout(700)
    ask(postgres_url, "A question of this minute", "Yes.")

    page.wait_for_selector("text=A question of this minute", timeout=5_000)
    page.fill(".search", "scattered")
    until(lambda: page.inner_text(".total") == "1 trace")


# -- a file that may only be read


def test_a_file_that_may_only_be_read_is_listed_and_searched(open_folder: Path):
    path = open_folder / "traces.db"
    ask(path, "Why is the sky blue?", "Light is scattered.")
    store = TraceStore(path)

    with reading_only(open_folder):
        assert [trace.question for trace in store.find()] == ["Why is the sky blue?"]
        assert store.count(TraceFilters(text="scattered")) == 1
        assert store.trace(store.recent()[0].id) is not None
        assert sum(step["calls"] for step in store.figures(0, time.time(), time.time())) == 1
        with pytest.raises(StoreError, match="readonly"):
            store.delete(before=time.time())


def test_an_old_file_that_may_only_be_read_is_told(open_folder: Path):
    path = open_folder / "traces.db"
    restore("version1", path)

    with (
        reading_only(open_folder),
        pytest.raises(StoreError, match=r"traces.db.*readonly.*may be written"),
    ):
        TraceStore(path).find()


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_read_only_file_is_shown_in_the_page(
    start: Callable[..., Any], open_page: Any, example_folder: Path, open_folder: Path
):
    for name in ("traces.db", "datasets.db", "threads.db"):
        shutil.copy(example_folder / name, open_folder / name)
    connection = sqlite3.connect(open_folder / "traces.db")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    studio = start(open_folder)

    with reading_only(open_folder):
        page = open_page(studio)
        page.wait_for_selector(".row .question")
        page.fill(".search", "kyoto")
        until(lambda: page.inner_text(".total") == "1 trace")
        page.click(".row .question")
        page.wait_for_selector(".message.user")
        with studio.client() as client:
            trace = client.get("/api/traces?limit=1").json()["traces"][0]["id"]
            answer = client.post(f"/api/runs/{trace}/scores", json={"name": "thumb", "value": 1})
    assert answer.status_code == 409
    assert "readonly" in answer.json()["error"]
    assert str(open_folder) not in answer.text

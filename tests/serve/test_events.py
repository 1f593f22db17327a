"""Events of the log: encoded once, cut out of rows without being parsed, and parsed only by views that need them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from foldline.runnables import RunnableLambda
from foldline.serve import create_app
from foldline.serve._event_reader import ChatReader
from foldline.serve._keys import Caller
from foldline.serve._log.events import (
    EncodedEvent,
    decode_event,
    encode_event,
    join_events,
    method_of,
    split_events,
)
from foldline.serve._log.records import EventsToKeep, RunRecord, make_event
from foldline.serve._log.run_log import ServerLog
from foldline.serve.apps import RunRequest
from foldline.testing import ScriptedChatModel
from tests.servers.databases import postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url"]

TEXTS = ["plain", "new\nline", ",\n", "\u2028", "\x00", "é", '"', "]", "\\ud83d"]
EVENTS = [make_event("chunk", text, 1) for text in TEXTS]


@pytest.fixture(params=["file", "postgres"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    url = request.param == "postgres" and request.getfixturevalue("postgres_url")
    log = ServerLog(url or str(tmp_path / "log.db"))
    yield log
    log.close()


def keep(log: ServerLog, events: list[EncodedEvent]) -> None:
    run = RunRecord("r", "ada", "app", "wire", "t", "running", 1.0, log.worker, None)
    log.keep([EventsToKeep(run, 1, events, is_new=True)])


def test_S60_readers_of_a_run_get_the_bytes_that_were_encoded_when_it_emitted_them(tmp_path: Path):
    async def main() -> tuple[list[EncodedEvent], list[Any], list[Any]]:
        app = create_app(
            {"chat": ScriptedChatModel(script=["Hello, you."])}, log=str(tmp_path / "l")
        )
        async with app.router.lifespan_context(app):
            host = app.server.host
            chat = app.server.apps["chat"]
            run = await host.start(Caller(""), chat, RunRequest("hi"), wire="native")
            live = [item async for batch in run.follow(0, None) for item in batch]
            return run.events, live, host.log.events(run.info.id, 0)

    events, live, logged = asyncio.run(main())

    assert all(event is shown for event, (_, shown) in zip(events, live, strict=True))
    assert logged == live
    assert len(events) > 5


def test_S60_events_come_out_of_the_log_as_they_were_encoded(log: ServerLog):
    events = [encode_event(event) for event in EVENTS]
    keep(log, events)

    assert log.events("r", 0) == list(enumerate(events, 1))
    assert log.events("r", 3) == list(enumerate(events[3:], 4))
    assert [decode_event(event) for event in events] == EVENTS
    (row,) = log.database.rows("SELECT data FROM serve_events")
    assert json.loads(row[0]) == EVENTS  # as workers of the previous version read it


@pytest.mark.parametrize("count", [1, 2, len(EVENTS)])
def test_S60_rows_of_older_versions_have_their_events_on_one_line(count: int):
    row = json.dumps(EVENTS[:count], separators=(",", ":"))

    assert [decode_event(event) for event in split_events(row, count)] == EVENTS[:count]


def test_S60_rows_are_cut_into_events_without_being_parsed():
    parts = [b'{"method":"a",%d' % number for number in range(3)]  # no JSON

    assert split_events(join_events(parts), 3) == parts
    assert split_events(join_events(parts[:1]), 1) == parts[:1]


def test_S60_a_view_does_not_parse_events_of_methods_that_it_does_not_show():
    reader = ChatReader()

    assert list(reader.read(b'{"method":"values","params":')) == []
    assert method_of(b'{"method":"checkpoints","params":') == b"checkpoints"


def test_S60_halves_of_characters_and_objects_are_kept_and_come_back():
    half = encode_event(make_event("chunk", "a\ud83d", 1))
    unknown = encode_event(make_event("custom", {"place": Path("x")} | {"half": "\ud83d"}, 1))

    assert decode_event(half)["params"]["data"] == "a\ud83d"
    assert decode_event(unknown)["params"]["data"]["place"] == "x"


@pytest.mark.parametrize("text", ["a\u2028b\u0085c", "a\ud83db", "\\ud83d"])
def test_S60_S51_events_of_a_run_are_one_line_of_json_for_every_client(text: str):
    async def main() -> tuple[str, list[Any]]:
        app = create_app({"echo": RunnableLambda(lambda _: text)}, studio=False)
        transport = httpx.ASGITransport(app=app)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://localhost") as client,
        ):
            body = {"app": "echo", "input": "hi", "stream": True}
            answer = await client.post("/runs", json=body)
            id = answer.headers["location"].split("/")[2]
            return answer.text, app.server.host.log.events(id, 0)

    answer, logged = asyncio.run(main())

    lines = [line.removeprefix("data: ") for line in answer.splitlines() if line.startswith("data")]
    shown = [json.loads(line) for line in lines]
    (chunk,) = [event["params"]["data"] for event in shown if event["method"] == "chunk"]
    assert chunk == text.encode("utf-8", "replace").decode()
    assert [event["seq"] for event in shown] == [seq for seq, _ in logged]
    assert all(list(event)[:3] == ["type", "seq", "method"] for event in shown)

"""The same tests for all four histories, the stored ones on real servers."""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from foldline.chat_history import (
    BaseChatMessageHistory,
    InMemoryChatMessageHistory,
    PostgresChatMessageHistory,
    RedisChatMessageHistory,
    SQLiteChatMessageHistory,
)
from foldline.exceptions import StoreError, UsageError
from foldline.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from tests.servers.databases import Server, wait_until

pytestmark = pytest.mark.timing

Open = Callable[[str], BaseChatMessageHistory]
STORED = ["sqlite", "postgres", "redis"]


def opener(kind: str, request: pytest.FixtureRequest) -> Open:
    if kind == "sqlite":
        path = request.getfixturevalue("tmp_path") / "chats.db"
        return lambda session: SQLiteChatMessageHistory(session, path)
    if kind == "postgres":
        url = request.getfixturevalue("postgres_server").url
        return lambda session: PostgresChatMessageHistory(session, url)
    url = request.getfixturevalue("redis_server").url
    return lambda session: RedisChatMessageHistory(session, url)


@pytest.fixture(params=STORED)
def open_session(request: pytest.FixtureRequest) -> Open:
    return opener(request.param, request)


@pytest.fixture(params=["memory", *STORED])
def history(request: pytest.FixtureRequest) -> BaseChatMessageHistory:
    if request.param == "memory":
        return InMemoryChatMessageHistory()
    chat_history = opener(request.param, request)(f"session of {request.node.name}")
    chat_history.clear()
    return chat_history


CONVERSATION = [
    HumanMessage(content="hi", id="1"),
    AIMessage(
        content=[{"type": "text", "text": "a \ud800 half"}],
        tool_calls=[{"name": "f", "args": {"x": 2**70, "y": None}, "id": "c"}],
        usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
    ),
    ToolMessage(
        content="done",
        tool_call_id="c",
        artifact={"lc": 1, "type": "constructor", "id": ["os", "system"]},
    ),
]


def test_messages_come_back_equal_and_in_order(history: BaseChatMessageHistory) -> None:
    history.add_messages(CONVERSATION[:1])
    history.add_messages(CONVERSATION[1:])

    assert history.messages == CONVERSATION


def test_the_async_twins_do_the_same(history: BaseChatMessageHistory) -> None:
    async def talk() -> list[object]:
        await history.aadd_messages(CONVERSATION)
        before = list(await history.aget_messages())
        await history.aclear()
        return [before, await history.aget_messages()]

    assert asyncio.run(talk()) == [CONVERSATION, []]


def test_the_oldest_messages_are_dropped(history: BaseChatMessageHistory) -> None:
    history.add_messages([HumanMessage(content=str(number)) for number in range(6)])

    history.drop_oldest(2)
    asyncio.run(history.adrop_oldest(1))

    assert [message.text for message in history.messages] == ["3", "4", "5"]
    history.drop_oldest(99)
    assert history.messages == []


class Foreign(BaseChatMessageHistory):
    """A history whose author uses only LangChain's methods."""

    def __init__(self) -> None:
        self.messages = [HumanMessage(content=str(number)) for number in range(4)]

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        self.messages = [*self.messages, *messages]

    def clear(self) -> None:
        self.messages = []


def test_the_oldest_messages_of_an_authors_history_are_dropped() -> None:
    history = Foreign()

    history.drop_oldest(1)
    asyncio.run(history.adrop_oldest(2))

    assert [message.text for message in history.messages] == ["3"]


def test_clear_forgets_one_conversation_only(open_session: Open) -> None:
    first, other = open_session("one"), open_session("other")
    first.clear()
    other.clear()
    first.add_user_message("mine")
    other.add_user_message("theirs")

    first.clear()

    assert first.messages == []
    assert [message.text for message in other.messages] == ["theirs"]


def test_F_K05_hostile_sessions_see_only_their_own_rows(open_session: Open) -> None:
    sessions = [
        "a",
        "a'; DROP TABLE messages; --",
        "%",
        "_",
        "a*",
        "a\0b",
        "a\\0b",
        "\ud800",
        "\\ud800",
        "é" * 300,
    ]
    for session in sessions:
        open_session(session).clear()
    for session in sessions:
        open_session(session).add_user_message(f"of {session!r}")

    for session in sessions:
        assert [message.text for message in open_session(session).messages] == [f"of {session!r}"]


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(texts=st.lists(st.text(), min_size=1, max_size=4), session=st.text(min_size=1, max_size=20))
def test_any_text_in_any_session_is_kept_exactly(
    open_session: Open, texts: list[str], session: str
) -> None:
    history = open_session(session)
    history.clear()
    history.add_messages([HumanMessage(content=text) for text in texts])

    assert [message.content for message in open_session(session).messages] == texts


def test_F_K04_two_writers_keep_order_and_lose_nothing(open_session: Open) -> None:
    open_session("shared").clear()

    def write(name: str) -> None:
        history = open_session("shared")
        for number in range(30):
            history.add_messages(
                [
                    HumanMessage(content=f"{name} {number} a"),
                    AIMessage(content=f"{name} {number} b"),
                ]
            )

    threads = [threading.Thread(target=write, args=(name,)) for name in "xyz"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    contents = [str(message.content) for message in open_session("shared").messages]
    assert len(contents) == 180
    assert all(contents[place][:-1] == contents[place + 1][:-1] for place in range(0, 180, 2)), (
        "an append was torn apart"
    )
    for name in "xyz":
        assert [text for text in contents if text.startswith(name)] == [
            f"{name} {number} {half}" for number in range(30) for half in "ab"
        ]


def test_an_empty_session_is_refused(open_session: Open) -> None:
    with pytest.raises(UsageError, match="session_id"):
        open_session("")


KILLED = """
import sys
from foldline.chat_history import *
from foldline.messages import HumanMessage
history = {make}
for number in range(10000):
    history.add_messages([HumanMessage(content=f"{{number}} a"), HumanMessage(content=f"{{number}} b")])
    print(number, flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", STORED)
def test_F_K01_nothing_acknowledged_is_lost_when_the_process_is_killed(
    kind: str, request: pytest.FixtureRequest
) -> None:
    open_history = opener(kind, request)
    history = open_history("killed")
    history.clear()
    if kind == "sqlite":
        make = f"SQLiteChatMessageHistory('killed', {str(request.getfixturevalue('tmp_path') / 'chats.db')!r})"
    elif kind == "postgres":
        make = f"PostgresChatMessageHistory('killed', {request.getfixturevalue('postgres_server').url!r})"
    else:
        make = f"RedisChatMessageHistory('killed', {request.getfixturevalue('redis_server').url!r})"
    for _ in range(3):
        history.clear()
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED.format(make=make)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(20)]
        process.send_signal(signal.SIGKILL)
        lines += process.stdout.readlines()
        process.wait()
        process.stdout.close()

        contents = [str(message.content) for message in open_history("killed").messages]
        last = max(int(line) for line in lines if line.endswith("\n"))
        assert len(contents) % 2 == 0, "half an append was kept"
        assert contents == [
            f"{number} {half}" for number in range(len(contents) // 2) for half in "ab"
        ]
        assert len(contents) // 2 > last


def test_F_K02_a_damaged_row_is_reported_and_the_others_are_read(tmp_path: Path) -> None:
    import sqlite3

    history = SQLiteChatMessageHistory("s", tmp_path / "chats.db")
    history.add_messages([HumanMessage(content=str(number)) for number in range(3)])
    with sqlite3.connect(tmp_path / "chats.db") as connection:
        connection.execute(
            'UPDATE foldline_messages SET value = \'{"lc": 1, "broken"\' WHERE place = 2'
        )
    connection.close()

    readable = history.read()

    assert [message.content for message in readable] == ["0", "2"]
    assert len(readable.reports) == 1
    assert "message 2" in readable.reports[0]


def test_F_K02_a_row_that_names_a_foreign_class_is_never_built(tmp_path: Path) -> None:
    import sqlite3

    history = SQLiteChatMessageHistory("s", tmp_path / "chats.db")
    history.add_user_message("good")
    hostile = '{"lc": 1, "type": "constructor", "id": ["subprocess", "Popen"], "kwargs": {"args": ["touch", "x"]}}'
    with sqlite3.connect(tmp_path / "chats.db") as connection:
        connection.execute(
            "INSERT INTO foldline_messages (session, value, added_at) VALUES ('s', ?, 0)",
            (hostile,),
        )
    connection.close()

    assert [message.content for message in history.read()] == ["good"]


def test_F_K02_a_file_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    import sqlite3

    SQLiteChatMessageHistory("s", tmp_path / "new.db")
    with sqlite3.connect(tmp_path / "new.db") as connection:
        connection.execute("UPDATE foldline_schema SET version = 99 WHERE kind = 'history'")
    connection.close()

    with pytest.raises(StoreError, match="newer foldline"):
        SQLiteChatMessageHistory("s", tmp_path / "new.db")


def test_F_K01_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text(
        "this is no database, and long enough to be looked at as a header of one...."
    )

    with pytest.raises(StoreError, match="no database"):
        SQLiteChatMessageHistory("s", tmp_path / "text.db")


def test_F_K01_a_locked_file_is_a_store_error_after_a_bounded_wait(tmp_path: Path) -> None:
    import sqlite3

    history = SQLiteChatMessageHistory("s", tmp_path / "chats.db")
    history._database._patience = 0.2
    history.close()
    blocker = sqlite3.connect(tmp_path / "chats.db", isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    start = time.monotonic()

    with pytest.raises(StoreError, match="try again"):
        history.add_user_message("hi")

    assert time.monotonic() - start < 5
    blocker.execute("ROLLBACK")
    blocker.close()
    history.add_user_message("now")
    assert [message.text for message in history.messages] == ["now"]


def _child(path: str, queue: multiprocessing.Queue[int]) -> None:
    history = SQLiteChatMessageHistory("s", path)
    for number in range(20):
        history.add_user_message(f"{number}")
    queue.put(1)


@pytest.mark.slow
def test_F_K04_two_processes_share_one_file(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    queue: multiprocessing.Queue[int] = context.Queue()
    children = [
        context.Process(target=_child, args=(str(tmp_path / "chats.db"), queue)) for _ in range(2)
    ]
    for child in children:
        child.start()
    for child in children:
        child.join(30)

    assert len(SQLiteChatMessageHistory("s", tmp_path / "chats.db").messages) == 40


@pytest.mark.slow
def test_F_K03_postgres_that_restarts_is_reconnected_to_once_and_a_dead_one_is_a_store_error(
    postgres_server: Server,
) -> None:
    history = PostgresChatMessageHistory("restart", postgres_server.url)
    history.clear()
    history.add_user_message("before")
    postgres_server.stop()
    try:
        with pytest.raises(StoreError, match="PostgreSQL"):
            history.add_user_message("lost")
    finally:
        postgres_server.start()
    from tests.servers.databases import _accepts

    wait_until(lambda: _accepts(postgres_server.url), "postgres")

    history.add_user_message("after")

    assert [message.text for message in history.messages] == ["before", "after"]


def test_F_K03_a_commit_that_nobody_confirmed_is_not_repeated(postgres_server: Server) -> None:
    """A trigger at the end of the transaction ends the server's own process: nothing says whether it was written."""
    history = PostgresChatMessageHistory("commit", postgres_server.url)
    history.clear()
    run = history._database._server.run
    run(
        lambda connection: connection.execute("""
            CREATE FUNCTION foldline_gone() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$;
            CREATE CONSTRAINT TRIGGER foldline_gone AFTER INSERT ON foldline_messages
            DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION foldline_gone()
        """)
    )
    try:
        with pytest.raises(StoreError, match="check before you write it again"):
            history.add_user_message("once?")
    finally:
        run(lambda connection: connection.execute("DROP FUNCTION foldline_gone CASCADE"))

    assert history.messages == []
    history.add_user_message("once")
    assert [message.text for message in history.messages] == ["once"]


@pytest.mark.slow
def test_F_K03_redis_that_went_away_is_a_store_error_and_comes_back(redis_server: Server) -> None:
    history = RedisChatMessageHistory("restart", redis_server.url)
    history.clear()
    history.add_user_message("before")
    redis_server.stop()
    try:
        with pytest.raises(StoreError, match="Redis did not answer"):
            history.add_user_message("lost")
    finally:
        redis_server.start()

    history.add_user_message("after")

    assert [message.text for message in history.messages] == ["before", "after"]


def test_a_redis_history_vanishes_after_its_time(redis_server: Server) -> None:
    history = RedisChatMessageHistory("brief", redis_server.url, ttl=0.05)
    history.add_user_message("hi")
    wait_until(lambda: history.messages == [], "the end of the time to live", seconds=5)


def test_the_sessions_of_a_file_are_listed_newest_first(tmp_path: Path) -> None:
    for session in ("old", "new"):
        SQLiteChatMessageHistory(session, tmp_path / "chats.db").add_user_message("x")

    sessions = SQLiteChatMessageHistory("new", tmp_path / "chats.db").sessions()

    assert [(session, count) for session, count, _ in sessions] == [("new", 1), ("old", 1)]

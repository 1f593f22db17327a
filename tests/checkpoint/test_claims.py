"""The owner of a thread: what every saver promises, from one body, and a saver that was written before claims."""

from __future__ import annotations

import gc
import os
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import psycopg
import pytest

from foldline._storage import forget
from foldline._storage.schema import LockNumber
from foldline.agents import create_agent
from foldline.checkpoint import (
    BaseCheckpointSaver,
    Entry,
    InMemorySaver,
    PostgresSaver,
    SqliteSaver,
    ThreadBusyError,
    ThreadConflictError,
    _local_writers as local_writers_module,
)
from foldline.checkpoint.base import append_as_owner
from foldline.exceptions import StoreError
from foldline.serve.errors import failure_of
from foldline.testing import ScriptedChatModel


class OlderSaver(BaseCheckpointSaver):
    """A saver that somebody wrote before threads had owners; it has no hash and can be pickled."""

    def __init__(self) -> None:
        self.logs: dict[tuple[str, str], list[Entry]] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OlderSaver) and self.logs == other.logs

    __hash__ = None  # type: ignore[assignment]

    def read(self, thread_id: str, namespace: str) -> list[Entry]:
        return list(self.logs.get((thread_id, namespace), ()))

    def append(  # type: ignore[override]
        self, thread_id: str, namespace: str, entries: list[Entry], *, after: str | None
    ) -> None:
        self.logs.setdefault((thread_id, namespace), []).extend(entries)

    def delete_thread(self, thread_id: str) -> None:
        self.logs = {key: log for key, log in self.logs.items() if key[0] != thread_id}


class PassingSaver(OlderSaver):
    """Hands everything to another saver, whose epochs it does not have."""

    def __init__(self, inner: BaseCheckpointSaver) -> None:
        self.inner = inner

    def read(self, thread_id: str, namespace: str) -> list[Entry]:
        return self.inner.read(thread_id, namespace)

    def append(self, *args: Any, **kwargs: Any) -> None:
        self.inner.append(*args, **kwargs)


MAKE: dict[str, Callable[[Path, Callable[[], str]], BaseCheckpointSaver]] = {
    "memory": lambda folder, url: InMemorySaver(),
    "file": lambda folder, url: SqliteSaver(folder / "threads.db"),
    "sqlite in memory": lambda folder, url: SqliteSaver(":memory:"),
    "postgres": lambda folder, url: PostgresSaver(url()),
    "older": lambda folder, url: OlderSaver(),
    "passing": lambda folder, url: PassingSaver(SqliteSaver(folder / "threads.db")),
}


@pytest.fixture(params=MAKE)
def saver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BaseCheckpointSaver]:
    made = MAKE[request.param](tmp_path, lambda: str(request.getfixturevalue("postgres_url")))
    yield made
    made.close()


def write(saver: BaseCheckpointSaver, epoch: int, *ids: str, after: str | None = None) -> None:
    entries = [Entry(id, None, "{}") for id in ids]
    append_as_owner(saver, "t", "", entries, after=after, epoch=epoch)


def ids(saver: BaseCheckpointSaver) -> list[str]:
    return [entry.id for entry in saver.read("t", "")]


def test_a_thread_has_one_owner_until_it_is_released(saver: BaseCheckpointSaver):
    first = saver.claim("t", "run 1")
    write(saver, first, "a")
    with pytest.raises(
        ThreadBusyError, match=r"thread 't' belongs to run 'run 1' .* Wait"
    ) as caught:
        saver.claim("t", "run 2")
    assert (caught.value.thread_id, caught.value.owner) == ("t", "run 1")
    saver.claim("another thread", "run 2")

    write(saver, first, "b", after="a")
    saver.release("t", first)
    second = saver.claim("t", "run 2")

    assert second > first
    write(saver, second, "c", after="b")
    assert ids(saver) == ["a", "b", "c"]


def test_an_older_epoch_writes_nothing_and_releases_nothing(saver: BaseCheckpointSaver):
    old = saver.claim("t", "run")
    write(saver, old, "a")
    new = saver.claim("t", "run")  # the same run, begun again elsewhere

    with pytest.raises(ThreadConflictError, match="does not own thread 't' any more"):
        write(saver, old, "b", after="a")
    with pytest.raises(ThreadConflictError):
        saver.check_owner("t", old)
    saver.release("t", old)

    assert ids(saver) == ["a"]
    with pytest.raises(ThreadBusyError):
        saver.claim("t", "another run")
    saver.check_owner("t", new)
    write(saver, new, "b", after="a")


def test_a_thread_that_was_never_claimed_has_no_epoch(saver: BaseCheckpointSaver):
    with pytest.raises(ThreadConflictError):
        write(saver, 1, "a")
    with pytest.raises(ThreadConflictError):
        saver.check_owner("t", 1)
    saver.release("t", 1)
    assert ids(saver) == []


def test_a_record_from_outside_needs_no_ownership(saver: BaseCheckpointSaver):
    epoch = saver.claim("t", "run")

    saver.append("t", "inbox", [Entry("a", None, "{}")], after=None)

    write(saver, epoch, "b")
    assert [entry.id for entry in saver.read("t", "inbox")] == ["a"]


def test_of_many_threads_that_claim_at_once_one_is_the_owner(saver: BaseCheckpointSaver):
    def claim(number: int) -> int | None:
        try:
            return saver.claim("t", f"run {number}")
        except ThreadBusyError:
            return None

    with ThreadPoolExecutor(8) as pool:
        epochs = [epoch for epoch in pool.map(claim, range(32)) if epoch is not None]

    assert len(epochs) == 1
    write(saver, epochs[0], "a")


@pytest.mark.parametrize("saver", ["memory", "file", "sqlite in memory", "postgres"], indirect=True)
def test_the_owner_of_a_deleted_thread_writes_nothing_to_a_new_one(saver: BaseCheckpointSaver):
    old = saver.claim("t", "run 1")
    write(saver, old, "a")

    saver.delete_thread("t")

    with pytest.raises(ThreadConflictError):
        write(saver, old, "b")
    new = saver.claim("t", "run 2")
    assert new != old
    with pytest.raises(ThreadConflictError):
        write(saver, old, "b")
    write(saver, new, "c")
    assert ids(saver) == ["c"]


@pytest.mark.parametrize("saver", ["file", "postgres"], indirect=True)
def test_a_thread_that_is_forgotten_leaves_no_name_behind(
    saver: SqliteSaver | PostgresSaver, request: pytest.FixtureRequest, tmp_path: Path
):
    is_file = isinstance(saver, SqliteSaver)
    place = tmp_path / "threads.db" if is_file else request.getfixturevalue("postgres_url")
    for thread in ("ada", "bob"):
        epoch = saver.claim(thread, f"run of {thread}")
        saver.append(thread, "", [Entry("1", None, "{}")], after=None, epoch=epoch)

    assert forget.delete_checkpoints(place, ["ada"]) == 1

    assert saver._database.rows("SELECT thread, owner FROM foldline_writers") == [
        ("bob", "run of bob")
    ]


@pytest.mark.parametrize("saver", ["file", "sqlite in memory", "postgres"], indirect=True)
def test_a_saver_that_is_closed_gives_its_threads_back(saver: SqliteSaver | PostgresSaver):
    epoch = saver.claim("t", "run 1")

    saver.close()

    with pytest.raises(ThreadConflictError):
        saver.check_owner("t", epoch)
    if saver._database.where != ":memory:":
        assert saver._database.rows("SELECT id FROM foldline_workers") == []
    saver.claim("t", "run 2")


@pytest.mark.parametrize("saver", ["file", "postgres"], indirect=True)
def test_a_commit_whose_answer_was_lost_is_not_refused_for_its_epoch(
    saver: SqliteSaver | PostgresSaver,
):
    epoch = saver.claim("t", "run 1")
    write(saver, epoch, "a")
    saver.release("t", epoch)
    saver.claim("t", "run 2")

    write(saver, epoch, "a")  # the same entries again, as after a broken connection

    assert ids(saver) == ["a"]


@pytest.mark.parametrize("saver", ["file", "postgres"], indirect=True)
def test_two_savers_of_one_place_know_one_owner(
    saver: SqliteSaver | PostgresSaver, request: pytest.FixtureRequest, tmp_path: Path
):
    is_file = isinstance(saver, SqliteSaver)
    place = str(tmp_path / "threads.db") if is_file else request.getfixturevalue("postgres_url")
    other = type(saver)(place)
    epoch = saver.claim("t", "run 1")

    with pytest.raises(ThreadBusyError, match=f"process {os.getpid()} on"):
        other.claim("t", "run 2")

    saver.release("t", epoch)
    assert other.claim("t", "run 2") == epoch + 1
    other.close()


def test_the_owners_of_two_savers_in_memory_are_apart(saver: BaseCheckpointSaver):
    others = [InMemorySaver(), OlderSaver(), SqliteSaver(":memory:")]
    saver.claim("t", "run 1")
    for other in others:
        other.claim("t", "run 2")


def test_an_older_saver_still_works_and_stays_as_it_was():
    saver = OlderSaver()
    agent = create_agent(ScriptedChatModel(script=["Hello Ada"]), checkpointer=saver)
    agent.invoke("I am Ada", {"configurable": {"thread_id": "t"}})
    saver.claim("t", "run")

    copy = pickle.loads(pickle.dumps(saver))

    assert copy.logs == saver.logs
    copy.claim("t", "another run")


def test_the_owners_of_a_saver_are_forgotten_with_it():
    saver = OlderSaver()
    saver.claim("t", "run")
    key = id(saver)
    assert key in local_writers_module._LOCAL.known

    del saver
    gc.collect()

    assert key not in local_writers_module._LOCAL.known


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_finds_the_threads_of_its_parents_memory_free():
    saver = InMemorySaver()
    epoch = saver.claim("t", "parent")
    child = os.fork()
    if child == 0:
        status = 1
        try:
            saver.append("t", "", [Entry("a", None, "{}")], after=None, epoch=epoch)
            own = saver.claim("t", "child")
            status = 0 if own > epoch else 2
        finally:
            os._exit(status)
    _, code = os.waitpid(child, 0)

    assert code == 0
    with pytest.raises(ThreadBusyError):
        saver.claim("t", "another run")


def test_a_busy_thread_is_a_conflict_for_a_client_of_the_server():
    error = ThreadBusyError("/srv/secret.db: thread 't' belongs to run 'x'", "t", "x")
    failure = failure_of(error)
    assert isinstance(error, StoreError)
    assert failure.kind == "conflict"
    assert "secret" not in failure.message


@pytest.mark.parametrize("deletion", ["delete_thread", "forget"])
def test_a_deletion_waits_for_an_append_under_way_and_deletes_it_too(
    deletion: str, postgres_url: str
):
    saver = PostgresSaver(postgres_url)
    saver.append("t", "", [Entry("1", None, "{}")], after=None)

    def delete() -> None:
        if deletion == "forget":
            forget.delete_checkpoints(postgres_url, ["t"])
        else:
            saver.delete_thread("t")

    with ThreadPoolExecutor() as pool, psycopg.connect(postgres_url) as writer:
        # What `append` of another process does, before its commit.
        lock = "SELECT pg_advisory_xact_lock(hashtextextended('t', %s))"
        writer.execute(lock, (int(LockNumber.THREAD),))
        writer.execute(
            "INSERT INTO foldline_checkpoints (thread, namespace, id, parent, body) "
            "VALUES ('t', '', '2', '1', '{}')"
        )
        result = pool.submit(delete)
        wait([result], timeout=0.5)
        writer.commit()
        result.result(timeout=10)

    assert saver.read("t", "") == []


@pytest.mark.slow
def test_more_threads_are_forgotten_than_one_statement_or_transaction_can_name(postgres_url: str):
    saver = PostgresSaver(postgres_url)
    saver.append("last", "", [Entry("1", None, "{}")], after=None)
    names = [*(f"{number}" for number in range(70_000)), "last"]

    assert forget.delete_checkpoints(postgres_url, names) == 1
    assert saver.read("last", "") == []

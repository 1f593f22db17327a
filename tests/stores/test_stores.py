"""The same tests for every store; no key of a file store leaves its folder."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from foldline.exceptions import SecurityError, StoreError
from foldline.stores import (
    BaseStore,
    InMemoryByteStore,
    InvalidKeyException,
    LocalFileStore,
    PostgresByteStore,
    SQLiteStore,
)

DATABASES = ["sqlite", "postgres"]


@pytest.fixture(params=["memory", "file", *DATABASES])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> BaseStore[str, bytes]:
    makers: dict[str, Callable[[], BaseStore[str, bytes]]] = {
        "memory": InMemoryByteStore,
        "file": lambda: LocalFileStore(tmp_path / "store"),
        "sqlite": lambda: SQLiteStore(tmp_path / "store.db"),
        "postgres": lambda: PostgresByteStore(request.getfixturevalue("postgres_url")),
    }
    return makers[request.param]()


any_key = pytest.mark.parametrize("store", ["memory", *DATABASES], indirect=True)
"""The stores that take any text as a key."""
in_database = pytest.mark.parametrize("store", DATABASES, indirect=True)


def test_values_are_kept_replaced_and_forgotten(store: BaseStore[str, bytes]) -> None:
    store.mset([("a", b"1"), ("b/c", b"\0\xff"), ("a2", b"")])
    store.mset([("a", b"2")])

    assert store.mget(["a", "b/c", "a2", "none"]) == [b"2", b"\0\xff", b"", None]
    assert sorted(store.yield_keys()) == ["a", "a2", "b/c"]
    assert sorted(store.yield_keys(prefix="a")) == ["a", "a2"]
    store.mdelete(["a", "none"])
    assert store.mget(["a"]) == [None]


def test_the_async_twins_do_the_same(store: BaseStore[str, bytes]) -> None:
    async def use() -> list[object]:
        await store.amset([("k", b"v")])
        values = await store.amget(["k", "z"])
        keys = [key async for key in store.ayield_keys()]
        await store.amdelete(["k"])
        return [values, keys, await store.amget(["k"])]

    assert asyncio.run(use()) == [[b"v", None], ["k"], [None]]


@any_key
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(pairs=st.dictionaries(st.text(), st.binary(), max_size=6), prefix=st.text(max_size=2))
def test_F_K05_any_key_means_just_itself(
    store: BaseStore[str, bytes], pairs: dict[str, bytes], prefix: str
) -> None:
    store.mdelete(list(store.yield_keys()))
    store.mset(list(pairs.items()))

    assert dict(zip(pairs, store.mget(list(pairs)), strict=True)) == pairs
    assert set(store.yield_keys(prefix=prefix)) == {key for key in pairs if key.startswith(prefix)}


@pytest.mark.parametrize("key", ["..", "../x", "a/../../x", "a/..", "./a", "a/./b"])
def test_F_P03_a_key_that_climbs_is_refused(tmp_path: Path, key: str) -> None:
    with pytest.raises(SecurityError):
        LocalFileStore(tmp_path).mset([(key, b"x")])


@pytest.mark.parametrize(
    "key", ["", "/etc/passwd", "a b", "a\0b", "a//b", "a/", "ä", "C:\\x", "a\nb"]
)
def test_F_P03_a_key_that_is_no_path_is_refused(tmp_path: Path, key: str) -> None:
    with pytest.raises(InvalidKeyException):
        LocalFileStore(tmp_path).mget([key])


def test_F_P03_links_devices_and_pipes_are_not_followed(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    store = LocalFileStore(root)
    (root / "link").symlink_to(outside)
    (root / "file").symlink_to(outside / "secret")
    os.mkfifo(root / "pipe")

    for key in ("link/secret", "file"):
        with pytest.raises(SecurityError):
            store.mget([key])
        with pytest.raises(SecurityError):
            store.mset([(key, b"x")])
    with pytest.raises(SecurityError, match="not a plain file"):
        store.mget(["pipe"])
    assert (outside / "secret").read_bytes() == b"secret"


def test_a_folder_that_cannot_be_written_is_a_store_error(tmp_path: Path) -> None:
    store = LocalFileStore(tmp_path)
    (tmp_path / "taken").write_bytes(b"")

    with pytest.raises(StoreError, match="could not be written"):
        store.mset([("taken/below", b"x")])


@any_key
def test_many_keys_are_listed_and_read_page_by_page(store: BaseStore[str, bytes]) -> None:
    names = [f"{number:05}" for number in range(2500)]
    store.mset([(name, name.encode()) for name in names])

    assert list(store.yield_keys()) == names
    assert store.mget([*names, "none", names[0]]) == [
        *[name.encode() for name in names],
        None,
        b"00000",
    ]


def test_no_keys_are_no_work(store: BaseStore[str, bytes]) -> None:
    store.mset([])
    store.mdelete([])

    assert store.mget([]) == []
    assert list(store.yield_keys()) == []


def test_the_last_value_of_a_key_is_stored(store: BaseStore[str, bytes]) -> None:
    store.mset([("a", b"1"), ("b", b"2"), ("a", b"3")])

    assert store.mget(["a", "b", "a"]) == [b"3", b"2", b"3"]


@in_database
def test_writers_of_the_same_keys_do_not_wait_for_one_another_for_ever(
    store: BaseStore[str, bytes],
) -> None:
    names = [f"{number:03}" for number in range(200)]

    def write(turn: int) -> None:
        order = names if turn % 2 else names[::-1]
        store.mset([(name, str(turn).encode()) for name in order])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(24)))

    assert len(set(store.mget(names))) == 1


@in_database
def test_an_mset_that_fails_writes_nothing(store: BaseStore[str, bytes]) -> None:
    with pytest.raises(TypeError):
        store.mset([("a", b"1"), ("b", None)])  # type: ignore[list-item]

    assert list(store.yield_keys()) == []


def test_a_key_too_long_for_postgres_is_a_store_error(postgres_url: str) -> None:
    store = PostgresByteStore(postgres_url)

    with pytest.raises(StoreError, match="nothing of this operation was written"):
        store.mset([("a", b"1"), (random.Random(1).randbytes(5000).hex(), b"2")])

    assert list(store.yield_keys()) == []

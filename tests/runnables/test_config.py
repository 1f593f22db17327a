"""LangChain's import path of the config, and its helpers for calling functions."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

from foldline import _config
from foldline.callbacks.manager import AsyncCallbackManager, CallbackManager
from foldline.runnables import config as paths, run_in_executor
from foldline.runnables.base import (
    Runnable,
    RunnableBinding,
    RunnableLambda,
    RunnableLike,
    RunnableParallel,
    RunnableSequence,
    RunnableSerializable,
    chain,
    coerce_to_runnable,
)

COLOUR: ContextVar[str] = ContextVar("COLOUR", default="none")


def test_langchains_import_paths_work():
    assert paths.RunnableConfig is _config.RunnableConfig
    assert paths.ensure_config()["recursion_limit"] == 25
    for kind in (
        RunnableBinding,
        RunnableLambda,
        RunnableParallel,
        RunnableSequence,
        RunnableSerializable,
    ):
        assert issubclass(kind, Runnable)
    assert isinstance(coerce_to_runnable(chain(lambda x: x)), RunnableLambda)
    assert RunnableLike is not None


def test_functions_get_what_they_ask_for():
    def nosy(x: int, config: Any) -> Any:
        return x, config["tags"]

    async def async_function(x: int, config: Any) -> Any:
        return x, config["tags"]

    full_config = paths.ensure_config({"tags": ["t"]})
    assert paths.call_func_with_variable_args(nosy, 1, full_config) == (1, ["t"])
    assert paths.call_func_with_variable_args(lambda x, k: x + k, 1, full_config, k=2) == 3

    async def main() -> Any:
        return await paths.acall_func_with_variable_args(async_function, 1, full_config)

    assert asyncio.run(main()) == (1, ["t"])


def test_managers_of_a_config():
    manager = paths.get_callback_manager_for_config({"tags": ["t"], "metadata": {"m": 1}})
    assert isinstance(manager, CallbackManager)
    assert (manager.tags, manager.metadata) == (["t"], {"m": 1})
    assert isinstance(paths.get_async_callback_manager_for_config({}), AsyncCallbackManager)


def test_an_executor_carries_the_context():
    token = COLOUR.set("red")
    try:
        with paths.get_executor_for_config({"max_concurrency": 2}) as executor:
            assert executor.submit(COLOUR.get).result() == "red"
            assert list(executor.map(lambda x: (x, COLOUR.get()), [1, 2])) == [
                (1, "red"),
                (2, "red"),
            ]
    finally:
        COLOUR.reset(token)


def test_run_in_executor_runs_in_another_thread():
    async def main() -> None:
        token = COLOUR.set("red")
        here = threading.get_ident()
        with ThreadPoolExecutor(1) as executor:
            for first_argument in (None, {"tags": []}, executor):
                assert await run_in_executor(first_argument, threading.get_ident) != here
                assert await run_in_executor(first_argument, COLOUR.get) == "red"
        COLOUR.reset(token)

    asyncio.run(main())

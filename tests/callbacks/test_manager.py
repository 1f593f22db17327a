"""Managers: the sources of handlers, what children inherit, run ids, and events that user code dispatches."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Any
from uuid import UUID, uuid4

import pytest

from foldline.callbacks import (
    AsyncCallbackManager,
    AsyncCallbackManagerForChainRun,
    BaseCallbackHandler,
    CallbackManager,
    CallbackManagerForChainRun,
    CallbackManagerForLLMRun,
    StdOutCallbackHandler,
    hooks,
    manager as manager_module,
)
from foldline.exceptions import UsageError
from foldline.globals import set_debug
from foldline.runnables import RunnableLambda


class Names(BaseCallbackHandler):
    """Records the names, ids, tags and metadata of runs."""

    run_inline = True

    def __init__(self) -> None:
        self.runs: list[dict[str, Any]] = []

    def on_chain_start(self, serialized: Any, inputs: Any, **kwargs: Any) -> None:
        self.runs.append(kwargs)

    @property
    def names(self) -> list[str]:
        return [run["name"] for run in self.runs]


def step_named(name: str) -> Any:
    return RunnableLambda(lambda x: x).with_config(run_name=name)


def test_handlers_come_from_constructor_config_and_runtime(call: Any):
    """Seed 000: a config's list is for the call and its children, a manager's handlers for the call alone."""
    own_names, config_names, local = Names(), Names(), Names()
    chain = (step_named("a") | step_named("b")).with_config(callbacks=[own_names], run_name="chain")

    call.invoke(chain, 1, {"callbacks": [config_names]})
    call.invoke(
        step_named("a") | step_named("b"),
        1,
        {"callbacks": CallbackManager(handlers=[local]), "run_name": "chain"},
    )

    assert own_names.names == config_names.names == ["chain", "a", "b"]
    assert local.names == ["chain"]


def test_configure_merges_inheritable_and_local():
    first, second = BaseCallbackHandler(), BaseCallbackHandler()

    manager = CallbackManager.configure(
        [first],
        [second, first],
        inheritable_tags=["a"],
        local_tags=["b", "a"],
        inheritable_metadata={"x": 1},
        local_metadata={"y": 2},
    )

    assert manager.handlers == [first, second]
    assert manager.inheritable_handlers == [first]
    assert (manager.tags, manager.inheritable_tags) == (["a", "b"], ["a"])
    assert (manager.metadata, manager.inheritable_metadata) == ({"x": 1, "y": 2}, {"x": 1})


def test_configure_does_not_change_what_it_is_given():
    handlers = [BaseCallbackHandler()]
    manager = CallbackManager(handlers=handlers, tags=["a"])

    CallbackManager.configure(manager, [BaseCallbackHandler()], inheritable_tags=["b"])
    CallbackManager.configure(handlers, [BaseCallbackHandler()])

    assert len(manager.handlers) == len(handlers) == 1
    assert manager.tags == ["a"]


def test_verbose_prints_once():
    manager = CallbackManager.configure(None, None, verbose=True)

    assert [type(handler) for handler in manager.handlers] == [StdOutCallbackHandler]
    assert len(CallbackManager.configure(manager, None, verbose=True).handlers) == 1


def test_children_know_their_parent_and_inherit_tags_and_metadata(call: Any):
    names, run_id = Names(), uuid4()
    config = {"callbacks": [names], "run_id": run_id, "tags": ["t"], "metadata": {"m": 1}}

    call.invoke(step_named("a") | step_named("b"), 1, config)
    root, first, second = names.runs

    assert root["run_id"] == run_id
    assert root["parent_run_id"] is None
    assert first["parent_run_id"] == second["parent_run_id"] == run_id
    assert len({run["run_id"] for run in names.runs}) == 3
    assert (first["tags"], first["metadata"]) == (["seq:step:1", "t"], {"m": 1})


def test_a_manager_starts_runs_and_a_run_has_children():
    names = Names()
    manager = CallbackManager(
        handlers=[names], inheritable_handlers=[names], inheritable_tags=["t"]
    )

    run = manager.on_chain_start({"name": "outer"}, {}, name="outer")
    child = run.get_child("x")
    inner = child.on_chain_start({}, {}, name="inner")
    inner.on_chain_end({})
    run.on_chain_end({})

    assert isinstance(run, CallbackManagerForChainRun)
    assert names.runs[1]["parent_run_id"] == run.run_id
    assert names.runs[1]["tags"] == ["x", "t"]


def test_each_prompt_is_a_run_and_a_given_id_names_the_first():
    run_id = uuid4()

    runs = CallbackManager(handlers=[]).on_llm_start({}, ["a", "b"], run_id=run_id)

    assert [type(run) for run in runs] == [CallbackManagerForLLMRun] * 2
    assert runs[0].run_id == run_id
    assert isinstance(runs[1].run_id, UUID)
    assert runs[1].run_id != run_id


def test_an_async_manager_is_awaited_and_has_a_blocking_twin():
    names = Names()

    async def main() -> AsyncCallbackManagerForChainRun:
        manager = AsyncCallbackManager(handlers=[names])
        run = await manager.on_chain_start({}, {}, name="a")
        await run.on_text("x")
        await run.on_chain_end({})
        return run

    run = asyncio.run(main())

    assert run.get_sync().run_id == run.run_id
    assert isinstance(run.get_sync(), CallbackManagerForChainRun)
    assert names.names == ["a"]


def test_handlers_and_tags_can_be_added_and_taken_away():
    first, second = BaseCallbackHandler(), BaseCallbackHandler()
    manager = CallbackManager(handlers=[])

    manager.set_handlers([first, second])
    manager.add_handler(first)
    manager.remove_handler(first)
    manager.add_tags(["a", "b", "a"])
    manager.remove_tags(["a"])
    manager.add_metadata({"x": 1, "y": 2})
    manager.remove_metadata(["x"])

    assert manager.handlers == manager.inheritable_handlers == [second]
    assert manager.tags == ["b"]
    assert manager.metadata == {"y": 2}
    manager.set_handler(first, inherit=False)
    assert (manager.handlers, manager.inheritable_handlers) == ([first], [])


def test_two_managers_merge_into_a_third():
    first, second = BaseCallbackHandler(), BaseCallbackHandler()
    left_manager = CallbackManager(handlers=[first], tags=["a"], metadata={"x": 1})
    other = CallbackManager(
        handlers=[second], inheritable_handlers=[second], tags=["b"], parent_run_id=uuid4()
    )

    merged_manager = left_manager.merge(other)

    assert merged_manager.handlers == [first, second]
    assert merged_manager.inheritable_handlers == [second]
    assert merged_manager.tags == ["a", "b"]
    assert merged_manager.parent_run_id == other.parent_run_id
    assert left_manager.handlers == [first]


def test_names_of_langchain_live_in_the_manager_module_and_others_do_not():
    assert callable(manager_module.trace_as_chain_group)
    assert callable(manager_module.dispatch_custom_event)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        manager_module.nonsense  # noqa: B018


def test_shielded_work_ends_although_its_caller_is_cancelled():
    calls = []

    @manager_module.shielded
    async def work() -> None:
        await asyncio.sleep(0.02)
        calls.append(True)

    async def main() -> None:
        task = asyncio.ensure_future(work())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0.05)

    asyncio.run(main())
    assert calls == [True]


def test_a_hook_adds_the_handler_of_a_context_or_of_the_environment(
    call: Any, monkeypatch: pytest.MonkeyPatch
):
    handlers: list[Names] = []

    class Switched(Names):
        def __init__(self) -> None:
            super().__init__()
            handlers.append(self)

    variable: ContextVar[Names | None] = ContextVar("names", default=None)
    monkeypatch.setattr(hooks, "HOOKS", [])
    hooks.register_configure_hook(variable, True, Switched, "FOLDLINE_TEST_SWITCH")
    call.invoke(step_named("a") | step_named("b"), 1)
    assert handlers == []

    monkeypatch.setenv("FOLDLINE_TEST_SWITCH", "true")
    call.invoke(step_named("a") | step_named("b"), 1)
    assert [handler.names for handler in handlers] == [["RunnableSequence", "a", "b"]]
    with pytest.raises(UsageError, match="handle_class"):
        hooks.register_configure_hook(variable, True, env_var="X")


def test_debugging_prints_every_run(call: Any, capsys: pytest.CaptureFixture[str]):
    set_debug(True)
    try:
        call.invoke(step_named("a"), 1)
    finally:
        set_debug(False)
    call.invoke(step_named("b"), 1)
    output = capsys.readouterr().out

    assert "[chain:a]" in output
    assert "[chain:b]" not in output

"""The run of one call: config, listeners, children."""

from __future__ import annotations

from typing import Any

import pytest

from foldline._config import set_config_context, var_child_runnable_config
from foldline._io import ASYNC
from foldline._io.drive import drive
from foldline._run import NO_CONFIG, Run
from foldline.callbacks.manager import AsyncCallbackManager, CallbackManager
from foldline.exceptions import UsageError
from tests.runnables.recording import Recorder


def test_with_nobody_listening_a_run_is_its_own_child():
    run = Run.blocking()

    assert run.call_config is NO_CONFIG
    assert run.manager is None
    assert run.child("tag") is run
    assert Run.blocking({"tags": ["t"]}).child("tag").call_config == {"tags": ["t"]}


def test_arguments_and_names_are_not_for_children():
    child = Run.blocking({"run_name": "mine", "max_concurrency": 2}, {"k": 1}).child()

    assert child.kwargs == {}
    assert child.call_config == {"max_concurrency": 2}


def test_a_child_of_a_started_run_has_it_as_parent():
    recorder = Recorder()
    run = Run.blocking({"callbacks": [recorder], "tags": ["t"]})
    drive(run.begin("chain", "on_chain_start", None, 1, name="run"))
    child = run.child("seq:step:1")

    assert child.manager is not None
    assert child.manager.parent_run_id == run.id
    assert child.manager.tags == ["seq:step:1", "t"]
    assert child.manager.inheritable_tags == ["t"]


def test_a_run_begins_once():
    recorder = Recorder()
    run = Run.blocking({"callbacks": [recorder]})
    for _ in range(2):
        drive(run.begin("chain", "on_chain_start", None, 1, name="run"))

    assert len(recorder.started) == 1


def test_what_was_not_begun_is_told_of_nothing():
    recorder = Recorder()
    drive(Run.blocking({"callbacks": [recorder]}).dispatch("on_chain_end", 1))

    assert recorder.finished == []


def test_values_of_the_config():
    run = Run.blocking({"recursion_limit": 3, "configurable": {"a": 1}, "max_concurrency": None})

    assert (run.recursion_limit, run.configurable, run.max_concurrency) == (3, {"a": 1}, None)
    assert Run.blocking().recursion_limit == 25
    assert Run.blocking({"other": 1}).configurable == {"other": 1}  # type: ignore[typeddict-unknown-key]
    with pytest.raises(UsageError):
        Run.blocking({"recursion_limit": 0})


def test_patching_merges_config_and_may_change_the_mode():
    first, second = Recorder(), Recorder()
    run = Run.blocking({"callbacks": [first], "tags": ["a"]})
    patched_run = run.patched({"callbacks": [second], "tags": ["b"]}, {"k": 1}, io=ASYNC)

    assert patched_run.handlers == [first, second]
    assert isinstance(patched_run.manager, AsyncCallbackManager)
    assert patched_run.kwargs == {"k": 1}
    assert isinstance(run.patched().manager, CallbackManager)
    assert isinstance(run.patched(io=ASYNC).manager, AsyncCallbackManager)


def test_a_config_below_gives_way_to_what_the_caller_said():
    run = Run.blocking({"tags": ["called"], "max_concurrency": 2})
    new_run = run.with_defaults(
        {"tags": ["below"], "max_concurrency": 1, "run_name": "below"}, [], {"k": 1}
    )

    assert new_run.call_config == {
        "tags": ["below", "called"],
        "max_concurrency": 2,
        "run_name": "below",
    }
    assert new_run.kwargs == {"k": 1}


def test_a_config_below_stands_over_what_an_enclosing_call_said():
    with set_config_context({"max_concurrency": 5, "metadata": {"m": "outer"}}):
        run = Run.blocking()
        new_run = run.with_defaults({"max_concurrency": 1, "metadata": {"m": "below"}}, [], {})
        caller_run = Run.blocking({"max_concurrency": 9}).with_defaults(
            {"max_concurrency": 1}, [], {}
        )

    assert (new_run.max_concurrency, new_run.call_config["metadata"]) == (1, {"m": "below"})
    assert caller_run.max_concurrency == 9


def test_what_a_constructor_adds_is_for_its_own_runs_only():
    recorder = Recorder()
    run = Run.blocking().with_local([recorder], tags=["mine"], metadata={"m": 1})

    assert run.handlers == [recorder]
    assert run.manager is not None
    assert run.manager.inheritable_handlers == []
    assert Run.blocking().with_local(None, tags=["mine"]).manager is None


def test_calls_inside_the_block_inherit_and_calls_after_it_do_not():
    run = Run.blocking({"tags": ["t"], "run_name": "mine"})
    current = run.current()
    for _ in range(2):
        with current:
            inside: Any = var_child_runnable_config.get()
            assert inside["tags"] == ["t"]
            assert "run_name" not in inside
        assert var_child_runnable_config.get() is None


def test_own_config_keeps_name_and_handlers():
    recorder = Recorder()
    config = Run.blocking({"callbacks": [recorder], "run_name": "mine"}).own_config()

    assert config["run_name"] == "mine"
    assert isinstance(config["callbacks"], CallbackManager)
    assert config["callbacks"].handlers == [recorder]

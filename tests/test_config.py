"""Configs: defaults, merging, patching, and refused values."""

from __future__ import annotations

from typing import Any, cast
from uuid import uuid4

import pytest

from foldline._config import (
    RunnableConfig,
    ensure_config,
    get_config_list,
    merge_configs,
    patch_config,
    set_config_context,
    var_child_runnable_config,
)
from foldline.callbacks.base import BaseCallbackHandler
from foldline.callbacks.manager import CallbackManager
from foldline.exceptions import UsageError
from foldline.runnables import RunnableLambda


def test_defaults_are_filled_in():
    assert ensure_config() == {
        "tags": [],
        "metadata": {},
        "callbacks": None,
        "recursion_limit": 25,
        "configurable": {},
    }


def test_a_config_given_is_copied_and_none_means_not_given():
    config: RunnableConfig = {"tags": ["a"], "metadata": {"m": 1}, "max_concurrency": None}
    full_config = ensure_config(config)
    full_config["tags"].append("b")
    full_config["metadata"]["n"] = 2

    assert config == {"tags": ["a"], "metadata": {"m": 1}, "max_concurrency": None}
    assert "max_concurrency" not in full_config


def test_unknown_keys_are_values_for_configurable():
    config = cast("RunnableConfig", {"thread_id": "t", "configurable": {"a": 1}})

    assert ensure_config(config)["configurable"] == {"a": 1, "thread_id": "t"}


def test_the_config_of_an_enclosing_call_is_inherited():
    with set_config_context({"tags": ["outer"], "configurable": {"a": 1}}):
        assert ensure_config()["tags"] == ["outer"]
        assert ensure_config({"tags": ["mine"]})["tags"] == ["mine"]
    assert var_child_runnable_config.get() is None


def test_merging_adds_tags_overlays_dicts_and_lets_the_last_scalar_win():
    config = merge_configs(
        {
            "tags": ["a"],
            "metadata": {"x": 1, "y": 1},
            "run_name": "first",
            "configurable": {"c": 1},
        },
        None,
        {"tags": ["b", "a"], "metadata": {"y": 2}, "run_name": "second", "max_concurrency": 3},
    )

    assert config == {
        "tags": ["a", "b"],
        "metadata": {"x": 1, "y": 2},
        "run_name": "second",
        "configurable": {"c": 1},
        "max_concurrency": 3,
    }


def test_a_default_recursion_limit_does_not_overrule_one_that_was_set():
    assert merge_configs({"recursion_limit": 5}, {"recursion_limit": 25})["recursion_limit"] == 5
    assert merge_configs({"recursion_limit": 5}, {"recursion_limit": 7})["recursion_limit"] == 7


def test_callbacks_join_whatever_form_they_have():
    first_handler, two = BaseCallbackHandler(), BaseCallbackHandler()
    as_list = merge_configs({"callbacks": [first_handler]}, {"callbacks": [two]})["callbacks"]
    assert as_list == [first_handler, two]

    for first, second in (
        ([first_handler], CallbackManager(handlers=[two])),
        (CallbackManager(handlers=[first_handler]), [two]),
        (CallbackManager(handlers=[first_handler]), CallbackManager(handlers=[two])),
    ):
        manager = merge_configs({"callbacks": first}, {"callbacks": second})["callbacks"]
        assert isinstance(manager, CallbackManager)
        assert set(map(id, manager.handlers)) == {id(first_handler), id(two)}


def test_new_callbacks_drop_the_name_and_id_of_the_run():
    config = patch_config(
        {"run_name": "mine", "run_id": uuid4()},
        callbacks=CallbackManager(handlers=[]),
        max_concurrency=2,
    )
    assert "run_name" not in config
    assert "run_id" not in config
    assert config["max_concurrency"] == 2
    assert patch_config(
        {"run_name": "a"}, run_name="b", recursion_limit=3, configurable={"x": 1}
    ) == {
        **ensure_config(),
        "run_name": "b",
        "recursion_limit": 3,
        "configurable": {"x": 1},
    }


def test_a_list_of_configs_has_one_for_each_input():
    run_id = uuid4()
    configs = get_config_list({"run_id": run_id, "tags": ["t"]}, 3)

    assert [config.get("run_id") for config in configs] == [run_id, None, None]
    assert [config["tags"] for config in configs] == [["t"]] * 3
    assert len(get_config_list([{"tags": ["a"]}, {}], 2)) == 2
    assert get_config_list(None, 0) == []


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"recursion_limit": 0}, "recursion_limit must be a whole number of at least 1, not 0"),
        ({"max_concurrency": 0}, "max_concurrency must be a whole number of at least 1, not 0"),
        ({"max_concurrency": "ten"}, "max_concurrency must be a whole number .* not 'ten'"),
        ({"tags": 3}, "tags must be a list of strings, not 3"),
        ({"metadata": ["m"]}, r"metadata must be a dict, not \['m'\]"),
        ({"callbacks": BaseCallbackHandler()}, r"write \[BaseCallbackHandler\(...\)\]"),
        ({"callbacks": [BaseCallbackHandler]}, "callbacks must hold instances"),
        ({"callbacks": 3}, "callbacks must be a list of handlers or a manager, not 3"),
        ({"run_id": "mine"}, r"run_id must be a uuid\.UUID, not 'mine'"),
        (3, "a config is a dict such as .* not 3"),
        ({"tags": "mine"}, r"tags must be a list of strings, not 'mine': write \['mine'\]"),
    ],
)
def test_what_cannot_work_is_refused(call, config: Any, says: str):
    with pytest.raises(UsageError, match=says):
        ensure_config(config)
    with pytest.raises(UsageError, match=says):
        call.invoke(RunnableLambda(lambda x: x), 1, config)
    with pytest.raises(UsageError, match=says):
        call.batch(RunnableLambda(lambda x: x), [1, 2], config)


def test_wrong_lengths_are_refused():
    with pytest.raises(UsageError, match="2 inputs, 1 configs"):
        get_config_list([{}], 2)
    with pytest.raises(UsageError, match="at least 0"):
        get_config_list(None, -1)

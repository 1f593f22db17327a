"""Arguments, config and types bound to a runnable."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from foldline.runnables import Runnable, RunnableBinding, RunnableConfig, RunnableLambda
from foldline.runnables.binding import RunnableBindingBase
from foldline.testing import ScriptedChatModel
from tests.runnables.recording import Recorder


def power(x: int, exponent: int = 1) -> int:
    return x**exponent


def config_of(x: Any, config: RunnableConfig) -> RunnableConfig:
    return config


POWER: Any = RunnableLambda(power)
CONFIG: Any = RunnableLambda(config_of)


def test_bound_arguments_are_given_and_the_calls_own_win(call):
    square = POWER.bind(exponent=2)

    assert call.invoke(square, 3) == 9
    assert call.invoke(square, 3, exponent=3) == 27
    assert call.stream(square, 3) == [9]
    assert call.batch(square, [1, 2]) == [1, 4]
    assert call.transform(square, [3]) == [9]
    assert call.invoke(square.bind(exponent=3), 2) == 8


def test_bound_config_is_under_the_calls(call):
    recorder = Recorder()
    bound = POWER.with_config(tags=["bound"], metadata={"a": 1, "b": 1}, run_name="mine")

    call.invoke(bound, 1, {"callbacks": [recorder], "tags": ["called"], "metadata": {"b": 2}})
    assert recorder.names() == ["mine"]
    assert set(recorder.tags_of("mine")) == {"bound", "called"}
    assert next(iter(recorder.started.values()))["metadata"] == {"a": 1, "b": 2}

    call.invoke(bound, 1, {"callbacks": [recorder], "run_name": "called"})
    assert recorder.names() == ["mine", "called"]
    recorder.check()


def test_bound_callbacks_join_the_calls(call):
    first, second = Recorder(), Recorder()
    call.invoke(POWER.with_config(callbacks=[first]), 1, {"callbacks": [second]})

    assert first.names() == second.names() == ["power"]
    first.check()
    second.check()


def test_as_a_step_a_binding_keeps_the_steps_tag_and_parent(call):
    recorder = Recorder()
    chain = POWER | POWER.with_config(tags=["bound"], run_name="second")
    for do in (call.invoke, call.stream):
        do(chain, 1, {"callbacks": [recorder], "tags": ["called"]})

    assert set(recorder.tags_of("second")) == {"seq:step:2", "bound", "called"}
    assert recorder.parent_of("second") == "RunnableSequence"
    recorder.check()


def test_what_a_binding_says_wins_over_what_an_enclosing_call_says(call):
    inner = CONFIG.with_config(max_concurrency=1, configurable={"a": "bound"})

    def blocking(x: Any) -> Any:
        return inner.invoke(x)

    async def async_function(x: Any) -> Any:
        return await inner.ainvoke(x)

    outer = RunnableLambda(blocking, afunc=async_function)
    config = call.invoke(outer, 1, {"max_concurrency": 5, "configurable": {"a": "outer", "b": 1}})

    assert config["max_concurrency"] == 1
    assert config["configurable"] == {"a": "bound", "b": 1}


def test_unknown_config_keys_are_values_for_configurable(call):
    assert call.invoke(CONFIG.with_config({"thread_id": "t"}), 1)["configurable"] == {
        "thread_id": "t"
    }
    assert call.invoke(CONFIG, 1, {"thread_id": "t"})["configurable"] == {"thread_id": "t"}


def test_config_factories_make_config_for_each_call(call):
    tag_lists = []

    def factory(config: RunnableConfig) -> RunnableConfig:
        tag_lists.append(config.get("tags"))
        return {"tags": ["made"]}

    bound = RunnableBinding(bound=CONFIG, config={"tags": ["a"]}, config_factories=[factory])

    assert call.invoke(bound, 1, {"tags": ["b"]})["tags"] == ["a", "b", "made"]
    assert tag_lists == [["a", "b"]]


def test_binding_config_twice_replaces_what_was_said_before(call):
    bound = CONFIG.with_config(tags=["a"], metadata={"m": 1}).with_config(tags=["b"])

    config = call.invoke(bound, 1)
    assert (config["tags"], config["metadata"]) == (["b"], {"m": 1})


def test_types_can_be_said():
    typed = POWER.with_types(input_type=str, output_type=list[int]).with_types(output_type=float)

    assert (typed.InputType, typed.OutputType) == (str, float)
    assert typed.get_output_jsonschema() == {"title": "power_output", "type": "number"}
    assert POWER.bind(exponent=2).InputType is int


class Model(Runnable[str, str]):
    colour = "blue"

    def invoke(self, input: str, config: RunnableConfig | None = None, **kwargs: Any) -> str:
        return input

    def count(self, text: str) -> int:
        return len(text)

    def report(self, text: str, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        return text, config, kwargs


def test_what_a_binding_lacks_it_takes_from_what_is_bound():
    bound: Any = Model().bind(stop=["x"], n=1).with_config(tags=["t"])

    assert bound.colour == "blue"
    assert bound.count("abc") == 3
    assert bound.report("a", n=2) == ("a", {"tags": ["t"]}, {"stop": ["x"], "n": 2})
    assert bound.report("a", {"run_name": "r"})[1] == {"tags": ["t"], "run_name": "r"}
    with pytest.raises(AttributeError, match="missing"):
        bound.missing  # noqa: B018


def test_bindings_can_be_copied_and_pickled():
    bound = POWER.bind(exponent=2)

    assert copy.deepcopy(bound).invoke(3) == copy.copy(bound).invoke(3) == 9
    assert pickle.loads(pickle.dumps(bound)).invoke(3) == 9


def test_a_subclass_of_the_base_passes_calls_on(call):
    class LoggedBinding(RunnableBindingBase[Any, Any]):
        pass

    assert call.invoke(LoggedBinding(bound=POWER, kwargs={"exponent": 2}), 3) == 9
    assert LoggedBinding(bound=POWER).get_name() == "power"


def test_repr():
    assert repr(POWER.bind(exponent=2)) == (
        "RunnableBinding(bound=RunnableLambda(power), kwargs={'exponent': 2}, config={}, config_factories=[])"
    )


def test_what_was_bound_stays_bound_when_the_model_binds_tools():
    model = ScriptedChatModel(script=["hi"])
    bound = model.bind(temperature=1).with_config(tags=["mine"]).bind_tools([{"name": "look"}])
    assert bound.kwargs["temperature"] == 1
    assert bound.kwargs["tools"]
    assert bound.config["tags"] == ["mine"]

"""`with_fallbacks`: which runnable is called, when, and with what input."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from foldline.exceptions import ModelAuthenticationError, UsageError
from foldline.load import dumpd
from foldline.runnables import (
    ConfigurableField,
    RunnableLambda,
    RunnablePassthrough,
    RunnableWithFallbacks,
)
from tests.runnables.failing import Model, stream_failing
from tests.runnables.recording import Recorder


def fail(_: Any) -> Any:
    raise ValueError("first")


def fail_too(_: Any) -> Any:
    raise KeyError("second")


BAD: Any = RunnableLambda(fail)
BAD_TOO: Any = RunnableLambda(fail_too)
GOOD: Any = RunnableLambda(lambda x: f"good {x}")


def test_the_next_one_gets_the_input_when_one_fails(call):
    chain = BAD.with_fallbacks([BAD_TOO, GOOD])

    assert call.invoke(chain, 1) == "good 1"
    assert call.stream(chain, 1) == ["good 1"]
    assert call.batch(chain, [1, 2]) == ["good 1", "good 2"]
    assert call.transform(chain, [1]) == ["good 1"]


def test_where_all_fail_the_first_error_is_raised_with_notes_of_the_others(call):
    with pytest.raises(ValueError, match="first") as excinfo:
        call.invoke(BAD.with_fallbacks([BAD_TOO]), 1)

    assert excinfo.value.__notes__ == ["fallback 1 failed too: KeyError: 'second'"]


def test_errors_that_are_not_handled_are_raised(call):
    with pytest.raises(ValueError, match="first"):
        call.invoke(BAD.with_fallbacks([GOOD], exceptions_to_handle=(KeyError,)), 1)
    with pytest.raises(KeyError):
        call.invoke(BAD.with_fallbacks([BAD_TOO, GOOD], exceptions_to_handle=(ValueError,)), 1)


def test_the_error_joins_the_input_under_the_exception_key(call):
    inputs = {"x": 1}
    chain = BAD.with_fallbacks([RunnablePassthrough()], exception_key="error")

    for output in (
        call.invoke(chain, inputs),
        *call.stream(chain, inputs),
        *call.transform(chain, [inputs]),
    ):
        assert output["x"] == 1
        assert isinstance(output["error"], ValueError)
    assert inputs == {"x": 1}, "the caller's dict stays as it was"


def test_an_exception_key_needs_a_dict(call):
    with pytest.raises(UsageError, match="must then be a dict, not int"):
        call.invoke(BAD.with_fallbacks([GOOD], exception_key="error"), 1)


def test_a_stream_falls_back_before_its_first_piece_only(call):
    early, _ = stream_failing(times=1, at=0, pieces=["a", "b"])
    late_failure, _ = stream_failing(times=1, at=1, pieces=["a", "b"])

    assert call.stream(early.with_fallbacks([GOOD]), 1) == ["good 1"]
    with pytest.raises(ValueError, match="broken at 1"):
        call.stream(late_failure.with_fallbacks([GOOD]), 1)


def test_a_transform_gives_the_next_one_all_the_inputs(call):
    first, attempts = stream_failing(times=1, at=0, pieces=["a", "b", "c"])

    assert call.transform(first.with_fallbacks([first]), [1, 2, 3]) == ["a", "b", "c"]
    assert attempts == [[1], [1, 2, 3]]


def test_inputs_that_break_are_nobodys_fallback(call):
    def broken() -> Any:
        raise ValueError("the source broke")
        yield

    with pytest.raises(ValueError, match="the source broke"):
        call.transform(RunnableLambda(lambda x: x).with_fallbacks([GOOD]), broken())


def test_FC12_each_item_of_a_batch_falls_back_on_its_own(call):
    half = RunnableLambda(lambda x: 10 // x).with_fallbacks(
        [RunnableLambda(lambda x: "none")], exceptions_to_handle=(ZeroDivisionError,)
    )

    assert call.batch(half, [1, 0, 5]) == [10, "none", 2]
    results = call.batch(half, [1, "x", 0], return_exceptions=True)
    assert (results[0], type(results[1]), results[2]) == (10, TypeError, "none")


def test_traces_show_every_attempt_under_one_run(call):
    recorder = Recorder()

    call.invoke(
        BAD.with_fallbacks([GOOD.with_config(run_name="good")]), 1, {"callbacks": [recorder]}
    )

    assert recorder.names() == ["RunnableWithFallbacks", "fail", "good"]
    assert recorder.parent_of("good") == "RunnableWithFallbacks"
    assert recorder.endings() == {"fail": "error", "good": "end", "RunnableWithFallbacks": "end"}
    recorder.check()


def test_arguments_reach_every_one(call):
    exponents: list[int] = []

    def note(x: int, *, exponent: int = 1) -> int:
        exponents.append(exponent)
        if len(exponents) == 1:
            raise ValueError("again")
        return x**exponent

    power = RunnableLambda(note)
    assert call.invoke(power.with_fallbacks([power]), 3, exponent=2) == 9
    assert exponents == [2, 2]


def test_cancellation_is_never_handled():
    async def slow(x: int) -> int:
        await asyncio.sleep(60)
        return x

    async def main() -> None:
        chain = RunnableLambda(slow).with_fallbacks([GOOD], exceptions_to_handle=(BaseException,))
        task = asyncio.ensure_future(chain.ainvoke(1))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_methods_that_give_a_runnable_are_called_on_all(call):
    class Greeter(RunnablePassthrough[Any]):
        def shouting(self, mark: str) -> Any:
            return RunnableLambda(lambda x: self._shout(x, mark))

        def _shout(self, x: str, mark: str) -> str:
            if mark == "?":
                raise ValueError(x)
            return x + mark

        def marks(self) -> int:
            return 3

    chain: Any = Greeter(name="a").with_fallbacks(
        [Greeter(name="b")], exceptions_to_handle=(ValueError,)
    )
    shouting = chain.shouting("!")

    assert isinstance(shouting, RunnableWithFallbacks)
    assert len(shouting.fallbacks) == 1
    assert shouting.exceptions_to_handle == (ValueError,)
    assert call.invoke(shouting, "hi") == "hi!"
    assert chain.marks() == 3
    with pytest.raises(AttributeError):
        chain.no_such_method  # noqa: B018


def test_models_fall_back(call):
    bad = Model(errors=[ModelAuthenticationError("who?")], requests=[])
    good = Model(requests=[])
    chain: Any = bad.with_fallbacks([good])

    assert call.invoke(chain, "hi").text == "answer"
    assert "".join(piece.text for piece in call.stream(chain, "hi")) == "answer"
    assert chain.errors == bad.errors


def test_stream_v2_falls_back_before_anything_was_delivered(call):
    bad = Model(errors=[ModelAuthenticationError("who?")], requests=[])

    events = call.stream_v2(bad.with_fallbacks([Model(requests=[])]), "hi")

    assert [event["event"] for event in events].count("message-start") == 1
    assert events[-2]["content"]["text"] == "answer"


def test_types_specs_and_dumps_are_those_of_the_parts():
    prompt = RunnablePassthrough().configurable_fields(name=ConfigurableField(id="n"))
    chain = RunnableLambda(len).with_fallbacks([prompt])

    assert [spec.id for spec in chain.config_specs] == ["n"]
    assert chain.InputType == chain.runnable.InputType
    assert chain.get_output_schema() is chain.runnable.get_output_schema()
    assert dumpd(chain)["id"][-1] == "RunnableWithFallbacks"
    assert [type(runnable).__name__ for runnable in chain.runnables] == [
        "RunnableLambda",
        "RunnableConfigurableFields",
    ]


def test_a_transform_of_nothing_gives_nothing(call):
    assert call.transform(BAD.with_fallbacks([GOOD]), []) == []
    assert call.transform(BAD.with_fallbacks([GOOD], exception_key="e"), []) == []

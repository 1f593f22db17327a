"""Classes written for LangChain, in the shapes people write them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from foldline._run import Run
from foldline.exceptions import BlockingCallError
from foldline.runnables import (
    Runnable,
    RunnableBinding,
    RunnableLambda,
    RunnableParallel,
    RunnablePassthrough,
    RunnableSequence,
    RunnableSerializable,
)
from tests.runnables.recording import Recorder


class OnlyInvoke(Runnable[Any, Any]):
    def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
        return ("invoke", input)


class OnlyAinvoke(Runnable[Any, Any]):
    async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
        return ("ainvoke", input)


class Fields(RunnableSerializable[Any, Any]):
    factor: int = 2

    def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
        return input * self.factor


def everywhere(call: Any, runnable: Any, value: Any) -> list[Any]:
    """The output alone and inside other runnables, once, streamed, in a batch and transformed."""
    same = RunnableLambda(lambda x: x)
    places = [runnable, runnable | same, same | runnable, runnable.with_config(tags=["t"])]
    outputs = [call.invoke(place, value) for place in places]
    outputs += [call.stream(place, value)[-1] for place in places]
    outputs += [call.batch(place, [value])[0] for place in places]
    outputs += [call.transform(place, [value])[-1] for place in places]
    outputs += [call.invoke(RunnableParallel(a=runnable), value)["a"]]
    return outputs


def test_shape_1_only_invoke(call):
    assert set(everywhere(call, OnlyInvoke(), 1)) == {("invoke", 1)}


def test_shape_1_with_fields(call):
    assert set(everywhere(call, Fields(factor=3), 2)) == {6}


def test_shape_2_only_ainvoke():
    async def main() -> Any:
        return await (OnlyAinvoke() | (lambda x: x)).ainvoke(1)

    assert asyncio.run(main()) == ("ainvoke", 1)
    for do in (
        lambda: OnlyAinvoke().invoke(1),
        lambda: (OnlyAinvoke() | (lambda x: x)).invoke(1),
        lambda: list(OnlyAinvoke().stream(1)),
    ):
        with pytest.raises(BlockingCallError, match="OnlyAinvoke implements only `ainvoke`"):
            do()


def test_shape_3_stream_by_hand(call):
    class Streams(OnlyInvoke):
        def stream(self, input: Any, config: Any = None, **kwargs: Any) -> Iterator[Any]:
            yield from "ab"

    same = RunnablePassthrough()
    assert call.stream(Streams(), 1) == ["a", "b"]
    assert call.stream(same | Streams() | same, 1) == ["a", "b"]
    assert call.transform(Streams(), [1]) == ["a", "b"]
    assert call.invoke(Streams() | same, 1) == ("invoke", 1)


def test_shape_3_astream_by_hand_leaves_stream_to_invoke():
    class Streams(OnlyInvoke):
        async def astream(
            self, input: Any, config: Any = None, **kwargs: Any
        ) -> AsyncIterator[Any]:
            yield "a"

    async def main() -> list[Any]:
        return [piece async for piece in (Streams() | RunnablePassthrough()).astream(1)]

    assert asyncio.run(main()) == ["a"]
    assert list((Streams() | RunnablePassthrough()).stream(1)) == [("invoke", 1)]


def test_shape_4_transform_by_hand(call):
    class Transforms(OnlyInvoke):
        def transform(self, input: Any, config: Any = None, **kwargs: Any) -> Iterator[Any]:
            for piece in input:
                yield piece * 2

    same = RunnablePassthrough()
    chain = RunnableLambda(lambda x: iter_letters(x)) | Transforms() | same
    assert call.stream(chain, "ab") == ["aa", "bb"]
    assert call.invoke(Transforms(), 1) == ("invoke", 1)


def iter_letters(word: str) -> Iterator[str]:
    yield from word


def test_shape_5_batch_by_hand():
    class Batches(OnlyInvoke):
        def batch(self, inputs: Any, config: Any = None, **kwargs: Any) -> Any:
            return ["mine", *super().batch(inputs, config, **kwargs)]

    assert Batches().batch([1]) == ["mine", ("invoke", 1)]
    assert (Batches() | (lambda x: x)).batch([1]) == [("invoke", 1)]


class Shouts(RunnableLambda[Any, Any]):
    def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
        return f"{super().invoke(input, config, **kwargs)}!"

    async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
        return f"{await super().ainvoke(input, config, **kwargs)}!"


def test_shape_6_super_inside_an_override_does_not_come_back(call):
    recorder = Recorder()
    shouts = Shouts(lambda x: x)

    assert call.invoke(shouts, "a") == "a!"
    assert (
        call.invoke(RunnablePassthrough() | shouts | shouts, "a", {"callbacks": [recorder]})
        == "a!!"
    )
    assert call.batch(shouts, ["a", "b"]) == ["a!", "b!"]
    recorder.check()


def test_shape_6_an_inherited_stream_stays_as_in_langchain(call):
    assert call.stream(Shouts(lambda x: x), "a") == ["a"]


def test_shape_7_a_sequence_and_a_binding_with_invoke_of_their_own():
    class Counted(RunnableSequence[Any, Any]):
        def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
            return ("counted", super().invoke(input, config, **kwargs))

    class Wrapped(RunnableBinding[Any, Any]):
        def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
            return ("wrapped", super().invoke(input, config, **kwargs))

    chain = Counted(lambda x: x + 1, lambda x: x + 1, name="counted")
    assert RunnableParallel(a=chain).invoke(1) == {"a": ("counted", 3)}
    wrapped = Wrapped(bound=RunnableLambda(lambda x: x))
    assert (wrapped | (lambda x: x)).invoke(1) == ("wrapped", 1)
    assert asyncio.run(wrapped.ainvoke(1)) == 1


def test_shape_8_a_grandchild_may_define_the_behaviour_again(call):
    class RepeatingRunnable(Shouts):
        async def _invoke_body(self, input: Any, run: Run) -> Any:
            return "behaviour"

    class Child(Shouts):
        pass

    class TwiceRunnable(Shouts):
        def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
            return f"{super().invoke(input, config, **kwargs)}?"

        async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
            return f"{await super().ainvoke(input, config, **kwargs)}?"

    same = RunnablePassthrough()
    assert call.invoke(same | RepeatingRunnable(lambda x: x), "a") == "behaviour"
    assert call.invoke(same | Child(lambda x: x), "a") == "a!"
    assert call.invoke(same | TwiceRunnable(lambda x: x), "a") == "a!?"


def test_hand_written_methods_get_the_config_of_a_child(call):
    recorder = Recorder()
    inner = RunnableLambda(lambda x: x, name="inner")

    class Calls(Runnable[Any, Any]):
        def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
            return inner.invoke(input, config)

    chain = RunnablePassthrough() | Calls()
    call.invoke(chain, 1, {"callbacks": [recorder]})

    assert recorder.parent_of("inner") == "RunnableSequence"
    assert recorder.tags_of("inner") == ["seq:step:2"]
    recorder.check()


def test_langchains_helpers_trace_a_hand_written_call(call):
    recorder = Recorder()

    class Traced(Runnable[Any, Any]):
        def _work(self, input: Any, config: Any) -> Any:
            return input + 1

        def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
            return self._call_with_config(self._work, input, config, **kwargs)

        async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
            return await self._acall_with_config(self._work, input, config, **kwargs)

    assert call.invoke(Traced(), 1, {"callbacks": [recorder]}) == 2
    assert recorder.names() == ["Traced"]
    recorder.check()


def test_langchains_helper_transforms_as_a_traced_run():
    recorder = Recorder()

    class Doubles(Runnable[Any, Any]):
        def _double(self, items: Iterator[Any]) -> Iterator[Any]:
            for item in items:
                yield item * 2

        def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
            return input * 2

        def transform(self, input: Any, config: Any = None, **kwargs: Any) -> Iterator[Any]:
            yield from self._transform_stream_with_config(input, self._double, config, **kwargs)

    assert list(Doubles().transform(iter([1, 2]), {"callbacks": [recorder]})) == [2, 4]
    assert recorder.names() == ["Doubles"]
    recorder.check()


def test_a_class_with_no_behaviour_says_what_to_write(call):
    class Empty(Runnable[Any, Any]):
        pass

    with pytest.raises(NotImplementedError, match="implements neither `_invoke_body` nor `invoke`"):
        call.invoke(Empty(), 1)


def test_atransform_by_hand_is_used_by_async_parents():
    class Transforms(OnlyInvoke):
        async def atransform(
            self, input: Any, config: Any = None, **kwargs: Any
        ) -> AsyncIterator[Any]:
            async for piece in self._atransform_stream_with_config(
                input, self._double, config, **kwargs
            ):
                yield piece

        async def _double(self, pieces: AsyncIterator[Any]) -> AsyncIterator[Any]:
            async for piece in pieces:
                yield piece * 2

    recorder = Recorder()

    async def main() -> list[Any]:
        chain = RunnableLambda(iter_letters) | Transforms()
        return [piece async for piece in chain.astream("ab", {"callbacks": [recorder]})]

    assert asyncio.run(main()) == ["aa", "bb"]
    assert "Transforms" in recorder.names()
    recorder.check()
    assert list((RunnableLambda(iter_letters) | Transforms()).stream("ab")) == [("invoke", "ab")]


def test_a_transform_of_nothing_gives_nothing(call):
    assert call.transform(OnlyInvoke(), []) == []

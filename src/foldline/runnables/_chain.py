"""`@chain`: a function as a runnable."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, TypeVar, overload

from foldline._lazy import publish
from foldline.runnables.lambda_ import RunnableLambda

Input = TypeVar("Input")
Output = TypeVar("Output")


@overload
def chain(
    func: Callable[[Input], Coroutine[Any, Any, Output]],
) -> RunnableLambda[Input, Output]: ...
@overload
def chain(func: Callable[[Input], Iterator[Output]]) -> RunnableLambda[Input, Output]: ...
@overload
def chain(func: Callable[[Input], AsyncIterator[Output]]) -> RunnableLambda[Input, Output]: ...
@overload
def chain(func: Callable[[Input], Output]) -> RunnableLambda[Input, Output]: ...
def chain(func: Callable[[Any], Any]) -> RunnableLambda[Any, Any]:
    """Turn a function into a runnable that is named after it; runnables that it calls are its children in traces.

    ```python
    from foldline.runnables import chain

    @chain
    def double(x: int) -> int:
        return x * 2

    print(double.batch([1, 2]))
    #> [2, 4]
    ```
    """
    return RunnableLambda(func)


publish("foldline.runnables", chain)

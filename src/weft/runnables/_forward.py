"""Methods of `Runnable` that build other runnables. The only arrows in weft that point up, each a local import."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

from weft._config import RunnableConfig

if TYPE_CHECKING:
    from weft.runnables.base import Runnable
    from weft.runnables.sequence import RunnableSequence
    from weft.tracers.log_stream import RunLogPatch

Input = TypeVar("Input", contravariant=True)
Output = TypeVar("Output", covariant=True)
Other = TypeVar("Other")


class Forward(Generic[Input, Output]):
    """Methods of `Runnable` that build other runnables."""

    # -- in a row

    @overload
    def __or__(self, other: Runnable[Output, Other]) -> RunnableSequence[Input, Other]: ...
    @overload
    def __or__(self, other: Mapping[str, Any]) -> RunnableSequence[Input, dict[str, Any]]: ...
    @overload
    def __or__(
        self, other: Callable[[Output], Coroutine[Any, Any, Other]]
    ) -> RunnableSequence[Input, Other]: ...
    @overload
    def __or__(self, other: Callable[[Output], Other]) -> RunnableSequence[Input, Other]: ...
    @overload
    def __or__(self, other: Callable[..., Any]) -> RunnableSequence[Input, Any]: ...
    def __or__(self, other: Any) -> RunnableSequence[Input, Any]:
        """Run this, then the other: a runnable, a function, or a dict of them."""
        return self.pipe(other)

    @overload
    def __ror__(self, other: Mapping[str, Any]) -> RunnableSequence[Any, Output]: ...
    @overload
    def __ror__(self, other: Callable[[Other], Any]) -> RunnableSequence[Other, Output]: ...
    def __ror__(self, other: Any) -> RunnableSequence[Any, Output]:
        """Run the other (a function, or a dict of branches), then this."""
        from weft.runnables.sequence import sequence_of

        return sequence_of([other, self])

    @overload
    def pipe(
        self, other: Runnable[Output, Other], /, *, name: str | None = None
    ) -> RunnableSequence[Input, Other]: ...
    @overload
    def pipe(self, *others: Any, name: str | None = None) -> RunnableSequence[Input, Any]: ...
    def pipe(self, *others: Any, name: str | None = None) -> RunnableSequence[Input, Any]:
        """Run this, then the others in turn."""
        from weft.runnables.sequence import sequence_of

        return sequence_of([self, *others], name=name)

    # -- with something bound

    def bind(self, **kwargs: Any) -> Runnable[Input, Output]:
        """Give a runnable that is always called with these keyword arguments too."""
        from weft.runnables.binding import RunnableBinding

        return RunnableBinding(bound=self._me(), kwargs=kwargs)

    def with_config(
        self, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Runnable[Input, Output]:
        """Give a runnable with a config of its own, under that of each call."""
        from weft.runnables.binding import RunnableBinding

        given = cast("RunnableConfig", {**(config or {}), **kwargs})
        return RunnableBinding(bound=self._me(), config=given)

    def with_types(
        self, *, input_type: Any = None, output_type: Any = None
    ) -> Runnable[Input, Output]:
        """Say the types of input and output, where they cannot be inferred."""
        from weft.runnables.binding import RunnableBinding

        return RunnableBinding(
            bound=self._me(), custom_input_type=input_type, custom_output_type=output_type
        )

    # -- of lists and dicts

    def map(self) -> Runnable[Sequence[Input], list[Output]]:
        """Give a runnable that runs this for each item of a list."""
        from weft.runnables.each import RunnableEach

        return RunnableEach(bound=self._me())

    def pick(self, keys: str | list[str]) -> RunnableSequence[Input, Any]:
        """Pick keys from the dict this gives: the value of one, or a smaller dict."""
        from weft.runnables.passthrough import RunnablePick

        return self.pipe(RunnablePick(keys))

    def assign(
        self, **kwargs: Runnable[dict[str, Any], Any] | Callable[..., Any] | Mapping[str, Any]
    ) -> RunnableSequence[Input, dict[str, Any]]:
        """Add keys to the dict this gives, each made by a runnable from that dict."""
        from weft.runnables.parallel import RunnableParallel
        from weft.runnables.passthrough import RunnableAssign

        return self.pipe(RunnableAssign(RunnableParallel(kwargs)))

    # -- what happens inside

    def astream_events(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Any:
        """Give everything that happens inside, as events (`version` "v1" or "v2"; filters `include_*`, `exclude_*`)."""
        from weft.tracers.event_stream import astream_events

        return astream_events(self, input, config, **kwargs)

    def stream_events(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Any:
        """Give everything that happens inside, as events (`version` "v1" or "v2"; filters `include_*`, `exclude_*`)."""
        from weft.tracers.event_stream import stream_events

        return stream_events(self, input, config, **kwargs)

    def astream_log(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncGenerator[RunLogPatch, None]:
        """Give the log of a run and of those inside it as patches, or with `diff=False` as it grows."""
        from weft.tracers.log_stream import astream_log

        return astream_log(self, input, config, **kwargs)

    def _me(self) -> Runnable[Input, Output]:
        return cast("Runnable[Input, Output]", self)

"""Methods of `Runnable` that build other runnables. The only arrows in foldline that point up, each a local import."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

if TYPE_CHECKING:
    from pydantic import BaseModel

    from foldline._config import RunnableConfig
    from foldline.runnables.base import Runnable
    from foldline.runnables.fallbacks import RunnableWithFallbacks
    from foldline.runnables.graph import Graph
    from foldline.runnables.retry import ExponentialJitterParams
    from foldline.runnables.sequence import RunnableSequence
    from foldline.runnables.utils import AnyConfigurableField, ConfigurableField
    from foldline.tracers.log_stream import RunLogPatch
    from foldline.tracers.root_listeners import AsyncListener, Listener

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
        from foldline.runnables.sequence import sequence_of

        return sequence_of([other, self])

    @overload
    def pipe(
        self, other: Runnable[Output, Other], /, *, name: str | None = None
    ) -> RunnableSequence[Input, Other]: ...
    @overload
    def pipe(self, *others: Any, name: str | None = None) -> RunnableSequence[Input, Any]: ...
    def pipe(self, *others: Any, name: str | None = None) -> RunnableSequence[Input, Any]:
        """Run this, then the others in turn."""
        from foldline.runnables.sequence import sequence_of

        return sequence_of([self, *others], name=name)

    # -- with something bound

    def bind(self, **kwargs: Any) -> Runnable[Input, Output]:
        """Give a runnable that is always called with these keyword arguments too."""
        from foldline.runnables.binding import RunnableBinding

        return RunnableBinding(bound=self._me(), kwargs=kwargs)

    def with_config(
        self, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Runnable[Input, Output]:
        """Give a runnable with a config of its own, under that of each call."""
        from foldline.runnables.binding import RunnableBinding

        given = cast("RunnableConfig", {**(config or {}), **kwargs})
        return RunnableBinding(bound=self._me(), config=given)

    def with_types(
        self, *, input_type: Any = None, output_type: Any = None
    ) -> Runnable[Input, Output]:
        """Say the types of input and output, where they cannot be inferred."""
        from foldline.runnables.binding import RunnableBinding

        return RunnableBinding(
            bound=self._me(), custom_input_type=input_type, custom_output_type=output_type
        )

    # -- of lists and dicts

    def map(self) -> Runnable[Sequence[Input], list[Output]]:
        """Give a runnable that runs this for each item of a list."""
        from foldline.runnables.each import RunnableEach

        return RunnableEach(bound=self._me())

    def pick(self, keys: str | list[str]) -> RunnableSequence[Input, Any]:
        """Pick keys from the dict this gives: the value of one, or a smaller dict."""
        from foldline.runnables.passthrough import RunnablePick

        return self.pipe(RunnablePick(keys))

    def assign(
        self, **kwargs: Runnable[dict[str, Any], Any] | Callable[..., Any] | Mapping[str, Any]
    ) -> RunnableSequence[Input, dict[str, Any]]:
        """Add keys to the dict this gives, each made by a runnable from that dict."""
        from foldline.runnables.parallel import RunnableParallel
        from foldline.runnables.passthrough import RunnableAssign

        return self.pipe(RunnableAssign(RunnableParallel(kwargs)))

    # -- what happens inside

    def astream_events(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Any:
        """Give everything that happens inside, as events (`version` "v1" or "v2"; filters `include_*`, `exclude_*`)."""
        from foldline.tracers.event_stream import astream_events

        return astream_events(self, input, config, **kwargs)

    def stream_events(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Give everything that happens inside, as events (`version` "v1" or "v2"; filters `include_*`, `exclude_*`)."""
        from foldline.tracers.event_stream import stream_events

        return stream_events(self, input, config, **kwargs)

    def astream_log(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncGenerator[RunLogPatch, None]:
        """Give the log of a run and of those inside it as patches, or with `diff=False` as it grows."""
        from foldline.tracers.log_stream import astream_log

        return astream_log(self, input, config, **kwargs)

    # -- when it fails

    def with_retry(
        self,
        *,
        retry_if_exception_type: tuple[type[BaseException], ...]
        | Callable[[BaseException], bool] = (Exception,),
        wait_exponential_jitter: bool = True,
        exponential_jitter_params: ExponentialJitterParams | None = None,
        stop_after_attempt: int = 3,
    ) -> Runnable[Input, Output]:
        """Try again when this fails, `stop_after_attempt` times in all."""
        from foldline.runnables.retry import RunnableRetry

        return RunnableRetry(
            bound=self._me(),
            retry_exception_types=retry_if_exception_type,
            wait_exponential_jitter=wait_exponential_jitter,
            exponential_jitter_params=exponential_jitter_params,
            max_attempt_number=stop_after_attempt,
        )

    def with_fallbacks(
        self,
        fallbacks: Sequence[Runnable[Input, Output]],
        *,
        exceptions_to_handle: tuple[type[BaseException], ...] = (Exception,),
        exception_key: str | None = None,
    ) -> RunnableWithFallbacks[Input, Output]:
        """Let others stand in, in their order, when this fails."""
        from foldline.runnables.fallbacks import RunnableWithFallbacks

        return RunnableWithFallbacks(
            runnable=self._me(),
            fallbacks=list(fallbacks),
            exceptions_to_handle=exceptions_to_handle,
            exception_key=exception_key,
        )

    # -- who listens

    def with_listeners(
        self,
        *,
        on_start: Listener | None = None,
        on_end: Listener | None = None,
        on_error: Listener | None = None,
    ) -> Runnable[Input, Output]:
        """Call functions with the traced run when it starts, ends or fails."""
        from foldline.runnables.binding import RunnableBinding
        from foldline.tracers.root_listeners import RootListenersTracer

        def listening(config: RunnableConfig) -> RunnableConfig:
            return {
                "callbacks": [
                    RootListenersTracer(
                        config=config, on_start=on_start, on_end=on_end, on_error=on_error
                    )
                ]
            }

        return RunnableBinding(bound=self._me(), config_factories=[listening])

    def with_alisteners(
        self,
        *,
        on_start: AsyncListener | None = None,
        on_end: AsyncListener | None = None,
        on_error: AsyncListener | None = None,
    ) -> Runnable[Input, Output]:
        """Await functions with the traced run when it starts, ends or fails."""
        from foldline.runnables.binding import RunnableBinding
        from foldline.tracers.root_listeners import AsyncRootListenersTracer

        def listening(config: RunnableConfig) -> RunnableConfig:
            return {
                "callbacks": [
                    AsyncRootListenersTracer(
                        config=config, on_start=on_start, on_end=on_end, on_error=on_error
                    )
                ]
            }

        return RunnableBinding(bound=self._me(), config_factories=[listening])

    # -- chosen by the config of a call

    def configurable_fields(self, **kwargs: AnyConfigurableField) -> Runnable[Input, Output]:
        """Let `config["configurable"]` give some of the settings."""
        from foldline.runnables.configurable import RunnableConfigurableFields

        return RunnableConfigurableFields(default=self._me(), fields=kwargs)

    def configurable_alternatives(
        self,
        which: ConfigurableField,
        *,
        default_key: str = "default",
        prefix_keys: bool = False,
        **kwargs: Runnable[Input, Output] | Callable[[], Runnable[Input, Output]],
    ) -> Runnable[Input, Output]:
        """Let `config["configurable"]` choose another runnable in place of this."""
        from foldline.runnables.configurable import RunnableConfigurableAlternatives

        return RunnableConfigurableAlternatives(
            default=self._me(),
            which=which,
            alternatives=kwargs,
            default_key=default_key,
            prefix_keys=prefix_keys,
        )

    # -- seen as something else

    def as_tool(
        self,
        args_schema: type[BaseModel] | None = None,
        *,
        name: str | None = None,
        description: str | None = None,
        arg_types: dict[str, type] | None = None,
    ) -> Any:
        """Give a tool that a model may call."""
        from foldline.tools.convert import convert_runnable_to_tool

        return convert_runnable_to_tool(
            self._me(), args_schema, name=name, description=description, arg_types=arg_types
        )

    def get_graph(self, config: RunnableConfig | None = None) -> Graph:
        """Give the parts of this runnable and how they hang together, to be drawn."""
        from foldline.runnables._graph_of import graph_of

        return graph_of(self._me(), config)

    def _me(self) -> Runnable[Input, Output]:
        return cast("Runnable[Input, Output]", self)

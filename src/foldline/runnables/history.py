"""`RunnableWithMessageHistory`: a runnable that remembers: earlier messages go in, new ones are kept.

The messages of a call are kept together, once, when its output is whole. A call that fails, or whose stream is closed
early, keeps nothing; an answer that says it is incomplete is kept with that mark.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel

from foldline._config import RunnableConfig
from foldline._run import Run
from foldline._traceback import closing
from foldline.chat_history.base import BaseChatMessageHistory
from foldline.exceptions import UsageError
from foldline.messages import (
    AIMessage,
    BaseMessage,
    BaseMessageChunk,
    HumanMessage,
    message_chunk_to_message,
)
from foldline.runnables import _types
from foldline.runnables._opening import EventStream, Opening, Wrapped
from foldline.runnables._trace import NOTHING, plus
from foldline.runnables.base import Runnable
from foldline.runnables.binding import RunnableBindingBase
from foldline.runnables.coerce import coerce_to_runnable
from foldline.runnables.lambda_ import RunnableLambda
from foldline.runnables.utils import ConfigurableFieldSpec, get_unique_config_specs

__all__ = ["RunnableWithMessageHistory"]

Input = TypeVar("Input", contravariant=True)
Output = TypeVar("Output", covariant=True)
GetSessionHistoryCallable = Callable[..., BaseChatMessageHistory]

SESSION = ConfigurableFieldSpec(
    id="session_id",
    annotation=str,
    name="Session ID",
    description="Which conversation this is.",
    default="",
    is_shared=True,
)


class RunnableWithMessageHistory(RunnableBindingBase[Any, Any]):  # type: ignore[no-redef]  # its field is called kwargs
    """A runnable with the memory of a conversation, found by `config["configurable"]`.

    ```python
    from foldline.chat_history import InMemoryChatMessageHistory
    from foldline.runnables import RunnableLambda, RunnableWithMessageHistory

    kept = {}

    def history_of(session_id: str) -> InMemoryChatMessageHistory:
        return kept.setdefault(session_id, InMemoryChatMessageHistory())

    count = RunnableWithMessageHistory(RunnableLambda(lambda messages: str(len(messages))), history_of)
    config = {"configurable": {"session_id": "ann"}}
    print(count.invoke("hi", config), count.invoke("again", config))
    #> 1 3
    ```
    """

    get_session_history: Callable[..., Any]
    """Gives the history of a conversation; called with the values of `history_factory_config`."""
    input_messages_key: str | None = None
    """Where the new messages are, if the input is a dict."""
    output_messages_key: str | None = None
    """Where the answer is, if the output is a dict."""
    history_messages_key: str | None = None
    """Where the earlier messages go, if they have a place of their own in the input."""
    history_factory_config: Sequence[ConfigurableFieldSpec] = (SESSION,)
    """The values of `config["configurable"]` that name a conversation."""

    def __init__(
        self,
        runnable: Runnable[Any, Any] | Callable[..., Any] | None = None,
        get_session_history: GetSessionHistoryCallable | None = None,
        *,
        input_messages_key: str | None = None,
        output_messages_key: str | None = None,
        history_messages_key: str | None = None,
        history_factory_config: Sequence[ConfigurableFieldSpec] | None = None,
        **kwargs: Any,
    ) -> None:
        """Return a runnable a memory."""
        bound = kwargs.pop("bound", runnable)
        if bound is None or get_session_history is None:
            raise UsageError(
                "RunnableWithMessageHistory needs a runnable and a function that gives its history"
            )
        super().__init__(
            bound=coerce_to_runnable(bound),
            get_session_history=get_session_history,
            input_messages_key=input_messages_key,
            output_messages_key=output_messages_key,
            history_messages_key=history_messages_key,
            history_factory_config=history_factory_config or [SESSION],
            **kwargs,
        )

    def get_name(self, suffix: str | None = None, *, name: str | None = None) -> str:
        """Return the name shown in traces."""
        return Runnable.get_name(self, suffix, name=name)

    # -- behaviours: unlike a binding, this is a run of its own

    _traced = Runnable._traced
    _traced_stream = Runnable._traced_stream
    _traced_transform = Runnable._traced_transform

    async def _once(self, input: object, run: Run) -> object:
        memory = await _Memory.of(self, input, run)
        output = await self.bound._step(memory.input, self._inner(run))
        await memory.keep(output)
        return output

    async def _pieces(self, input: object, run: Run) -> AsyncGenerator[Any, None]:
        memory = await _Memory.of(self, input, run)
        whole: Any = NOTHING
        async with closing(self.bound._step_stream(memory.input, self._inner(run))) as pieces:
            async for piece in pieces:
                whole = plus(whole, piece)
                yield piece
        if whole is not NOTHING:
            await memory.keep(whole)

    def _inner(self, run: Run) -> Run:
        child = run.child("seq:step:2")
        return self._bound_run(child.patched(kwargs=run.kwargs) if run.kwargs else child)

    def _open_stream_v2(self, opening: Opening) -> EventStream:
        return self.bound._open_stream_v2(_Remembering(opening, self))

    # -- the conversation

    async def _history(self, run: Run) -> BaseChatMessageHistory:
        values = run.configurable
        parameters = _parameters(self.get_session_history)
        if parameters == {} and callable(self.get_session_history):
            wanted: list[str] = []  # one conversation for all calls
        else:
            wanted = [spec.id for spec in self.history_factory_config]
        missing = [key for key in wanted if key not in values]
        if missing:
            example = {"configurable": dict.fromkeys(wanted, "...")}
            raise UsageError(
                f"{self.get_name()} does not know which conversation this is: the config lacks "
                f"{', '.join(repr(key) for key in missing)}; call it with config={example}"
            )
        with run.current():
            if len(wanted) == 1 and parameters is not None and wanted[0] not in parameters:
                found = await run.io.call(self.get_session_history, values[wanted[0]])
            else:
                named = {key: values[key] for key in wanted}
                found = await run.io.call(self.get_session_history, **named)
        if not isinstance(found, BaseChatMessageHistory):
            raise UsageError(
                f"get_session_history gave {type(found).__name__}: it must give a BaseChatMessageHistory"
            )
        return found

    def _new_messages(self, value: object) -> list[BaseMessage]:
        """Return the new messages of an input."""
        if isinstance(value, Mapping):
            key = self.input_messages_key or (next(iter(value)) if len(value) == 1 else "input")
            if key not in value:
                raise UsageError(
                    f"the input has no {key!r}: set input_messages_key to one of {list(value)}"
                )
            value = value[key]
        elif self.input_messages_key is not None:
            raise UsageError(
                f"input_messages_key={self.input_messages_key!r} is for a dict, and the input is {type(value).__name__}"
            )
        return _messages(value, HumanMessage, "input_messages_key")

    def _answered(self, value: object) -> list[BaseMessage]:
        """Return the messages of an output."""
        if isinstance(value, Mapping):
            key = self.output_messages_key or (next(iter(value)) if len(value) == 1 else "output")
            if key not in value:
                raise UsageError(
                    f"the output has no {key!r}: set output_messages_key to one of {list(value)}"
                )
            value = value[key]
        return _messages(value, AIMessage, "output_messages_key")

    def _add_history(self, value: Any, past: list[BaseMessage], said: list[BaseMessage]) -> object:  # noqa: ANN401  a dict or messages, as the keys say
        if self.history_messages_key is not None:
            if not isinstance(value, Mapping):
                raise UsageError(
                    f"history_messages_key={self.history_messages_key!r} is for a dict, "
                    f"and the input is {type(value).__name__}"
                )
            return {**value, self.history_messages_key: past}
        if self.input_messages_key is not None:
            return {**value, self.input_messages_key: [*past, *said]}
        return [*past, *said]

    # -- types

    @property
    def config_specs(self) -> list[ConfigurableFieldSpec]:
        """The configurable fields of what is inside, and those that name a conversation."""
        return get_unique_config_specs([*self.bound.config_specs, *self.history_factory_config])

    def get_input_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Return the input: messages, or a dict with them."""
        if self.custom_input_type is not None:
            return super().get_input_schema(config)
        messages: Any = str | BaseMessage | Sequence[BaseMessage]
        name = "RunnableWithChatHistoryInput"  # LangChain's, also in its schemas
        if self.input_messages_key is not None:
            return _types.object_model(name, {self.input_messages_key: (messages, ...)})
        return _types.value_model(
            name, messages if self.history_messages_key is None else dict[str, Any]
        )

    @property
    def OutputType(self) -> object:
        """That of what is inside."""
        return self.bound.OutputType


class _Memory:
    """The conversation of one call."""

    def __init__(
        self,
        owner: RunnableWithMessageHistory,
        run: Run,
        history: BaseChatMessageHistory,
        said: list[BaseMessage],
    ) -> None:
        self._owner = owner
        self._run = run
        self._history = history
        self._new_messages = said
        self.input: Any = None

    @classmethod
    async def of(cls, owner: RunnableWithMessageHistory, value: object, run: Run) -> _Memory:
        """Find the conversation and put its messages into the input."""
        memory = cls(owner, run, await owner._history(run), owner._new_messages(value))
        # Seen in traces under the name it has in LangChain.
        loading: RunnableLambda[Any, Any] = RunnableLambda(
            memory._history_messages, memory._apast, name="load_history"
        )
        past = await loading._step(value, run.child("seq:step:1"))
        memory.input = owner._add_history(value, past, memory._new_messages)
        return memory

    # Copies: what the runnable gets must not grow when the answer is kept.

    def _history_messages(self, _: object) -> list[BaseMessage]:
        return list(self._history.messages)

    async def _apast(self, _: object) -> list[BaseMessage]:
        return list(await self._history.aget_messages())

    async def keep(self, output: object) -> None:
        """Keep what was said and answered, together."""
        messages = [*self._new_messages, *self._owner._answered(output)]
        if self._run.io.blocking:
            self._history.add_messages(messages)
        else:
            await self._history.aadd_messages(messages)


class _Remembering(Wrapped):
    """Finds the conversation when a model's stream is first read; keeps the answer when it is whole."""

    def __init__(self, inner: Opening, owner: RunnableWithMessageHistory) -> None:
        super().__init__(inner)
        self._owner = owner
        self._memory: _Memory | None = None

    async def begin(self) -> tuple[Any, Run]:
        value, run = await self._inner.begin()
        self._memory = await _Memory.of(self._owner, value, run)
        return self._memory.input, self._owner._inner(run)

    async def end(self, output: object) -> None:
        closed_early = isinstance(output, AIMessage) and output.status == "incomplete"
        if self._memory is not None and output is not None and not closed_early:
            await self._memory.keep(output)
        await self._inner.end(output)


def _parameters(function: Callable[..., Any]) -> Mapping[str, Any] | None:
    """Return the parameters of a function; None where it does not say."""
    try:
        return dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return None


def _messages(value: object, kind: type[HumanMessage | AIMessage], key: str) -> list[BaseMessage]:
    if isinstance(value, str):
        return [kind(content=value)]
    if isinstance(value, BaseMessage):
        return [_to_message(value)]
    if isinstance(value, list | tuple) and all(isinstance(one, BaseMessage) for one in value):
        return [_to_message(one) for one in value]
    raise UsageError(
        f"Expected str, BaseMessage, list[BaseMessage], or tuple[BaseMessage]. Got {value!r:.200}. A history keeps "
        f"text and messages: set {key} to where they are, or let the chain end in a message"
    )


def _to_message(message: BaseMessage) -> BaseMessage:
    if isinstance(message, BaseMessageChunk):
        return message_chunk_to_message(message)
    return message

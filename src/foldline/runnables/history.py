"""`RunnableWithMessageHistory`: a runnable with a memory: earlier messages are added to the input, new ones are stored.

The messages of a call are stored together, once, when its output is complete. A call that fails, or whose stream is
closed early, stores nothing; an answer that is marked incomplete is stored with that mark.
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
from foldline.runnables._coerce import coerce_to_runnable
from foldline.runnables._stream_call import EventStream, StreamCall, StreamCallWrapper
from foldline.runnables._trace import NOTHING, plus
from foldline.runnables.base import Runnable
from foldline.runnables.binding import RunnableBindingBase
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
    """A runnable with the memory of a conversation, which `config["configurable"]` selects.

    ```python
    from foldline.chat_history import InMemoryChatMessageHistory
    from foldline.runnables import RunnableLambda, RunnableWithMessageHistory

    histories = {}

    def history_of(session_id: str) -> InMemoryChatMessageHistory:
        return histories.setdefault(session_id, InMemoryChatMessageHistory())

    count = RunnableWithMessageHistory(RunnableLambda(lambda messages: str(len(messages))), history_of)
    config = {"configurable": {"session_id": "ann"}}
    print(count.invoke("hi", config), count.invoke("again", config))
    #> 1 3
    ```
    """

    get_session_history: Callable[..., Any]
    """Returns the history of a conversation; called with the values of `history_factory_config`."""
    input_messages_key: str | None = None
    """The key of the new messages, if the input is a dict."""
    output_messages_key: str | None = None
    """The key of the answer, if the output is a dict."""
    history_messages_key: str | None = None
    """The key for the earlier messages, if they have their own key in the input."""
    history_factory_config: Sequence[ConfigurableFieldSpec] = (SESSION,)
    """The values of `config["configurable"]` that identify a conversation."""

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
        """Add a memory to a runnable."""
        bound = kwargs.pop("bound", runnable)
        if bound is None or get_session_history is None:
            raise UsageError(
                "RunnableWithMessageHistory needs a runnable and a function that returns its history"
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

    # -- behaviours: unlike a binding, this is a run itself

    _invoke_traced = Runnable._invoke_traced
    _stream_traced = Runnable._stream_traced
    _transform_traced = Runnable._transform_traced

    async def _invoke_body(self, input: object, run: Run) -> object:
        memory = await _Memory.of(self, input, run)
        output = await self.bound._step(memory.input, self._inner(run))
        await memory.store(output)
        return output

    async def _stream_body(self, input: object, run: Run) -> AsyncGenerator[Any, None]:
        memory = await _Memory.of(self, input, run)
        total: Any = NOTHING
        async with closing(self.bound._step_stream(memory.input, self._inner(run))) as chunks:
            async for chunk in chunks:
                total = plus(total, chunk)
                yield chunk
        if total is not NOTHING:
            await memory.store(total)

    def _inner(self, run: Run) -> Run:
        child = run.child("seq:step:2")
        return self._bound_run(child.patched(kwargs=run.kwargs) if run.kwargs else child)

    def _open_stream_v2(self, call: StreamCall) -> EventStream:
        return self.bound._open_stream_v2(_HistoryStreamCall(call, self))

    # -- the conversation

    async def _history(self, run: Run) -> BaseChatMessageHistory:
        values = run.configurable
        parameters = _parameters(self.get_session_history)
        if parameters == {} and callable(self.get_session_history):
            keys: list[str] = []  # one conversation for all calls
        else:
            keys = [spec.id for spec in self.history_factory_config]
        missing = [key for key in keys if key not in values]
        if missing:
            example = {"configurable": dict.fromkeys(keys, "...")}
            raise UsageError(
                f"{self.get_name()} does not know which conversation this is: the config lacks "
                f"{', '.join(repr(key) for key in missing)}; call it with config={example}"
            )
        with run.current():
            if len(keys) == 1 and parameters is not None and keys[0] not in parameters:
                history = await run.io.call(self.get_session_history, values[keys[0]])
            else:
                arguments = {key: values[key] for key in keys}
                history = await run.io.call(self.get_session_history, **arguments)
        if not isinstance(history, BaseChatMessageHistory):
            raise UsageError(
                f"get_session_history returned {type(history).__name__}: it must return a BaseChatMessageHistory"
            )
        return history

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

    def _output_messages(self, value: object) -> list[BaseMessage]:
        """Return the messages of an output."""
        if isinstance(value, Mapping):
            key = self.output_messages_key or (next(iter(value)) if len(value) == 1 else "output")
            if key not in value:
                raise UsageError(
                    f"the output has no {key!r}: set output_messages_key to one of {list(value)}"
                )
            value = value[key]
        return _messages(value, AIMessage, "output_messages_key")

    def _add_history(
        self,
        value: Any,  # noqa: ANN401  a dict or messages
        history: list[BaseMessage],
        new_messages: list[BaseMessage],
    ) -> object:
        if self.history_messages_key is not None:
            if not isinstance(value, Mapping):
                raise UsageError(
                    f"history_messages_key={self.history_messages_key!r} is for a dict, "
                    f"and the input is {type(value).__name__}"
                )
            return {**value, self.history_messages_key: history}
        if self.input_messages_key is not None:
            return {**value, self.input_messages_key: [*history, *new_messages]}
        return [*history, *new_messages]

    # -- types

    @property
    def config_specs(self) -> list[ConfigurableFieldSpec]:
        """The configurable fields of the bound runnable, and those that identify a conversation."""
        return get_unique_config_specs([*self.bound.config_specs, *self.history_factory_config])

    def get_input_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Return the input schema: messages, or a dict with them."""
        if self.custom_input_type is not None:
            return super().get_input_schema(config)
        messages: Any = str | BaseMessage | Sequence[BaseMessage]
        name = "RunnableWithChatHistoryInput"  # as in LangChain
        if self.input_messages_key is not None:
            return _types.object_model(name, {self.input_messages_key: (messages, ...)})
        return _types.value_model(
            name, messages if self.history_messages_key is None else dict[str, Any]
        )

    @property
    def OutputType(self) -> object:
        """The output type of the bound runnable."""
        return self.bound.OutputType


class _Memory:
    """The conversation of one call."""

    def __init__(
        self,
        owner: RunnableWithMessageHistory,
        run: Run,
        history: BaseChatMessageHistory,
        new_messages: list[BaseMessage],
    ) -> None:
        self._owner = owner
        self._run = run
        self._history = history
        self._new_messages = new_messages
        self.input: Any = None

    @classmethod
    async def of(cls, owner: RunnableWithMessageHistory, value: object, run: Run) -> _Memory:
        """Load the conversation and add its messages to the input."""
        memory = cls(owner, run, await owner._history(run), owner._new_messages(value))
        # Appears in traces under LangChain's name.
        load_history: RunnableLambda[Any, Any] = RunnableLambda(
            memory._history_messages, memory._ahistory_messages, name="load_history"
        )
        history = await load_history._step(value, run.child("seq:step:1"))
        memory.input = owner._add_history(value, history, memory._new_messages)
        return memory

    # Copies: the runnable's input must not grow when the answer is stored.

    def _history_messages(self, _: object) -> list[BaseMessage]:
        return list(self._history.messages)

    async def _ahistory_messages(self, _: object) -> list[BaseMessage]:
        return list(await self._history.aget_messages())

    async def store(self, output: object) -> None:
        """Store the new messages and the answer, together."""
        messages = [*self._new_messages, *self._owner._output_messages(output)]
        if self._run.io.blocking:
            self._history.add_messages(messages)
        else:
            await self._history.aadd_messages(messages)


class _HistoryStreamCall(StreamCallWrapper):
    """Loads the conversation when a model's stream is first read; stores the answer when it is complete."""

    def __init__(self, inner: StreamCall, owner: RunnableWithMessageHistory) -> None:
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
            await self._memory.store(output)
        await self._inner.end(output)


def _parameters(function: Callable[..., Any]) -> Mapping[str, Any] | None:
    """Return the parameters of a function; None if they cannot be determined."""
    try:
        return dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return None


def _messages(value: object, kind: type[HumanMessage | AIMessage], key: str) -> list[BaseMessage]:
    if isinstance(value, str):
        return [kind(content=value)]
    if isinstance(value, BaseMessage):
        return [_to_message(value)]
    if isinstance(value, list | tuple) and all(
        isinstance(message, BaseMessage) for message in value
    ):
        return [_to_message(message) for message in value]
    raise UsageError(
        f"Expected str, BaseMessage, list[BaseMessage], or tuple[BaseMessage]. Got {value!r:.200}. A history stores "
        f"text and messages: set {key} to where they are, or let the chain end in a message"
    )


def _to_message(message: BaseMessage) -> BaseMessage:
    if isinstance(message, BaseMessageChunk):
        return message_chunk_to_message(message)
    return message

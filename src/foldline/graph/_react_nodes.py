"""The nodes of a react agent: the one that asks the model, and the one that asks it for a structured answer."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel

from foldline._run import Run
from foldline.agents.state import with_fresh_id
from foldline.chat_models import init_chat_model
from foldline.exceptions import UsageError
from foldline.graph._node_spec import call_function
from foldline.graph.runtime import get_runtime, wanted_arguments
from foldline.graph.schema import EphemeralValue
from foldline.messages import AIMessage, AnyMessage, SystemMessage
from foldline.runnables.base import Runnable

__all__ = ["ModelNode", "StructuredNode", "model_input", "state_value"]

OUT_OF_STEPS = "Sorry, need more steps to process this request."
MODEL_INPUT = "llm_input_messages"


def state_value(state: object, key: str) -> Any:  # noqa: ANN401  a value of the state, of any type
    """Return the value of a key, whatever the form of the state."""
    return state.get(key) if isinstance(state, Mapping) else getattr(state, key, None)


def model_input(schema: Any) -> Any:  # noqa: ANN401  a class of any kind
    """Return a state schema with the key `llm_input_messages`, which a `pre_model_hook` may write."""
    annotation = Annotated[list[AnyMessage] | None, EphemeralValue()]
    fields: dict[str, Any] = {"__annotations__": {MODEL_INPUT: annotation}}
    is_dataclass = dataclasses.is_dataclass(schema)
    if is_dataclass or issubclass(schema, BaseModel):
        fields |= {MODEL_INPUT: None, "__module__": schema.__module__}
    new = type(schema)("ModelInput", (schema,), fields)
    return dataclasses.dataclass(new) if is_dataclass else new


class ModelNode(Runnable[Any, Any]):
    """Asks the model."""

    def __init__(self, model: Any, tools: list[Any], prompt: Any) -> None:  # noqa: ANN401  see `Model` and `Prompt`
        self.name = "agent"
        self.model: Any = init_chat_model(model) if isinstance(model, str) else model
        self.is_dynamic: bool = not isinstance(self.model, Runnable) and callable(self.model)
        self.tools = tools
        self.prompt = SystemMessage(prompt) if isinstance(prompt, str) else prompt
        self._bound: Runnable[Any, Any] | None = None
        if not self.is_dynamic:
            self._bound = self.model
            if tools and hasattr(self.model, "bind_tools"):
                self._bound = self.model.bind_tools(tools)

    async def _invoke_body(self, input: object, run: Run) -> object:
        model = self._bound or await self.choose(input, run)
        message: AIMessage = await model._step(await self._messages(input, run), run.child())
        remaining = state_value(input, "remaining_steps")
        if remaining is not None and remaining < 2 and message.tool_calls:
            message = AIMessage(OUT_OF_STEPS, id=message.id)
        earlier_ids = {item.id for item in state_value(input, "messages") or []}
        return {"messages": [with_fresh_id(message, earlier_ids)]}

    async def choose(self, state: object, run: Run) -> Any:  # noqa: ANN401  a chat model, or a runnable around one
        """Return the model for a state: the one of the agent, or the one that its function chooses."""
        if not self.is_dynamic:
            return self.model
        model = await run.io.call(self.model, state, get_runtime())
        if isinstance(model, str):
            model = init_chat_model(model)
        if not isinstance(model, Runnable):
            raise UsageError(
                f"the function model= of create_react_agent must return a chat model, not {type(model).__name__}"
            )
        return model

    async def _messages(self, state: object, run: Run) -> Any:  # noqa: ANN401  what the model takes
        prompt = self.prompt
        messages = state_value(state, MODEL_INPUT) or state_value(state, "messages")
        if prompt is None:
            return messages
        if isinstance(prompt, Runnable):
            return await prompt._step(state, run.child())
        if callable(prompt):
            wants, count = wanted_arguments(prompt)
            result = await call_function(prompt, wants, count, state, run, get_runtime())
            if isinstance(result, Runnable):  # a template, such as `SystemMessage(…) + messages`
                return await result._step(state, run.child())
            return result
        return [prompt, *messages]


class StructuredNode(Runnable[Any, Any]):
    """Asks the model for the structured answer, when it has called all the tools that it wants."""

    def __init__(self, model: ModelNode, response_format: object, name: str) -> None:
        self.name = name
        self._model = model
        self._prompt: str | None = None
        self._schema: Any = response_format
        if isinstance(response_format, tuple):
            self._prompt, self._schema = response_format

    async def _invoke_body(self, input: object, run: Run) -> object:
        model = await self._model.choose(input, run)
        messages = state_value(input, "messages")
        if self._prompt is not None:
            messages = [SystemMessage(self._prompt), *messages]
        structured = model.with_structured_output(self._schema)
        return {"structured_response": await structured._step(messages, run.child())}

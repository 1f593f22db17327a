"""Whole answers: asked of a model's `_generate`, and made of text that needs no checking."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel

from foldline._run import Run
from foldline.exceptions import ModelError
from foldline.language_models._written import written_by
from foldline.language_models.request import ChatRequest
from foldline.messages import AIMessage, BaseMessage
from foldline.outputs import ChatGeneration, ChatResult
from foldline.utils.trusted import bare, set_dict, set_extra, set_fields_set, set_private
from foldline.utils.uuid import new_id

if TYPE_CHECKING:
    from foldline.language_models.chat_models import BaseChatModel

M = TypeVar("M", bound=BaseModel)


async def generate(model: BaseChatModel, request: ChatRequest, run: Run) -> ChatResult:
    """Give the model's whole answer from `_generate` or `_agenerate`; every message has an id."""
    is_blocking = run.io.blocking
    hook = written_by(type(model)).whole[not is_blocking] or "_generate"
    manager, method = run.run_manager("llm"), getattr(model, hook)
    result: Any
    if is_blocking:
        result = method(request.messages, stop=request.stop, run_manager=manager, **request.options)
        if hook == "_agenerate":
            result = await run.io.settle(result)
    else:
        result = await run.io.call(
            method, request.messages, stop=request.stop, run_manager=manager, **request.options
        )
    if (
        type(result) is not ChatResult and not isinstance(result, ChatResult)
    ) or not result.generations:
        raise ModelError(f"{type(model).__name__}.{hook} gave no generation, but {result!r:.80}")
    for place, generation in enumerate(result.generations):
        message = generation.message
        if message.id is None:
            _name(message, f"{run_message_id(run)}-{place}")
        if generation.generation_info:  # where it says nothing of its own (T64)
            message.response_metadata = {**generation.generation_info, **message.response_metadata}
    return result


def run_message_id(run: Run) -> str:
    """Give the id of a message whose provider gave none: that of its run."""
    return f"lc_run--{run.id or new_id()}"


def answer(text: str) -> AIMessage:
    """Make an answer that is plain text."""
    if not text.isascii():
        return AIMessage(content=text)
    fields: dict[str, Any] = {
        "content": text,
        "additional_kwargs": {},
        "response_metadata": {},
        "type": "ai",
        "name": None,
        "id": None,
        "tool_calls": [],
        "invalid_tool_calls": [],
        "usage_metadata": None,
        "finish_reason": None,
        "status": "complete",
    }
    return _made(AIMessage, fields, {"content"}, {})


def result_of(message: BaseMessage) -> ChatResult:
    """Make the result that is one message: `ChatGeneration(message=...)` in a `ChatResult`, neither checked."""
    content = message.content
    fields: dict[str, Any] = {
        "text": content if type(content) is str else str(message.text),
        "generation_info": None,
        "type": "ChatGeneration",
        "message": message,
    }
    generations = [_made(ChatGeneration, fields)]
    return _made(ChatResult, {"generations": generations, "llm_output": None})


def _name(message: BaseMessage, id: str) -> None:
    """Give a message its id, past validation where its class has nothing more to do."""
    if type(message) is AIMessage:
        message.__dict__["id"] = id
        message.__pydantic_fields_set__.add("id")
    else:
        message.id = id


def _made(
    cls: type[M],
    fields: dict[str, Any],
    said: set[str] | None = None,
    extra: dict[str, Any] | None = None,
) -> M:
    # `build_trusted`, here once more: three frames and a file less on the path of a call (tests/test_budget.py).
    made = bare(cls)
    set_dict(made, fields)
    set_fields_set(made, set(fields) if said is None else said)
    set_extra(made, extra)
    set_private(made, None)
    return made

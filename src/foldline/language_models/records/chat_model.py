"""`ChatModel`: AIGNE's door to a chat model. An author writes `process`: a record in, a record or deltas out.

It is a `BaseChatModel` like any other: the record is turned to events, and everything else (`invoke`, `stream`, tools,
structured output, retries, usage) comes from the turn. `preprocess` and `postprocess` may be overridden, async or not.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any, cast

from foldline._run import Run
from foldline.language_models.call.batch import Batch
from foldline.language_models.call.request import ChatRequest
from foldline.language_models.chat_models import BaseChatModel
from foldline.language_models.records.process import Teller, replaced
from foldline.language_models.records.records import (
    ChatModelInput,
    ChatModelOutput,
    ChatModelUsage,
    input_of,
    output_of,
)
from foldline.messages import AIMessage
from foldline.outputs import ChatGeneration, ChatResult

__all__ = ["ChatModel", "ChatModelInput", "ChatModelOutput", "ChatModelUsage"]

Options = dict[str, Any]


class ChatModel(BaseChatModel):
    """A chat model whose author writes `process`.

    ```python
    from foldline.language_models import ChatModel

    class Echo(ChatModel):
        def process(self, input, options):
            return {"text": input.messages[-1].text}

    print(Echo().invoke("Hi").text, Echo().run({"messages": [{"role": "user", "content": "Ho"}]}).text)
    #> Hi Ho
    ```
    """

    def process(self, input: ChatModelInput, options: Options) -> Any:
        """Answer: give a `ChatModelOutput`, a dict of its fields, or an iterator of deltas, async or not."""
        raise NotImplementedError(f"{type(self).__name__} must implement `process`")

    def preprocess(self, input: ChatModelInput, options: Options) -> Any:
        """Look at the record before `process`; give another, or None. May be async."""
        return None

    def postprocess(self, input: ChatModelInput, output: ChatModelOutput, options: Options) -> Any:
        """Look at the answer before the caller; give another, or None. May be async."""
        return None

    async def _preprocess(self, request: ChatRequest, run: Run) -> ChatRequest:
        if type(self).preprocess is ChatModel.preprocess:
            return request
        changed = await _called(run, self.preprocess, record_of(request), _options(request))
        if changed is None:
            return request
        return _changed(request, input_of(changed))

    async def _postprocess(self, request: ChatRequest, result: ChatResult, run: Run) -> ChatResult:
        if type(self).postprocess is ChatModel.postprocess:
            return result
        message = cast("AIMessage", result.generations[0].message)
        output = output_of(message)
        changed = await _called(
            run, self.postprocess, record_of(request), output, _options(request)
        )
        if changed is None:
            return result
        answer = replaced(changed, message)
        return ChatResult(
            generations=[ChatGeneration(message=answer)], llm_output=result.llm_output
        )

    async def _events(self, request: ChatRequest, run: Run) -> AsyncGenerator[Batch, None]:
        teller = Teller()
        record, options = record_of(request), {**_options(request), "stream": request.stream}
        outcome = await self._processed(record, options, run)
        if not hasattr(outcome, "__aiter__") and not isinstance(outcome, Iterator):
            yield [*teller.tell(outcome), *teller.end()]
            return
        async with aclosing(run.io.adapt(outcome)) as deltas:
            async for delta in deltas:
                if batch := teller.tell(delta):
                    yield batch
        yield teller.end()

    async def _processed(self, record: ChatModelInput, options: Options, run: Run) -> Any:
        """Call `process`, whichever colour it has: one that waits for a loop gets one of its own in a blocking call."""
        if inspect.isgeneratorfunction(self.process) or inspect.isasyncgenfunction(self.process):
            return self.process(record, options)
        return await _called(run, self.process, record, options)


async def _called(run: Run, method: Any, *arguments: Any) -> Any:
    """Call what an author wrote in either colour: an async one gets a loop of its own in a blocking call."""
    if run.io.blocking and inspect.iscoroutinefunction(method):
        return await run.io.settle(method(*arguments))
    return await run.io.call(method, *arguments)


def record_of(request: ChatRequest) -> ChatModelInput:
    """Give a request as the record `process` gets."""
    options = dict(request.options)
    tools, choice = options.pop("tools", None), options.pop("tool_choice", None)
    wanted = options.pop("response_format", None)
    if request.stop:
        options["stop"] = request.stop
    return ChatModelInput(
        messages=request.messages,
        response_format=wanted,
        output_file_type=request.output_file_type,
        tools=tools,
        tool_choice=choice,
        model_options=options,
    )


def _options(request: ChatRequest) -> Options:
    return dict(request.options)


def _changed(request: ChatRequest, record: ChatModelInput) -> ChatRequest:
    options = dict(record.model_options)
    stop = options.pop("stop", request.stop)
    for key in ("tools", "tool_choice", "response_format"):
        if (value := getattr(record, key)) is not None:
            options[key] = value
    return request.replace(
        messages=record.messages,
        options=options,
        stop=stop,
        output_file_type=record.output_file_type or request.output_file_type,
    )

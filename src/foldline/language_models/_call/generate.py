"""`generate`: several conversations at once, with every generation of each."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from typing import Any, Final, cast

from foldline._config import RunnableConfig
from foldline._io import IO
from foldline._run import Run
from foldline.language_models._call.call import ChatCall
from foldline.language_models._call.model import CallModel
from foldline.messages import BaseMessage
from foldline.outputs import ChatResult, LLMResult, RunInfo

__all__ = ["generate_each"]

RUN_KEYS: Final = ("callbacks", "tags", "metadata", "run_name", "run_id")


async def generate_each(
    model: CallModel,
    conversations: list[list[BaseMessage]],
    io: IO,
    run_values: Sequence[Any],
    kwargs: dict[str, Any],
) -> LLMResult:
    """Answer each conversation in a separate call: one after the other if sync, at once if async.

    `run_values` are the callbacks, tags, metadata, name and id of the run, each of which may be None.
    """
    pairs = zip(RUN_KEYS, run_values, strict=True)
    config = {key: value for key, value in pairs if value is not None}
    config_without_id = {key: value for key, value in config.items() if key != "run_id"}
    calls = [
        # A run id belongs to one run: the first.
        ChatCall(
            model, messages, _run(io, config_without_id if index else config, kwargs), stream=False
        )
        for index, messages in enumerate(conversations)
    ]
    failure: BaseException | None = None
    limit = 1 if io.blocking else None
    outcomes = io.as_completed(lambda call: call.answer_once(), calls, limit=limit)
    async with aclosing(outcomes):
        async for _, _, error in outcomes:
            failure = failure or error
            if failure is not None and io.blocking:
                break
    if failure is not None:
        raise failure
    return _llm_result(model, [call.result for call in calls if call.result is not None], calls)


def _run(io: IO, config: dict[str, Any], kwargs: dict[str, Any]) -> Run:
    return Run.root(io, cast("RunnableConfig", config), kwargs)


def _llm_result(model: CallModel, results: list[ChatResult], calls: list[ChatCall]) -> LLMResult:
    result = LLMResult(
        generations=[result.generations for result in results],
        llm_output=model._combine_llm_outputs([call.llm_output for call in calls]),
    )
    ids = [call.run.id for call in calls if call.run.id is not None]
    result.run = [RunInfo(run_id=id) for id in ids] or None
    return result

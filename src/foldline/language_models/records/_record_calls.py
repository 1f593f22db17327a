"""Calls in AIGNE's style: a record in, a record or delta records out, by the same `ChatCall`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from foldline._run import Run
from foldline.language_models._call.call import ChatCall
from foldline.language_models._call.model import CallModel
from foldline.language_models._call.retry_policy import RetryPolicy
from foldline.language_models.records.deltas import DeltaView
from foldline.language_models.records.parts import ChatModelOutputDelta
from foldline.language_models.records.records import (
    ChatModelInput,
    ChatModelOutput,
    input_of,
    output_of,
)
from foldline.language_models.structured._output import StructuredCheck
from foldline.messages import AIMessage

__all__ = ["answer_deltas", "answer_record", "read_record"]

Record = ChatModelInput | Mapping[str, Any]


async def answer_record(model: CallModel, input: Record, run: Run) -> ChatModelOutput:
    """Answer a record with a record."""
    record, options, check = read_record(model, input, run.kwargs)
    patched = run.patched(kwargs={**options, **run.kwargs})
    message: AIMessage = await model._step(record.messages, patched)
    return output_of(message, check)


async def answer_deltas(
    model: CallModel, input: Record, run: Run
) -> AsyncGenerator[ChatModelOutputDelta, None]:
    """Answer a record with delta records that add up to one."""
    record, options, check = read_record(model, input, run.kwargs)
    patched = run.patched(kwargs={**options, **run.kwargs})
    call, view = ChatCall(model, record.messages, patched, stream=True), DeltaView(check)
    async with aclosing(call.batches()) as batches:
        async for batch in batches:
            for delta in view.show(batch):
                yield delta
    assert call.message is not None
    for delta in view.finish(output_of(call.message, check)):
        yield delta


def read_record(
    model: CallModel, input: Record, options: dict[str, Any]
) -> tuple[ChatModelInput, dict[str, Any], StructuredCheck | None]:
    """Return a record, the call options it asks for, and the check that reads its JSON."""
    record, call_policy = input_of(input), options.get("retry_on_error")
    policy = model._retry_policy if call_policy is None else RetryPolicy.of(call_policy)
    return record, *record.call_options(model._profile, policy.max_retries)

"""The checks of a call: invalid tool calls are marked, and a rejected answer is retried."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, cast

from foldline._streams.answer import Batch, CompleteAnswer
from foldline._streams.state import MESSAGE
from foldline.exceptions import ModelRefusalError, StructuredOutputError
from foldline.language_models._call.policies.output_check import (
    OutputCheck,
    Verdict,
    repair_messages,
)
from foldline.language_models._call.policy import (
    STOP,
    CallContext,
    Decision,
    Failure,
    FoldedAttempt,
    Policy,
    ends_message,
)
from foldline.language_models._call.request import ChatRequest
from foldline.messages import AIMessage, BaseMessage
from foldline.messages._refusal import refusal_error, refusal_of
from foldline.messages.usage import UsageMetadata
from foldline.protocol.events import Event

__all__ = ["ChecksPolicy", "ToolCallScreening"]


CHARACTERS_PER_TOKEN = 4
FINAL_REASONS = frozenset({"refusal", "content_filter"})
"""Finish reasons of answers that a retry would not change."""


class ToolCallScreening(Policy):
    """Marks tool calls that a check rejects as invalid, as soon as they are finished."""

    __slots__ = ("_checks",)
    watches_events = True
    sees_further_answers = True

    applies_to = "settings"

    @classmethod
    def applies(cls, call: CallContext, request: ChatRequest) -> bool:
        """Where checks are bound."""
        return bool(call.settings.checks)

    def __init__(self, call: CallContext) -> None:
        self._checks = call.settings.checks

    async def on_events(self, batch: Batch) -> Batch:
        """Mark the invalid calls."""
        # A complete answer may have no readers of its events, so none are made for the check.
        if type(batch) is CompleteAnswer:
            return batch.map(self._screen_message)
        return [self._screen(event) for event in batch]

    def _screen(self, event: Event) -> Event:
        if event["event"] != "content-block-finish":
            return event
        content: Any = event["content"]
        if not isinstance(content, Mapping) or content.get("type") != "tool_call":
            return event
        invalid = self._invalid(content)
        return event if invalid is None else cast("Event", {**event, "content": invalid})

    def _invalid(self, call: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return a call as an invalid one, if a check rejects it."""
        for check in self._checks:
            if (issue := check.screen(call)) is not None:
                return _invalid_call(call, issue)
        return None

    def _screen_message(self, message: BaseMessage) -> BaseMessage:
        for call in list(message.tool_calls) if isinstance(message, AIMessage) else ():
            if (invalid := self._invalid(call)) is not None:
                message = _with_invalid(cast("AIMessage", message), call, invalid)
        return message


class ChecksPolicy(Policy):
    """Checks the finished message; a rejected one ends the attempt with a `StructuredOutputError`."""

    __slots__ = ("_call", "_checks", "_failures", "_received", "_rejected", "_request", "_watches")
    watches_events = True
    reads_message = True

    applies_to = "settings"

    @classmethod
    def applies(cls, call: CallContext, request: ChatRequest) -> bool:
        """Where checks are bound."""
        return bool(call.settings.checks)

    def __init__(self, call: CallContext) -> None:
        self._call = call
        self._checks = call.settings.checks
        self._received = cast("FoldedAttempt", call.received)
        self._failures = 0
        self._rejected: AIMessage | None = None
        self._request: ChatRequest | None = None
        self.begin()

    async def before(self, request: ChatRequest) -> ChatRequest:
        """Keep the request: what it costs must be known if its answer is left."""
        self._request = request
        return request

    def begin(self) -> None:
        """Watch a new answer, unless the caller waits for the end of it: leaving it would only lose its usage."""
        is_read = self._call.view is not MESSAGE
        watches = [(check, check.watch()) for check in self._checks] if is_read else []
        self._watches = [(check, watch) for check, watch in watches if watch is not None]

    async def on_events(self, batch: Batch) -> Batch:
        """Check the message at its finish, and as soon as it can no longer be used."""
        if ends_message(batch):
            self._judge(self._received.message)
            return batch
        for check, watch in self._watches:
            if (issue := watch.feed(batch)) is not None:
                message = self._received.partial
                # It is left before its usage has come, and what was generated until now is charged all the same.
                message.usage_metadata = self._usage_so_far(message)
                self._reject(check, message, Verdict([issue]), watch.value)
        return batch

    def _usage_so_far(self, message: AIMessage) -> UsageMetadata:
        """Return the usage of an answer that is left before its provider tells it: known counts, else an estimate."""
        known: Mapping[str, Any] = message.usage_metadata or {}
        messages = self._request.messages if self._request is not None else ()
        tools = self._request.tools if self._request is not None else None
        counted = known.get("input_tokens") or self._call.model.count_tokens(messages, tools).n
        written = sum(len(str(block)) for block in message.content_blocks)
        output = max(known.get("output_tokens") or 0, math.ceil(written / CHARACTERS_PER_TOKEN))
        return cast(
            "UsageMetadata",
            {
                **known,
                "input_tokens": counted,
                "output_tokens": output,
                "total_tokens": counted + output,
            },
        )

    def _judge(self, message: AIMessage) -> None:
        metadata, repairs = self._call.response_metadata, list[str]()
        # Those of an earlier attempt, whose answer was rejected.
        metadata.pop("issues", None)
        metadata.pop("repairs", None)
        for check in self._checks:
            verdict = check.judge(message)
            repairs += verdict.repairs
            if verdict.issues:
                metadata |= self._reject(check, message, verdict)
        if repairs:
            metadata["repairs"] = repairs

    def _reject(
        self, check: OutputCheck, message: AIMessage, verdict: Verdict, value: object = None
    ) -> dict[str, Any]:
        """Raise the error that causes a retry; return the issues as metadata if the last answer is returned anyway."""
        self._failures += 1
        self._rejected = message
        # On a retry a model refuses again, and filtered content is filtered again.
        is_final = message.finish_reason in FINAL_REASONS or refusal_of(message) is not None
        is_last = self._failures > check.max_retries or is_final
        if is_last and check.gives_up_quietly:
            return {"issues": verdict.issues}
        error = refusal_error(message) or self._error(message, verdict, is_last=is_last)
        error.raw, error.issues, error.usage = message, verdict.issues, message.usage_metadata
        error.partial, error.llm_output, error.value = message, str(message.text), value
        raise error

    def _error(
        self, message: AIMessage, verdict: Verdict, *, is_last: bool
    ) -> StructuredOutputError:
        """Return the error of an answer with words; what a filter made of it is a refusal too."""
        issues = "; ".join(verdict.issues[:5])
        times = f" (asked {self._failures} times)" if is_last and self._failures > 1 else ""
        is_filtered = message.finish_reason in FINAL_REASONS
        error_class = ModelRefusalError if is_filtered else StructuredOutputError
        return error_class(f"the answer cannot be used: {issues}{times}", is_retryable=not is_last)

    # -- what follows a rejected answer

    def judge(self, failure: Failure) -> Decision | None:
        """Repeat a rejected answer at once, with what was wrong with it, while the checks have retries left."""
        error, rejected = failure.error, self._rejected
        if not isinstance(error, StructuredOutputError) or rejected is None:
            return None
        # Of another check: of a nested call, or of a program.
        if error.raw is not rejected:
            return None
        may_take_back = failure.may_reset or failure.is_invoke or self._any("resets")
        is_over = self._any("shares_retries") and failure.attempts > failure.retry.max_retries
        if (
            is_over
            or not error.is_retryable
            or (failure.is_delivered and not may_take_back)
            or failure.retry.decide(error) is False
        ):
            return STOP
        # Used up: a later error of the same call is judged anew.
        self._rejected = None
        return Decision(repeats=True, messages=repair_messages([], rejected, error.issues))

    def _any(self, name: str) -> bool:
        """Return whether a check says so: `resets`, although content was delivered; `shares_retries`, with requests."""
        return any(getattr(check, name, False) for check in self._checks)


def _invalid_call(call: Mapping[str, Any], issue: str) -> dict[str, Any]:
    """Return a finished call as an invalid one, with the raw text of its arguments and the issue."""
    args = call.get("args")
    raw_args = args if isinstance(args, str) else json.dumps(args, ensure_ascii=False)
    fields = {key: value for key, value in call.items() if key not in ("type", "args")}
    return {**fields, "type": "invalid_tool_call", "args": raw_args, "error": issue}


def _with_invalid(
    message: AIMessage, call: Mapping[str, Any], invalid: dict[str, Any]
) -> AIMessage:
    """Return a complete message with one of its calls marked invalid."""
    content: Any = message.content
    if isinstance(content, list):
        content = [
            invalid
            if isinstance(block, dict)
            and block.get("id") == call.get("id")
            and block.get("type") == "tool_call"
            else block
            for block in content
        ]
    return message.model_copy(
        update={
            "content": content,
            "tool_calls": [tool_call for tool_call in message.tool_calls if tool_call is not call],
            "invalid_tool_calls": [*message.invalid_tool_calls, invalid],
        }
    )

"""The view of a run as a response of OpenAI's Responses, as events or as one object."""

from __future__ import annotations

from collections.abc import Iterator

from foldline.serve._event_reader import Op
from foldline.serve._json_object import JsonObject
from foldline.serve._log.events import EncodedEvent
from foldline.serve._log.records import RunRecord
from foldline.serve._wires.answer_view import AnswerView, web_citations
from foldline.serve._wires.media import data_url
from foldline.serve._wires.openai_errors import OpenAIErrors
from foldline.serve._wires.responses_tools import ToolForm, text_of_call, tool_forms
from foldline.serve.apps import ServedApp
from foldline.serve.errors import ServeError

__all__ = ["WIRE", "ResponseView"]

WIRE = OpenAIErrors("responses")
INCOMPLETE_REASONS = {"length": "max_output_tokens", "content_filter": "content_filter"}


class ResponseView(AnswerView):
    """Builds the output items, and their events."""

    def __init__(self, info: RunRecord, app: ServedApp) -> None:
        super().__init__(app)
        self._id = info.id
        self._request: JsonObject = (info.request or {}).get("shown") or {}
        self._previous = (info.request or {}).get("previous")
        self._created = info.created
        self._model = app.name
        self.output: list[JsonObject] = []
        self._places: dict[int, int] = {}
        self._reason: str | None = None
        self._number = 0
        self._has_begun = False
        self._forms = tool_forms(self._request.get("tools"))
        self._texts: dict[int, str] = {}
        """The arguments of calls of custom tools so far."""

    # -- events

    def pieces(self, item: EncodedEvent) -> Iterator[JsonObject]:
        """Return the events of one event of the log."""
        if not self._has_begun:
            self._has_begun = True
            yield self._event("response.created", response=self.response("in_progress"))
            yield self._event("response.in_progress", response=self.response("in_progress"))
        for op in self.read(item):
            yield from self._take(op)

    def _event(self, kind: str, **fields: object) -> JsonObject:
        number, self._number = self._number, self._number + 1
        return {"type": kind, "sequence_number": number, **fields}

    def _take(self, op: Op) -> Iterator[JsonObject]:
        match op.kind:
            case "text-start" | "text" | "text-end":
                yield from self._take_text(op)
            case "refusal-start" | "refusal" | "refusal-end":
                yield from self._take_refusal(op)
            case "reasoning-start" | "reasoning" | "reasoning-end":
                yield from self._take_reasoning(op)
            case "call-start" | "call-args" | "call-end" if not self.is_agent:
                yield from self._take_call(op)
            case "block" if op.text == "image":
                base64 = op.data.get("base64") or data_url(op.data)
                item = {
                    "type": "image_generation_call",
                    "id": f"ig_{self._id}_{op.number}",
                    "status": "completed",
                    "result": base64,
                }
                yield self._add(op, item)
                yield self._done(op)
            case "message-end":
                self._reason = INCOMPLETE_REASONS.get(op.text)
            case _:
                pass

    def _add(self, op: Op, item: JsonObject) -> JsonObject:
        self._places[op.number] = len(self.output)
        self.output.append(item)
        place = self._places[op.number]
        return self._event("response.output_item.added", output_index=place, item=_copy(item))

    def _done(self, op: Op) -> JsonObject:
        place = self._places[op.number]
        item = self.output[place]
        item["status"] = "completed"
        return self._event("response.output_item.done", output_index=place, item=_copy(item))

    def _place(self, op: Op) -> JsonObject:
        place = self._places[op.number]
        return {"item_id": self.output[place]["id"], "output_index": place}

    def _take_text(self, op: Op) -> Iterator[JsonObject]:
        if op.kind == "text-start":
            part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
            yield from self._begin_message(op, part)
            return
        part = self.output[self._places[op.number]]["content"][0]
        place = {**self._place(op), "content_index": 0}
        if op.kind == "text":
            part["text"] += op.text
            yield self._event("response.output_text.delta", **place, delta=op.text, logprobs=[])
            return
        for note in web_citations(op):
            citation = {"type": "url_citation", **note}
            index = len(part["annotations"])
            part["annotations"].append(citation)
            yield self._event(
                "response.output_text.annotation.added",
                **place,
                annotation_index=index,
                annotation=citation,
            )
        yield self._event("response.output_text.done", **place, text=part["text"], logprobs=[])
        yield self._event("response.content_part.done", **place, part=_copy(part))
        yield self._done(op)

    def _begin_message(self, op: Op, part: JsonObject) -> Iterator[JsonObject]:
        """Begin a message item of one part."""
        item: JsonObject = {
            "type": "message",
            "id": f"msg_{self._id}_{op.number}",
            "role": "assistant",
            "status": "in_progress",
            "content": [],
        }
        yield self._add(op, item)
        yield self._event(
            "response.content_part.added", **self._place(op), content_index=0, part=dict(part)
        )
        item["content"].append(part)

    def _take_refusal(self, op: Op) -> Iterator[JsonObject]:
        if op.kind == "refusal-start":
            yield from self._begin_message(op, {"type": "refusal", "refusal": ""})
            return
        part = self.output[self._places[op.number]]["content"][0]
        place = {**self._place(op), "content_index": 0}
        if op.kind == "refusal":
            part["refusal"] += op.text
            yield self._event("response.refusal.delta", **place, delta=op.text)
            return
        yield self._event("response.refusal.done", **place, refusal=part["refusal"])
        yield self._event("response.content_part.done", **place, part=_copy(part))
        yield self._done(op)

    def _take_reasoning(self, op: Op) -> Iterator[JsonObject]:
        if op.kind == "reasoning-start":
            item: JsonObject = {
                "type": "reasoning",
                "id": f"rs_{self._id}_{op.number}",
                "summary": [],
                "status": "in_progress",
            }
            yield self._add(op, item)
            part = {"type": "summary_text", "text": ""}
            yield self._event(
                "response.reasoning_summary_part.added",
                **self._place(op),
                summary_index=0,
                part=dict(part),
            )
            item["summary"].append(part)
            return
        part = self.output[self._places[op.number]]["summary"][0]
        place = {**self._place(op), "summary_index": 0}
        if op.kind == "reasoning":
            part["text"] += op.text
            yield self._event("response.reasoning_summary_text.delta", **place, delta=op.text)
            return
        yield self._event("response.reasoning_summary_text.done", **place, text=part["text"])
        yield self._event("response.reasoning_summary_part.done", **place, part=dict(part))
        yield self._done(op)

    def _take_call(self, op: Op) -> Iterator[JsonObject]:
        if op.kind == "call-start":
            form = self._forms.get(op.data["name"], ToolForm(op.data["name"]))
            group = {} if form.namespace is None else {"namespace": form.namespace}
            if form.is_custom:
                item: JsonObject = {
                    "type": "custom_tool_call",
                    "id": f"ctc_{self._id}_{op.number}",
                    "call_id": op.text,
                    "name": form.name,
                    **group,
                    "input": "",
                    "status": "in_progress",
                }
                self._texts[op.number] = ""
                yield self._add(op, item)
                return
            item = {
                "type": "function_call",
                "id": f"fc_{self._id}_{op.number}",
                "call_id": op.text,
                "name": form.name,
                **group,
                "arguments": "",
                "status": "in_progress",
            }
            yield self._add(op, item)
            return
        item = self.output[self._places[op.number]]
        if op.number in self._texts:
            yield from self._take_text_call(op, item)
            return
        if op.kind == "call-args":
            item["arguments"] += op.text
            yield self._event(
                "response.function_call_arguments.delta", **self._place(op), delta=op.text
            )
            return
        yield self._event(
            "response.function_call_arguments.done",
            **self._place(op),
            name=item["name"],
            arguments=item["arguments"],
        )
        yield self._done(op)

    def _take_text_call(self, op: Op, item: JsonObject) -> Iterator[JsonObject]:
        """Go on with a call of a custom tool; its text is known when its arguments are complete."""
        if op.kind == "call-args":
            self._texts[op.number] += op.text
            return
        item["input"] = text_of_call(self._texts[op.number])
        place, kind = self._place(op), "response.custom_tool_call_input"
        yield self._event(f"{kind}.delta", **place, delta=item["input"])
        yield self._event(f"{kind}.done", **place, input=item["input"])
        yield self._done(op)

    # -- the whole

    def status(self, info: RunRecord) -> str:
        """Return the status of the response."""
        if not info.is_over:
            return "queued" if info.status == "queued" else "in_progress"
        if info.status == "stopped":
            return "cancelled"
        if self.problem(info) is not None:
            return "failed"
        return "incomplete" if self._reason else "completed"

    def response(self, status: str, problem: ServeError | None = None) -> JsonObject:
        """Return the response as it is now."""
        error = WIRE.error_body(problem)["error"] if problem is not None else None
        echo: JsonObject = {
            "temperature": None,
            "top_p": None,
            "max_output_tokens": None,
            "instructions": None,
            "metadata": {},
            "tools": [],
            "tool_choice": "auto",
            "parallel_tool_calls": True,
            "text": {"format": {"type": "text"}},
            "reasoning": {"effort": None, "summary": None},
            "store": True,
            **self._request,
        }
        return {
            **echo,
            "id": f"resp_{self._id}",
            "object": "response",
            "created_at": int(self._created),
            "status": status,
            "model": self._model,
            "output": [_copy(item) for item in self.output],
            "usage": self.usage.as_responses() if self.usage is not None else None,
            "error": None
            if error is None
            else {"code": error["code"] or "server_error", "message": error["message"]},
            "incomplete_details": {"reason": self._reason}
            if status == "incomplete" and self._reason
            else None,
            "previous_response_id": self._previous,
            "truncation": "disabled",
            "background": False,
        }

    def tail(self, info: RunRecord) -> Iterator[JsonObject]:
        """Return the last event."""
        problem = self.problem(info)
        if problem is None:
            status = self.status(info)
            yield self._event(f"response.{status}", response=self.response(status))
            return
        yield self._event("response.failed", response=self.response("failed", problem))
        # The published event has no inner `error`, but the SDK raises only with it.
        inner = WIRE.error_body(problem)["error"]
        yield self._event(
            "error", code=inner["code"], message=inner["message"], param=None, error=inner
        )


def _copy(value: object) -> object:
    if isinstance(value, dict):
        return {name: _copy(item) for name, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value

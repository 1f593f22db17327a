"""A run as a database row, and back. Nothing here opens a database.

A `TraceRow` is the state of a run in the tracer's thread; `RowWriter` writes the records of one batch as rows, without
secrets.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID

from pydantic import Field

from foldline.load import dumpd
from foldline.load._lazy_dump import LazyDump
from foldline.load._packed import MODEL, TAG, Packer
from foldline.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from foldline.messages.base import BaseMessage
from foldline.prompt_values import ChatPromptValue
from foldline.tracers._columns import COLUMNS, ENDS, WAITING, form_key
from foldline.tracers._redact import Redactor
from foldline.tracers._run_fields import (
    ANSWER_KEYS,
    QUESTION_KEYS,
    describe_end,
    describe_start,
    first_words,
)
from foldline.tracers.schemas import Run
from foldline.utils._surrogates import mend_surrogates

logger: logging.Logger = logging.getLogger("foldline.tracers")

Row = tuple[Any, ...]
RedactHook = Callable[[dict[str, Any]], dict[str, Any] | None]
"""Sees a run as a dict before it is written; returns what is to be written, or None for nothing."""


class SentRequest(Protocol):
    """An HTTP request of a model run; its class is in a layer above this one."""

    @property
    def method(self) -> str: ...
    @property
    def url(self) -> str: ...
    @property
    def body(self) -> bytes: ...


class TraceRow:
    """The state of one run while it runs."""

    __slots__ = (
        "config", "end", "error", "error_class", "error_message", "events", "extra", "facts", "first", "id", "inputs",
        "interrupts", "is_refused", "is_written", "name", "outer", "outputs", "parent_id", "request", "run_type",
        "serialized", "start", "tags", "trace_id",
    )  # fmt: skip

    def __init__(self, run_id: str, parent: TraceRow | None, run_type: str, start: float) -> None:
        self.id = run_id
        self.parent_id: str | None = None if parent is None else parent.id
        self.trace_id: str = run_id if parent is None else parent.trace_id
        self.run_type = run_type
        self.start = start
        self.name = ""
        self.serialized: dict[str, Any] | None = None
        self.inputs: Any = None
        self.outputs: Any = None
        self.extra: dict[str, Any] = {}
        self.config: dict[str, Any] | None = None
        """What is recorded of `configurable`."""
        self.tags: list[str] = []
        self.first: float | None = None
        self.end: float | None = None
        self.error: str | None = None
        self.error_class: str | None = None
        self.error_message: str | None = None
        self.interrupts: list[Any] | None = None
        """The questions for which it stopped."""
        self.events: list[dict[str, Any]] | None = None
        self.request: Any = None
        self.facts: dict[str, Any] = {}
        self.outer: TraceRow | None = None
        """An outer run with the same id, which continues when this one ends."""
        self.is_written = False
        """Whether the file has its beginning."""
        self.is_refused = False
        """Whether the hook refused to have it written."""

    def release(self) -> None:
        """Drop the values that are in the file."""
        self.is_written = True
        self.inputs, self.serialized = None, None


class RowWriter:
    """Writes the runs of one batch as rows, without secrets; the form of a model or a chain once for all its runs."""

    def __init__(
        self, redactor: Redactor, hook: RedactHook | None = None, revision: str | None = None
    ) -> None:
        self._redactor = redactor
        self._hook = hook
        self._revision = revision
        self._form_keys: dict[tuple[int, str], tuple[object, str]] = {}
        """The id of an object and further fields -> the object (so that its id is not reused) and its form."""
        self._dumps: dict[int, tuple[object, Any]] = {}
        """The id of a message -> the message and its dump: in a chain each is seen three times."""
        self._encode = _encoder(self._encodable)
        self._names: dict[str, str] = {}
        """Names of runs, and what is written of them."""
        self._tag_texts: dict[str, str] = {}
        """Tags of runs, and what is written of them: the same for all runs of a step."""
        self.forms: dict[str, str] = {}

    def row(self, record: TraceRow) -> Row | None:
        """Write a whole run as a row; None where it is not to be written."""
        is_ended = record.end is not None
        facts = describe_start(record.run_type, record.inputs, record.extra, record.config)
        record.facts = facts
        if is_ended:
            facts = facts | describe_end(record.run_type, record.outputs, record.extra, facts)
        texts, is_clean = self._texts(
            pack_values(record.inputs) if record.run_type == STEP else record.inputs,
            record.extra,
            pack_values(record.outputs) if record.run_type in PACKED_OUTPUTS else record.outputs,
        )
        inputs, extra, outputs = texts
        if not is_clean:
            facts = self._clean(
                facts,
                question=first_words(json.loads(inputs), QUESTION_KEYS, from_end=True),
                answer=first_words(json.loads(outputs), ANSWER_KEYS),
            )
            record.facts = facts
        values = facts | {
            "id": record.id,
            "trace_id": record.trace_id,
            "parent_run_id": record.parent_id,
            "name": self._name(record.name),
            "run_type": record.run_type,
            "start_time": record.start,
            "first_token_time": record.first,
            "end_time": record.end,
            "error_class": record.error_class,
            "revision": self._revision if record.parent_id is None else None,
            "tags": self._tags(record.tags) if record.tags else None,
            "form": None if record.serialized is None else self._form(record.serialized),
            "extra": extra,
            "inputs": inputs,
            "outputs": None if record.outputs is None else outputs,
        }
        self._add_rarities(record, values)
        checked = values if self._hook is None else self._checked(record, values)
        return None if checked is None else tuple(map(checked.get, COLUMNS))

    def end_row(self, record: TraceRow) -> Row | None:
        """Write the end of a run whose beginning is in the file; its id comes last."""
        facts = describe_end(record.run_type, record.outputs, record.extra, record.facts)
        (outputs,), is_clean = self._texts(
            pack_values(record.outputs) if record.run_type in PACKED_OUTPUTS else record.outputs
        )
        if not is_clean:
            facts = self._clean(facts, answer=first_words(json.loads(outputs), ANSWER_KEYS))
        values: dict[str, Any] = {
            "id": record.id,
            "provider": record.facts.get("provider"),
            "model": record.facts.get("model"),
            **facts,
            "first_token_time": record.first,
            "end_time": record.end,
            "error_class": record.error_class,
            "outputs": None if record.outputs is None else outputs,
        }
        self._add_rarities(record, values)
        checked = values if self._hook is None else self._checked(record, values)
        return None if checked is None else (*map(checked.get, ENDS), record.id)

    def tag_rows(self, record: TraceRow, row: Row) -> list[tuple[str, str]]:
        """Write the tags of a run as rows; those that the hook left, where there is one."""
        if self._hook is None:
            return [(self._name(tag), record.id) for tag in record.tags]
        text = row[COLUMNS.index("tags")]
        return [] if text is None else [(tag, record.id) for tag in read_tags(text) or ()]

    def _add_rarities(self, record: TraceRow, values: dict[str, Any]) -> None:
        if record.error is not None:
            values["error"] = mend_surrogates(self._redactor.text(record.error))
        if record.error_message is not None:
            values["error_message"] = mend_surrogates(self._redactor.text(record.error_message))
        if record.interrupts is not None:
            values["status"] = WAITING
            values["interrupts"] = self._texts([_question(item) for item in record.interrupts])[0][
                0
            ]
        if record.config:
            values["config"] = self._texts(record.config)[0][0]
        if record.events:
            values["events"] = self._texts(_plain_events(record.events))[0][0]
        if record.request is not None:
            values["request"] = self._request(record.request)

    def _name(self, name: str) -> str:
        clean = self._names.get(name)
        if clean is None:
            clean = self._names[name] = mend_surrogates(self._redactor.text(name))
        return clean

    def _tags(self, tags: list[str]) -> str:
        key = repr(tags)
        text = self._tag_texts.get(key)
        if text is None:
            text = self._tag_texts[key] = self._texts(tags)[0][0]
        return text

    def _clean(self, facts: dict[str, Any], **words: str | None) -> dict[str, Any]:
        """Take secrets out of the facts; first words are cut from the clean text, where a secret is still whole."""
        clean = self._redactor.text
        return {
            name: clean(value) if isinstance(value, str) else value for name, value in facts.items()
        } | words

    def _checked(self, record: TraceRow, values: dict[str, Any]) -> dict[str, Any] | None:
        """Show the values to the hook, as JSON values, and write down what it returns."""
        if self._hook is None or record.is_refused:
            return None
        visible = dict(values)
        for name in JSON_COLUMNS:
            if isinstance(visible.get(name), str):
                visible[name] = json.loads(visible[name])
        changed = self._hook(visible)
        if changed is None:
            record.is_refused = True
            return None
        for name in JSON_COLUMNS:
            if changed.get(name) is not None:
                changed[name] = written(changed[name], self._redactor)
        keys = ("id", "trace_id", "parent_run_id", "run_type", "start_time", "end_time", "form")
        return {**changed, **{name: values[name] for name in keys if name in values}}

    def _request(self, request: SentRequest) -> str:
        """Write the request that was sent: where to and the body; headers hold keys and are left out."""
        try:
            body = json.loads(request.body)
        except (ValueError, RecursionError):
            body = None
        where = request.url.partition("?")[0]
        return written({"method": request.method, "url": where, "body": body}, self._redactor)

    def _texts(self, *values: Any) -> tuple[list[str], bool]:
        """Return values as JSON, and whether no secret was redacted. Most hold none, as one check shows."""
        encode = self._encode
        try:
            texts = [encode(value) for value in values]
        except (TypeError, ValueError, RecursionError):  # keys that JSON has not, a list in itself
            self._encode = _encoder(self._encodable)
            return [written(value, self._redactor) for value in values], False
        if self._redactor.may_show_secrets("\n".join(texts)):
            return [written(value, self._redactor) for value in values], False
        return texts, True

    def _encodable(self, value: object) -> object:
        if isinstance(value, BaseMessage):
            dump = self._dumps.get(id(value))
            if dump is None:
                dump = self._dumps[id(value)] = (value, dump_message(value))
            return dump[1]
        if type(value) is ChatPromptValue:
            return {**PROMPT_VALUE, "kwargs": {"messages": list(value.messages)}}
        return _encodable(value)

    def _form(self, serialized: dict[str, Any]) -> str:
        unwritten = serialized.unwritten if isinstance(serialized, LazyDump) else None
        if unwritten is None:
            return self._keep_form(written(serialized, self._redactor))
        source, more = unwritten
        key = (id(source), more)
        if key not in self._form_keys:
            self._form_keys[key] = (source, self._keep_form(written(serialized, self._redactor)))
        return self._form_keys[key][1]

    def _keep_form(self, body: str) -> str:
        key = form_key(body)
        self.forms[key] = body
        return key


JSON_COLUMNS = (
    "inputs", "outputs", "extra", "tags", "events", "request", "usage", "config", "interrupts",
)  # fmt: skip
STEP = "step"
"""The type of the runs of a flow's steps."""
PACKED_OUTPUTS = frozenset({"tool", STEP})
"""Types of runs whose results are written so that they are read back as they were."""
PLAIN_RESULTS = (str, int, float, bool, BaseMessage, type(None))


PROMPT_VALUE = {
    key: value for key, value in dumpd(ChatPromptValue(messages=[])).items() if key != "kwargs"
}
PLAIN_MESSAGES: dict[type[BaseMessage], list[str]] = {
    cls: ["foldline", "messages", cls.__name__]
    for cls in (HumanMessage, SystemMessage, AIMessage, ToolMessage)
}
"""Messages whose dump is made here when they hold nothing unusual, at a tenth of the cost -> their names in a dump."""
USUAL_STATUS = ("complete", "success")


def dump_message(message: BaseMessage) -> object:
    """Return what `dumpd` does."""
    fields = message.__dict__
    name = PLAIN_MESSAGES.get(type(message))
    is_plain = (
        name is not None
        and type(fields["content"]) is str
        and not fields["additional_kwargs"]
        and not fields.get("tool_calls")
        and not fields.get("invalid_tool_calls")
        and not message.__pydantic_extra__
    )
    if not is_plain:
        return _encodable(message)
    kwargs = {
        key: value
        for key, value in fields.items()
        if value is not None
        and key not in ("type", "tool_calls", "invalid_tool_calls")
        and (value or type(value) is str)
        and not (key == "status" and value in USUAL_STATUS)
    }
    kwargs["type"] = message.type
    if "tool_calls" in fields:
        kwargs["tool_calls"], kwargs["invalid_tool_calls"] = [], []
    return {"lc": 1, "type": "constructor", "id": name, "kwargs": kwargs}


def _encoder(default: Callable[[object], object]) -> Callable[[object], str]:
    """Return what writes JSON. The one of the standard library makes a new encoder for every value."""
    make = json.encoder.c_make_encoder  # type: ignore[attr-defined]
    if make is None:
        return json.JSONEncoder(default=default).encode
    quote = json.encoder.encode_basestring_ascii
    encode = make({}, default, quote, None, ": ", ", ", False, False, True)  # noqa: FBT003  positions only
    return lambda value: "".join(encode(value, 0))


def _plain_events(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {**event, "time": datetime.fromtimestamp(event["time"], UTC).isoformat()}
        for event in events
    ]


def written(value: object, redactor: Redactor) -> str:
    """Write any value as JSON: messages and documents as dumps, times in ISO, other objects by their repr."""
    try:
        clean = redactor.json(_plain(value))
        return json.dumps(clean, ensure_ascii=True, allow_nan=True, default=repr)
    except RecursionError:  # a value that contains itself must not cost the row
        return json.dumps(redactor.json(_kinds(value)))


def _kinds(value: object) -> object:
    """Name the classes of what a value holds, where it cannot be written whole."""
    if isinstance(value, dict):
        return {str(key): repr(type(item)) for key, item in list(value.items())}
    return [repr(type(item)) for item in value] if isinstance(value, list) else repr(type(value))


def _plain(value: object) -> object:
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in list(value.items())}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in list(value)]
    return _plain(_encodable(value))


class _TracePacker(Packer):
    """Writes the name of its class beside the fields of an object, for people to read."""

    def _object(self, value: object, depth: int) -> object:
        packed = super()._object(value, depth)
        if isinstance(packed, dict) and packed.get(TAG) == MODEL:
            return {**packed, "type": type(value).__name__}
        return packed


def pack_values(values: object) -> object:
    """Return the inputs or outputs of a tool or a step with each value packed; one that cannot be stays as it is."""
    if not isinstance(values, dict):
        return values
    return {
        key: value if isinstance(value, PLAIN_RESULTS) else _packed(value, value)
        for key, value in values.items()
    }


def _packed(value: object, otherwise: object) -> object:
    try:
        return _TracePacker("a value of a trace").pack(value)
    except Exception:  # noqa: BLE001  an object of any class: what it raises must not lose the row
        return otherwise


def _question(interrupt: object) -> dict[str, Any]:
    """Return an interrupt as a question: its class is in a layer above this one, or it was sent as JSON."""
    if isinstance(interrupt, dict):
        return {"id": interrupt.get("id"), "value": interrupt.get("value")}
    value = getattr(interrupt, "value", interrupt)
    return {"id": getattr(interrupt, "id", None), "value": _packed(value, value)}


ENCODABLE: tuple[tuple[tuple[type, ...], Callable[[Any], Any]], ...] = (
    ((datetime,), datetime.isoformat),
    ((set, frozenset), list),
    ((UUID, Path), str),
    ((BaseException, bytes), repr),
)
"""What JSON has not -> how it is written."""


def _encodable(value: object) -> object:
    """Turn what JSON has not into something that it has, or that holds only what can be turned."""
    for kinds, turn in ENCODABLE:
        if isinstance(value, kinds):
            return turn(value)
    try:
        dumped = dumpd(value)
    except Exception:  # noqa: BLE001  an object that cannot be dumped must not lose the row
        return repr(type(value))
    if isinstance(dumped, dict) and dumped.get("type") == "not_implemented":
        # A dataclass, a model or an enum, as `Command` and `Interrupt` are: its fields, not only its name.
        return _packed(value, dumped)
    return dumped if isinstance(dumped, dict | list | str) else repr(dumped)


# -- a row as a run


class StoredRun(Run):
    """A run read from the database, with the summary columns."""

    provider: str | None = None
    model: str | None = None
    cost: float | None = None
    session_id: str | None = None
    thread_id: str | None = None
    user_id: str | None = None
    error_class: str | None = None
    error_message: str | None = None
    """What the error says, without its class and where it arose."""
    status: str | None = None
    """`waiting`: it ended with questions to a person, which are in `interrupts`; None for other runs."""
    interrupts: list[dict[str, Any]] | None = None
    """The questions for which it stopped: `id`, `value`."""
    incomplete: bool = False
    """Of a root: whether runs of this trace could not be written."""
    revision: str | None = None
    """Of a root: which code ran."""
    config: dict[str, Any] | None = None
    """What is recorded of `configurable`: `thread_id`, `checkpoint_id`, `checkpoint_ns`, and the tracer's
    `config_keys`."""
    question: str | None = None
    answer: str | None = None
    request: dict[str, Any] | None = None
    """The request as it was sent: `method`, `url`, `body`."""
    scores: list[dict[str, Any]] = Field(default_factory=list)
    """Scores by people or programs: `name`, `value`, `comment`, `author`, `time`."""


DAMAGE = (ValueError, TypeError, OverflowError, OSError, RecursionError)
"""Exceptions from reading a damaged row."""
READ = (*COLUMNS, "serialized")
READ_AS_JSON = (
    "inputs", "outputs", "serialized", "extra", "tags", "events", "request", "config", "interrupts",
)  # fmt: skip


def runs_of(rows: Iterable[tuple[Any, ...]], place: str) -> list[StoredRun]:
    """Read runs back; a damaged row is left out and reported, the others are kept (F-K02)."""
    runs: list[StoredRun] = []
    for row in rows:
        try:
            runs.append(run_of(row))
        except DAMAGE as error:
            logger.warning(
                "%s: the run %.40s is damaged and was left out: %.200s", place, row[0], error
            )
    return runs


def read_tags(text: str) -> list[str] | None:
    """Return the tags in the column of a run, as the table of tags has them; None where it is damaged."""
    try:
        tags = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        return None
    return [mend_surrogates(tag) for tag in tags]


def run_of(row: tuple[Any, ...]) -> StoredRun:
    """Return the run of a row; its JSON is untrusted and validated."""
    values = dict(zip(READ, row, strict=True))
    for key in READ_AS_JSON:
        values[key] = json.loads(values[key]) if values[key] is not None else None
    for key in ("start_time", "first_token_time", "end_time"):
        values[key] = datetime.fromtimestamp(values[key], UTC) if values[key] is not None else None
    for key in ("input_tokens", "output_tokens", "total_tokens", "usage", "form"):
        del values[key]
    values["tags"] = values["tags"] or []
    values["incomplete"] = bool(values["incomplete"])
    events = values["events"]
    if events is None:
        values["events"] = _usual_events(values, [])
    elif not isinstance(events, list) or not all(isinstance(event, dict) for event in events):
        raise ValueError("its events are no list of events")
    elif not any(event.get("name") == "start" for event in events):
        values["events"] = _usual_events(values, events)
    return StoredRun(**values)


def _usual_events(values: dict[str, Any], others: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the events of a run: those of its times, and the others."""
    events = [{"name": "start", "time": values["start_time"].isoformat()}]
    if values["first_token_time"] is not None:
        events.append({"name": "new_token", "time": values["first_token_time"].isoformat()})
    events += others
    if values["end_time"] is not None:
        kind = "end" if values["error"] is None else "error"
        events.append({"name": kind, "time": values["end_time"].isoformat()})
    return events

"""The grammar of events: what a stream may and may not do, rule by rule (V1 to V20).

`GrammarChecker` checks a live stream; `check` lists the violations of a complete one; `assert_valid_event_stream`
raises the first. The checker is stricter than the fold: it is for producers, and runs in tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, assert_never

from foldline.exceptions import FoldlineError, MalformedStreamError
from foldline.protocol._shapes import (
    DELTA_SHAPES,
    EVENT_SHAPES,
    LEGAL_DELTAS,
    PROMOTIONS,
    block_problem,
    is_same_json,
    json_problem,
    shape_problem,
)
from foldline.protocol.blocks import HEAVY_FIELDS
from foldline.protocol.events import DELTA_FIELDS, EVENT_KINDS, Event, EventKind
from foldline.protocol.fold import MessageBuilder, fold
from foldline.protocol.folded_message import FoldedMessage
from foldline.protocol.merge import GROWING_CALLS, copy_json
from foldline.protocol.replay import MessageLike, describe, replay
from foldline.protocol.tool_call_parser import parse_tool_args
from foldline.utils._short_repr import short_repr

ENDS: Final = frozenset({"message-finish", "error"})


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule: its number, what is wrong, and the position of the event (None: the stream as a whole)."""

    rule: str
    message: str
    position: int | None = None

    def __str__(self) -> str:
        where = "" if self.position is None else f"event {self.position}: "
        return f"{self.rule}: {where}{self.message}"


class _CheckedBlock:
    """A block as the checker has seen it: its fields and the slices of each delta."""

    __slots__ = ("fields", "is_open", "kind", "parts")

    def __init__(self, content: dict[str, Any]) -> None:
        self.kind = str(content.get("type"))
        self.fields = content
        self.parts: dict[str, list[str]] = {}
        self.is_open = True

    def replace(self, fields: dict[str, Any]) -> None:
        """Set fields; a growing field starts over with the value that is set."""
        self.fields |= fields
        for delta, (_, grown) in DELTA_FIELDS.items():
            if grown in fields:
                self.parts.pop(delta, None)

    def text_of(self, delta: str) -> str:
        """Return the text of a field: from the start or the last `block-delta`, plus the deltas after it."""
        start_value = self.fields.get(DELTA_FIELDS[delta][1])
        return (start_value if isinstance(start_value, str) else "") + "".join(
            self.parts.get(delta, ())
        )


class GrammarChecker:
    """Checks a stream event by event.

    ```python
    checker = GrammarChecker()
    print(checker.feed({"event": "message-start", "role": "ai", "id": "msg_1"}))
    #> []
    print(*checker.feed({"event": "content-block-finish", "index": 0, "content": {"type": "text"}}))
    #> V5: event 1: content-block-finish: block 0 was never started
    print(*checker.finish())
    #> V3: the stream ends without message-finish or error
    ```
    """

    __repr__ = short_repr

    def __init__(self, earlier: Iterable[MessageLike] = ()) -> None:
        """Begin a stream; `earlier` are the messages of its request, whose server tools it may answer (V19)."""
        self.violations: list[Violation] = []
        self._earlier_calls = frozenset(
            str(block.get("id"))
            for message in earlier
            for block in message.content_blocks
            if _is_server_call(block)
        )
        self._position = -1
        self._end: str | None = None
        self._started = False
        self._blocks: list[_CheckedBlock] = []
        self._server_calls: set[str] = set(self._earlier_calls)

    def feed(self, event: Event | Mapping[str, Any]) -> list[Violation]:
        """Check one event; return its violations."""
        self._position += 1
        reported_count = len(self.violations)
        self._check(event)
        return self.violations[reported_count:]

    def finish(self) -> list[Violation]:
        """End the stream; return the violations of the stream as a whole."""
        reported_count = len(self.violations)
        if not self._started and self._position < 0:
            self.violations.append(Violation("V1", "no message-start: the stream is empty"))
        if self._end is None:
            self.violations.append(
                Violation("V3", "the stream ends without message-finish or error")
            )
        return self.violations[reported_count:]

    def _report(self, rule: str, message: str) -> None:
        self.violations.append(Violation(rule, message, self._position))

    def _check(self, event: object) -> None:
        if (problem := json_problem(event)) is not None:
            return self._report("V18", problem)
        kind = event.get("event") if isinstance(event, Mapping) else None
        if not isinstance(event, Mapping) or not isinstance(kind, str):
            return self._report("V7", f"no event name: {event!r:.80}")
        if self._end is not None:
            rule = "V15" if self._end == "error" else "V2"
            return self._report(rule, f"{kind} after {self._end}")
        if not self._check_first(kind) or kind not in CHECKS:
            return None
        if (problem := shape_problem(event, EVENT_SHAPES[kind])) is not None:
            return self._report("V7", f"{kind}: {problem}")
        return CHECKS[kind](self, event)

    def _check_first(self, kind: str) -> bool:
        if kind == "message-start":
            if self._started:
                self._report("V1", "a second message-start")
                return False
            self._started = True
        elif not self._started:
            self._started = True
            self._report("V1", f"{kind} before message-start")
        return True

    def _on_message_start(self, event: Mapping[str, Any]) -> None:
        """Check nothing more: `_check_first` has checked the position, the shapes the fields."""

    def _on_reset(self, event: Mapping[str, Any]) -> None:
        self._started = False
        self._blocks = []
        self._server_calls = set(self._earlier_calls)

    def _on_start(self, event: Mapping[str, Any]) -> None:
        index, content = event["index"], event["content"]
        if not _is_index(index):
            return self._report("V4", f"index {index!r} is not a whole number from 0")
        if index < len(self._blocks):
            return self._report("V4", f"block {index} was started before")
        if index > len(self._blocks):
            return self._report("V4", f"block {index} where {len(self._blocks)} comes next")
        self._blocks.append(_CheckedBlock(dict(copy_json(content))))
        if (problem := block_problem(content, is_start=True)) is not None:
            return self._report("V7", f"content-block-start {index}: {problem}")
        heavy = [name for name in sorted(HEAVY_FIELDS) if content.get(name)]
        if heavy:
            self._report("V17", f"block {index}: payload in the start: {', '.join(heavy)}")
        return None

    def _block_of(self, event: Mapping[str, Any]) -> _CheckedBlock | None:
        index = event["index"]
        if not _is_index(index):
            self._report("V4", f"index {index!r} is not a whole number from 0")
            return None
        block: _CheckedBlock | None = self._blocks[index] if index < len(self._blocks) else None
        if block is None or not block.is_open:
            state = "was never started" if block is None else "is finished"
            self._report("V5", f"{event['event']}: block {index} {state}")
            return None
        return block

    def _on_delta(self, event: Mapping[str, Any]) -> None:
        block, delta = self._block_of(event), event["delta"]
        if block is None:
            return
        kind = delta.get("type")
        if not isinstance(kind, str):
            self._report("V7", f"block {event['index']}: a delta without a type")
        elif kind in DELTA_SHAPES:
            self._check_delta(block, delta, kind)

    def _check_delta(self, block: _CheckedBlock, delta: Mapping[str, Any], kind: str) -> None:
        if (problem := shape_problem(delta, DELTA_SHAPES[kind])) is not None:
            return self._report("V7", f"{kind}: {problem}")
        if kind == "block-delta":
            return self._check_fields(block, delta["fields"])
        legal = LEGAL_DELTAS.get(block.kind)
        if legal is not None and kind not in legal:
            return self._report("V8", f"{kind} on a {block.kind!r} block")
        block.parts.setdefault(kind, []).append(delta[DELTA_FIELDS[kind][0]])
        return None

    def _check_fields(self, block: _CheckedBlock, fields: dict[str, Any]) -> None:
        if fields.get("type", block.kind) != block.kind:
            return self._report("V8", f"block-delta makes a {block.kind!r} a {fields['type']!r}")
        for name in ("id", "name"):
            old, new = block.fields.get(name), fields.get(name)
            grows = name == "name" and not block.parts and str(new).startswith(str(old))
            if name in fields and old and new != old and not grows:
                self._report("V13", f"block-delta changes the {name} {old!r} to {new!r}")
        block.replace(copy_json(fields))
        return None

    def _on_finish(self, event: Mapping[str, Any]) -> None:
        block, content = self._block_of(event), event["content"]
        if block is None:
            return None
        block.is_open = False
        index, kind = event["index"], content.get("type")
        if kind in GROWING_CALLS:
            return self._report("V10", f"block {index} is finished as a {kind!r}")
        if kind in ("tool_call", "server_tool_call") and not isinstance(content.get("args"), dict):
            return self._report(
                "V14", f"block {index}: args of a {kind} are {content.get('args')!r:.60}"
            )
        if (problem := block_problem(content, is_start=False)) is not None:
            return self._report("V7", f"content-block-finish {index}: {problem}")
        if kind not in PROMOTIONS.get(block.kind, {block.kind}):
            return self._report(
                "V9", f"block {index} starts as {block.kind!r} and ends as {kind!r}"
            )
        self._compare(index, block, content)
        return self._check_server(content)

    def _compare(self, index: int, block: _CheckedBlock, content: Mapping[str, Any]) -> None:
        for delta, name, rule in COMPARED:
            grows = delta in block.parts or (rule == "V11" and block.kind == name)
            if grows and (content.get(name) or "") != block.text_of(delta):
                self._report(
                    rule, f"block {index}: the {name} of the finish is not what the deltas said"
                )
        if block.kind in GROWING_CALLS and not _args_fit(block, content):
            self._report(
                "V12", f"block {index}: the slices of args do not make the args of the finish"
            )
        for name in ("id", "name"):
            old, new = block.fields.get(name), content.get(name)
            is_late_id = name == "id" and not old
            if (old or new) and old != new and not is_late_id:
                self._report(
                    "V13", f"block {index}: {name} was {old!r} and is {new!r} in the finish"
                )

    def _check_server(self, content: Mapping[str, Any]) -> None:
        if _is_server_call(content):
            self._server_calls.add(str(content.get("id")))
        elif content["type"] == "server_tool_result":
            call_id = str(content["tool_call_id"])
            if call_id not in self._server_calls:
                self._report(
                    "V19",
                    f"a server_tool_result for {call_id!r}, which was called neither here nor earlier",
                )

    def _on_message_finish(self, event: Mapping[str, Any]) -> None:
        self._end = "message-finish"
        still_open = [index for index, block in enumerate(self._blocks) if block.is_open]
        if still_open:
            self._report("V6", f"message-finish while blocks {still_open} are open")

    def _on_error(self, event: Mapping[str, Any]) -> None:
        self._end = "error"


Check: TypeAlias = Callable[[GrammarChecker, Mapping[str, Any]], None]


def _check_of(kind: EventKind) -> Check:  # noqa: PLR0911  one case per event
    match kind:
        case "message-start":
            return GrammarChecker._on_message_start
        case "message-reset":
            return GrammarChecker._on_reset
        case "content-block-start":
            return GrammarChecker._on_start
        case "content-block-delta":
            return GrammarChecker._on_delta
        case "content-block-finish":
            return GrammarChecker._on_finish
        case "message-finish":
            return GrammarChecker._on_message_finish
        case "error":
            return GrammarChecker._on_error
        case _:
            assert_never(kind)


CHECKS: Final[dict[str, Check]] = {kind: _check_of(kind) for kind in EVENT_KINDS}

COMPARED: Final = (
    ("text-delta", "text", "V11"),
    ("reasoning-delta", "reasoning", "V11"),
    ("refusal-delta", "refusal", "V11"),
    ("data-delta", "base64", "V16"),
)
"""Deltas that must add up to a field of the finish, and the number of the rule."""


def check(
    events: Iterable[Event | Mapping[str, Any]],
    message: MessageLike | None = None,
    *,
    earlier: Iterable[MessageLike] = (),
) -> list[Violation]:
    """Return all violations of a stream, and of the message assembled from it if one is passed.

    `earlier` are the messages of the request: a continued turn holds the results of server tools called in them.
    """
    checker = GrammarChecker(earlier)
    stream = list(events)
    for event in stream:
        checker.feed(event)
    checker.finish()
    if not checker.violations and stream[-1]["event"] == "message-finish":
        checker.violations += _check_message(stream, message)
    return checker.violations


def assert_valid_event_stream(
    events: Iterable[Event | Mapping[str, Any]],
    message: MessageLike | None = None,
    *,
    earlier: Iterable[MessageLike] = (),
) -> None:
    """Raise `MalformedStreamError`, with the number of the rule, if a stream breaks the grammar; see `check`."""
    violations = check(events, message, earlier=earlier)
    if violations:
        more = f" (and {len(violations) - 1} more)" if len(violations) > 1 else ""
        raise MalformedStreamError(f"{violations[0]}{more}", code=violations[0].rule)


def _check_message(
    events: list[Event | Mapping[str, Any]], message: MessageLike | None
) -> list[Violation]:
    """V20: the message, the fold of its events and the fold of its replay are equal."""
    try:
        builder = MessageBuilder()
        for event in events:
            builder.feed(event)
        folded = builder.result()
        replays = [("the replayed message", fold(replay(folded)))]
        if message is not None:
            described = describe(message)
            replays += [("the message", described), ("its replay", fold(replay(described)))]
    except FoldlineError as error:
        return [Violation("V20", f"the stream cannot be folded: {error}")]
    return [
        Violation("V20", f"{name} differs from the fold of the events in its {field}")
        for name, replayed in replays
        for field in _differences(folded, replayed, has_metadata=name == "the replayed message")
    ]


def _differences(left: FoldedMessage, right: FoldedMessage, *, has_metadata: bool) -> list[str]:
    """Return the names of the fields that differ; a message may have more metadata than its events, never less."""
    names = ("role", "id", "blocks", "usage", "finish_reason", "additional_kwargs", "status")
    differences = [
        name
        for name in names
        if not is_same_json(_comparable(left, name), _comparable(right, name))
    ]
    has_lost_metadata = any(
        not is_same_json(right.metadata.get(key), value) for key, value in left.metadata.items()
    )
    if has_lost_metadata or (has_metadata and not is_same_json(left.metadata, right.metadata)):
        differences.append("metadata")
    return differences


def _comparable(folded: FoldedMessage, name: str) -> object:
    value: Any = getattr(folded, name)
    if name == "blocks":
        return [{key: item for key, item in block.items() if key != "index"} for block in value]
    return value


def _args_fit(block: _CheckedBlock, content: Mapping[str, Any]) -> bool:
    start_args, has_slices = block.fields.get("args"), "tool-call-delta" in block.parts
    if isinstance(start_args, dict) and not has_slices:  # set by a block-delta
        return is_same_json(start_args, content.get("args"))
    text = block.text_of("tool-call-delta")
    if content["type"] == "invalid_tool_call":
        return (content.get("args") or "") == text
    return is_same_json(parse_tool_args(text), content.get("args"))


def _is_server_call(block: Mapping[str, Any]) -> bool:
    extras = block.get("extras")
    is_server = isinstance(extras, dict) and extras.get("server") is True
    return block.get("type") == "server_tool_call" or is_server


def _is_index(index: object) -> bool:
    return isinstance(index, int) and not isinstance(index, bool) and index >= 0

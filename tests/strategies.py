"""Hypothesis strategies for what flows through foldline: JSON, blocks, messages, provider-ish parts, event streams."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from foldline.protocol import EventWriter
from foldline.protocol.events import Event

Json = Any
Block = dict[str, Json]

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
"""Any text that can be stored."""
some_text = texts.filter(bool)
names = st.from_regex(r"[a-z][a-z0-9_]{0,15}", fullmatch=True)
ids = st.from_regex(r"[a-z]{2,5}_[0-9a-f]{4,10}", fullmatch=True)
numbers = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | numbers | texts
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
json_objects = st.dictionaries(texts, json_values, max_size=3)
base64_texts = st.text("ABCDwxyz0189+/", min_size=4, max_size=16)


def _with(
    required: dict[str, st.SearchStrategy[Json]], **optional: st.SearchStrategy[Json]
) -> st.SearchStrategy[Block]:
    return st.fixed_dictionaries(required, optional={**optional, "extras": json_objects})


citations = st.fixed_dictionaries(
    {"type": st.just("citation")}, optional={"url": texts, "title": texts, "cited_text": texts}
)
text_blocks = _with(
    {"type": st.just("text"), "text": texts}, id=ids, annotations=st.lists(citations, max_size=2)
)
reasoning_blocks = _with({"type": st.just("reasoning")}, id=ids, reasoning=texts)
refusal_blocks = _with({"type": st.just("refusal"), "refusal": texts}, id=ids)
tool_calls = _with(
    {"type": st.just("tool_call"), "id": ids | st.none(), "name": names, "args": json_objects}
)
invalid_tool_calls = _with(
    {
        "type": st.just("invalid_tool_call"),
        "id": ids | st.none(),
        "name": names | st.none(),
        "args": texts | st.none(),
        "error": texts | st.none(),
    }
)
media_blocks = st.builds(
    lambda block, source: {**block, **source},
    _with({"type": st.sampled_from(["image", "audio", "video", "file"])}, id=ids, mime_type=texts),
    st.fixed_dictionaries({"base64": base64_texts})
    | st.fixed_dictionaries({"url": texts})
    | st.fixed_dictionaries({"file_id": ids}),
)
document_blocks = _with(
    {"type": st.just("text-plain")}, id=ids, text=texts, title=texts, context=texts
)
non_standard_blocks = _with({"type": st.just("non_standard"), "value": json_objects}, id=ids)
unknown_blocks = st.fixed_dictionaries({"type": st.just("hologram"), "depth": json_values})
plain_blocks = st.one_of(
    text_blocks,
    reasoning_blocks,
    refusal_blocks,
    tool_calls,
    invalid_tool_calls,
    media_blocks,
    document_blocks,
    non_standard_blocks,
    unknown_blocks,
)


@st.composite
def server_pairs(draw: st.DrawFn) -> list[Block]:
    """A call the provider runs, and its result."""
    id = draw(ids)
    call = {"type": "server_tool_call", "id": id, "name": draw(names), "args": draw(json_objects)}
    result = {
        "type": "server_tool_result",
        "tool_call_id": id,
        "status": draw(st.sampled_from(["success", "error"])),
        "output": draw(json_values),
    }
    return [call, result]


block_lists = st.lists(
    st.lists(plain_blocks, min_size=1, max_size=1) | server_pairs(), max_size=4
).map(lambda groups: [block for group in groups for block in group])
"""Finalized blocks of every type, in any order."""


@dataclass
class StandIn:
    """A message as the protocol layer sees one."""

    type: str = "ai"
    content_blocks: list[Block] = field(default_factory=list)
    id: str | None = None
    response_metadata: dict[str, Json] = field(default_factory=dict)
    additional_kwargs: dict[str, Json] = field(default_factory=dict)
    usage_metadata: dict[str, Json] | None = None
    finish_reason: str | None = None
    status: str = "complete"
    name: str | None = None
    tool_call_id: str | None = None


usages = st.fixed_dictionaries(
    {"input_tokens": st.integers(0, 9), "output_tokens": st.integers(0, 9)},
    optional={
        "total_tokens": st.integers(0, 99),
        "input_token_details": st.dictionaries(names, st.integers(0, 9), max_size=2),
        "odd_counter": st.integers(0, 9),
    },
)
metadata_dicts = st.dictionaries(
    names | st.sampled_from(["model_name", "model_provider", "finish_reason"]),
    json_values,
    max_size=3,
)
stand_ins = st.builds(
    StandIn,
    type=st.sampled_from(["ai", "human", "system", "tool", "AIMessageChunk", "function"]),
    content_blocks=block_lists,
    id=st.none() | ids,
    response_metadata=metadata_dicts,
    additional_kwargs=json_objects,
    usage_metadata=st.none() | usages,
    finish_reason=st.none() | st.sampled_from(["stop", "length", "tool_use", "unknown"]),
    status=st.sampled_from(["complete", "incomplete"]),
    name=st.none() | names,
    tool_call_id=st.none() | ids,
)


@dataclass(frozen=True)
class PlannedBlock:
    """A block of an answer before it is cut into slices."""

    kind: str
    text: str
    id: str | None = None
    name: str | None = None


@st.composite
def planned_blocks(draw: st.DrawFn) -> list[PlannedBlock]:
    """Blocks of an answer: text, reasoning, refusals and calls, neighbours of different kinds or names."""
    blocks: list[PlannedBlock] = []
    for number in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from(["text", "reasoning", "refusal", "tool_call"]))
        if kind == "tool_call":
            args = json.dumps(draw(json_objects))
            blocks.append(PlannedBlock(kind, args, id=f"call_{number}", name=draw(names)))
        elif not blocks or blocks[-1].kind != kind:
            blocks.append(PlannedBlock(kind, draw(some_text)))
    return blocks


def _slices(draw: st.DrawFn, text: str) -> list[str]:
    cuts = sorted(draw(st.sets(st.integers(0, len(text)), max_size=4)) | {0, len(text)})
    return [text[start:end] for start, end in itertools.pairwise(cuts)] or [""]


def _part(planned: PlannedBlock, piece: str, *, index: int | None, is_first: bool) -> Block:
    if planned.kind != "tool_call":
        block: Block = {"type": planned.kind, planned.kind: piece}
    else:
        block = {"type": "tool_call_chunk", "args": piece}
        if is_first:
            block |= {"id": planned.id, "name": planned.name}
    return block if index is None else {**block, "index": index}


@st.composite
def partial_parts(draw: st.DrawFn, blocks: list[PlannedBlock], *, indexed: bool) -> list[Block]:
    """Cut planned blocks into the partial blocks of v1 chunks; with indexes the blocks may interleave."""
    queues = [
        [
            _part(planned, piece, index=number if indexed else None, is_first=place == 0)
            for place, piece in enumerate(_slices(draw, planned.text))
        ]
        for number, planned in enumerate(blocks)
    ]
    if not indexed:
        return [part for queue in queues for part in queue]
    # Every block begins in its turn; after that the slices come in any order.
    parts = [queue.pop(0) for queue in queues]
    while waiting := [queue for queue in queues if queue]:
        parts.append(draw(st.sampled_from(waiting)).pop(0))
    return parts


def say(parts: list[Block], **finish: Json) -> list[Event]:
    """Return the events that a writer makes of partial blocks."""
    writer = EventWriter(id="msg_1", metadata={"provider": "acme", "model": "anvil-1"})
    events: list[Event] = []
    for part in parts:
        events += writer.block(part)
    return events + writer.finish(**finish)


@st.composite
def event_streams(draw: st.DrawFn) -> list[Event]:
    """A legal stream of events, from parts (interleaved or not) or from whole blocks."""
    usage = draw(st.none() | usages)
    reason = draw(st.none() | st.sampled_from(["stop", "length"]))
    if draw(st.booleans()):
        blocks = draw(planned_blocks())
        parts = draw(partial_parts(blocks, indexed=draw(st.booleans())))
        return say(parts, usage=usage, reason=reason)
    writer = EventWriter(id=draw(st.none() | ids), allow_repeated_ids=True)
    events: list[Event] = []
    for block in draw(block_lists):
        events += writer.block(block, is_complete=True)
    return events + writer.finish(reason, usage=usage)

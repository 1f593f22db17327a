"""T99: every rule of the grammar, broken once; and streams that keep them all."""

from __future__ import annotations

from copy import deepcopy

import pytest
from hypothesis import given, strategies as st

from foldline.exceptions import MalformedStreamError
from foldline.protocol import EventWriter, GrammarChecker, assert_valid_event_stream, check, fold
from foldline.protocol.replay import describe
from tests.strategies import StandIn, event_streams


def stream():
    """Every kind of block: text 0, reasoning 1, call 2, server call 3, result 4, sound 5, picture 6, refusal 7."""
    writer = EventWriter(id="msg_1", metadata={"provider": "acme"})
    result = {"type": "server_tool_result", "tool_call_id": "s", "status": "success", "output": [1]}
    return [
        *writer.text("Hel", key=0),
        *writer.text("lo", key=0),
        *writer.reasoning("hm", key=1),
        *writer.tool_call(key=2, id="c", name="look", args='{"a":'),
        *writer.tool_call(key=2, args=" 1}"),
        *writer.block({"type": "server_tool_call", "id": "s", "name": "search", "args": {"q": 1}}),
        *writer.block(result),
        *writer.data("AA", key=5),
        *writer.block({"type": "image", "base64": "BB"}),
        *writer.refusal("no", key=7),
        *writer.finish("stop", usage={"input_tokens": 1}, metadata={"m": 1}),
    ]


def place(events, event, index=None):
    """The position of the first event of a name (and index)."""
    return next(
        position
        for position, each in enumerate(events)
        if each["event"] == event and each.get("index") == index
    )


def finish_of(events, index):
    return events[place(events, "content-block-finish", index)]["content"]


def start_of(events, index):
    return events[place(events, "content-block-start", index)]["content"]


def delta_of(events, index):
    return events[place(events, "content-block-delta", index)]["delta"]


def rules(events, message=None):
    return [violation.rule for violation in check(events, message)]


def broken(break_it):
    events = deepcopy(stream())
    replaced = break_it(events)
    return events if replaced is None else replaced


def test_a_reset_takes_back_what_was_said_and_the_message_begins_again():
    start = {"event": "message-start", "role": "ai", "id": "m"}
    block = {"event": "content-block-start", "index": 0, "content": {"type": "text", "text": ""}}
    reset = {"event": "message-reset", "id": "m", "attempt": 1, "reason": "cut"}
    block_finish = {
        "event": "content-block-finish",
        "index": 0,
        "content": {"type": "text", "text": ""},
    }
    repetition = [start, block, block_finish, {"event": "message-finish"}]
    assert_valid_event_stream([start, block, reset, *repetition])
    assert [violation.rule for violation in check([start, block, reset, *repetition[1:]])] == ["V1"]
    assert check([start, {**reset, "attempt": "1"}, *repetition])[0].rule == "V7"


def test_the_stream_of_these_tests_is_valid():
    assert check(stream()) == []
    assert_valid_event_stream(stream())


def test_an_error_is_an_end_and_open_blocks_are_then_legitimate():
    assert check([*stream()[:5], {"event": "error", "message": "cut"}]) == []


def test_T08_unknown_events_and_deltas_are_ignored():
    events = stream()
    events.insert(1, {"event": "applause", "index": "loud"})
    events.insert(4, {"event": "content-block-delta", "index": 0, "delta": {"type": "smell-delta"}})

    assert check(events) == []


@pytest.mark.parametrize(
    "break_it",
    [
        lambda events: events.pop(0),
        lambda events: events.insert(0, events.pop(1)),
        lambda events: events.insert(3, dict(events[0])),
        lambda events: events.clear(),
    ],
)
def test_V1_not_exactly_one_message_start_first(break_it):
    assert rules(broken(lambda events: (break_it(events), None)[1]))[0] == "V1"


@pytest.mark.parametrize(
    "break_it",
    [
        lambda events: events.append({"event": "message-finish"}),
        lambda events: events.append({"event": "applause"}),
        lambda events: events.append(events.pop(-2)),
    ],
)
def test_V2_message_finish_not_last_or_twice(break_it):
    assert "V2" in rules(broken(break_it))


def test_V3_no_terminal_event():
    assert rules(stream()[:-1]) == ["V3"]


@pytest.mark.parametrize("index", [True, -1, "0", 1.0, None, 7, 0])
def test_V4_an_index_that_is_no_number_or_out_of_turn(index):
    def break_it(events):
        events[place(events, "content-block-start", 1)]["index"] = index

    assert rules(broken(break_it))[0] == "V4"


@pytest.mark.parametrize("kind", ["content-block-delta", "content-block-finish"])
def test_V4_an_index_that_is_no_number_on_a_delta_or_finish(kind):
    def break_it(events):
        events[place(events, kind, 1)]["index"] = "1"

    assert rules(broken(break_it))[0] == "V4"


@pytest.mark.parametrize(
    "break_it",
    [
        lambda events: events.insert(
            1,
            {
                "event": "content-block-delta",
                "index": 0,
                "delta": {"type": "text-delta", "text": "x"},
            },
        ),
        lambda events: events.insert(
            -1,
            {
                "event": "content-block-delta",
                "index": 0,
                "delta": {"type": "text-delta", "text": "x"},
            },
        ),
        lambda events: events.insert(-1, deepcopy(events[-2])),
    ],
)
def test_V5_a_delta_or_finish_on_a_block_that_is_not_open(break_it):
    assert rules(broken(break_it)) == ["V5"]


def test_V6_an_open_block_at_message_finish():
    def break_it(events):
        del events[place(events, "content-block-finish", 1)]

    assert rules(broken(break_it)) == ["V6"]


@pytest.mark.parametrize(
    "break_it",
    [
        lambda events: events[0].pop("role"),
        lambda events: events[0].update(role="robot"),
        lambda events: events[0].update(id=None),
        lambda events: events[0].update(metadata={"deep": {}}),
        lambda events: events[1].pop("content"),
        lambda events: events[1].update(content="text"),
        lambda events: start_of(events, 0).pop("type"),
        lambda events: start_of(events, 0).update(extras=[]),
        lambda events: events[place(events, "content-block-delta", 0)].pop("delta"),
        lambda events: delta_of(events, 0).pop("type"),
        lambda events: delta_of(events, 0).update(text=3),
        lambda events: finish_of(events, 0).pop("text"),
        lambda events: finish_of(events, 2).update(name=None),
        lambda events: finish_of(events, 4).update(status="fine"),
        lambda events: events[-1].update(finish_reason="because"),
        lambda events: events[-1].update(usage={"input_tokens": "1"}),
        lambda events: events[-1].update(metadata=[]),
        lambda events: events.__setitem__(-1, {"event": "error"}),
        lambda events: events.insert(1, {"index": 0}),
        lambda events: events.insert(1, "message-start"),
    ],
)
def test_V7_a_missing_or_mistyped_field(break_it):
    def keep(events):
        break_it(events)

    assert rules(broken(keep))[0] == "V7"


@pytest.mark.parametrize(
    ("index", "delta"),
    [
        (0, {"type": "reasoning-delta", "reasoning": "x"}),
        (0, {"type": "tool-call-delta", "args": "x"}),
        (1, {"type": "text-delta", "text": "x"}),
        (2, {"type": "data-delta", "data": "x"}),
        (3, {"type": "tool-call-delta", "args": "{}"}),
        (4, {"type": "text-delta", "text": "x"}),
        (5, {"type": "text-delta", "text": "x"}),
        (7, {"type": "text-delta", "text": "x"}),
        (0, {"type": "refusal-delta", "refusal": "x"}),
        (0, {"type": "block-delta", "fields": {"type": "reasoning"}}),
    ],
)
def test_V8_a_delta_that_is_illegal_for_the_block(index, delta):
    def break_it(events):
        after = place(events, "content-block-start", index) + 1
        events.insert(after, {"event": "content-block-delta", "index": index, "delta": delta})

    assert rules(broken(break_it)) == ["V8"]


@pytest.mark.parametrize(
    ("index", "content"),
    [
        (0, {"type": "reasoning", "reasoning": "Hello"}),
        (2, {"type": "server_tool_call", "id": "c", "name": "look", "args": {"a": 1}}),
        (3, {"type": "tool_call", "id": "s", "name": "search", "args": {"q": 1}}),
        (6, {"type": "video", "base64": "BB"}),
        (7, {"type": "text", "text": "no"}),
    ],
)
def test_V9_a_finish_of_another_type(index, content):
    def break_it(events):
        events[place(events, "content-block-finish", index)]["content"] = content

    assert rules(broken(break_it))[0] == "V9"


def test_V10_a_chunk_in_a_finish():
    def break_it(events):
        finish_of(events, 2).update(type="tool_call_chunk", args='{"a": 1}')

    assert rules(broken(break_it)) == ["V10"]


@pytest.mark.parametrize(("index", "field"), [(0, "text"), (1, "reasoning"), (7, "refusal")])
def test_V11_deltas_that_do_not_make_the_finish(index, field):
    def break_it(events):
        finish_of(events, index)[field] += "!"

    assert rules(broken(break_it)) == ["V11"]


def test_V11_text_that_no_delta_said():
    events = stream()
    at = place(events, "content-block-delta", 1)

    assert rules(events[:at] + events[at + 1 :]) == ["V11"]


@pytest.mark.parametrize(
    "content",
    [
        {"type": "tool_call", "id": "c", "name": "look", "args": {"a": 2}},
        {"type": "invalid_tool_call", "id": "c", "name": "look", "args": "{", "error": "x"},
    ],
)
def test_V12_slices_that_do_not_make_the_arguments(content):
    def break_it(events):
        events[place(events, "content-block-finish", 2)]["content"] = content

    assert rules(broken(break_it)) == ["V12"]


@pytest.mark.parametrize("field", ["id", "name"])
def test_V13_an_id_or_name_that_changes(field):
    def break_it(events):
        finish_of(events, 2)[field] = "other"

    assert rules(broken(break_it)) == ["V13"]


def test_V13_a_block_delta_that_changes_an_id():
    def break_it(events):
        fields = {"type": "tool_call_chunk", "id": "other"}
        after = place(events, "content-block-start", 2) + 1
        delta = {"type": "block-delta", "fields": fields}
        events.insert(after, {"event": "content-block-delta", "index": 2, "delta": delta})

    assert rules(broken(break_it))[0] == "V13"


def test_T19_T26_late_ids_and_growing_names_are_no_change():
    writer = EventWriter()
    events = writer.tool_call(key=0, name="get_") + writer.tool_call(key=0, name="weather")
    events += writer.tool_call(key=0, id="late", args="{}") + writer.finish()

    assert check(events) == []


@pytest.mark.parametrize("index", [2, 3])
@pytest.mark.parametrize("args", ["{}", [1], None])
def test_V14_arguments_that_are_no_object(index, args):
    def break_it(events):
        finish_of(events, index)["args"] = args

    assert rules(broken(break_it))[0] == "V14"


def test_V15_events_after_an_error():
    events = [*stream()[:3], {"event": "error", "message": "cut"}, *stream()[3:4]]

    assert rules(events) == ["V15"]
    assert rules([*events[:4], {"event": "message-finish"}]) == ["V15"]


@pytest.mark.parametrize("data", ["AB", "", None])
def test_V16_data_deltas_that_do_not_make_the_finish(data):
    def break_it(events):
        finish_of(events, 5).pop("base64")
        if data is not None:
            finish_of(events, 5)["base64"] = data

    assert rules(broken(break_it)) == ["V16"]


@pytest.mark.parametrize(
    ("index", "payload"),
    [(2, {"args": "{"}), (3, {"args": {"q": 1}}), (4, {"output": [1]}), (6, {"base64": "BB"})],
)
def test_V17_a_heavy_payload_in_a_start(index, payload):
    def break_it(events):
        start_of(events, index).update(payload)

    assert rules(broken(break_it))[0] == "V17"


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), {1, 2}, b"x", object(), {3: 4}, "\ud83d", {"a": {(1,): 2}}],
)
def test_V18_what_is_not_json(value):
    def break_it(events):
        events[-1]["metadata"]["odd"] = value

    assert rules(broken(break_it))[0] == "V18"


def test_V18_an_event_that_contains_itself():
    def break_it(events):
        events[-1]["metadata"]["knot"] = events[-1]

    assert rules(broken(break_it))[0] == "V18"


def test_V19_a_server_result_without_its_call():
    def break_it(events):
        start_of(events, 4)["tool_call_id"] = "other"
        finish_of(events, 4)["tool_call_id"] = "other"

    assert rules(broken(break_it)) == ["V19"]


def continued_turn(call):
    """A message that goes on where another one paused: with the result of its call."""
    writer = EventWriter(id="msg_2")
    result = {"type": "server_tool_result", "tool_call_id": "s", "status": "success", "output": [1]}
    events = [*writer.block(result), *writer.text("done", key=1), *writer.finish("stop")]
    return events, [StandIn(content_blocks=[call], id="msg_1")]


@pytest.mark.parametrize(
    "call",
    [
        {"type": "server_tool_call", "id": "s", "name": "search", "args": {}},
        {"type": "tool_call", "id": "s", "name": "x", "args": {}, "extras": {"server": True}},
    ],
)
def test_V19_a_server_result_whose_call_is_in_an_earlier_message_is_legal(call):
    events, earlier = continued_turn(call)

    assert check(events, earlier=earlier) == []
    assert_valid_event_stream(events, earlier=earlier)
    assert rules(events) == ["V19"]


def test_V19_an_earlier_call_still_counts_after_a_reset():
    events, earlier = continued_turn(
        {"type": "server_tool_call", "id": "s", "name": "search", "args": {}}
    )

    reset = {"event": "message-reset", "id": "msg_2", "attempt": 1, "reason": "cut"}

    assert check([events[0], reset, *events], earlier=earlier) == []


def test_V19_a_call_of_the_program_does_not_make_a_server_result_legal():
    events, earlier = continued_turn({"type": "tool_call", "id": "s", "name": "x", "args": {}})

    assert [violation.rule for violation in check(events, earlier=earlier)] == ["V19"]


def message_of(events):
    result = fold(events)
    return StandIn(
        content_blocks=result.blocks,
        id=result.id,
        response_metadata={**result.metadata, "output_version": "v1"},
        usage_metadata=result.usage,
        finish_reason=result.finish_reason,
    )


def test_the_message_of_a_stream_is_its_fold():
    assert check(stream(), message_of(stream())) == []


@pytest.mark.parametrize(
    ("break_it", "field"),
    [
        (lambda message: message.content_blocks.pop(), "blocks"),
        (lambda message: message.content_blocks[0].update(text="Jello"), "blocks"),
        (lambda message: setattr(message, "id", "other"), "id"),
        (lambda message: setattr(message, "usage_metadata", None), "usage"),
        (lambda message: setattr(message, "finish_reason", "length"), "finish_reason"),
        (lambda message: message.additional_kwargs.update(a=1), "additional_kwargs"),
        (lambda message: message.response_metadata.pop("m"), "metadata"),
        (lambda message: setattr(message, "type", "human"), "role"),
        (lambda message: setattr(message, "status", "incomplete"), "status"),
    ],
)
def test_V20_a_message_that_is_not_the_fold_of_its_events(break_it, field):
    message = message_of(stream())
    break_it(message)

    violations = check(stream(), message)

    assert {violation.rule for violation in violations} == {"V20"}
    assert any(field in violation.message for violation in violations)


def test_V20_a_stream_that_is_too_large_to_fold():
    writer = EventWriter()
    events = [event for _ in range(4097) for event in writer.block({"type": "hologram"})]

    assert rules(events + writer.finish()) == ["V20"]


def test_the_error_names_the_rule_and_the_place():
    with pytest.raises(MalformedStreamError, match=r"^V3: the stream ends without") as excinfo:
        assert_valid_event_stream(stream()[:-1])
    assert excinfo.value.code == "V3"

    with pytest.raises(MalformedStreamError, match=r"^V5: event 1: .* \(and \d+ more\)$"):
        assert_valid_event_stream([stream()[0], *stream()[2:]])


def test_a_live_stream_can_be_watched():
    checker = GrammarChecker()

    assert [violation for event in stream() for violation in checker.feed(event)] == []
    assert checker.finish() == []
    assert checker.feed({"event": "message-finish"})[0].rule == "V2"


@given(event_streams())
def test_any_legal_stream_passes(events):
    assert_valid_event_stream(events)
    message = StandIn(
        content_blocks=fold(events).blocks,
        id=fold(events).id,
        response_metadata=fold(events).metadata,
        usage_metadata=fold(events).usage,
        finish_reason=fold(events).finish_reason,
    )
    assert describe(message) == fold(events)
    assert_valid_event_stream(events, message)


@given(event_streams(), st.data())
def test_T99_a_swap_is_caught_or_harmless(events, data):
    """Two neighbours changed about break the grammar, or belong to different blocks and mean the same."""
    at = data.draw(st.integers(0, len(events) - 2))
    swapped = [*events[:at], events[at + 1], events[at], *events[at + 2 :]]
    first, second = events[at], events[at + 1]
    independent = (
        "index" in first
        and "index" in second
        and first["index"] != second["index"]
        and {first["event"], second["event"]} != {"content-block-start"}
    )

    if check(swapped):
        return
    same = fold(swapped).blocks == fold(events).blocks
    assert same
    assert independent or first["event"] == second["event"] == "content-block-delta"


@given(event_streams(), st.data())
def test_T99_dropping_a_framing_event_is_caught(events, data):
    framing = [n for n, event in enumerate(events) if event["event"] != "content-block-delta"]
    at = data.draw(st.sampled_from(framing))

    assert check([*events[:at], *events[at + 1 :]])

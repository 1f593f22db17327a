"""Operations on lists of messages: convert, write, filter, merge, count, trim."""

from __future__ import annotations

import gc
import time

import pytest

from foldline import _extensions
from foldline.exceptions import UsageError
from foldline.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    convert_to_messages,
    convert_to_openai_messages,
    count_tokens_approximately,
    filter_messages,
    get_buffer_string,
    merge_message_runs,
    messages_from_dict,
    messages_to_dict,
    trim_messages,
)

CALL = {"name": "f", "args": {"a": 1}, "id": "c1", "type": "tool_call"}
TALK = [
    SystemMessage("s", id="0"),
    HumanMessage("h<&", id="1", name="ann"),
    AIMessage("a", id="2", tool_calls=[CALL]),
    ToolMessage("t", tool_call_id="c1", id="3"),
    FunctionMessage("f", name="q", id="4"),
    ChatMessage("c", role="judge", id="5"),
]


@pytest.mark.parametrize(
    ("role", "cls"),
    [
        ("human", HumanMessage),
        ("user", HumanMessage),
        ("ai", AIMessage),
        ("assistant", AIMessage),
        ("agent", AIMessage),
        ("system", SystemMessage),
        ("developer", SystemMessage),
    ],
)
def test_every_role_has_its_message(role, cls):
    (from_pair,) = convert_to_messages([(role, "x")])
    (from_dict,) = convert_to_messages([{"role": role, "content": "x", "name": "n", "odd": 1}])

    assert type(from_pair) is type(from_dict) is cls
    assert from_dict.name == "n"
    assert from_dict.additional_kwargs["odd"] == 1


def test_a_lone_string_is_one_message():
    assert convert_to_messages("hello") == [HumanMessage("hello")]
    assert convert_to_messages(["a", "b"]) == [HumanMessage("a"), HumanMessage("b")]


def test_openai_tool_calls_are_read_and_bad_ones_kept():
    calls = [
        {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}},
        {"id": "2", "type": "function", "function": {"name": "f", "arguments": "{"}},
    ]
    call_message, result_message = convert_to_messages(
        [
            {"role": "assistant", "content": None, "tool_calls": calls},
            {"role": "tool", "content": "r", "tool_call_id": "1", "status": "error", "artifact": 3},
        ]
    )

    assert [call["id"] for call in call_message.tool_calls] == ["1"]
    assert [call["id"] for call in call_message.invalid_tool_calls] == ["2"]
    assert (result_message.status, result_message.artifact) == ("error", 3)


def test_dumps_of_messages_are_messages():
    dumped = [message.model_dump() for message in TALK if not isinstance(message, ChatMessage)]

    assert convert_to_messages(dumped) == [m for m in TALK if not isinstance(m, ChatMessage)]
    assert messages_from_dict(messages_to_dict(TALK)) == TALK
    assert convert_to_messages(messages_to_dict(TALK)) == TALK


def test_a_prompt_value_says_its_messages():
    class Prompt:
        def to_messages(self):
            return [HumanMessage("x")]

    assert convert_to_messages(Prompt()) == [HumanMessage("x")]


def test_openai_messages_of_every_role():
    assert convert_to_openai_messages(TALK) == [
        {"role": "system", "content": "s"},
        {"role": "user", "name": "ann", "content": "h<&"},
        {
            "role": "assistant",
            "tool_calls": [
                {"type": "function", "id": "c1", "function": {"name": "f", "arguments": '{"a": 1}'}}
            ],
            "content": "a",
        },
        {"role": "tool", "tool_call_id": "c1", "content": "t"},
        {"role": "function", "name": "q", "content": "f"},
        {"role": "judge", "content": "c"},
    ]


def test_openai_text_as_string_or_blocks():
    message = HumanMessage([{"type": "text", "text": "a"}, "b"])

    assert convert_to_openai_messages(message)["content"] == "a\nb"
    assert convert_to_openai_messages([message], text_format="block")[0]["content"] == [
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b"},
    ]


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ({"type": "image", "url": "u"}, {"type": "image_url", "image_url": {"url": "u"}}),
        (
            {"type": "image", "base64": "AA", "mime_type": "image/png"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
        ),
        (
            {"type": "image", "source_type": "base64", "data": "AA", "mime_type": "image/png"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
        ),
        (
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": "AA"},
            },
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
        ),
        (
            {"image": {"format": "png", "source": {"bytes": b"x"}}},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,eA=="}},
        ),
        (
            {"type": "audio", "base64": "AA", "mime_type": "audio/wav"},
            {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}},
        ),
        (
            {"type": "file", "base64": "AA", "mime_type": "application/pdf", "filename": "n"},
            {
                "type": "file",
                "file": {"file_data": "data:application/pdf;base64,AA", "filename": "n"},
            },
        ),
        ({"type": "file", "file_id": "f"}, {"type": "file", "file": {"file_id": "f"}}),
        ({"type": "reasoning", "reasoning": "r"}, {"type": "reasoning", "reasoning": "r"}),
        ({"type": "hologram", "z": 1}, {"type": "hologram", "z": 1}),
    ],
)
def test_openai_blocks(block, expected):
    assert convert_to_openai_messages([HumanMessage([block])])[0]["content"] == [expected]


@pytest.mark.parametrize(
    "block",
    [
        {"type": "text"},
        {"type": "video", "url": "u"},
        {"type": "file", "url": "u"},
        {"type": "image", "file_id": "f"},
        {"type": "media", "mime_type": "audio/wav", "data": "x"},
        {"type": "hologram"},
    ],
)
def test_openai_blocks_without_a_place_are_refused(block):
    with pytest.raises(UsageError):
        convert_to_openai_messages([HumanMessage([block])], pass_through_unknown_blocks=False)


def test_anthropic_results_among_content_become_tool_messages():
    message = HumanMessage(
        [
            {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "z"}]},
            {"type": "text", "text": "and"},
        ]
    )

    assert convert_to_openai_messages([message]) == [
        {"role": "user", "content": "and"},
        {"role": "tool", "tool_call_id": "1", "content": "z"},
    ]


def test_standard_call_blocks_are_written_once():
    message = AIMessage(content_blocks=[{"type": "text", "text": "q"}, CALL])

    openai_message = convert_to_openai_messages(message)

    assert openai_message["content"] == "q"
    assert [call["id"] for call in openai_message["tool_calls"]] == ["c1"]


def test_buffer_strings():
    assert get_buffer_string(TALK[:3]) == f"System: s\nHuman: h<&\nAI: a[{CALL}]"
    assert get_buffer_string(TALK[:2], "User", message_separator=" | ") == "System: s | User: h<&"
    assert get_buffer_string(TALK[5:]) == "judge: c"


def test_buffer_xml_is_escaped():
    assert get_buffer_string(TALK[1:3], format="xml") == (
        '<message type="human">h&lt;&amp;</message>\n'
        '<message type="ai">\n  <content>a</content>\n'
        '  <tool_call id="c1" name="f">{"a": 1}</tool_call>\n</message>'
    )
    with pytest.raises(UsageError):
        get_buffer_string([RemoveMessage("x")])


@pytest.mark.parametrize(
    ("criteria", "expected"),
    [
        ({}, "012345"),
        ({"include_names": ["ann"]}, "1"),
        ({"exclude_names": ["ann"]}, "02345"),
        ({"include_types": ["human", SystemMessage]}, "01"),
        ({"exclude_types": ["tool"]}, "01245"),
        ({"include_ids": ["1", "3"]}, "13"),
        ({"include_types": ["human"], "exclude_ids": ["1"]}, ""),
        ({"include_names": ["ann"], "include_types": ["ai"]}, "12"),
        ({"exclude_tool_calls": True}, "0145"),
        ({"exclude_tool_calls": ["c1"]}, "0145"),
        ({"exclude_tool_calls": ["other"]}, "012345"),
    ],
)
def test_filter(criteria, expected):
    assert [message.id for message in filter_messages(TALK, **criteria)] == [*expected]


def test_filter_takes_single_calls_out_of_a_message():
    content = [{"type": "tool_use", "id": id, "name": "f", "input": {}} for id in ("c1", "c2")]
    calls = [{**CALL, "id": "c1"}, {**CALL, "id": "c2"}]

    (message,) = filter_messages([AIMessage(content, tool_calls=calls)], exclude_tool_calls=["c1"])

    assert [call["id"] for call in message.tool_calls] == ["c2"]
    assert [block["id"] for block in message.content] == ["c2"]


def test_runs_are_merged():
    messages = merge_message_runs(
        [
            HumanMessage("a", id="1"),
            HumanMessage("b"),
            HumanMessage([{"type": "text", "text": "c"}]),
            AIMessage("x", tool_calls=[CALL]),
            AIMessage("", tool_calls=[{**CALL, "id": "c2"}]),
            ToolMessage("r", tool_call_id="c1"),
            ToolMessage("r", tool_call_id="c2"),
            ChatMessage("p", role="x"),
            ChatMessage("q", role="y"),
        ]
    )

    assert [message.content for message in messages] == [
        ["a\nb", {"type": "text", "text": "c"}], "x", "r", "r", "p", "q",
    ]  # fmt: skip
    assert [call["id"] for call in messages[1].tool_calls] == ["c1", "c2"]


def block(number):
    return {"type": "text", "text": f"part {number}"}


def call_number(number):
    return {**CALL, "id": f"c{number}"}


RUNS = {
    "text": lambda number: HumanMessage(f"part {number}"),
    "blocks": lambda number: HumanMessage([block(number)]),
    "text and blocks": lambda number: HumanMessage("x" if number % 2 else [block(number)]),
    "system": lambda number: SystemMessage([block(number)]),
    "role": lambda number: ChatMessage([block(number)], role="x"),
    "calls": lambda number: AIMessage("x", tool_calls=[call_number(number)]),
    "blocks and calls": lambda number: AIMessage([block(number)], tool_calls=[call_number(number)]),
    "chunks": lambda number: AIMessageChunk([block(number)]),
    "kwargs": lambda number: AIMessage("x", additional_kwargs={f"k{number}": [number]}),
}


def seconds_to_merge(make, number):
    messages = [make(place) for place in range(number)]
    gc.disable()  # its cost grows with everything that the tests before have left
    try:
        start = time.process_time()
        merge_message_runs(messages)
        return time.process_time() - start
    finally:
        gc.enable()


@pytest.mark.timing
@pytest.mark.parametrize("kind", RUNS)
def test_merging_a_run_is_linear(kind):
    small = min(seconds_to_merge(RUNS[kind], 400) for _ in range(5)) / 400
    large = min(seconds_to_merge(RUNS[kind], 6_400) for _ in range(2)) / 6_400

    assert large < small * 3  # per message; quadratic would be sixteen times as much


@pytest.mark.parametrize("kind", RUNS)
@pytest.mark.parametrize("cut", range(1, 6))
def test_a_run_that_is_merged_in_two_steps_is_the_same(kind, cut):
    messages = [RUNS[kind](number) for number in range(6)]
    first, rest = merge_message_runs(messages[:cut]), messages[cut:]

    assert merge_message_runs([*first, *rest]) == merge_message_runs(messages)


def test_the_numbers_and_the_end_of_merged_answers_are_those_of_all():
    usage = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
    (message,) = merge_message_runs(
        [
            AIMessage("a", usage_metadata=usage, finish_reason="stop"),
            AIMessage("b", status="incomplete"),
            AIMessage("c", usage_metadata=usage, finish_reason="length"),
            AIMessage("d"),
        ]
    )

    assert message.usage_metadata["total_tokens"] == 6
    assert (message.finish_reason, message.status) == ("length", "incomplete")
    assert message.content == "a\nb\nc\nd"


def test_merging_leaves_the_given_messages_alone():
    messages = [HumanMessage("a"), HumanMessage("b")]

    merge_message_runs(messages, chunk_separator="--")

    assert [message.content for message in messages] == ["a", "b"]


@pytest.mark.parametrize(
    ("message", "tokens"),
    [
        (HumanMessage(""), 4),
        (HumanMessage("hello world"), 7),
        (HumanMessage("hello", name="bob"), 6),
        (AIMessage("", tool_calls=[{"name": "f", "args": {"a": 1}, "id": "1"}]), 22),
        (ToolMessage("res", tool_call_id="call_1"), 7),
        (
            HumanMessage(
                [{"type": "text", "text": "hello"}, {"type": "image_url", "image_url": "u"}]
            ),
            91,
        ),
        (HumanMessage([{"type": "image", "base64": "A" * 400}]), 89),
    ],
)
def test_approximate_tokens(message, tokens):
    assert count_tokens_approximately([message]) == tokens


def test_tools_and_measured_usage_count_too():
    tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
    usage = {"input_tokens": 100, "output_tokens": 20, "total_tokens": 120}
    answer = AIMessage("x" * 40, usage_metadata=usage, response_metadata={"model_provider": "a"})
    messages = [HumanMessage("hello"), answer, HumanMessage("hello" * 10)]

    assert count_tokens_approximately(["hello"], tools=[tool]) == 23
    assert count_tokens_approximately(messages) == 39
    assert count_tokens_approximately(messages, use_usage_metadata_scaling=True) == 49


def size(messages):
    return sum(len(str(message.content)) for message in messages)


LONG = [
    SystemMessage("sys"),
    HumanMessage("hello\nworld\nfoo"),
    AIMessage("answer\nlines"),
    HumanMessage([{"type": "text", "text": "blk1"}, {"type": "text", "text": "blk2"}]),
    AIMessage("fin"),
]
BLOCKS = LONG[3].content


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"max_tokens": 30}, ["fin"]),
        ({"max_tokens": 0}, []),
        ({"max_tokens": 200}, [message.content for message in LONG]),
        ({"max_tokens": 30, "strategy": "first"}, ["sys", "hello\nworld\nfoo", "answer\nlines"]),
        ({"max_tokens": 12, "strategy": "first", "allow_partial": True}, ["sys", "hello\n"]),
        ({"max_tokens": 12, "allow_partial": True}, ["blk2", "fin"]),
        ({"max_tokens": 40, "allow_partial": True}, [[BLOCKS[1]], "fin"]),
        ({"max_tokens": 12, "include_system": True, "allow_partial": True}, ["sys", "blk2", "fin"]),
        ({"max_tokens": 200, "start_on": "human"}, [message.content for message in LONG[1:]]),
        ({"max_tokens": 25, "start_on": "human"}, []),
        ({"max_tokens": 200, "end_on": "human"}, [message.content for message in LONG[:4]]),
        ({"max_tokens": 200, "strategy": "first", "end_on": ("human", "tool")},
         [message.content for message in LONG[:4]]),
        ({"max_tokens": 2, "include_system": True}, ["sys"]),
        ({"max_tokens": 9, "strategy": "first", "allow_partial": True, "text_splitter": list},
         ["sys", "hello\n"]),
    ],
)  # fmt: skip
def test_trim(options, expected):
    trimmed = trim_messages(LONG, token_counter=size, **options)

    assert [message.content for message in trimmed] == expected


def test_every_kind_of_counter():
    class Model:
        def get_num_tokens_from_messages(self, messages):
            return len(messages)

    def per_message(message: BaseMessage) -> int:
        return 5

    assert trim_messages(LONG, max_tokens=2, token_counter=len) == LONG[-2:]
    assert trim_messages(LONG, max_tokens=2, token_counter=Model()) == LONG[-2:]
    assert trim_messages(LONG, max_tokens=11, token_counter=per_message) == LONG[-2:]
    assert trim_messages(LONG, max_tokens=15, token_counter="approximate") == LONG[-2:]


@pytest.mark.parametrize(
    "options",
    [
        {"token_counter": "zz"},
        {"token_counter": 3},
        {"strategy": "middle"},
        {"strategy": "first", "start_on": "human"},
        {"strategy": "first", "include_system": True},
        {"text_splitter": 3},
    ],
)
def test_trim_says_what_is_wrong(options):
    with pytest.raises(UsageError):
        trim_messages(LONG, **{"max_tokens": 1, "token_counter": len, **options})


def test_trimming_leaves_the_given_messages_alone():
    before = [message.model_copy(deep=True) for message in LONG]

    trim_messages(LONG, max_tokens=12, token_counter=size, allow_partial=True)

    assert before == LONG


def test_a_verb_without_messages_asks_for_a_runnable(monkeypatch):
    monkeypatch.setitem(
        _extensions._extensions, "make_step", lambda function, name: (name, function)
    )

    name, function = trim_messages(max_tokens=2, token_counter=len)

    assert name == "trim_messages"
    assert function(LONG) == LONG[-2:]
    assert filter_messages(include_types=["ai"])[1](TALK) == [TALK[2]]


def test_adding_messages_asks_for_a_prompt(monkeypatch):
    monkeypatch.setitem(_extensions._extensions, "add_messages", lambda left, right: [left, right])

    assert SystemMessage("a") + HumanMessage("b") == [SystemMessage("a"), HumanMessage("b")]

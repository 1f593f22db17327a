"""Both wires of OpenAI on every recording: stream and whole answer give one message; events are well-formed."""

from __future__ import annotations

import base64
import typing
from typing import Any

import pytest
from openai.types.responses import ResponseStreamEvent

from foldline.exceptions import MalformedStreamError, ModelError, StreamTruncatedError
from foldline.protocol.fold import MessageBuilder
from foldline.protocol.grammar import assert_valid_event_stream
from foldline.providers._completions import CompletionsDecoder
from foldline.providers.openai._decode import ResponsesDecoder
from foldline.providers.openai._host import OPENAI
from tests.providers import recordings

CHAT = recordings.names("openai", "chat-", ".json")
RESPONSES = recordings.names("openai", "responses-", ".json")
STREAMS = [("openai", name) for name in (*CHAT, *RESPONSES)] + [
    ("llama", name) for name in recordings.names("llama") if not name.startswith("messages")
]


def decoder(name: str) -> Any:
    if name.startswith("chat-"):
        return CompletionsDecoder(OPENAI, recordings.fail, audio_format="wav", others=[])
    return ResponsesDecoder(recordings.fail)


@pytest.mark.parametrize("name", [*CHAT, *RESPONSES])
def test_stream_and_whole_answer_are_one_message(name: str) -> None:
    streamed_message, whole_message = recordings.both_messages(
        lambda: decoder(name), "openai", name
    )

    assert streamed_message == whole_message
    assert streamed_message.usage_metadata is not None
    assert streamed_message.status == "complete"


@pytest.mark.parametrize(
    "name", [n for n in recordings.names("llama") if not n.startswith("messages")]
)
def test_a_real_server_says_the_same_both_ways(name: str) -> None:
    streamed_message, whole_message = recordings.both_messages(lambda: decoder(name), "llama", name)

    assert (streamed_message.text, streamed_message.finish_reason) == (
        whole_message.text,
        whole_message.finish_reason,
    )
    assert [(c["name"], c["args"]) for c in streamed_message.tool_calls] == [
        (c["name"], c["args"]) for c in whole_message.tool_calls
    ]
    assert (
        streamed_message.usage_metadata["total_tokens"]
        == whole_message.usage_metadata["total_tokens"]
    )
    assert streamed_message.response_metadata.keys() - {
        "completed_at"
    } == whole_message.response_metadata.keys() - {"completed_at"}


@pytest.mark.parametrize(("folder", "name"), STREAMS)
def test_events_are_well_formed(folder: str, name: str) -> None:
    assert_valid_event_stream(recordings.stream_events(decoder(name), folder, name))


@pytest.mark.parametrize("name", [*CHAT, *RESPONSES])
def test_whole_answers_are_well_formed_events(name: str) -> None:
    assert_valid_event_stream(decoder(name).decode_answer(recordings.whole_answer("openai", name)))


@pytest.mark.parametrize(("folder", "name"), STREAMS)
def test_F_T01_a_stream_cut_between_events_is_truncated_and_keeps_a_prefix(
    folder: str, name: str
) -> None:
    full = recordings.message(recordings.stream_events(decoder(name), folder, name))
    events = recordings.payloads(folder, name)
    cuts = 0
    for count in range(1, len(events)):
        reader, builder = decoder(name), MessageBuilder()
        try:
            for kind, data in events[:count]:
                for event in reader.feed(data, kind):
                    builder.feed(event)
            reader.end(marked=False)
        except StreamTruncatedError:
            cuts += 1
            partial = builder.result(partial=True)
            text = "".join(b["text"] for b in partial.blocks if b["type"] == "text")
            assert str(full.text).startswith(text)
            assert all(b["type"] != "tool_call" for b in partial.blocks[-1:]) or full.tool_calls
    assert cuts


def test_the_recordings_hold_every_event_type_of_responses() -> None:
    union = typing.get_args(ResponseStreamEvent)[0]
    documented = {
        typing.get_args(event.model_fields["type"].annotation)[0]
        for event in typing.get_args(union)
    }
    event_types = {
        data["type"]
        for name in recordings.names("openai", "responses-")
        for _, data in recordings.payloads("openai", name)
    }

    assert documented - event_types == set()


def test_each_reasoning_summary_is_its_own_block_and_the_encrypted_content_comes_with_the_last() -> (
    None
):
    message, _ = recordings.both_messages(
        lambda: decoder("responses"), "openai", "responses-reasoning-summaries"
    )

    first, second, text = message.content_blocks
    assert (first["type"], first["reasoning"]) == ("reasoning", "**Weighing** the options.")
    assert (second["reasoning"], second["extras"]) == (
        "Now the answer.",
        {"item_id": first["id"], "encrypted_content": "gAAAAABoIPOD+secret=="},
    )
    assert first["id"] == "rs_6820f383d7c08191846711c5df8233bc"
    assert text["text"] == "Forty-two."


@pytest.mark.parametrize("name", ["chat-refusal", "responses-refusal"])
def test_F_T16_a_refusal_is_a_block_and_a_reason(name: str) -> None:
    message, _ = recordings.both_messages(lambda: decoder(name), "openai", name)

    (block,) = message.content_blocks
    assert block["type"] == "refusal"
    assert block["refusal"].startswith("I'm sorry")
    assert message.text == ""
    assert message.finish_reason == "refusal"


@pytest.mark.parametrize(
    "name", ["chat-tool-call-cut-by-length", "responses-incomplete-function-call"]
)
def test_F_U01_a_call_cut_by_length_is_invalid(name: str) -> None:
    message, _ = recordings.both_messages(lambda: decoder(name), "openai", name)

    assert message.finish_reason == "length"
    assert not message.tool_calls
    assert message.invalid_tool_calls[0]["args"].startswith('{"city":"')


@pytest.mark.parametrize(
    ("name", "reason", "raw"),
    [
        ("chat-text", "stop", "stop"),
        ("chat-length", "length", "length"),
        ("chat-content-filter", "content_filter", "content_filter"),
        ("chat-tool-call", "tool_use", "tool_calls"),
        ("chat-legacy-function-call", "tool_use", "function_call"),
    ],
)
def test_reasons_are_normalised_and_kept(name: str, reason: str, raw: str) -> None:
    message, _ = recordings.both_messages(lambda: decoder(name), "openai", name)

    assert (message.finish_reason, message.response_metadata["finish_reason"]) == (reason, raw)


def test_citations_are_annotations() -> None:
    chat, _ = recordings.both_messages(lambda: decoder("chat-"), "openai", "chat-citations")
    web, _ = recordings.both_messages(lambda: decoder("r"), "openai", "responses-web-search")

    citation = {"type": "citation", "url": "https://example.com/oslo", "title": "Oslo"}
    assert chat.content_blocks[0]["annotations"][0].items() >= citation.items()
    assert (
        web.content_blocks[2]["annotations"][0].items()
        >= {**citation, "title": "Oslo today"}.items()
    )


def test_server_tools_are_calls_with_results() -> None:
    message, _ = recordings.both_messages(
        lambda: decoder("r"), "openai", "responses-code-interpreter"
    )

    call, result, text = message.content_blocks
    assert (call["type"], call["name"], call["args"]) == (
        "server_tool_call",
        "code_interpreter",
        {"code": 'x = "2"\nprint(x)'},
    )
    assert (result["type"], result["status"], result["output"]) == (
        "server_tool_result",
        "success",
        [{"type": "logs", "logs": "2\n"}],
    )
    assert not message.tool_calls
    assert text["text"] == "See plot."


def test_logprobs_are_metadata() -> None:
    for name in ("chat-logprobs", "responses-logprobs"):
        message, _ = recordings.both_messages(lambda name=name: decoder(name), "openai", name)
        tokens = message.response_metadata["logprobs"]["content"]
        assert [token["token"] for token in tokens][-1] == "!"


def test_usage_tells_cached_and_reasoning_tokens() -> None:
    for name in ("chat-text", "responses-text"):
        message, _ = recordings.both_messages(lambda name=name: decoder(name), "openai", name)
        usage = message.usage_metadata
        assert usage["input_token_details"]["cache_read"] > 0
        assert usage["output_token_details"]["reasoning"] > 0


def test_audio_grows_and_keeps_its_transcript() -> None:
    message, _ = recordings.both_messages(lambda: decoder("chat-audio"), "openai", "chat-audio")

    (block,) = message.content_blocks
    assert (block["type"], block["id"], block["mime_type"]) == ("audio", "audio_67890", "audio/wav")
    assert block["extras"] == {"transcript": "Hi there.", "expires_at": 1741573552}
    # Each slice was encoded by itself: joined as they are, decoders would stop at the first one's padding.
    assert base64.b64decode(block["base64"], validate=True) == b"RIFFabcdefghi"


def test_the_audio_of_a_response_is_a_block() -> None:
    message = recordings.message(
        recordings.stream_events(decoder("r"), "openai", "responses-audio")
    )

    assert message.content_blocks == [
        {"type": "audio", "base64": "UklGRgAA", "extras": {"transcript": "Hi there."}}
    ]


def test_F_T14_further_choices_are_messages_of_their_own() -> None:
    for source in ("stream", "whole"):
        others: list[Any] = []
        reader = CompletionsDecoder(OPENAI, recordings.fail, others=others)
        if source == "stream":
            events = recordings.stream_events(reader, "openai", "chat-two-choices")
        else:
            events = reader.decode_answer(recordings.whole_answer("openai", "chat-two-choices"))
        assert recordings.message(events).text == "Heads."
        assert [other.text for other in others] == ["Tails."]


@pytest.mark.parametrize("name", ["responses-failed", "responses-error"])
def test_F_T06_a_failed_response_is_an_error(name: str) -> None:
    with pytest.raises(ModelError, match=r"server_error|rate_limit_exceeded"):
        recordings.stream_events(decoder("r"), "openai", name)


@pytest.mark.parametrize("change", ["gap", "repeat"])
def test_F_S13_a_gap_in_sequence_numbers_is_malformed(change: str) -> None:
    reader = decoder("r")
    events = recordings.payloads("openai", "responses-text")
    if change == "gap":
        del events[5]
    else:
        events.insert(5, events[5])

    def read() -> None:
        for kind, data in events:
            reader.feed(data, kind)

    with pytest.raises(MalformedStreamError, match="came after event"):
        read()


@pytest.mark.parametrize(
    "chunk",
    [
        {"choices": None},
        {"choices": []},
        {"choices": [{"index": 0, "delta": None}]},
        {"choices": [{"delta": {"content": None, "tool_calls": None}}]},
        {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}},
    ],
)
def test_F_T12_empty_choices_and_null_deltas_are_nothing(chunk: Any) -> None:
    reader = decoder("chat-")
    events = reader.feed({"id": "1", "choices": [{"index": 0, "delta": {"content": "Hi"}}]})
    events += reader.feed(chunk)
    events += reader.feed(
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    ) + reader.end(marked=False)

    assert recordings.message(events).text == "Hi"


def test_F_T13_running_totals_are_not_summed_and_absent_usage_is_none() -> None:
    reader = decoder("chat-")
    events = []
    for count in (1, 2, 3):
        usage = {"prompt_tokens": 5, "completion_tokens": count, "total_tokens": 5 + count}
        events += reader.feed(
            {"id": "1", "choices": [{"index": 0, "delta": {"content": "a"}}], "usage": usage}
        )
    events += reader.end(marked=True)
    assert recordings.message(events).usage_metadata == {
        "input_tokens": 5,
        "output_tokens": 3,
        "total_tokens": 8,
    }

    reader = decoder("chat-")
    events = reader.feed(
        {"id": "1", "choices": [{"index": 0, "delta": {"content": "a"}}]}
    ) + reader.end(marked=True)
    assert recordings.message(events).usage_metadata is None


@pytest.mark.parametrize("field", ["delta", "message"])
def test_slices_of_a_stream_are_one_block_whatever_they_are_called(field: str) -> None:
    decoding, builder = decoder("chat-text"), MessageBuilder()
    choices = [{"delta": None, "message": None, field: {"content": word}} for word in ("a", "b")]
    events = [
        event for choice in choices for event in decoding.feed({"id": "1", "choices": [choice]})
    ]
    for event in events + decoding.end(marked=True):
        builder.feed(event)

    assert builder.blocks() == [{"type": "text", "text": "ab"}]


def test_interleaved_calls_stay_apart() -> None:
    reader = decoder("chat-")

    def piece(index: int, args: str, **more: Any) -> Any:
        call = {"index": index, "function": {"arguments": args, **more.pop("function", {})}, **more}
        return {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}

    events = reader.feed(piece(0, '{"a"', id="c0", function={"name": "f"}))
    events += reader.feed(piece(1, '{"b"', id="c1", function={"name": "g"}))
    events += (
        reader.feed(piece(0, ": 1}")) + reader.feed(piece(1, ": 2}")) + reader.end(marked=True)
    )

    assert [(c["name"], c["args"]) for c in recordings.message(events).tool_calls] == [
        ("f", {"a": 1}),
        ("g", {"b": 2}),
    ]


def test_items_without_their_beginning_are_recovered() -> None:
    """F-T15: a delta before its item was added, by id or by index alone."""
    reader = decoder("r")
    events = reader.feed(
        {
            "type": "response.output_text.delta",
            "item_id": "msg_1",
            "content_index": 0,
            "delta": "Hi",
        }
    )
    response = {"id": "resp_1", "model": "m", "status": "completed", "output": [], "usage": None}
    events += reader.feed({"type": "response.completed", "response": response}) + reader.end(
        marked=False
    )

    assert recordings.message(events).text == "Hi"


def test_what_only_the_end_of_a_response_tells_is_told() -> None:
    reader = decoder("r")
    answer = recordings.whole_answer("openai", "responses-text")
    events = reader.feed({"type": "response.completed", "response": answer})

    assert recordings.message(events).text.startswith("In a peaceful grove")


@pytest.mark.parametrize("data", [[], "text", 3, None])
def test_F_S10_what_is_no_object_is_malformed(data: Any) -> None:
    for name in ("chat-", "responses-"):
        with pytest.raises(MalformedStreamError):
            decoder(name).feed(data, "message")


def plain(**choice: Any) -> dict[str, Any]:
    return {
        "id": "c1",
        "model": "m",
        "choices": [{"message": {"content": "Hi."}, "finish_reason": "stop", **choice}],
    }


def fold_message(events: list[Any]) -> Any:
    return recordings.message(events)


@pytest.mark.parametrize(
    "usage", ["n/a", [1], 5, {"prompt_tokens": 10**400, "completion_tokens": 1}]
)
def test_F_S12_usage_that_counts_nothing_costs_no_answer(usage: Any) -> None:
    message = fold_message(decoder("chat-text").decode_answer({**plain(), "usage": usage}))

    assert message.text == "Hi."
    assert message.response_metadata["token_usage"] == usage


def test_F_S12_what_only_some_hosts_say_of_a_choice_is_kept() -> None:
    extras = {"stop_reason": "###", "native_finish_reason": "STOP", "matched_stop": None}
    message = fold_message(decoder("chat-text").decode_answer(plain(**extras)))

    assert message.finish_reason == "stop"
    assert message.response_metadata["stop_reason"] == "###"
    assert message.response_metadata["native_finish_reason"] == "STOP"
    assert "matched_stop" not in message.response_metadata


@pytest.mark.parametrize("name", ["stream", "whole"])
def test_filters_of_a_choice_are_kept(name: str) -> None:
    streamed_message, whole_message = recordings.both_messages(
        lambda: decoder("chat-"), "openai", "chat-azure-filters"
    )
    message = {"stream": streamed_message, "whole": whole_message}[name]

    assert message.response_metadata["content_filter_results"]["hate"]["severity"] == "safe"
    assert message.response_metadata["prompt_filter_results"][0]["prompt_index"] == 0


def test_E3_an_answer_without_a_choice_is_no_answer() -> None:
    reader = decoder("chat-text")
    usage = {"prompt_tokens": 5, "completion_tokens": 0, "total_tokens": 5}
    with pytest.raises(MalformedStreamError, match="no choices"):
        reader.decode_answer({"id": "c1", "choices": [], "usage": usage})

    assert reader.partial_state()["usage"]["input_tokens"] == 5  # it was paid for


@pytest.mark.parametrize("index", [None, 0])
def test_choices_whose_indexes_say_nothing_are_told_apart_by_their_places(
    index: int | None,
) -> None:
    others: list[Any] = []
    reader = CompletionsDecoder(OPENAI, recordings.fail, others=others)
    first, second = plain(index=index), plain(index=index, message={"content": "Ho."})
    events = reader.decode_answer({**first, "choices": first["choices"] + second["choices"]})

    assert fold_message(events).text == "Hi."
    assert [other.text for other in others] == ["Ho."]

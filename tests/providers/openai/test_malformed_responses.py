"""Malformed answers of Responses: unknown parts cost no answer, an unfinished one says so, and no content is lost."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel

from foldline.caches import InMemoryCache
from foldline.exceptions import MalformedStreamError, ModelError, StructuredOutputError
from foldline.messages import AIMessage, HumanMessage, ToolMessage
from foldline.protocol.grammar import assert_valid_event_stream
from foldline.providers._wire import check_messages
from foldline.providers.openai import AzureChatOpenAI, ChatOpenAI
from foldline.providers.openai._decode import ResponsesDecoder
from tests.providers import recordings
from tests.servers import FaultServer, json_answer, sse_answer

PATH = "/v1/responses"
USAGE = {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}
COUNTED = {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}
Json = dict[str, Any]


def text_item(text: str, id: str = "msg_1", *more: Json) -> Json:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": id, "role": "assistant", "content": [part, *more]}


def call_item(args: str, **more: Any) -> Json:
    return {
        "type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "add", "arguments": args, **more,
    }  # fmt: skip


def response(*output: Json, **fields: Any) -> Json:
    return {
        "id": "resp_1", "object": "response", "model": "m", "status": "completed", "output": list(output), **fields,
    }  # fmt: skip


def decoder() -> ResponsesDecoder:
    return ResponsesDecoder(recordings.fail)


def decode(*output: Json, **fields: Any) -> AIMessage:
    events = decoder().decode_answer(response(*output, **fields))
    assert_valid_event_stream(events)
    return recordings.message(events)


def decode_stream(*stream_items: Json, output: tuple[Json, ...] = ()) -> AIMessage:
    """The message of a stream: these events, then the end, which may say it all again."""
    reader, events = decoder(), []
    start = {"type": "response.created", "response": response(status="in_progress")}
    end = {"type": "response.completed", "response": response(*output)}
    for event in (start, *stream_items, end):
        events += reader.feed(
            {**event, "type": f"response.{event['type'].removeprefix('response.')}"}
        )
    events += reader.end(marked=False)
    assert_valid_event_stream(events)
    return recordings.message(events)


def add_item(item: Json, index: int = 0) -> Json:
    return {"type": "output_item.added", "output_index": index, "item": item}


def done(item: Json, index: int = 0) -> Json:
    return {"type": "output_item.done", "output_index": index, "item": item}


def text_event(kind: str, id: str = "msg_1", index: int = 0, **more: Any) -> Json:
    return {"type": kind, "item_id": id, "output_index": index, "content_index": 0, **more}


def empty(item: Json, **fields: Any) -> Json:
    """Return a message item as it is announced, without content."""
    return {**item, "content": [], **fields}


def model(server: FaultServer, **fields: Any) -> ChatOpenAI:
    settings = {
        "base_url": f"{server.url}/v1",
        "api_key": "sk-canary",
        "model": "m",
        "max_retries": 0,
        "use_responses_api": True,
    }
    return ChatOpenAI(**{**settings, **fields})


# -- what counts nothing


@pytest.mark.parametrize("usage", ["x", [1], 5, {"input_tokens": "many"}])
def test_F_S12_usage_that_counts_nothing_costs_no_answer(usage: Any) -> None:
    message = decode(text_item("Hi."), usage=usage)

    assert (message.text, message.finish_reason) == ("Hi.", "stop")
    assert message.response_metadata["token_usage"] == usage


@pytest.mark.parametrize("details", ["x", [1], 5, {"cached_tokens": "few"}])
@pytest.mark.parametrize("kind", ["input", "output"])
def test_F_S12_details_that_count_nothing_cost_no_counts(kind: str, details: Any) -> None:
    message = decode(text_item("Hi."), usage={**USAGE, f"{kind}_tokens_details": details})

    assert message.text == "Hi."
    assert message.usage_metadata == COUNTED
    assert message.response_metadata["token_usage"][f"{kind}_tokens_details"] == details


@pytest.mark.parametrize("details", ["max", ["max"], {"reason": ["max"]}, {"reason": "max"}])
def test_F_S12_details_that_say_nothing_cost_no_answer(details: Any) -> None:
    message = decode(text_item("Hi."), status="incomplete", incomplete_details=details)

    assert (message.text, message.finish_reason) == ("Hi.", "unknown")
    assert message.response_metadata["incomplete_details"] == details


# -- unfinished responses


@pytest.mark.parametrize("status", ["queued", "in_progress"])
def test_E3_a_response_under_way_is_no_success(status: str) -> None:
    message = decode(text_item("So far"), status=status)

    assert (message.text, message.finish_reason) == ("So far", "pause")
    assert message.response_metadata["status"] == status


@pytest.mark.parametrize("status", ["queued", "in_progress"])
def test_E6_a_response_under_way_is_not_kept(
    call: Any, fault_server: FaultServer, status: str
) -> None:
    fault_server.script(
        PATH, json_answer(response(status=status)), json_answer(response(text_item("Done.")))
    )
    chat = model(fault_server, cache=InMemoryCache())

    assert call.invoke(chat, "Hi").finish_reason == "pause"
    assert call.invoke(chat, "Hi").text == "Done."
    assert call.invoke(chat, "Hi").text == "Done."
    assert fault_server.hits(PATH) == 2


def test_E3_a_cancelled_response_is_an_error_and_not_tried_again(
    call: Any, fault_server: FaultServer
) -> None:
    answer = response(text_item("So"), status="cancelled", usage=USAGE)
    fault_server.script(PATH, json_answer(answer))
    with pytest.raises(ModelError, match="cancelled") as excinfo:
        call.invoke(model(fault_server, max_retries=2), "Hi")

    assert (excinfo.value.code, excinfo.value.is_retryable) == ("response_cancelled", False)
    assert excinfo.value.partial.usage_metadata == COUNTED
    assert fault_server.hits(PATH) == 1


def test_E3_a_stream_that_is_cancelled_is_an_error() -> None:
    with pytest.raises(ModelError, match="cancelled"):
        decoder().feed({"type": "response.cancelled", "response": response(status="cancelled")})


# -- what a failure cost


def failed() -> Json:
    error = {"code": "invalid_image", "message": "No such image."}
    return response(text_item("Half"), status="failed", error=error, usage=USAGE)


def test_E2_a_failed_stream_tells_its_usage(call: Any, fault_server: FaultServer) -> None:
    events = [
        {"type": "response.created", "response": response(status="in_progress")},
        add_item(empty(text_item(""))) | {"type": "response.output_item.added"},
        text_event("response.output_text.delta", delta="Half"),
        {"type": "response.failed", "response": failed()},
    ]
    fault_server.script(PATH, sse_answer(events))
    with pytest.raises(ModelError, match="No such image") as excinfo:
        call.stream(model(fault_server), "Hi")

    partial = excinfo.value.partial
    assert (partial.text, partial.usage_metadata) == ("Half", COUNTED)
    assert (partial.response_metadata["id"], partial.response_metadata["status"]) == (
        "resp_1",
        "failed",
    )


def test_E2_a_whole_response_that_failed_tells_its_usage(
    call: Any, fault_server: FaultServer
) -> None:
    fault_server.script(PATH, json_answer(failed()))
    with pytest.raises(ModelError, match="No such image") as excinfo:
        call.invoke(model(fault_server), "Hi")

    assert excinfo.value.partial.usage_metadata == COUNTED
    assert excinfo.value.partial.response_metadata["id"] == "resp_1"


def test_E2_a_stream_that_breaks_off_tells_whose_it_was() -> None:
    reader = decoder()
    reader.feed({"type": "response.created", "response": response(usage={"input_tokens": "x"})})

    partial_state = reader.partial_state()
    assert partial_state["metadata"]["id"] == "resp_1"
    assert not partial_state["usage"]


# -- unknown types

HOLOGRAM = {"type": "output_hologram", "depth": 3, "text": "shimmering"}


def test_F_S12_a_part_of_a_message_that_nobody_knows_is_kept() -> None:
    item = text_item("See:", "msg_1", HOLOGRAM)
    message = decode(item)

    assert message.content_blocks[1] == {
        "type": "non_standard",
        "value": HOLOGRAM,
        "extras": {"item_id": "msg_1"},
    }
    assert message == decode_stream(
        add_item(empty(item)),
        text_event("output_text.delta", delta="See:"),
        text_event("content_part.done", part=item["content"][0]),
        {**text_event("content_part.done", part=HOLOGRAM), "content_index": 1},
        done(item),
        output=(item,),
    )


@pytest.mark.parametrize("parts", [[HOLOGRAM], [text_item("a")["content"][0], HOLOGRAM]])
def test_F_S12_such_a_part_goes_back_in_its_message(parts: list[Json]) -> None:
    answer = decode({**text_item(""), "content": parts})
    answer.response_metadata["model_provider"] = "openai"
    explanation = ChatOpenAI(model="m", api_key="k", use_responses_api=True).explain(
        [HumanMessage("Hi"), answer, HumanMessage("More")]
    )

    item = explanation.body["input"][1]
    assert (item["type"], item["id"], item["content"]) == ("message", "msg_1", parts)


@pytest.mark.parametrize("event", ["hologram.delta", "hologram_call.in_progress"])
@pytest.mark.parametrize("is_in_stream", [True, False])
def test_F_T15_an_unknown_item_that_nobody_announced_is_kept(
    event: str, is_in_stream: bool
) -> None:
    item = {"type": "hologram_call", "id": "h_1", "depth": 3}
    deltas = [{"type": event, "item_id": "h_1", "output_index": 0, "delta": "..."}]
    message = decode_stream(*deltas, *([done(item)] if is_in_stream else []), output=(item,))

    assert message.content_blocks == [{"type": "non_standard", "value": item}]
    assert message == decode(item)


# -- what shares an id


def test_F_T15_two_items_of_one_id_are_both_told() -> None:
    first, second = text_item("One.", "msg_1"), text_item("Two.", "msg_1")
    message = decode(first, second)

    assert [block["text"] for block in message.content_blocks] == ["One.", "Two."]
    assert message == decode_stream(
        add_item(empty(first), 0),
        text_event("output_text.delta", index=0, delta="One."),
        add_item(empty(second), 1),
        text_event("output_text.delta", index=1, delta="Two."),
        done(first, 0),
        done(second, 1),
        output=(first, second),
    )


@pytest.mark.parametrize("is_in_final", [True, False])
def test_F_T15_the_second_of_one_id_needs_no_announcement(is_in_final: bool) -> None:
    first, second = text_item("One.", "msg_1"), text_item("Two.", "msg_1")
    output = (first, second) if is_in_final else ()
    message = decode_stream(done(first, 0), done(second, 1), output=output)

    assert message == decode(first, second)


def test_F_T15_a_place_that_shifts_makes_no_second_item() -> None:
    item = text_item("One.")
    message = decode_stream(
        add_item(empty(item), 0),
        text_event("output_text.delta", index=1, delta="One."),
        done(item, 2),
        output=({"type": "reasoning", "id": "rs_1", "summary": []}, item),
    )

    assert [block["type"] for block in message.content_blocks] == ["text", "reasoning"]
    assert message.text == "One."


def test_F_T15_ids_that_change_with_every_event_are_one_item() -> None:
    item = text_item("One.")
    message = decode_stream(
        add_item(empty(item, id="msg_a")),
        text_event("output_text.delta", "msg_b", delta="One."),
        done({**item, "id": "msg_c"}),
        output=({**item, "id": "msg_d"},),
    )

    assert [block["text"] for block in message.content_blocks] == ["One."]


# -- what only the end tells


@pytest.mark.parametrize("source", ["text", "part", "item", "response"])
def test_F_T15_text_beyond_the_deltas_is_told(source: str) -> None:
    item = text_item("Hello")
    ends = {
        "text": text_event("output_text.done", text="Hello"),
        "part": text_event("content_part.done", part=item["content"][0]),
        "item": done(item),
    }
    end_events = [ends[source]] if source in ends else []
    message = decode_stream(
        add_item(empty(item)),
        text_event("output_text.delta", delta="Hel"),
        *end_events,
        output=() if end_events else (item,),
    )

    assert message.content_blocks == decode(item).content_blocks


@pytest.mark.parametrize("source", ["refusal", "part", "item"])
def test_F_T15_a_refusal_beyond_the_deltas_is_told(source: str) -> None:
    part = {"type": "refusal", "refusal": "I will not."}
    item = {**text_item(""), "content": [part]}
    ends = {
        "refusal": text_event("refusal.done", refusal="I will not."),
        "part": text_event("content_part.done", part=part),
        "item": done(item),
    }
    events = [add_item(empty(item)), text_event("refusal.delta", delta="I will")]

    assert decode_stream(*events, ends[source]).content_blocks == decode(item).content_blocks


@pytest.mark.parametrize("source", ["arguments", "item", "response"])
@pytest.mark.parametrize("delta", ['{"a":', None])
def test_F_T15_arguments_beyond_the_deltas_are_told(source: str, delta: str | None) -> None:
    item = call_item('{"a":1}')
    event = {"item_id": "fc_1", "output_index": 0}
    ends = {
        "arguments": {"type": "function_call_arguments.done", **event, "arguments": '{"a":1}'},
        "item": done(item),
    }
    delta_event = {"type": "function_call_arguments.delta", **event, "delta": delta}
    end_events = [ends[source]] if source in ends else []
    message = decode_stream(
        add_item(call_item("")), delta_event, *end_events, output=() if end_events else (item,)
    )

    assert message.tool_calls == decode(item).tool_calls
    assert message.tool_calls[0]["args"] == {"a": 1}


@pytest.mark.parametrize(("final", "kind"), [('{"a": 1}', None), ('{"a":2}', MalformedStreamError)])
def test_F_U09_a_call_that_is_told_twice_must_be_one_call(final: str, kind: Any) -> None:
    event = {"type": "function_call_arguments.delta", "item_id": "fc_1", "delta": '{"a":1}'}
    events = [add_item(call_item("")), event, done(call_item(final))]
    if kind is None:
        assert decode_stream(*events).tool_calls[0]["args"] == {"a": 1}
        return
    with pytest.raises(kind, match="differently"):
        decode_stream(*events)


@pytest.mark.parametrize("source", ["input", "item"])
def test_F_T15_free_text_beyond_the_deltas_is_told(source: str) -> None:
    item = {
        "type": "custom_tool_call", "id": "ct_1", "call_id": "call_1", "name": "run", "input": 'print("a")\n',
    }  # fmt: skip
    event = {"item_id": "ct_1", "output_index": 0}
    delta = {"type": "custom_tool_call_input.delta", **event, "delta": "print("}
    end = {"type": "custom_tool_call_input.done", **event, "input": item["input"]}
    events = [add_item({**item, "input": ""}), delta, *([end] if source == "input" else [])]
    message = decode_stream(*events, done(item), output=(item,))

    assert message == decode(item)
    assert message.tool_calls[0]["args"] == {"__arg1": 'print("a")\n'}


@pytest.mark.parametrize(
    ("item", "event"),
    [
        (
            {
                "type": "mcp_call",
                "id": "mcp_1",
                "name": "f",
                "server_label": "s",
                "arguments": '{"a":1}',
            },
            "mcp_call_arguments.delta",
        ),
        (
            {
                "type": "code_interpreter_call",
                "id": "ci_1",
                "status": "completed",
                "code": '{"a":"b"}',
            },
            "code_interpreter_call_code.delta",
        ),
    ],
)
def test_F_T15_arguments_of_server_tools_beyond_the_deltas_are_told(item: Json, event: str) -> None:
    delta = {"type": event, "item_id": item["id"], "output_index": 0, "delta": '{"a":'}

    assert decode_stream(add_item({**item, "status": None}), delta, done(item)) == decode(item)


def test_F_T15_reasoning_beyond_the_deltas_is_told() -> None:
    parts = [
        {"type": "summary_text", "text": "First this."},
        {"type": "summary_text", "text": "Then."},
    ]
    item = {"type": "reasoning", "id": "rs_1", "summary": parts, "encrypted_content": "gAAA"}
    event = {"item_id": "rs_1", "output_index": 0}
    message = decode_stream(
        add_item({**item, "summary": [], "encrypted_content": None}),
        {"type": "reasoning_summary_text.delta", **event, "summary_index": 0, "delta": "First"},
        {"type": "reasoning_summary_text.done", **event, "summary_index": 0, "text": "First this."},
        {"type": "reasoning_summary_text.delta", **event, "summary_index": 1, "delta": "The"},
        done(item),
        output=(item,),
    )

    assert message == decode(item)


def test_F_S12_fields_of_a_call_that_only_its_end_tells_are_kept() -> None:
    item = call_item("{}", caller={"type": "direct"}, status="completed", namespace="n")
    message = decode_stream(
        add_item(call_item("", status="in_progress", namespace="n")), done(item), output=(item,)
    )

    assert message == decode(item)
    assert message.content_blocks[0]["extras"] == {
        "caller": {"type": "direct"},
        "item_id": "fc_1",
        "namespace": "n",
    }


# -- what goes back

SHELL_OUTPUT = [{"stdout": "ok", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]


@pytest.mark.parametrize(
    ("item", "kind"),
    [
        (
            {"type": "computer_call", "id": "cu_1", "action": {"type": "click", "x": 1, "y": 2}},
            "computer_call_output",
        ),
        (
            {
                "type": "local_shell_call",
                "id": "ls_1",
                "action": {"type": "exec", "command": ["ls"]},
            },
            "local_shell_call_output",
        ),
        (
            {"type": "shell_call", "id": "sh_1", "action": {"commands": ["ls"]}},
            "shell_call_output",
        ),
    ],
)
def test_F_U09_results_of_tools_that_the_client_runs_for_openai_go_back(
    item: Json, kind: str
) -> None:
    answer = decode({**item, "call_id": "call_1", "status": "completed"})
    result = ToolMessage("ok", tool_call_id="call_1", additional_kwargs={"type": kind})
    explanation = ChatOpenAI(model="m", api_key="k", use_responses_api=True).explain(
        [HumanMessage("Go"), answer, result]
    )

    call, output = explanation.body["input"][1:]
    assert (call["type"], call["call_id"]) == (item["type"], "call_1")
    assert (output["type"], output["call_id"]) == (kind, "call_1")
    assert output["output"] == (SHELL_OUTPUT if kind == "shell_call_output" else "ok")


def test_what_a_shell_said_of_each_command_goes_back_as_it_was_listed() -> None:
    answer = decode({"type": "shell_call", "id": "sh_1", "call_id": "call_1", "action": {}})
    shell_outputs = [*SHELL_OUTPUT, {"stdout": "", "stderr": "", "outcome": {"type": "timeout"}}]
    fields = {"type": "shell_call_output"}
    result = ToolMessage(json.dumps(shell_outputs), tool_call_id="call_1", additional_kwargs=fields)
    explanation = ChatOpenAI(model="m", api_key="k", use_responses_api=True).explain(
        [HumanMessage("Go"), answer, result]
    )

    assert explanation.body["input"][2]["output"] == shell_outputs


def test_F_U09_a_call_in_a_providers_own_words_may_be_named_by_its_id() -> None:
    answer = decode({"type": "mcp_approval_request", "id": "mcpr_1", "name": "f"})

    check_messages([answer, ToolMessage("yes", tool_call_id="mcpr_1")])


@pytest.mark.parametrize("writer", ["openai", "azure", "azure_openai"])
@pytest.mark.parametrize("kind", [ChatOpenAI, AzureChatOpenAI])
def test_answers_of_responses_go_back_to_responses_whoever_of_openai_signed_them(
    writer: str, kind: Any
) -> None:
    reasoning_item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
    answer = decode(reasoning_item, text_item("Hi."))
    answer.response_metadata["model_provider"] = writer
    more = {"azure_endpoint": "https://x.example", "api_version": "v1"}
    chat = kind(model="m", api_key="k", **(more if kind is AzureChatOpenAI else {}))
    explanation = chat.explain([HumanMessage("Hi"), answer, HumanMessage("More")])

    assert explanation.body["input"][1] == reasoning_item


@pytest.mark.parametrize("writer", [None, "deepseek"])
def test_answers_of_others_do_not_choose_responses(writer: str | None) -> None:
    answer = decode(text_item("Hi."))
    answer.response_metadata["model_provider"] = writer
    explanation = ChatOpenAI(model="m", api_key="k").explain([HumanMessage("Hi"), answer])

    assert "messages" in explanation.body


# -- refusals


class Sum(BaseModel):
    """A sum."""

    total: int


def test_a_refusal_of_structured_output_says_its_words(
    call: Any, fault_server: FaultServer
) -> None:
    part = {"type": "refusal", "refusal": "I cannot add that."}
    answer = json_answer(response({**text_item(""), "content": [part]}))
    fault_server.script(PATH, answer, answer, answer)
    with pytest.raises(StructuredOutputError, match="the model refused: I cannot add that"):
        call.invoke(model(fault_server).with_structured_output(Sum), "Hi")

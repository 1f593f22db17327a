"""Answers of Converse, each as it comes whole and as it is streamed, in the form of the API's reference."""

from __future__ import annotations

from typing import Any

from foldline.messages import AIMessage
from foldline.protocol.events import Event
from foldline.protocol.fold import fold
from foldline.providers.bedrock.decode import BedrockDecoder
from tests.servers.event_stream import event

Json = Any
Answer = tuple[dict[str, Json], list[tuple[str, Json]]]
USAGE = {"inputTokens": 12, "outputTokens": 7, "totalTokens": 19}
METRICS = {"latencyMs": 345}


def answer_of(
    content: list[Json], deltas: list[Json], reason: str = "end_turn", **more: Json
) -> Answer:
    """An answer with one list of events per block of the content."""
    response = {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": reason,
        "usage": USAGE,
        "metrics": METRICS,
        **more,
    }
    events: list[tuple[str, Json]] = [("messageStart", {"role": "assistant", "p": "abcd"})]
    for index, parts in enumerate(deltas):
        place = {"contentBlockIndex": index, "p": "abcdefgh"}
        for part in parts:
            kind = "contentBlockStart" if "start" in part else "contentBlockDelta"
            events.append((kind, {**part, **place}))
        events.append(("contentBlockStop", place))
    extra = more.pop("additionalModelResponseFields", None)
    stop = {"stopReason": reason, **({"additionalModelResponseFields": extra} if extra else {})}
    events.append(("messageStop", stop))
    events.append(("metadata", {"usage": USAGE, "metrics": METRICS, **more, "p": "ab"}))
    return response, events


def delta(**value: Json) -> Json:
    return {"delta": value}


def call_parts(id: str, name: str, *slices: str, **more: Json) -> list[Json]:
    start = {"start": {"toolUse": {"toolUseId": id, "name": name, **more}}}
    return [start, *(delta(toolUse={"input": part}) for part in slices)]


CITATION = {
    "title": "Report",
    "source": "report.pdf",
    "sourceContent": [{"text": "Sales rose."}],
    "location": {"documentPage": {"documentIndex": 0, "start": 2, "end": 3}},
}
WEB_CITATION = {
    "title": "Page",
    "sourceContent": [{"text": "a"}, {"text": "b"}],
    "location": {"web": {"url": "https://example.com", "domain": "example.com"}},
}
TRACE = {"guardrail": {"inputAssessment": {"g1": {"topicPolicy": {"topics": []}}}}}

ANSWERS: dict[str, Answer] = {
    "text": answer_of([{"text": "Hello there."}], [[delta(text="Hello"), delta(text=" there.")]]),
    "empty": answer_of([], []),
    "tool-call": answer_of(
        [
            {"text": "I look."},
            {"toolUse": {"toolUseId": "t_1", "name": "get_weather", "input": {"city": "Köln"}}},
        ],
        [[delta(text="I look.")], call_parts("t_1", "get_weather", "", '{"city"', ': "Köln"}')],
        "tool_use",
    ),
    "parallel-calls": answer_of(
        [
            {"toolUse": {"toolUseId": "t_1", "name": "add", "input": {"a": 1}}},
            {"toolUse": {"toolUseId": "t_2", "name": "now", "input": {}}},
        ],
        [call_parts("t_1", "add", '{"a": 1}'), call_parts("t_2", "now", "")],
        "tool_use",
    ),
    "reasoning": answer_of(
        [
            {"reasoningContent": {"reasoningText": {"text": "Let me think.", "signature": "SIG=="}}},
            {"text": "42"},
        ],
        [
            [
                delta(reasoningContent={"text": "Let me "}),
                delta(reasoningContent={"text": "think."}),
                delta(reasoningContent={"signature": "SIG=="}),
            ],
            [delta(text="42")],
        ],
    ),
    "redacted": answer_of(
        [{"reasoningContent": {"redactedContent": "AAECAw=="}}, {"text": "No."}],
        [
            [
                delta(reasoningContent={"redactedContent": "AA=="}),
                delta(reasoningContent={"redactedContent": "AQID"}),
            ],
            [delta(text="No.")],
        ],
    ),
    "citations": answer_of(
        [
            {"text": "See: "},
            {"citationsContent": {"content": [{"text": "Sales rose."}], "citations": [CITATION, WEB_CITATION]}},
        ],
        [
            [delta(text="See: ")],
            [delta(text="Sales "), delta(citation=CITATION), delta(text="rose."), delta(citation=WEB_CITATION)],
        ],
    ),
    "server-tool": answer_of(
        [
            {"toolUse": {"toolUseId": "s_1", "name": "nova_grounding", "input": {"q": "x"}, "type": "server_tool_use"}},
            {"toolResult": {"toolUseId": "s_1", "type": "nova_grounding_result", "status": "success",
                            "content": [{"text": "found it"}, {"json": {"n": 1}}]}},
            {"text": "Found."},
        ],
        [
            call_parts("s_1", "nova_grounding", '{"q": "x"}', type="server_tool_use"),
            [
                {"start": {"toolResult": {"toolUseId": "s_1", "type": "nova_grounding_result", "status": "success"}}},
                delta(toolResult=[{"text": "found "}]),
                delta(toolResult=[{"text": "it"}, {"json": {"n": 1}}]),
            ],
            [delta(text="Found.")],
        ],
    ),
    "image": answer_of(
        [{"image": {"format": "png", "source": {"bytes": "AAECAw=="}}}],
        [
            [
                {"start": {"image": {"format": "png"}}},
                delta(image={"source": {"bytes": "AA=="}}),
                delta(image={"source": {"bytes": "AQID"}}),
            ]
        ],
    ),
    "guardrail": answer_of(
        [{"text": "I may not."}], [[delta(text="I may not.")]], "guardrail_intervened", trace=TRACE
    ),
    "unknown-block": answer_of(
        [{"text": "a"}, {"hologram": {"depth": 3, "data": "xy"}}],
        [
            [delta(text="a")],
            [{"start": {"hologram": {"depth": 3}}}, delta(hologram={"data": "x"}), delta(hologram={"data": "y"})],
        ],
    ),
    "extra-fields": answer_of(
        [{"text": "Hi"}],
        [[delta(text="Hi")]],
        "stop_sequence",
        additionalModelResponseFields={"stop_sequence": "###"},
        performanceConfig={"latency": "optimized"},
        serviceTier={"type": "flex"},
    ),
}  # fmt: skip
NAMES = list(ANSWERS)


def decoder() -> BedrockDecoder:
    return BedrockDecoder(model="m")


def whole_of(name: str) -> dict[str, Json]:
    return ANSWERS[name][0]


def events_of(name: str) -> list[tuple[str, Json]]:
    return ANSWERS[name][1]


def stream_of(name: str) -> bytes:
    return b"".join(event(kind, data) for kind, data in events_of(name))


def decode_stream(events: list[tuple[str, Json]]) -> list[Event]:
    decoding = decoder()
    read = [event for kind, data in events for event in decoding.feed(data, kind)]
    return read + decoding.end(marked=False)


def message_of(events: list[Event]) -> AIMessage:
    return AIMessage.from_fold(fold(events), "v1")


def without_index(message: AIMessage) -> list[dict[str, Json]]:
    return [
        {key: value for key, value in block.items() if key != "index"}
        for block in message.content_blocks
    ]

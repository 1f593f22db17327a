"""F-Y03: a picture of several megabytes arrives in a stream, where vendors send it as one line."""

from __future__ import annotations

import json

from foldline.providers._reading import StreamReading
from foldline.providers.google import ChatGoogle
from foldline.transports import SizeLimits
from tests.fuzz.targets import request

PICTURE = "A" * 4_000_000


def test_F_Y03_a_streamed_picture_of_several_megabytes_arrives():
    model = ChatGoogle(model="gemini-2.5-flash-image", api_key="k")
    part = {"inlineData": {"mimeType": "image/png", "data": PICTURE}}
    answer = {"candidates": [{"content": {"parts": [part]}, "finishReason": "STOP", "index": 0}]}
    reading = StreamReading(
        model._decoder(request()), model._is_end, model._parse, model._malformed, model.limits
    )
    events = reading.feed(f"data: {json.dumps(answer)}\n\n".encode())
    events += reading.end()

    assert reading.fault is None
    finishes = [event for event in events if event["event"] == "content-block-finish"]
    assert finishes[0]["content"]["base64"] == PICTURE


def test_F_Y03_the_limit_is_the_same_for_a_line_and_an_event():
    assert SizeLimits().sse_line == SizeLimits().sse_event == 32 * 1024 * 1024

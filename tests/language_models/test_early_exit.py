"""Readers that stop before the end of a stream, and at it."""

from __future__ import annotations

from typing import Any

import pytest

from foldline.caches import InMemoryCache
from foldline.callbacks import BaseCallbackHandler
from foldline.testing import ScriptedChatModel


@pytest.mark.slow
@pytest.mark.parametrize("view", ["stream", "stream_v2"])
def test_a_reader_who_leaves_at_message_finish_leaves_a_finished_call(view):
    """The end is reported, and the answer cached, before the last batch is yielded."""
    events: list[str] = []

    class RecordedCallbacks(BaseCallbackHandler):
        def on_llm_end(self, *args: Any, **kwargs: Any) -> None:
            events.append("end")

        def on_llm_error(self, *args: Any, **kwargs: Any) -> None:
            events.append("error")

    cache = InMemoryCache()
    model = ScriptedChatModel(script=["hello", "another"], cache=cache)
    config = {"callbacks": [RecordedCallbacks()]}
    if view == "stream":
        for chunk in model.stream("Hi", config):
            if chunk.chunk_position == "last":
                break
    else:
        for event in model.stream_v2("Hi", config):
            if event["event"] == "message-finish":
                break

    assert events == ["end"]
    assert model.invoke("Hi").text == "hello"

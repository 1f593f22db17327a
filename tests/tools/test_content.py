from __future__ import annotations

import datetime
import enum
import json
from dataclasses import dataclass
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings, strategies as st
from pydantic import BaseModel

from foldline.messages import AIMessage, ToolMessage
from foldline.tools._content import MAX_DATA, as_message, content_of, limit_content

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


class Model(BaseModel):
    n: int = 1


@dataclass
class Record:
    when: datetime.date


class Colour(enum.Enum):
    RED = "red"


class WrittenFile:
    def __str__(self) -> str:
        return "as written"


class Broken:
    def __str__(self) -> str:
        raise RuntimeError("no text")


CIRCULAR: list[Any] = []
CIRCULAR.append(CIRCULAR)
DEEP: list[Any] = []
for _ in range(100_000):
    DEEP = [DEEP]

BLOCKS = [{"type": "text", "text": "a"}, "b", {"type": "image", "url": "u"}]


@pytest.mark.parametrize(
    ("output", "content"),
    [
        ("text", "text"),
        (3, "3"),
        (None, "null"),
        (True, "true"),
        ({"é": [1, None]}, '{"é": [1, null]}'),
        ([1, 2], "[1, 2]"),
        ([], []),
        (("a", "b"), ["a", "b"]),
        (BLOCKS, BLOCKS),
        ([{"type": "unheard of"}], '[{"type": "unheard of"}]'),
        (Model(), '{"n": 1}'),
        ([Model()], '[{"n": 1}]'),
        (Record(datetime.date(2026, 1, 2)), '{"when": "2026-01-02"}'),
        ({"s": {1}}, '{"s": [1]}'),
        (Colour.RED, '"red"'),
        (Decimal("1.5"), '"1.5"'),
        (PurePosixPath("a/b"), '"a/b"'),
        (UUID(int=0), f'"{UUID(int=0)}"'),
        (AIMessage("from a model"), "from a model"),
        (b"bytes", "bytes"),
        (b"\xff\xfe", "[2 bytes that are not text]"),
        (WrittenFile(), "as written"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_every_output_has_its_content(output, content):
    assert content_of(output) == content


@pytest.mark.parametrize(
    "output", [CIRCULAR, DEEP, Broken(), object(), {(1, 2): 3}, len, lambda: 0]
)
def test_F_U10_what_is_no_json_is_said_with_a_notice(output):
    content = content_of(output)

    assert isinstance(content, str)
    assert "not JSON" in content


@settings(deadline=None)  # the machine may be busy
@given(JSON)
def test_json_outputs_are_read_back_equal(output):
    content = content_of(output)

    if isinstance(output, str):
        assert content == output
    elif isinstance(content, str):
        assert json.loads(content) == output
    else:
        assert content == output


@settings(deadline=None)  # the machine may be busy
@given(
    st.lists(st.text() | st.builds(lambda text: {"type": "text", "text": text}, st.text())),
    st.integers(1, 50),
)
def test_limited_content_keeps_a_prefix_and_never_exceeds_the_limit(blocks, limit):
    def texts(content: list[Any]) -> list[str]:
        return [block if isinstance(block, str) else block["text"] for block in content]

    text = "".join(texts(blocks))
    limited_blocks = limit_content(blocks, limit)

    if len(text) <= limit:
        assert limited_blocks == blocks
        return
    *complete, last = texts(limited_blocks)
    assert text.startswith("".join(complete))
    prefix, notice = last.rsplit("\n", 1)
    assert "".join(complete) + prefix == text[:limit]
    assert notice.startswith("[cut: ")


def test_a_picture_too_large_is_replaced_by_a_notice_and_a_small_one_stays():
    small = {"type": "image", "base64": "x" * 1000, "mime_type": "image/png"}
    large = {"type": "image", "base64": "x" * (MAX_DATA + 1), "mime_type": "image/png"}

    blocks = limit_content([small, large, "text"], 100)

    assert blocks[0] is small
    assert blocks[1]["text"].startswith("[image of 33,554,")
    assert blocks[2] == "text"


def test_messages_pass_and_a_list_of_them_too():
    message = ToolMessage("x", tool_call_id="other")

    assert as_message(message, name="n", call_id="c") is message
    assert as_message([message], name="n", call_id="c") == [message]
    assert as_message("plain", name="n", call_id=None) == "plain"

"""Media blocks without a MIME type, files by id, titles: what each provider is sent, or which error is raised."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from foldline import AIMessageChunk, ContentBlock, init_chat_model
from foldline.exceptions import UsageError
from foldline.messages import HumanMessage, content as blocks
from foldline.providers.anthropic import ChatAnthropic
from foldline.providers.bedrock import ChatBedrockConverse
from foldline.providers.google import ChatGoogle
from foldline.providers.openai import ChatOpenAI
from foldline.providers.openai_compatible import ChatDeepSeek

PICTURES = {
    "image/png": b"\x89PNG\r\n\x1a\n" + bytes(16),
    "image/jpeg": b"\xff\xd8\xff\xe0" + bytes(16),
    "image/gif": b"GIF89a" + bytes(16),
    "image/webp": b"RIFF\x00\x00\x00\x00WEBPVP8 ",
}
MODELS: dict[str, Any] = {
    "chat": ChatOpenAI(model="gpt-5-nano", api_key="k", use_responses_api=False),
    "responses": ChatOpenAI(model="gpt-5-nano", api_key="k", use_responses_api=True),
    "anthropic": ChatAnthropic(model="claude-sonnet-4-5", api_key="k"),
    "google": ChatGoogle(model="gemini-2.5-flash", api_key="k"),
    "bedrock": ChatBedrockConverse(
        model="anthropic.claude-v2", region_name="us-east-1", api_key="k"
    ),
}
WRITTEN = {
    "chat": "data:{mime};base64,",
    "responses": "data:{mime};base64,",
    "anthropic": "'media_type': '{mime}'",
    "google": "'mimeType': '{mime}'",
    "bedrock": "'format': '{form}'",
}
"""The form of an image on each wire."""


def explain(model: Any, block: dict[str, Any]) -> Any:
    return model.explain([HumanMessage([{"type": "text", "text": "See."}, block])])


@pytest.mark.parametrize("mime", PICTURES)
@pytest.mark.parametrize("wire", MODELS)
def test_an_image_without_a_mime_type_is_known_by_its_bytes(wire: str, mime: str):
    data = b64encode(PICTURES[mime]).decode()
    spellings = [
        {"type": "image", "source_type": "base64", "data": data},
        {"type": "image", "base64": data},
        {"type": "image", "data": data},
    ]

    for block in spellings:
        body = str(explain(MODELS[wire], block).body)
        assert WRITTEN[wire].format(mime=mime, form=mime.removeprefix("image/")) in body


@pytest.mark.parametrize("wire", MODELS)
def test_a_film_in_an_image_block_is_refused_by_name(wire: str):
    """The sample of document 003 is the beginning of a film, cut off by three dots."""
    block = {
        "type": "image",
        "source_type": "base64",
        "data": "AAAAIGZ0eXBtcDQyAAAAAGlzb21tcDQyAAACAGlzb2...",
    }

    with pytest.raises(UsageError, match="holds video/mp4: set its mime_type"):
        explain(MODELS[wire], block)


def test_bytes_that_say_nothing_ask_for_the_mime_type():
    with pytest.raises(UsageError, match="give mime_type"):
        explain(MODELS["chat"], {"type": "image", "base64": "AAAA"})


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "source_type": "id", "id": "file-abc123"},
        {"type": "image", "file_id": "file-abc123"},
        {"type": "image", "fileId": "file-abc123"},
    ],
)
def test_an_image_by_file_id_chooses_responses(block: dict[str, Any], monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    request = explain(init_chat_model("gpt-5-nano"), block)

    assert request.url.endswith("/responses")
    assert request.body["input"][0]["content"][1] == {
        "type": "input_image",
        "file_id": "file-abc123",
        "detail": "auto",
    }


def test_where_there_is_no_responses_an_image_by_file_id_is_refused_with_the_way_out():
    for model in (MODELS["chat"], ChatDeepSeek(api_key="k")):
        with pytest.raises(UsageError, match="use_responses_api=True"):
            explain(model, {"type": "image", "file_id": "file-abc123"})


@pytest.mark.parametrize("wire", MODELS)
def test_the_title_of_a_plain_text_is_sent_or_noted(wire: str):
    request = explain(MODELS[wire], {"type": "text-plain", "text": "Body", "title": "Chapter"})

    assert ("Chapter" in str(request.body)) != ("title" in " ".join(request.notes))


def test_a_plain_text_without_a_title_is_noted_nowhere():
    for model in MODELS.values():
        assert explain(model, {"type": "text-plain", "text": "Body"}).notes == []


def test_the_names_of_document_003_are_at_the_top():
    assert AIMessageChunk(content="a") + AIMessageChunk(content="b") == AIMessageChunk(content="ab")
    assert ContentBlock is blocks.ContentBlock

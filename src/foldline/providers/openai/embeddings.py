"""`OpenAIEmbeddings`: embedding models of OpenAI, and of every server with `/embeddings`."""

from __future__ import annotations

import base64
import os
from array import array
from collections.abc import Mapping, Sequence
from sys import byteorder
from typing import Any, ClassVar

from pydantic import Field, model_validator

from foldline.providers._embedding import HttpEmbeddings, order_rows, read_vector
from foldline.providers._endpoint import Body
from foldline.providers._wire import ErrorTable
from foldline.providers.openai._errors import ERRORS

__all__ = ["OpenAIEmbeddings"]

ALIASES = {
    "openai_api_key": "api_key",
    "openai_api_base": "base_url",
    "openai_organization": "organization",
    "request_timeout": "timeout",
    "model_name": "model",
    "headers": "default_headers",
}
IGNORED_SETTINGS = frozenset(
    {
        "allowed_special", "check_embedding_ctx_length", "deployment", "disallowed_special", "embedding_ctx_length",
        "http_async_client", "http_client", "openai_api_type", "openai_api_version", "openai_proxy",
        "retry_max_seconds", "retry_min_seconds", "show_progress_bar", "skip_empty",
        "tiktoken_enabled", "tiktoken_model_name",
    }
)  # fmt: skip
"""LangChain's settings of its client or tokenizer: accepted, without effect."""


class OpenAIEmbeddings(HttpEmbeddings):
    """Embeddings of OpenAI.

    ```python
    from foldline.providers.openai import OpenAIEmbeddings

    print(OpenAIEmbeddings(model="text-embedding-3-small", dimensions=256).model)
    #> text-embedding-3-small
    ```
    """

    model: str = "text-embedding-ada-002"
    """LangChain's default, so that existing indexes stay usable. Use a newer model for a new index."""
    dimensions: int | None = None
    organization: str | None = None
    user: str | None = None
    model_kwargs: dict[str, Any] = Field(default_factory=dict)
    encoding_format: str = "base64"
    """The format of vectors: "base64" is a third of the size of "float"; a server may answer with either."""

    batches: ClassVar[str] = "foldline.providers.openai._batches:OpenAIBatches"
    provider_name: ClassVar[str] = "openai"
    key_variables: ClassVar[Sequence[str]] = ("OPENAI_API_KEY",)
    error_table: ClassVar[ErrorTable] = ERRORS
    aliases: ClassVar[Mapping[str, str]] = ALIASES

    @model_validator(mode="before")
    @classmethod
    def _drop_unused(cls, values: object) -> object:
        if not isinstance(values, dict):
            return values
        unused = IGNORED_SETTINGS - cls.model_fields.keys() - cls.aliases.keys()
        return {name: value for name, value in values.items() if name not in unused}

    def _encode(self, texts: list[str], *, is_query: bool) -> tuple[str, Body]:
        body: Body = {"model": self.model, "input": texts, "encoding_format": self.encoding_format}
        options = {"dimensions": self.dimensions, "user": self.user}
        set_options = {name: value for name, value in options.items() if value is not None}
        return "embeddings", {**body, **set_options, **self.model_kwargs}

    def _decode(self, answer: Body) -> list[list[float]]:
        return [_read_embedding(row["embedding"]) for row in order_rows(answer["data"])]

    def _count(self, answer: Body, headers: Mapping[str, str]) -> int | None:
        usage = answer.get("usage")
        return usage.get("total_tokens") if isinstance(usage, dict) else None

    def _requested_length(self) -> int | None:
        return self.dimensions

    def _extra_headers(self) -> dict[str, str]:
        return {"openai-organization": self.organization} if self.organization else {}

    def _root_url(self) -> str:
        url = (
            self.base_url or os.environ.get("OPENAI_BASE_URL") or os.environ.get("OPENAI_API_BASE")
        )
        return url or "https://api.openai.com/v1"


def _read_embedding(embedding: str | Sequence[Any]) -> list[float]:
    if not isinstance(embedding, str):
        return read_vector(embedding)
    numbers = array("f", base64.b64decode(embedding, validate=True))
    if byteorder == "big":
        numbers.byteswap()
    return read_vector(numbers.tolist())

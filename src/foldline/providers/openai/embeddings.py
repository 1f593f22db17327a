"""`OpenAIEmbeddings`: text to vectors by OpenAI, and by every server that has `/embeddings`."""

from __future__ import annotations

import base64
import os
from array import array
from collections.abc import Mapping, Sequence
from sys import byteorder
from typing import Any, ClassVar

from pydantic import Field

from foldline.providers._embedding import HttpEmbeddings, order_rows, read_vector
from foldline.providers._endpoint import Body
from foldline.providers._wire import ErrorTable
from foldline.providers.openai.errors import ERRORS

__all__ = ["OpenAIEmbeddings"]

ALIASES = {
    "openai_api_key": "api_key",
    "openai_api_base": "base_url",
    "openai_organization": "organization",
    "request_timeout": "timeout",
    "model_name": "model",
}


class OpenAIEmbeddings(HttpEmbeddings):
    """Embeddings of OpenAI.

    ```python
    from foldline.providers.openai import OpenAIEmbeddings

    print(OpenAIEmbeddings(model="text-embedding-3-small", dimensions=256).model)
    #> text-embedding-3-small
    ```
    """

    model: str = "text-embedding-3-small"
    dimensions: int | None = None
    organization: str | None = None
    user: str | None = None
    model_kwargs: dict[str, Any] = Field(default_factory=dict)
    encoding_format: str = "base64"
    """How vectors travel: "base64" is a third of the size of "float"; servers that only know "float" are understood."""

    batches: ClassVar[str] = "foldline.providers.openai.batches:OpenAIBatches"
    provider_name: ClassVar[str] = "openai"
    key_variables: ClassVar[Sequence[str]] = ("OPENAI_API_KEY",)
    error_table: ClassVar[ErrorTable] = ERRORS
    aliases: ClassVar[Mapping[str, str]] = ALIASES

    def _encode(self, texts: list[str], *, is_query: bool) -> tuple[str, Body]:
        body: Body = {"model": self.model, "input": texts, "encoding_format": self.encoding_format}
        named = {"dimensions": self.dimensions, "user": self.user}
        given = {name: value for name, value in named.items() if value is not None}
        return "embeddings", {**body, **given, **self.model_kwargs}

    def _decode(self, answer: Any) -> list[list[float]]:  # noqa: ANN401
        return [_read_embedding(row["embedding"]) for row in order_rows(answer["data"])]

    def _count(self, answer: Any, headers: Mapping[str, str]) -> int | None:  # noqa: ANN401
        usage = answer.get("usage")
        return usage.get("total_tokens") if isinstance(usage, dict) else None

    def _wanted_length(self) -> int | None:
        return self.dimensions

    def _extra_headers(self) -> dict[str, str]:
        return {"openai-organization": self.organization} if self.organization else {}

    def _root_url(self) -> str:
        given = (
            self.base_url or os.environ.get("OPENAI_BASE_URL") or os.environ.get("OPENAI_API_BASE")
        )
        return given or "https://api.openai.com/v1"


def _read_embedding(embedding: Any) -> list[float]:  # noqa: ANN401  numbers, or base64 of them
    if not isinstance(embedding, str):
        return read_vector(embedding)
    numbers = array("f", base64.b64decode(embedding, validate=True))
    if byteorder == "big":
        numbers.byteswap()
    return read_vector(numbers.tolist())

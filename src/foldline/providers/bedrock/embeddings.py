"""`BedrockEmbeddings`: embedding models of Titan and Cohere, over InvokeModel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, Literal, Self

from pydantic import Field, model_validator

from foldline._io import IO
from foldline.providers._embedding import HttpEmbeddings, read_vector
from foldline.providers._endpoint import Body
from foldline.providers.bedrock._encode import base_model_name, encode_model_path
from foldline.providers.bedrock._endpoint import ENDPOINT_ALIASES, PROVIDER, AwsEndpoint

__all__ = ["BedrockEmbeddings"]

Vectors = list[list[float]]

MAX_COHERE_TEXTS: Final = 96
FAMILIES: Final = {"amazon.titan-embed": "titan", "cohere.embed": "cohere"}
"""Prefix of a model's id -> the format of its requests."""
TOKENS_HEADER: Final = "x-amzn-bedrock-input-token-count"
TITAN_WITHOUT_OPTIONS: Final = ("amazon.titan-embed-text-v1", "amazon.titan-embed-g1")


class BedrockEmbeddings(AwsEndpoint, HttpEmbeddings):
    """Embeddings of models on AWS Bedrock.

    ```python
    from foldline.providers.bedrock import BedrockEmbeddings

    print(BedrockEmbeddings(dimensions=256).model)
    #> amazon.titan-embed-text-v2:0
    ```
    """

    model: str = "amazon.titan-embed-text-v2:0"
    dimensions: int | None = None
    """The length of the vectors, if the model supports a choice."""
    normalize: bool | None = None
    """Whether Titan 2 normalizes vectors to length 1; its default is yes."""
    truncate: str | None = None
    """Which end of a text that is too long Cohere cuts: "NONE", "START" or "END"."""
    input_type: str | None = None
    """The use of the vectors; default: `search_document` for documents, `search_query` for queries."""
    model_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Further fields of the request, sent unchanged."""
    model_family: Literal["titan", "cohere"] | None = None
    """The format of the requests, for an ARN that does not contain the model's id."""
    max_concurrency: int = Field(default=8, ge=1)
    """How many requests may be in progress at once: Titan accepts one text in each."""

    provider_name: ClassVar[str] = PROVIDER
    aliases: ClassVar[Mapping[str, str]] = {
        **ENDPOINT_ALIASES,
        "output_dimensionality": "dimensions",
    }

    @model_validator(mode="after")
    def _bound_batches(self) -> Self:
        max_texts = 1 if self._family() == "titan" else MAX_COHERE_TEXTS
        if self.chunk_size > max_texts:
            self.chunk_size = max_texts
        return self

    def _family(self) -> str:
        name = base_model_name(self.model)
        family = next((FAMILIES[start] for start in FAMILIES if name.startswith(start)), None)
        if self.model_family or family:
            return str(self.model_family or family)
        raise ValueError(
            f"{self.model!r} is neither an embedding model of Titan nor of Cohere: "
            "pass model_family='titan' or 'cohere'"
        )

    async def _prepare(self, io: IO) -> None:
        await self._preload_region(io)

    def _encode(self, texts: list[str], *, is_query: bool) -> tuple[str, Body]:
        is_titan = self._family() == "titan"
        body = (
            self._titan_body(texts[0]) if is_titan else self._cohere_body(texts, is_query=is_query)
        )
        return encode_model_path(self.model, "invoke"), {**body, **self.model_kwargs}

    def _titan_body(self, text: str) -> Body:
        options: Body = {"dimensions": self.dimensions, "normalize": self.normalize}
        if base_model_name(self.model).startswith(TITAN_WITHOUT_OPTIONS):
            options = {}
        elif "image" in self.model and self.dimensions is not None:
            options = {"embeddingConfig": {"outputEmbeddingLength": self.dimensions}}
        return {"inputText": text, **{k: v for k, v in options.items() if v is not None}}

    def _cohere_body(self, texts: list[str], *, is_query: bool) -> Body:
        options: Body = {
            "input_type": self.input_type or ("search_query" if is_query else "search_document"),
            "truncate": self.truncate,
            "output_dimension": self.dimensions,
        }
        return {"texts": texts, **{k: v for k, v in options.items() if v is not None}}

    def _decode(self, answer: Body) -> Vectors:
        if self._family() == "titan":
            vectors = [answer["embedding"]]
        else:
            vectors = answer["embeddings"]
            if isinstance(vectors, Mapping):  # by type, as Cohere 4 does
                vectors = vectors["float"]
        return [read_vector(vector) for vector in vectors]

    def _count(self, answer: Body, headers: Mapping[str, str]) -> int | None:
        count = answer.get("inputTextTokenCount")
        if count is None and headers.get(TOKENS_HEADER, "").isdigit():
            count = int(headers[TOKENS_HEADER])
        return count if isinstance(count, int) else None

    def _requested_length(self) -> int | None:
        return (
            None
            if base_model_name(self.model).startswith(TITAN_WITHOUT_OPTIONS)
            else self.dimensions
        )

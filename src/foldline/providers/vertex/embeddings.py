"""`VertexAIEmbeddings`: embedding models on Vertex."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from foldline.providers.google.embeddings import MAX_TEXTS, GoogleGenerativeAIEmbeddings

__all__ = ["VertexAIEmbeddings"]


class VertexAIEmbeddings(GoogleGenerativeAIEmbeddings):
    """Embeddings on Vertex.

    ```python
    from foldline.providers.vertex import VertexAIEmbeddings

    print(VertexAIEmbeddings(model="text-multilingual-embedding-002", project="mine").chunk_size)
    #> 250
    ```
    """

    model: str = "text-embedding-005"
    vertexai: bool | None = True
    chunk_size: int = Field(default=MAX_TEXTS, ge=1)
    """Texts sent in one request; Gemini models accept one."""

    provider_name: ClassVar[str] = "google_vertexai"
    key_variables: ClassVar[Sequence[str]] = ()

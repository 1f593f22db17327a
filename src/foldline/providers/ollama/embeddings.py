"""`OllamaEmbeddings`: embedding models over `/api/embed`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from foldline.providers._embedding import HttpEmbeddings, read_vector
from foldline.providers._endpoint import Body
from foldline.providers.ollama.text import ollama_url

__all__ = ["OllamaEmbeddings"]

OPTIONS = (
    "mirostat", "mirostat_eta", "mirostat_tau", "num_ctx", "num_gpu", "num_thread", "repeat_last_n", "repeat_penalty",
    "temperature", "stop", "tfs_z", "top_k", "top_p",
)  # fmt: skip
"""Settings that are sent in `options`."""


class OllamaEmbeddings(HttpEmbeddings):
    """Embeddings of models that Ollama serves.

    ```python
    from foldline.providers.ollama import OllamaEmbeddings

    print(OllamaEmbeddings(model="nomic-embed-text").model)
    #> nomic-embed-text
    ```
    """

    dimensions: int | None = None
    keep_alive: int | str | None = None
    """How long the model stays loaded: seconds, or "5m"."""
    mirostat: int | None = None
    mirostat_eta: float | None = None
    mirostat_tau: float | None = None
    num_ctx: int | None = None
    num_gpu: int | None = None
    num_thread: int | None = None
    repeat_last_n: int | None = None
    repeat_penalty: float | None = None
    temperature: float | None = None
    stop: list[str] | None = None
    tfs_z: float | None = None
    top_k: int | None = None
    top_p: float | None = None

    provider_name: ClassVar[str] = "ollama"
    key_variables: ClassVar[Sequence[str]] = ("OLLAMA_API_KEY",)
    needs_key: ClassVar[bool] = False
    aliases: ClassVar[Mapping[str, str]] = {"model_name": "model", "request_timeout": "timeout"}

    def _encode(self, texts: list[str], *, is_query: bool) -> tuple[str, Body]:
        body: Body = {"model": self.model, "input": texts}
        for name in ("dimensions", "keep_alive"):
            if getattr(self, name) is not None:
                body[name] = getattr(self, name)
        options = {name: value for name in OPTIONS if (value := getattr(self, name)) is not None}
        return "api/embed", {**body, "options": options} if options else body

    def _decode(self, answer: Body) -> list[list[float]]:
        return [read_vector(row) for row in answer["embeddings"]]

    def _count(self, answer: Body, headers: Mapping[str, str]) -> int | None:
        count = answer.get("prompt_eval_count")
        return count if isinstance(count, int) else None

    def _requested_length(self) -> int | None:
        return self.dimensions

    def _root_url(self) -> str:
        return ollama_url(self.base_url)

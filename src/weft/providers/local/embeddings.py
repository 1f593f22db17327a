"""Text to vectors in this process: MiniLM-L6 (384 numbers, normalised), or any GGUF encoder.

One body per behaviour, in both colours.
"""

from __future__ import annotations

from weft._drive import drive
from weft._io import ASYNC, BLOCKING, IO
from weft.embeddings.base import Embeddings
from weft.providers.local.runtime import Runtime, Settings
from weft.providers.local.session import load

CONTEXT = 512
BATCH = 64
"""Texts handed over at once; between two batches the call can be interrupted."""


class LocalEmbeddings(Embeddings):
    """Embeddings computed in this process.

    ```python
    from weft.providers.local import LocalEmbeddings

    vector = LocalEmbeddings().embed_query("a small red house")
    print(len(vector))
    #> 384
    ```
    """

    def __init__(
        self,
        model: str = "minilm-l6",
        *,
        context: int = CONTEXT,
        threads: int | None = None,
        truncate: bool = True,
    ) -> None:
        self.model = model
        self.truncate = truncate
        """Cut a text that is longer than the model's context; otherwise it raises `ContextOverflowError`."""
        self._settings = Settings(context=context, slots=1, threads=threads, embedding=True)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts that will be searched."""
        return drive(self._embed(texts, BLOCKING))

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts that will be searched."""
        return await self._embed(texts, ASYNC)

    def embed_query(self, text: str) -> list[float]:
        """Embed what is searched for."""
        return drive(self._embed([text], BLOCKING))[0]

    async def aembed_query(self, text: str) -> list[float]:
        """Embed what is searched for."""
        return (await self._embed([text], ASYNC))[0]

    async def _embed(self, texts: list[str], io: IO) -> list[list[float]]:
        vectors: list[list[float]] = []
        for start in range(0, len(texts), BATCH):
            vectors += await io.call(self.embed_now, texts[start : start + BATCH])
        return vectors

    def embed_now(self, texts: list[str]) -> list[list[float]]:
        """Embed in the calling thread, loading (and the first time fetching) the model if need be."""
        runtime = load(self.model, self._settings)
        fitting = [self._fit(text, runtime) for text in texts] if self.truncate else texts
        return runtime.embed(fitting)

    def _fit(self, text: str, runtime: Runtime) -> str:
        # A token is at least one byte, so most texts need no counting.
        most = self._settings.context - 2
        if len(text.encode()) <= most:
            return text
        tokens = runtime.tokenize(text)
        return text if len(tokens) <= most else runtime.detokenize(tokens[:most])

"""Embeddings in this process: MiniLM-L6 (384 dimensions, normalised), or any GGUF encoder."""

from __future__ import annotations

from foldline._io import IO
from foldline.exceptions import MalformedStreamError
from foldline.providers._embedding import BatchedEmbeddings, read_vector
from foldline.providers.local.runtime import PROVIDER, LocalRuntime, RuntimeSettings
from foldline.providers.local.session import load

CONTEXT = 512


class LocalEmbeddings(BatchedEmbeddings):
    """Embeddings computed in this process.

    ```python
    from foldline.providers.local import LocalEmbeddings

    vector = LocalEmbeddings().embed_query("a small red house")
    print(len(vector))
    #> 384
    ```
    """

    chunk_size = 64

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
        """Whether to cut a text that is longer than the context; otherwise `ContextOverflowError` is raised."""
        self._settings = RuntimeSettings(context=context, slots=1, threads=threads, embedding=True)

    async def _embed_some(self, texts: list[str], io: IO, *, is_query: bool) -> list[list[float]]:
        vectors: list[list[float]] = await io.call(self.embed_now, texts)
        return vectors

    def _malformed(self, message: str) -> MalformedStreamError:
        return MalformedStreamError(message, provider=PROVIDER, model=self.model)

    def embed_now(self, texts: list[str]) -> list[list[float]]:
        """Embed in the calling thread; loads the model, and fetches it the first time."""
        runtime = load(self.model, self._settings)
        truncated = [self._fit(text, runtime) for text in texts] if self.truncate else texts
        try:
            return [read_vector(vector) for vector in runtime.embed(truncated)]
        except ValueError as error:
            raise self._malformed(
                f"llama.cpp computed what is no vector ({error}): the file may be damaged"
            ) from error

    def _fit(self, text: str, runtime: LocalRuntime) -> str:
        # A token is at least one byte, so most texts need no counting.
        max_tokens = max(1, min(self._settings.context, runtime.trained_context) - 2)
        if len(text.encode(errors="replace")) <= max_tokens:
            return text
        tokens = runtime.tokenize(text)
        return text if len(tokens) <= max_tokens else runtime.detokenize(tokens[:max_tokens])

"""`init_embeddings`: embeddings by name, like `init_chat_model`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from foldline._traceback import entry_point
from foldline.embeddings.base import Embeddings
from foldline.exceptions import UsageError
from foldline.utils.strings import suggestion

__all__ = ["init_embeddings"]


def __dir__() -> list[str]:
    return sorted(__all__)


CLASSES = {
    "azure_openai": "foldline.providers.openai:AzureOpenAIEmbeddings",
    "bedrock": "foldline.providers.bedrock:BedrockEmbeddings",
    "google_genai": "foldline.providers.google:GoogleGenerativeAIEmbeddings",
    "google_vertexai": "foldline.providers.vertex:VertexAIEmbeddings",
    "local": "foldline.providers.local:LocalEmbeddings",
    "ollama": "foldline.providers.ollama:OllamaEmbeddings",
    "openai": "foldline.providers.openai:OpenAIEmbeddings",
}
"""Provider -> its embeddings class."""


@entry_point
def init_embeddings(model: str, *, provider: str | None = None, **kwargs: Any) -> Embeddings:
    """Return the embeddings of `provider:model`, or of a model and a provider.

    ```python
    from foldline.embedding_models import init_embeddings

    print(type(init_embeddings("openai:text-embedding-3-small")).__name__)
    #> OpenAIEmbeddings
    ```
    """
    if not model.strip():
        raise UsageError('name a model, such as "openai:text-embedding-3-small"')
    if provider is None:
        provider, colon, model = model.partition(":")
        if not colon or provider not in CLASSES:
            raise UsageError(
                f'write "provider:model" or give provider=; {provider!r} is none of '
                f"{', '.join(CLASSES)}{suggestion(provider, CLASSES)}"
            )
    if provider not in CLASSES:
        raise UsageError(
            f"there are no embeddings of {provider!r}{suggestion(provider, CLASSES)}: "
            f"choose one of {', '.join(CLASSES)}"
        )
    module, _, name = CLASSES[provider].partition(":")
    embeddings: Embeddings = getattr(import_module(module), name)(model=model, **kwargs)
    return embeddings

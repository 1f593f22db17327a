"""`ChatVertexAI`: Gemini on Vertex; with a Claude model it creates a `ChatAnthropicVertex`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from foldline.providers.google.chat import ChatGoogle
from foldline.providers.vertex.claude import ChatAnthropicVertex

__all__ = ["ChatVertexAI"]


class ChatVertexAI(ChatGoogle):
    """Gemini models on Vertex. A model whose name begins with "claude" is an instance of `ChatAnthropicVertex`.

    ```python
    from foldline.providers.vertex import ChatVertexAI

    model = ChatVertexAI(model="gemini-2.5-pro", project="mine", location="europe-west4")
    print(model.explain("Hello").url.partition("/publishers/")[0])
    #> https://europe-west4-aiplatform.googleapis.com/v1/projects/mine/locations/europe-west4
    print(type(ChatVertexAI(model="claude-sonnet-4-5@20250929", project="mine")).__name__)
    #> ChatAnthropicVertex
    ```
    """

    vertexai: bool | None = True

    provider_name: ClassVar[str] = "google_vertexai"
    key_variables: ClassVar[Sequence[str]] = ()

    def __new__(cls, **settings: object) -> Any:  # noqa: ANN401  a chat model of either API
        """Create the chat model for the API of the named model."""
        model = settings.get("model") or settings.get("model_name") or ""
        if cls is ChatVertexAI and str(model).startswith("claude"):
            return ChatAnthropicVertex(**settings)
        return super().__new__(cls)

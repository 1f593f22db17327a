"""OpenAI: chat completions, Responses, embeddings; Azure by address and key header."""

from weft.providers.openai.chat import ChatOpenAI

__all__ = ["ChatOpenAI"]

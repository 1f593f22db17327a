"""OpenAI: chat completions, Responses, embeddings; Azure by address and key header."""

from weft.language_models.profile import register_profiles
from weft.providers.openai.azure import AzureChatOpenAI
from weft.providers.openai.chat import ChatOpenAI
from weft.providers.openai.embeddings import OpenAIEmbeddings
from weft.providers.openai.profiles import PROFILES

__all__ = ["AzureChatOpenAI", "ChatOpenAI", "OpenAIEmbeddings"]

register_profiles("openai", PROFILES)
register_profiles("azure_openai", PROFILES)

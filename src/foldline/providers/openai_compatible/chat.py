"""Chat models of hosts compatible with OpenAI's chat completions: one adapter, and a class for each host."""

from __future__ import annotations

from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

from pydantic import model_validator

from foldline.exceptions import UsageError
from foldline.language_models.profile import register_profiles
from foldline.providers._completions.errors import ERRORS
from foldline.providers._completions.host import Host
from foldline.providers._completions.model import CompletionsModel
from foldline.providers._endpoint import Body
from foldline.providers._wire import ErrorTable
from foldline.providers.openai_compatible._hosts import HOSTS, host_of
from foldline.providers.openai_compatible._profiles import PROFILES

__all__ = [
    "AzureAIChatCompletionsModel",
    "AzureAIOpenAIApiChatModel",
    "ChatAIGNEHub",
    "ChatBaseten",
    "ChatCerebras",
    "ChatCohere",
    "ChatDeepSeek",
    "ChatDoubao",
    "ChatFireworks",
    "ChatGroq",
    "ChatHuggingFace",
    "ChatLMStudio",
    "ChatLiteLLM",
    "ChatLlamaServer",
    "ChatMeta",
    "ChatMistral",
    "ChatMistralAI",
    "ChatMoonshot",
    "ChatNVIDIA",
    "ChatOllama",
    "ChatOpenAICompatible",
    "ChatOpenRouter",
    "ChatPerplexity",
    "ChatPoe",
    "ChatQwen",
    "ChatSambaNova",
    "ChatTogether",
    "ChatUpstage",
    "ChatVLLM",
    "ChatWatsonx",
    "ChatXAI",
]

URL_ALIASES: Final = {"api_base": "base_url", "endpoint": "base_url", "url": "base_url"}
"""Names of the base URL in LangChain's packages for some hosts."""


class ChatOpenAICompatible(CompletionsModel):
    """A chat model on any server with OpenAI's chat completions API.

    ```python
    from foldline.providers.openai_compatible import ChatOpenAICompatible

    model = ChatOpenAICompatible(provider="groq", model="openai/gpt-oss-20b", api_key="gsk-...", max_tokens=9)
    sent = model.explain("Hello")
    print(sent.url, sent.body["max_completion_tokens"])
    #> https://api.groq.com/openai/v1/chat/completions 9
    ```
    """

    provider: str = "openai_compatible"
    """A row of `HOSTS`, or any name together with `base_url`."""
    reasoning_format: str | None = None
    """The format of Groq's reasoning: "parsed", "raw" or "hidden"."""
    reasoning: dict[str, Any] | None = None
    """How much OpenRouter's models think: `{"effort": "low"}`."""

    error_table: ClassVar[ErrorTable] = ERRORS
    sent_fields: ClassVar[tuple[str, ...]] = (
        *CompletionsModel.sent_fields,
        "reasoning_format",
        "reasoning",
    )

    @model_validator(mode="before")
    @classmethod
    def _read_host_names(cls, values: object) -> object:
        """Translate arguments such as `groq_api_key`, which LangChain's packages use."""
        if not isinstance(values, dict):
            return values
        provider = str(values.get("provider") or cls.model_fields["provider"].default)
        key_variables = HOSTS[provider].keys if provider in HOSTS else ()
        settings: dict[str, Any] = {}
        for name, value in values.items():
            field: str = URL_ALIASES.get(name) or name
            if name.endswith("_api_base") and not name.startswith("openai"):
                field = "base_url"
            elif name.upper() in key_variables:
                field = "api_key"
            elif name.endswith("_api_key") and not name.startswith("openai"):
                if not name.startswith(provider):
                    raise UsageError(
                        f"{cls.__name__} is {provider}: {name} is the key of another host"
                    )
                field = "api_key"
            settings[field] = value
        return settings

    def model_post_init(self, context: object, /) -> None:
        """Raise early if the host does not exist."""
        super().model_post_init(context)
        host_of(self.provider, self.base_url)

    @property
    def _host(self) -> Host:
        return host_of(self.provider, self.base_url)

    def _omit_model_name(self, body: Body) -> None:
        if self.provider in HOSTS:
            super()._omit_model_name(body)
        body.pop("model", None)  # a self-hosted server may have a single model

    def _root_url(self) -> str:
        url, host = super()._root_url(), self._host
        if not url:
            raise UsageError(
                f"{type(self).__name__} needs base_url=..., or the variable {' or '.join(host.url_variables)}"
            )
        if host.api_path:
            return _append_path(url, host.api_path)
        root_path = host.root_path
        return (
            url.rstrip("/") + root_path if root_path and not urlsplit(url).path.strip("/") else url
        )


class ChatDeepSeek(ChatOpenAICompatible):
    """Chat models of DeepSeek."""

    provider: str = "deepseek"
    model: str = "deepseek-chat"


class ChatGroq(ChatOpenAICompatible):
    """Chat models on Groq."""

    provider: str = "groq"


class ChatMistral(ChatOpenAICompatible):
    """Chat models of Mistral."""

    provider: str = "mistral"
    model: str = "mistral-small-latest"


ChatMistralAI = ChatMistral
"""LangChain's name for it."""


class ChatXAI(ChatOpenAICompatible):
    """Chat models of xAI."""

    provider: str = "xai"


class ChatOpenRouter(ChatOpenAICompatible):
    """Chat models on OpenRouter."""

    provider: str = "openrouter"


class ChatTogether(ChatOpenAICompatible):
    """Chat models on Together."""

    provider: str = "together"


class ChatFireworks(ChatOpenAICompatible):
    """Chat models on Fireworks."""

    provider: str = "fireworks"


class ChatPerplexity(ChatOpenAICompatible):
    """Chat models of Perplexity; their sources are in `response_metadata`."""

    provider: str = "perplexity"
    model: str = "sonar"


class ChatCerebras(ChatOpenAICompatible):
    """Chat models on Cerebras."""

    provider: str = "cerebras"


class ChatMoonshot(ChatOpenAICompatible):
    """Chat models of Moonshot (Kimi)."""

    provider: str = "moonshot"


class ChatQwen(ChatOpenAICompatible):
    """Chat models of Qwen, on DashScope."""

    provider: str = "qwen"


class ChatDoubao(ChatOpenAICompatible):
    """Chat models of ByteDance (Doubao), on Volcengine Ark."""

    provider: str = "doubao"


class ChatPoe(ChatOpenAICompatible):
    """Chat models and bots on Poe."""

    provider: str = "poe"


class ChatAIGNEHub(ChatOpenAICompatible):
    """Chat models on an AIGNE Hub: `model="openai/gpt-5-mini"`."""

    provider: str = "aigne_hub"


class ChatCohere(ChatOpenAICompatible):
    """Chat models of Cohere, over its OpenAI-compatible endpoint."""

    provider: str = "cohere"


class ChatHuggingFace(ChatOpenAICompatible):
    """Chat models on the router of Hugging Face: `model="openai/gpt-oss-20b:groq"`."""

    provider: str = "huggingface"


class ChatNVIDIA(ChatOpenAICompatible):
    """Chat models on NVIDIA NIM, hosted or your own (`base_url`)."""

    provider: str = "nvidia"


class ChatSambaNova(ChatOpenAICompatible):
    """Chat models on SambaNova."""

    provider: str = "sambanova"


class AzureAIChatCompletionsModel(ChatOpenAICompatible):
    """Chat models of any vendor on Azure AI Foundry; `endpoint` is that of your resource."""

    provider: str = "azure_ai"


AzureAIOpenAIApiChatModel = AzureAIChatCompletionsModel
"""LangChain's newer name for it."""


class ChatUpstage(ChatOpenAICompatible):
    """Chat models of Upstage (Solar)."""

    provider: str = "upstage"
    model: str = "solar-pro2"


class ChatWatsonx(ChatOpenAICompatible):
    """Chat models on the gateway of IBM watsonx.ai; `api_key` is an IAM token, or a function that returns one."""

    provider: str = "ibm"


class ChatBaseten(ChatOpenAICompatible):
    """Chat models on Baseten."""

    provider: str = "baseten"


class ChatMeta(ChatOpenAICompatible):
    """Chat models of Meta's Llama API."""

    provider: str = "meta"


class ChatLiteLLM(ChatOpenAICompatible):
    """Chat models behind a LiteLLM proxy."""

    provider: str = "litellm"


class ChatOllama(ChatOpenAICompatible):
    """Chat models that Ollama serves on this machine."""

    provider: str = "ollama"


class ChatVLLM(ChatOpenAICompatible):
    """Chat models that vLLM serves."""

    provider: str = "vllm"


class ChatLMStudio(ChatOpenAICompatible):
    """Chat models that LM Studio serves on this machine."""

    provider: str = "lmstudio"


class ChatLlamaServer(ChatOpenAICompatible):
    """Chat models that a llama.cpp server serves; `ChatLlamaCpp` needs no server."""

    provider: str = "llamacpp"


def _append_path(url: str, path: str) -> str:
    """Return a server's URL with the path of its API, unless it ends with it already."""
    root, mark, query = url.partition("?")
    root = root.rstrip("/")
    return (root if root.endswith(path) else root + path) + mark + query


for _host, _profiles in PROFILES.items():
    register_profiles(_host, _profiles)

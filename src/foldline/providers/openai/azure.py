"""OpenAI's models on Azure: another URL, and the key in another header."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import ClassVar, Final
from urllib.parse import quote

from pydantic import Field, model_validator

from foldline.exceptions import UsageError
from foldline.language_models.profile import register_profiles
from foldline.providers._completions.host import Host
from foldline.providers._endpoint import Address, Endpoint
from foldline.providers._keys import Key, SecretKey, chosen_key, missing_key
from foldline.providers.openai._host import OPENAI
from foldline.providers.openai._profiles import PROFILES
from foldline.providers.openai.chat import ChatOpenAI
from foldline.providers.openai.embeddings import OpenAIEmbeddings

__all__ = [
    "AzureChatOpenAI",
    "AzureOpenAIEmbeddings",
]

AZURE: Final = Host(
    "azure_openai",
    "",
    keys=("AZURE_OPENAI_API_KEY", "OPENAI_API_KEY"),
    reasoning_field=None,
    max_tokens_field=OPENAI.max_tokens_field,
)
ALIASES: Final = {
    "deployment": "azure_deployment",
    "deployment_name": "azure_deployment",
    "openai_api_version": "api_version",
}
DEPLOYMENT_PATHS: Final = ("chat/completions", "completions", "embeddings")
"""Paths that the dated API has under the deployment's name."""


class AzureEndpoint(Endpoint):
    """The settings of a connection to a deployment on Azure.

    Without `api_version` the v1 API is used, where the deployment is the model's name; with it, the dated API.
    """

    azure_endpoint: Address = None
    """`https://NAME.openai.azure.com`; default: AZURE_OPENAI_ENDPOINT, read at each call."""
    azure_deployment: str | None = None
    api_version: str | None = None
    azure_ad_token: Key = Field(default=None, exclude=True, repr=False)
    """An Entra ID token, or a sync or async function that returns one, instead of a key."""

    batches: ClassVar[str] = ""
    """Not supported: Azure has a batch API of its own."""
    key_variables: ClassVar[Sequence[str]] = AZURE.keys

    @model_validator(mode="before")
    @classmethod
    def _read_azure_names(cls, values: object) -> object:
        if not isinstance(values, dict):
            return values
        values = {ALIASES.get(name, name): value for name, value in values.items()}
        if (provider := values.pop("azure_ad_token_provider", None)) is not None:
            values.setdefault("azure_ad_token", provider)
        if values.get("azure_deployment") and not (values.get("model") or values.get("model_name")):
            values["model"] = values["azure_deployment"]
        return values

    def _key(self) -> SecretKey | None:
        if self.azure_ad_token is None:
            return super()._key()
        if (token := chosen_key(self.azure_ad_token, ())) is None:
            raise missing_key(self._provider, ())
        return token

    def _auth_headers(self, key: str) -> dict[str, str]:
        return super()._auth_headers(key) if self.azure_ad_token is not None else {"api-key": key}

    def _root_url(self) -> str:
        if self.base_url:
            return self.base_url
        endpoint = self.azure_endpoint or os.environ.get("AZURE_OPENAI_ENDPOINT")
        if not endpoint:
            raise UsageError(
                f"{type(self).__name__} needs azure_endpoint=..., or the variable AZURE_OPENAI_ENDPOINT"
            )
        return f"{endpoint.rstrip('/')}/openai"

    def _url(self, path: str) -> str:
        if self.base_url:
            return super()._url(path)
        if self.api_version is None:
            return super()._url(f"v1/{path}")
        if path in DEPLOYMENT_PATHS:
            deployment = quote(self.azure_deployment or self._model_name or "", safe="")
            path = f"deployments/{deployment}/{path}"
        url = super()._url(path)
        return f"{url}{'&' if '?' in url else '?'}api-version={quote(self.api_version, safe='')}"


class AzureChatOpenAI(AzureEndpoint, ChatOpenAI):
    """Chat models of OpenAI on Azure.

    ```python
    from foldline.providers.openai import AzureChatOpenAI

    model = AzureChatOpenAI(azure_endpoint="https://me.openai.azure.com", azure_deployment="mine", api_key="k")
    print(model.explain("Hello").url)
    #> https://me.openai.azure.com/openai/v1/chat/completions
    ```
    """

    @property
    def _host(self) -> Host:
        return AZURE

    @property
    def _provider(self) -> str:
        return AZURE.name


class AzureOpenAIEmbeddings(AzureEndpoint, OpenAIEmbeddings):
    """Embeddings of OpenAI on Azure."""

    @property
    def _provider(self) -> str:
        return AZURE.name


register_profiles(AZURE.name, PROFILES)

"""`ChatOpenAI`."""

from __future__ import annotations

from typing import ClassVar

from weft.providers._completions import CompletionsModel, Host
from weft.providers._wire import ErrorTable
from weft.providers.openai.errors import ERRORS

OPENAI = Host(
    "openai",
    "https://api.openai.com/v1",
    keys=("OPENAI_API_KEY",),
    url_variables=("OPENAI_BASE_URL", "OPENAI_API_BASE"),
    reasoning_field=None,
    max_tokens_field="max_completion_tokens",
    takes_empty_tools=False,
)


class ChatOpenAI(CompletionsModel):
    """Chat models of OpenAI."""

    model: str = "gpt-5-mini"
    organization: str | None = None

    key_variables = OPENAI.keys
    error_table: ClassVar[ErrorTable] = ERRORS

    @property
    def _host(self) -> Host:
        return OPENAI

    @property
    def _own_providers(self) -> frozenset[str]:
        return frozenset({"openai", "azure", "azure_openai"})

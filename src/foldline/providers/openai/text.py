"""`OpenAI` and `AzureOpenAI`: text models over `/completions`, of OpenAI or any server with that API."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from pydantic import Field

from foldline.exceptions import ModelError
from foldline.outputs import Generation, GenerationChunk, LLMResult
from foldline.providers._endpoint import Body
from foldline.providers._text import HttpLLM
from foldline.providers._text_reading import TextDecoder
from foldline.providers._wire import Fail
from foldline.providers.openai._errors import ERRORS
from foldline.providers.openai._host import OPENAI
from foldline.providers.openai.azure import AZURE, AzureEndpoint

__all__ = ["AzureOpenAI", "OpenAI"]


ALIASES: Final = {
    "model_name": "model",
    "openai_api_key": "api_key",
    "openai_api_base": "base_url",
    "openai_organization": "organization",
    "request_timeout": "timeout",
    "batch_size": "prompts_in_request",
}
SENT_FIELDS: Final = (
    "model",
    "temperature",
    "top_p",
    "max_tokens",
    "n",
    "best_of",
    "stop",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
    "logprobs",
    "echo",
    "suffix",
    "user",
)


class OpenAI(HttpLLM):
    """Text models of OpenAI, and of every server with `/completions`.

    ```python
    from foldline.providers.openai import OpenAI

    model = OpenAI(model="gpt-3.5-turbo-instruct", api_key="sk-...", temperature=0, stop=["."])
    print(model.model, model.max_tokens)
    #> gpt-3.5-turbo-instruct 256
    ```
    """

    model: str = "gpt-3.5-turbo-instruct"
    max_tokens: int | None = 256
    """The maximum number of tokens of an answer; LangChain's default (the API's is 16)."""
    n: int | None = None
    """The number of answers for each prompt; `generate` returns all of them."""
    best_of: int | None = None
    """How many answers the server generates to return the best `n`."""
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    logprobs: int | None = None
    """How many of the most likely tokens are returned for each; they are in `generation_info`."""
    echo: bool | None = None
    suffix: str | None = None
    user: str | None = None
    organization: str | None = None
    stream_usage: bool = True
    """Whether to request the usage of streams."""
    extra_body: dict[str, Any] | None = None
    """Parameters that are added to the body last and override all others."""
    prompts_in_request: int = Field(default=20, ge=1, exclude=True)
    """Prompts of a batch that are sent in one request."""

    provider_name: ClassVar[str] = OPENAI.name
    key_variables: ClassVar[Sequence[str]] = OPENAI.keys
    error_table: ClassVar[Mapping[str, type[ModelError]]] = ERRORS
    aliases: ClassVar[Mapping[str, str]] = ALIASES
    sent_fields: ClassVar[tuple[str, ...]] = SENT_FIELDS

    @property
    def prompts_per_request(self) -> int:  # type: ignore[override]
        """How many prompts are sent in one request."""
        return self.prompts_in_request

    def _answer_count(self, options: Body) -> int:
        counts = (options.get("n") or self.n or 1, options.get("best_of") or self.best_of or 1)
        return int(max(counts))

    def _root_url(self) -> str:
        urls = (os.environ.get(name) for name in OPENAI.url_variables)
        return self.base_url or next((url for url in urls if url), None) or OPENAI.base_url

    def _extra_headers(self) -> dict[str, str]:
        return {"openai-organization": self.organization} if self.organization else {}

    def _encode(self, prompts: list[str], options: Body, *, stream: bool) -> tuple[str, Body]:
        body = {**options, "prompt": prompts[0] if len(prompts) == 1 else prompts}
        if stream:
            body["stream"] = True
            if self.stream_usage:
                body["stream_options"] = {"include_usage": True}
        body |= self.extra_body or {}
        return "completions", body

    def _decode(self, answer: Body, prompts: list[str], options: Body) -> LLMResult:
        choices = sorted(answer["choices"], key=lambda choice: choice.get("index") or 0)
        answers_per_prompt = int(options.get("n") or 1)
        if len(choices) != len(prompts) * answers_per_prompt:
            raise self._malformed(
                f"{len(prompts)} prompts with n={answers_per_prompt} were sent and {len(choices)} answers came back"
            )
        all_answers = [
            Generation(text=choice.get("text") or "", generation_info=read_info(choice))
            for choice in choices
        ]
        generations = [
            all_answers[start : start + answers_per_prompt]
            for start in range(0, len(all_answers), answers_per_prompt)
        ]
        output = {
            "token_usage": answer.get("usage") or {},
            "model_name": answer.get("model") or self.model,
        }
        output |= {name: answer[name] for name in ("id", "system_fingerprint") if answer.get(name)}
        return LLMResult(generations=generations, llm_output=output)

    def _decoder(self) -> TextDecoder:
        return CompletionsTextDecoder(self._stream_error)


def read_info(choice: Body) -> Body:
    """Return the metadata of a choice."""
    fields = ("finish_reason", "logprobs")
    return {name: choice[name] for name in fields if choice.get(name) is not None}


class CompletionsTextDecoder:
    """Decodes the chunks of `/completions`; the answer is complete with its finish reason, the stream with `[DONE]`."""

    def __init__(self, fail: Fail) -> None:
        self._fail = fail
        self._is_stopped = False
        self._has_usage = False

    @property
    def is_complete(self) -> bool:
        """Whether the stream is complete: usage follows the finish reason."""
        return self._is_stopped and self._has_usage

    @property
    def is_stopped(self) -> bool:
        """Whether a finish reason was received."""
        return self._is_stopped

    def feed(self, data: Body, event: str) -> GenerationChunk | None:
        """Return the text of one chunk."""
        if data.get("error"):
            raise self._fail(data)
        info: Body = {}
        if data.get("usage"):
            self._has_usage = True
            info["token_usage"] = data["usage"]
        text = ""
        for choice in data.get("choices") or ():
            text += choice.get("text") or ""
            info |= read_info(choice)
            self._is_stopped = self._is_stopped or bool(choice.get("finish_reason"))
        return GenerationChunk(text=text, generation_info=info or None) if text or info else None


class AzureOpenAI(AzureEndpoint, OpenAI):
    """Text models of OpenAI on Azure.

    ```python
    from foldline.providers.openai import AzureOpenAI

    model = AzureOpenAI(azure_endpoint="https://me.openai.azure.com", azure_deployment="mine", api_key="k")
    print(model.model)
    #> mine
    ```
    """

    @property
    def _provider(self) -> str:
        return AZURE.name

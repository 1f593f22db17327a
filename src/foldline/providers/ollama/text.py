"""`OllamaLLM`: text models over `/api/generate`, whose streams are JSON lines."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, Literal

from foldline.outputs import Generation, GenerationChunk, LLMResult
from foldline.providers._endpoint import Body
from foldline.providers._text import HttpLLM
from foldline.providers._text_reading import TextDecoder
from foldline.providers._wire import Fail

__all__ = ["OllamaLLM"]


DEFAULT_URL: Final = "http://localhost:11434"
OPTIONS: Final = {
    "max_tokens": "num_predict",
    **{
        name: name
        for name in (
            "mirostat", "mirostat_eta", "mirostat_tau", "num_ctx", "num_gpu", "num_predict", "num_thread",
            "repeat_last_n", "repeat_penalty", "temperature", "seed", "stop", "tfs_z", "top_k", "top_p", "min_p",
        )
    },
}  # fmt: skip
"""Setting -> its name in `options`."""
FIELDS: Final = ("format", "keep_alive", "raw", "system", "template", "suffix", "images")
"""Settings that are sent in the body under their own names."""


class OllamaLLM(HttpLLM):
    """Text models that Ollama serves.

    ```python
    from foldline.providers.ollama import OllamaLLM

    model = OllamaLLM(model="llama3.2", temperature=0, num_predict=20)
    print(model.model, model.max_tokens)
    #> llama3.2 20
    ```
    """

    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    mirostat: int | None = None
    mirostat_eta: float | None = None
    mirostat_tau: float | None = None
    num_ctx: int | None = None
    num_gpu: int | None = None
    num_thread: int | None = None
    repeat_last_n: int | None = None
    repeat_penalty: float | None = None
    tfs_z: float | None = None
    format: Literal["", "json"] | dict[str, Any] | None = None
    """ "json", or a JSON Schema for the answer."""
    keep_alive: int | str | None = None
    """How long the model stays loaded: seconds, or "5m"."""
    raw: bool | None = None
    """Whether the prompt is used unchanged, without the model's template."""
    system: str | None = None
    template: str | None = None
    suffix: str | None = None
    """The text after the gap to be filled."""
    reasoning: bool | str | None = None
    """Whether the model thinks first; its thoughts are in `generation_info["thinking"]`."""

    provider_name: ClassVar[str] = "ollama"
    key_variables: ClassVar[Sequence[str]] = ("OLLAMA_API_KEY",)
    needs_key: ClassVar[bool] = False
    aliases: ClassVar[Mapping[str, str]] = {
        "model_name": "model",
        "num_predict": "max_tokens",
        "request_timeout": "timeout",
        "think": "reasoning",
    }
    sent_fields: ClassVar[tuple[str, ...]] = (
        "model",
        "max_tokens",
        *(name for name in OPTIONS if name not in ("max_tokens", "num_predict")),
        *(name for name in FIELDS if name != "images"),
        "reasoning",
    )
    line_framed: ClassVar[bool] = True

    def _root_url(self) -> str:
        return ollama_url(self.base_url)

    def _encode(self, prompts: list[str], options: Body, *, stream: bool) -> tuple[str, Body]:
        fields = {k: v for k, v in options.items() if k not in OPTIONS and k != "reasoning"}
        body: Body = {**fields, "prompt": prompts[0], "stream": stream}
        if body.get("format") == "":
            del body["format"]
        if options.get("reasoning") is not None:
            body["think"] = options["reasoning"]
        renamed = {OPTIONS[name]: value for name, value in options.items() if name in OPTIONS}
        if all_options := {**renamed, **(fields.get("options") or {})}:
            body["options"] = all_options
        return "api/generate", body

    def _decode(self, answer: Body, prompts: list[str], options: Body) -> LLMResult:
        if not answer.get("done"):
            raise self._malformed("the answer does not say that it is done", is_retryable=True)
        info = read_info(answer)
        usage = info.get("token_usage")
        generation = Generation(text=answer.get("response") or "", generation_info=info)
        output = {"model_name": answer.get("model") or self.model, "token_usage": usage or {}}
        return LLMResult(generations=[[generation]], llm_output=output)

    def _decoder(self) -> TextDecoder:
        return GenerateDecoder(self._stream_error)


def ollama_url(base_url: str | None) -> str:
    """Return the URL of the server: `base_url`, or the environment's."""
    address = base_url or os.environ.get("OLLAMA_BASE_URL") or os.environ.get("OLLAMA_HOST")
    url = (address or DEFAULT_URL).rstrip("/").removesuffix("/v1")
    if "://" in url:
        return url
    host, _, port = url.rpartition(":") if ":" in url else (url, "", "11434")
    return f"http://{host or 'localhost'}:{port}"


def read_info(answer: Body) -> Body:
    """Return the metadata of an answer; counts also under the names of text models."""
    info = {k: v for k, v in answer.items() if k != "response" and v not in (None, "")}
    if "prompt_eval_count" in info or "eval_count" in info:
        prompt, completion = info.get("prompt_eval_count") or 0, info.get("eval_count") or 0
        info["token_usage"] = {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
        }
    return info


class GenerateDecoder:
    """Decodes the lines of a stream; the last one has the stop reason and the token counts."""

    def __init__(self, fail: Fail) -> None:
        self._fail = fail
        self.is_complete: bool = False

    @property
    def is_stopped(self) -> bool:
        """Whether the last line was received."""
        return self.is_complete

    def feed(self, data: Body, event: str) -> GenerationChunk | None:
        """Return the text of one line."""
        if data.get("error"):
            raise self._fail(data)
        if data.get("done"):
            self.is_complete = True
            return GenerationChunk(text=data.get("response") or "", generation_info=read_info(data))
        thinking = data.get("thinking")
        info = {"thinking": thinking} if thinking else None
        text = data.get("response") or ""
        return GenerationChunk(text=text, generation_info=info) if text or info else None

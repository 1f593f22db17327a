"""`LlamaCpp`: a text model in this process, on llama.cpp: it continues a prompt, without a template."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any, ClassVar, Final

from pydantic import Field, model_validator

from foldline._io import IO
from foldline._run import Run
from foldline.exceptions import StreamTruncatedError
from foldline.language_models._call.policies.usage_scope import current_usage
from foldline.language_models._call.request import ChatRequest
from foldline.outputs import Generation, GenerationChunk, LLMResult
from foldline.providers._endpoint import Body
from foldline.providers._names import read_names
from foldline.providers._text import WireLLM
from foldline.providers.local.runtime import PROVIDER, RuntimeSettings
from foldline.providers.local.session import SMOLLM2, LocalModel

__all__ = ["LlamaCpp"]


ALIASES: Final = {
    "model_path": "model",
    "model_name": "model",
    "n_ctx": "context",
    "n_parallel": "slots",
    "n_threads": "threads",
    "n_gpu_layers": "gpu_layers",
    "n_predict": "max_tokens",
}
SENT_FIELDS: Final = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "repeat_penalty",
    "max_tokens",
    "seed",
    "stop",
    "logprobs",
    "grammar",
)


class LlamaCpp(WireLLM):
    """A text model in this process: the built-in small one, or any GGUF file (`model_path`).

    ```python
    from foldline.providers.local import LlamaCpp

    print(LlamaCpp(model_path="/models/a.gguf", n_ctx=4096, max_tokens=20).context)
    #> 4096
    ```
    """

    model: str = SMOLLM2
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repeat_penalty: float | None = None
    max_tokens: int | None = 256
    """The maximum number of tokens of an answer; -1 for as many as the context allows."""
    seed: int | None = None
    stop: list[str] | str | None = None
    logprobs: int | None = None
    grammar: str | None = None
    """A GBNF grammar for the answer."""
    echo: bool = False
    """Whether the answer begins with the prompt."""
    suffix: str | None = None
    """A text that is appended to the answer."""
    context: int = 8192
    slots: int = 2
    threads: int | None = None
    gpu_layers: int = 0
    verbose_library: bool = Field(default=False, exclude=True)
    progress: Callable[..., Any] | bool | None = Field(default=None, exclude=True, repr=False)
    model_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Further parameters of llama.cpp's requests: mirostat, ..."""

    aliases: ClassVar[Mapping[str, str]] = ALIASES

    @model_validator(mode="before")
    @classmethod
    def _read_names(cls, values: object) -> object:
        return read_names(cls, values, ALIASES)

    @property
    def local(self) -> LocalModel:
        """The local model with these settings; loaded on first use."""
        settings = RuntimeSettings(
            context=self.context,
            slots=self.slots,
            threads=self.threads,
            gpu_layers=self.gpu_layers,
            verbose=self.verbose_library,
        )
        return LocalModel(self.model, settings, progress=self.progress)

    def _encode(self, prompt: str, stop: list[str] | None, options: Body) -> Body:
        settings = {name: getattr(self, name) for name in SENT_FIELDS}
        call_options = {ALIASES.get(name, name): value for name, value in options.items()}
        body = {**settings, **self.model_kwargs, **call_options, "prompt": prompt}
        stop_texts = stop or body.get("stop")
        body["stop"] = [stop_texts] if isinstance(stop_texts, str) else stop_texts
        return {name: value for name, value in body.items() if value is not None}

    async def _preprocess(self, request: ChatRequest, run: Run) -> ChatRequest:
        if self.rate_limiter is not None or current_usage() is not None:
            await run.io.call(self.local.load)  # its tokenizer counts the prompt
        return request

    def _output_limit(self, options: Body) -> int | None:
        names = {ALIASES.get(name, name): value for name, value in options.items()}
        return super()._output_limit(names)

    async def _text_pieces(
        self, prompt: str, stop: list[str] | None, options: Body, io: IO
    ) -> AsyncGenerator[GenerationChunk, None]:
        if self.echo:
            yield GenerationChunk(text=prompt)
        is_stopped = False
        chunk_stream = self.local.continue_text(self._encode(prompt, stop, options))
        async with aclosing(chunk_stream.chunks(io)) as chunks:
            async for chunk in chunks:
                piece = read_chunk(chunk)
                is_stopped = is_stopped or "finish_reason" in (piece.generation_info or {})
                if piece.text or piece.generation_info:
                    yield piece
        if not is_stopped:
            raise StreamTruncatedError("llama.cpp stopped without a reason", provider=PROVIDER)
        if self.suffix:
            yield GenerationChunk(text=self.suffix)

    async def _answers(
        self, prompts: list[str], stop: list[str] | None, options: Body, io: IO
    ) -> LLMResult:
        total = GenerationChunk(text="")
        async with aclosing(self._text_pieces(prompts[0], stop, options, io)) as pieces:
            async for piece in pieces:
                total = total + piece
        generation = Generation(text=total.text, generation_info=total.generation_info)
        return LLMResult(generations=[[generation]], llm_output=self._stream_output(total))

    def get_token_ids(self, text: str) -> list[int]:
        """Return the tokens of a text; loads the model."""
        if self.custom_get_token_ids is not None:
            return self.custom_get_token_ids(text)
        return self.local.load().tokenize(text)

    @classmethod
    def loadable_fields(cls) -> frozenset[str]:
        """Return the arguments that `foldline.load` accepts from data: no path of a file."""
        return frozenset({*SENT_FIELDS, "echo", "suffix", "streaming", "name"} - {"grammar"})

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Return True: models can be serialized."""
        return True

    @property
    def _provider(self) -> str:
        return PROVIDER

    @property
    def _model_name(self) -> str:
        return self.model

    @property
    def _llm_type(self) -> str:
        return "llamacpp"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        names = (*SENT_FIELDS, "model", "context", "echo", "suffix", "model_kwargs")
        return {name: getattr(self, name) for name in names}


def read_chunk(chunk: Body) -> GenerationChunk:
    """Return the text and metadata of a chunk of llama.cpp's `/v1/completions`."""
    text = ""
    info: Body = {}
    for choice in chunk.get("choices") or ():
        text += choice.get("text") or ""
        info |= {n: choice[n] for n in ("finish_reason", "logprobs") if choice.get(n) is not None}
    if chunk.get("usage"):
        info["token_usage"] = chunk["usage"]
    return GenerationChunk(text=text, generation_info=info or None)

"""`ChatLlamaCpp`: a chat model in this process, on llama.cpp: the built-in small one, or any GGUF file."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, ClassVar, Final, cast

from pydantic import Field, model_validator

from foldline._config import RunnableConfig
from foldline._io import BLOCKING
from foldline._io.drive import drive
from foldline._run import Run
from foldline.exceptions import ModelError
from foldline.language_models._call.request import ChatRequest
from foldline.language_models.chat_models import BaseChatModel
from foldline.language_models.count import TokenCount
from foldline.language_models.profile import ModelProfile, find_profile, register_profiles
from foldline.messages import BaseMessage, SystemMessage
from foldline.protocol.events import Event
from foldline.providers._completions.decode import CompletionsDecoder
from foldline.providers._completions.encode import encode_completion
from foldline.providers._completions.host import Host
from foldline.providers._explain import Explained, prepare
from foldline.providers._foreign_messages import ForeignBlocks
from foldline.providers._names import read_names
from foldline.providers.local.runtime import RuntimeSettings
from foldline.providers.local.session import SMOLLM2, LocalModel
from foldline.utils._spelling import in_snake_case

__all__ = ["ChatLlamaCpp"]


LOCAL: Final = Host("local", "", needs_key=False, asks_for_usage=False)
NICKNAMES: Final = {"smollm2": SMOLLM2, "smollm": SMOLLM2}
ALIASES: Final = {
    "model_path": "model",
    "model_name": "model",
    "n_ctx": "context",
    "n_parallel": "slots",
    "n_threads": "threads",
    "n_gpu_layers": "gpu_layers",
    "chat_template": "template",
    "max_completion_tokens": "max_tokens",
}
"""Other names of LangChain's and llama.cpp's bindings -> field."""
SENT_FIELDS: Final = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "repeat_penalty",
    "max_tokens",
    "seed",
    "stop",
)
DEFAULT_SYSTEM: Final = "You are a helpful assistant."
PROFILES: Final[dict[str, Any]] = {
    "": {
        "text_inputs": True,
        "text_outputs": True,
        "tool_calling": True,
        "tool_choice": True,
        "tool_call_streaming": True,
        "structured_output": True,
        "json_mode": True,
        "open_weights": True,
    },
    SMOLLM2: {
        "max_input_tokens": 8192,
        "image_inputs": False,
        "audio_inputs": False,
        "pdf_inputs": False,
        "reasoning_output": False,
        "parallel_tool_calls": False,
    },
}
"""Name of a model -> capabilities; the empty name is any file."""


HARMLESS_FIELDS = frozenset(
    {
        "context", "foreign_blocks", "max_tokens", "min_p", "name", "output_version", "repeat_penalty", "seed", "stop",
        "system", "temperature", "top_k", "top_p",
    }
)  # fmt: skip
"""Fields of a local model that serialized data may set."""


class ChatLlamaCpp(BaseChatModel):
    """A chat model that runs in this process.

    The model is fetched and loaded on first use; instances with the same settings share it.

    ```python
    from foldline.providers.local import ChatLlamaCpp

    model = ChatLlamaCpp(model="smollm2", temperature=0, max_tokens=20)
    print("Paris" in model.invoke("What is the capital of France?").text)
    #> True
    ```
    """

    model: str = SMOLLM2
    """A name foldline can fetch (`foldline.providers.local.MODELS`), or the path of a GGUF file."""
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repeat_penalty: float | None = 1.1
    """Keeps small models from repeating themselves; unless you set it, it is off for schemas and tools."""
    max_tokens: int | None = None
    seed: int | None = None
    stop: list[str] | None = None
    system: str | None = DEFAULT_SYSTEM
    """The system message of conversations without one; None for none."""
    context: int = 8192
    """The maximum of prompt and answer tokens of each request."""
    slots: int = 2
    """How many requests are answered at the same time."""
    threads: int | None = None
    gpu_layers: int = 0
    template: str | None = None
    """A chat template (Jinja) to use instead of the file's."""
    verbose_library: bool = Field(default=False, exclude=True)
    progress: Callable[..., Any] | bool | None = Field(default=None, exclude=True, repr=False)
    """Shows the progress of the fetch: True, or a function of (bytes done, total bytes)."""
    model_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Further parameters of llama.cpp's requests: grammar, mirostat, ..."""
    foreign_blocks: ForeignBlocks = "convert"

    aliases: ClassVar[Mapping[str, str]] = ALIASES

    @model_validator(mode="before")
    @classmethod
    def _read_names(cls, values: object) -> object:
        if not isinstance(values, dict):
            return values
        settings = read_names(cls, in_snake_case(cls.model_fields, values), ALIASES)
        if isinstance(settings.get("model"), str):
            settings["model"] = NICKNAMES.get(settings["model"], settings["model"])
        return settings

    @property
    def local(self) -> LocalModel:
        """The local model with these settings; loaded on first use."""
        settings = RuntimeSettings(
            context=self.context,
            slots=self.slots,
            threads=self.threads,
            gpu_layers=self.gpu_layers,
            template=self.template,
            verbose=self.verbose_library,
        )
        return LocalModel(self.model, settings, progress=self.progress)

    async def _events(self, request: ChatRequest, run: Run) -> AsyncGenerator[Event, None]:
        body = self._encode(request)
        decoder = CompletionsDecoder(LOCAL, _chunk_error, model=self.model)
        chunk_stream = self.local.complete(body)
        async with aclosing(chunk_stream.chunks(run.io)) as chunks:
            async for chunk in chunks:
                for event in decoder.feed(chunk):  # type: ignore[arg-type]
                    yield event
        for event in decoder.end(marked=False):
            yield event

    def _encode(self, request: ChatRequest, *, is_sent: bool = True) -> dict[str, Any]:
        settings = {
            name: getattr(self, name) for name in SENT_FIELDS if getattr(self, name) is not None
        }
        is_structured = request.options.get("response_format") or request.tools
        if is_structured and "repeat_penalty" not in self.model_fields_set:
            settings["repeat_penalty"] = 1.0  # JSON legitimately repeats the prompt and itself
        if self.system and not any(
            isinstance(message, SystemMessage) for message in request.messages
        ):
            request = request.replace(messages=[SystemMessage(self.system), *request.messages])
        body = encode_completion(
            request,
            LOCAL,
            settings={"model": self.model, **settings, **self.model_kwargs},
            providers=frozenset({"local"}),
            policy=self.foreign_blocks,
            is_sent=is_sent,
        )
        body.pop("stream", None)
        return body

    def explain(
        self,
        input: object,
        config: RunnableConfig | None = None,
        *,
        stream: bool = False,
        **kwargs: object,
    ) -> Explained:
        """Return the exact request for llama.cpp without sending it; nothing is fetched."""
        prepared = drive(prepare(self, input, BLOCKING, config, kwargs, stream=stream))
        body, notes = self._encode(prepared), list(prepared.notes)
        if self.local.can_encode(body):
            body = self.local.encode(body)
        else:
            notes.append("the tool is chosen when the model is called")
        tokens = self.count_tokens(prepared.messages, prepared.tools).n
        return Explained("IN-PROCESS", f"local:{self.model}", {}, body, tokens, notes)

    # -- counting

    def get_token_ids(self, text: str) -> list[int]:
        """Return the tokens of a text; loads the model."""
        if self.custom_get_token_ids is not None:
            return self.custom_get_token_ids(text)
        return self.local.load().tokenize(text)

    def get_num_tokens_from_messages(
        self, messages: list[BaseMessage], tools: Sequence[Any] | None = None
    ) -> int:
        """Return the exact token count of the rendered prompt, tools included; loads the model."""
        return self.local.count_tokens(self._encode_prompt(messages, tools))

    def count_tokens(
        self, messages: Sequence[BaseMessage], tools: Sequence[Any] | None = None
    ) -> TokenCount:
        """Return the exact token count if the model is on disk (loads it), else an estimate."""
        local, body = self.local, self._encode_prompt(messages, tools)
        if not (local.is_on_disk and local.can_encode(body)):
            return super().count_tokens(messages, tools)
        return TokenCount(local.count_tokens(body), exact=True)

    def _encode_prompt(
        self, messages: Sequence[BaseMessage], tools: Sequence[Any] | None
    ) -> dict[str, Any]:
        options = {"tools": list(tools)} if tools else {}
        return self._encode(ChatRequest(list(messages), options=options), is_sent=False)

    @classmethod
    def loadable_fields(cls) -> frozenset[str]:
        """Return the arguments that `foldline.load` accepts from data: no path, and no template, which is code."""
        return HARMLESS_FIELDS

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Return True: models can be serialized."""
        return True

    @property
    def _provider(self) -> str:
        return "local"

    def _resolve_model_profile(self) -> ModelProfile | None:
        # Without `max_input_tokens`: `context` is the limit, and llama.cpp checks it.
        profile: Any = find_profile("local", self.model) or {}
        return cast("ModelProfile", {k: v for k, v in profile.items() if k != "max_input_tokens"})

    @property
    def _llm_type(self) -> str:
        return "llama-cpp"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        names = (*SENT_FIELDS, "model", "system", "context", "template", "model_kwargs")
        return {name: getattr(self, name) for name in names}


register_profiles("local", PROFILES)


def _chunk_error(body: object) -> ModelError:
    return ModelError(str(body), provider="local")

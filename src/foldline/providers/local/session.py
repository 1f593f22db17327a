"""`LocalModel`: a model by name or path: fetching, loading, the template and the help with tools.

All slow work happens in the thread of the answer (`complete`), so that sync and async callers wait in one place.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field, replace
from pathlib import Path

from foldline.exceptions import ModelError
from foldline.providers.local._cache import is_complete
from foldline.providers.local._chunk_stream import ChunkStream, Emit
from foldline.providers.local._prompt_state import PromptState, state_folder
from foldline.providers.local._template import tools_template
from foldline.providers.local._tools import THRESHOLD, encode_tools, keep_named_tool, needs_routing
from foldline.providers.local.fetch import MODELS, Progress, is_fetched, model_path
from foldline.providers.local.runtime import Chunk, LocalRuntime, Request, RuntimeSettings

SMOLLM2 = "smollm2-135m"
MINILM = "minilm-l6"
ENCODER = RuntimeSettings(context=512, slots=1, embedding=True)

_states: weakref.WeakKeyDictionary[LocalRuntime, PromptState] = weakref.WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model and its settings; it is loaded on first use."""

    model: str = SMOLLM2
    """A name that foldline can fetch, or the path of a GGUF file."""
    settings: RuntimeSettings = field(default_factory=RuntimeSettings)
    threshold: float = THRESHOLD
    """The minimum similarity of a question and a tool's description for an automatic call."""
    progress: Progress | bool | None = None

    @property
    def needs_help_with_tools(self) -> bool:
        """Whether tools are chosen for the model: SmolLM2 cannot choose, and its template has no tools."""
        return self.model == SMOLLM2 and self.settings.template is None

    @property
    def is_on_disk(self) -> bool:
        """Whether the file is on disk already."""
        return (
            is_fetched(self.model)
            if self.model in MODELS
            else Path(self.model).expanduser().exists()
        )

    def load(self) -> LocalRuntime:
        """Return the runtime; fetches and loads the model in the calling thread if needed."""
        settings = self.settings
        if self.needs_help_with_tools:
            settings = replace(settings, template=tools_template(), state_folder=state_folder())
        return load(self.model, settings, self.progress)

    def complete(self, request: Request) -> ChunkStream[Chunk]:
        """Start an answer and return the stream of its chunks; does not wait, even if the model must be fetched."""

        def produce(emit: Emit[Chunk]) -> None:
            runtime = self.load()
            encoded = self.encode(request)
            if not emit(None):
                if self.needs_help_with_tools:
                    _states.setdefault(runtime, PromptState(runtime)).prepare(encoded)
                runtime.produce(encoded, emit)

        return ChunkStream(produce)

    def continue_text(self, request: Request) -> ChunkStream[Chunk]:
        """Start the continuation of a prompt; does not wait, even if the model must be fetched."""

        def produce(emit: Emit[Chunk]) -> None:
            runtime = load(self.model, self.settings, self.progress)
            if not emit(None):
                runtime.produce(request, emit, is_chat=False)

        return ChunkStream(produce)

    def can_encode(self, request: Request) -> bool:
        """Whether `encode` works without fetching the encoder."""
        return not (self.needs_help_with_tools and needs_routing(request)) or is_fetched(MINILM)

    def encode(self, request: Request) -> Request:
        """Return the request as it is sent; to choose a tool it uses the encoder, and may fetch and load it."""
        if not self.needs_help_with_tools:
            return keep_named_tool(request)
        return encode_tools(request, self._embed, threshold=self.threshold)

    def count_tokens(self, request: Request) -> int:
        """Return the token count of a request as it is sent, template and tools included."""
        return self.load().count_tokens(self.encode(request))

    def _embed(self, texts: list[str]) -> list[list[float]]:
        return load(MINILM, ENCODER, self.progress).embed(texts)


def load(
    model: str | Path,
    settings: RuntimeSettings,
    progress: Progress | bool | None = None,  # noqa: FBT001  true shows a bar
) -> LocalRuntime:
    """Load a model by name or path; a damaged fetched file is fetched again."""
    if str(model) not in MODELS:
        return LocalRuntime.of(model, settings)
    fetched_model = MODELS[str(model)]
    try:
        return LocalRuntime.of(model_path(fetched_model.name, progress), settings)
    except ModelError:
        if is_complete(
            fetched_model.path, fetched_model.sha256, fetched_model.size, thoroughly=True
        ):
            raise
        return LocalRuntime.of(model_path(fetched_model.name, progress, verify=True), settings)

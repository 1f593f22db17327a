"""A model by name or path, ready to be asked: fetching, loading, the template and the help with tools in one place.

Everything slow happens in the thread of the answer (`complete`), so the caller waits in one place, in its own colour.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field, replace
from pathlib import Path

from foldline.exceptions import ModelError
from foldline.providers.local._bridge import Emit, Feed
from foldline.providers.local._cache import is_complete
from foldline.providers.local.fetch import MODELS, Progress, is_fetched, model_path
from foldline.providers.local.prompt_state import PromptState, state_folder
from foldline.providers.local.runtime import Chunk, Request, Runtime, Settings
from foldline.providers.local.template import tools_template
from foldline.providers.local.tools import THRESHOLD, encode_tools, keep_named_tool, needs_routing

SMOLLM2 = "smollm2-135m"
MINILM = "minilm-l6"
ENCODER = Settings(context=512, slots=1, embedding=True)

_states: weakref.WeakKeyDictionary[Runtime, PromptState] = weakref.WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class LocalModel:
    """What to load and how; loading happens when it is first asked."""

    model: str = SMOLLM2
    """A name foldline can fetch, or the path of a GGUF file."""
    settings: Settings = field(default_factory=Settings)
    threshold: float = THRESHOLD
    """How near a question must be to a tool's description for an automatic call."""
    progress: Progress | bool | None = None

    @property
    def needs_help_with_tools(self) -> bool:
        """SmolLM2 has no tools in its own template and cannot choose; larger models have and can."""
        return self.model == SMOLLM2 and self.settings.template is None

    @property
    def is_here(self) -> bool:
        """Whether the file need not be fetched."""
        return (
            is_fetched(self.model)
            if self.model in MODELS
            else Path(self.model).expanduser().exists()
        )

    def load(self) -> Runtime:
        """Return the runtime, fetching and loading in the calling thread what is not there yet."""
        settings = self.settings
        if self.needs_help_with_tools:
            settings = replace(settings, template=tools_template(), state_folder=state_folder())
        return load(self.model, settings, self.progress)

    def complete(self, request: Request) -> Feed[Chunk]:
        """Start an answer, given as chunks while it is spoken; returns at once, also when the model must be fetched."""

        def produce(emit: Emit[Chunk]) -> None:
            runtime = self.load()
            sent = self.encode(request)
            if not emit(None):
                if self.needs_help_with_tools:
                    _states.setdefault(runtime, PromptState(runtime)).prepare(sent)
                runtime.produce(sent, emit)

        return Feed(produce)

    def continue_text(self, request: Request) -> Feed[Chunk]:
        """Start the continuation of a prompt; returns at once, also when the model must be fetched."""

        def produce(emit: Emit[Chunk]) -> None:
            runtime = load(self.model, self.settings, self.progress)
            if not emit(None):
                runtime.produce(request, emit, is_chat=False)

        return Feed(produce)

    def can_encode(self, request: Request) -> bool:
        """Whether `encode` fetches nothing: it needs no encoder, or the encoder is here."""
        return not (self.needs_help_with_tools and needs_routing(request)) or is_fetched(MINILM)

    def encode(self, request: Request) -> Request:
        """Return the request as it is sent; with automatic tools it asks the encoder, and so may fetch and load it."""
        if not self.needs_help_with_tools:
            return keep_named_tool(request)
        return encode_tools(request, self._embed, threshold=self.threshold)

    def count_tokens(self, request: Request) -> int:
        """Count the prompt of a request as it is sent, template and tools included."""
        return self.load().count_tokens(self.encode(request))

    def _embed(self, texts: list[str]) -> list[list[float]]:
        return load(MINILM, ENCODER, self.progress).embed(texts)


def load(
    model: str | Path,
    settings: Settings,
    progress: Progress | bool | None = None,  # noqa: FBT001  true shows a bar
) -> Runtime:
    """Load a model by name or path; a fetched file that turns out to be damaged is fetched again."""
    if str(model) not in MODELS:
        return Runtime.of(model, settings)
    known = MODELS[str(model)]
    try:
        return Runtime.of(model_path(known.name, progress), settings)
    except ModelError:
        if is_complete(known.path, known.sha256, known.size, thoroughly=True):
            raise
        return Runtime.of(model_path(known.name, progress, verify=True), settings)

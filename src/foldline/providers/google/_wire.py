"""Types of the JSON that `generateContent` sends. No field is required, because none is always present.

A chunk of a stream and an answer have the same form. Parts are plain JSON: the field that is set is their kind.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from typing_extensions import TypedDict

Part: TypeAlias = dict[str, Any]


class Content(TypedDict, total=False):
    """The parts of a turn."""

    role: str
    parts: list[Part] | None


class Candidate(TypedDict, total=False):
    """One of several answers."""

    index: int | None
    content: Content | None
    finishReason: str | None
    finishMessage: str | None
    safetyRatings: list[dict[str, Any]] | None
    groundingMetadata: dict[str, Any] | None
    citationMetadata: dict[str, Any] | None
    urlContextMetadata: dict[str, Any] | None
    avgLogprobs: float | None
    logprobsResult: dict[str, Any] | None
    tokenCount: int | None


class UsageMetadata(TypedDict, total=False):
    """Token counts; running totals in a stream."""

    promptTokenCount: int | None
    candidatesTokenCount: int | None
    thoughtsTokenCount: int | None
    toolUsePromptTokenCount: int | None
    cachedContentTokenCount: int | None
    totalTokenCount: int | None
    promptTokensDetails: list[dict[str, Any]] | None
    candidatesTokensDetails: list[dict[str, Any]] | None


class Chunk(TypedDict, total=False):
    """A chunk of a stream, or an answer."""

    candidates: list[Candidate] | None
    promptFeedback: dict[str, Any] | None
    usageMetadata: UsageMetadata | None
    modelVersion: str | None
    responseId: str | None
    createTime: str | None
    error: Any


CHUNK_FIELDS: Final = frozenset(
    {"candidates", "usageMetadata", "modelVersion", "responseId", "error"}
)
"""Fields of a chunk that are read; all others are kept as response metadata."""
CANDIDATE_FIELDS: Final = frozenset({"content", "index", "finishReason", "logprobsResult"})
CODE: Final = "code_interpreter"
"""Our name of code execution, the same for all providers."""
GENERATED_ID_PREFIX: Final = "gemini-call-"
"""The prefix of ids generated here because Gemini sent none; they are not sent back."""

GENERATION: Final = {
    "candidate_count": "candidateCount",
    "frequency_penalty": "frequencyPenalty",
    "image_config": "imageConfig",
    "max_output_tokens": "maxOutputTokens",
    "max_tokens": "maxOutputTokens",
    "media_resolution": "mediaResolution",
    "modalities": "responseModalities",
    "n": "candidateCount",
    "presence_penalty": "presencePenalty",
    "response_mime_type": "responseMimeType",
    "response_modalities": "responseModalities",
    "seed": "seed",
    "speech_config": "speechConfig",
    "stop": "stopSequences",
    "temperature": "temperature",
    "thinking_config": "thinkingConfig",
    "top_k": "topK",
    "top_logprobs": "logprobs",
    "top_p": "topP",
}
"""Option -> its name in `generationConfig`."""
BODY: Final = {"cached_content": "cachedContent", "labels": "labels", "service_tier": "serviceTier"}
"""Option -> its name in the body."""
SERVER_TOOLS: Final = {
    "code_execution": "codeExecution",
    "computer_use": "computerUse",
    "enterprise_web_search": "enterpriseWebSearch",
    "file_search": "fileSearch",
    "google_maps": "googleMaps",
    "google_search": "googleSearch",
    "google_search_retrieval": "googleSearchRetrieval",
    "url_context": "urlContext",
    "retrieval": "retrieval",
}
"""Server tool -> its name in the API."""


def camel(name: str) -> str:
    """Return a name in camel case: `max_output_tokens` -> `maxOutputTokens`."""
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def camel_keys(value: object) -> Any:  # noqa: ANN401  JSON of the same type as the value
    """Return a value with all keys in camel case, at every depth."""
    if isinstance(value, dict):
        return {
            camel(key) if isinstance(key, str) else key: camel_keys(item)
            for key, item in value.items()
        }
    return [camel_keys(item) for item in value] if isinstance(value, list) else value


def dicts(value: object) -> list[dict[str, Any]]:
    """Return the objects in a list; [] if it is not a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []

"""The JSON of `generateContent`, as types: what Gemini sends. Nothing is required, for no field always comes.

A chunk of a stream and a whole answer have one shape. Parts are plain JSON: which field is there says what they are.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from typing_extensions import TypedDict

Part: TypeAlias = dict[str, Any]


class Content(TypedDict, total=False):
    """What somebody says: parts in order."""

    role: str
    parts: list[Part] | None


class Candidate(TypedDict, total=False):
    """One of the answers."""

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
    """Counts of tokens, running totals in a stream."""

    promptTokenCount: int | None
    candidatesTokenCount: int | None
    thoughtsTokenCount: int | None
    toolUsePromptTokenCount: int | None
    cachedContentTokenCount: int | None
    totalTokenCount: int | None
    promptTokensDetails: list[dict[str, Any]] | None
    candidatesTokensDetails: list[dict[str, Any]] | None


class Chunk(TypedDict, total=False):
    """A chunk of a stream, or a whole answer."""

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
"""The name of Gemini's own code execution, as every provider's is called here."""
MADE_ID: Final = "gemini-call-"
"""How ids begin that were made here, because Gemini gave none: they are not sent back."""

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
"""Options that are written to `generationConfig`, and their names there."""
BODY: Final = {"cached_content": "cachedContent", "labels": "labels", "service_tier": "serviceTier"}
"""Options that are written to the body, and their names there."""
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
"""Gemini's own tools, in Python's spelling and in that of the wire."""


def camel(name: str) -> str:
    """Spell a name as the wire does: `max_output_tokens` -> `maxOutputTokens`."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def camel_keys(value: object) -> Any:  # noqa: ANN401  the same kind of JSON as was given
    """Spell the keys of an option as the wire does, at every depth."""
    if isinstance(value, dict):
        return {
            camel(key) if isinstance(key, str) else key: camel_keys(item)
            for key, item in value.items()
        }
    return [camel_keys(item) for item in value] if isinstance(value, list) else value


def dicts(value: object) -> list[dict[str, Any]]:
    """Return the objects of a list; what is neither counts for nothing."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []

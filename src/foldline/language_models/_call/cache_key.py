"""The cache key of a model call: two strings, which contain no secrets.

A model is identified by its class and by its `_identifying_params`; if its author defined none, by all its fields
except those excluded from dumps.
"""

from __future__ import annotations

from typing import Any, Protocol, cast

from pydantic import BaseModel

from foldline.caches.base import BaseCache
from foldline.language_models._call.request import ChatRequest
from foldline.load import dumpd
from foldline.utils.json import dumps_canonical, to_jsonable

IGNORED_MESSAGE_FIELDS = frozenset({"id"})
"""Fields of a message that do not affect the answer."""
IGNORED_MODEL_FIELDS = frozenset({"name", "verbose", "callbacks", "tags", "metadata", "cache"})
"""Fields of a model that do not affect the answer."""


class KeyedModel(Protocol):
    """The parts of a model that its cache key needs."""

    cache: BaseCache | bool | None

    @property
    def _llm_type(self) -> str: ...
    @property
    def _identifying_params(self) -> dict[str, Any]: ...
    @property
    def _untraced_params(self) -> dict[str, Any]: ...
    @classmethod
    def is_lc_serializable(cls) -> bool: ...


def cache_key(model: KeyedModel, request: ChatRequest, policies: object = None) -> tuple[str, str]:
    """Return (prompt, model) as text, with every message and option in one or the other.

    `policies` distinguishes answers that had to pass checks or guards from others.
    """
    messages = [
        {
            key: value
            for key, value in message.model_dump(exclude_none=True).items()
            if key not in IGNORED_MESSAGE_FIELDS
        }
        for message in request.messages
    ]
    return (
        dumps_canonical(to_jsonable(messages)),
        text_model_key(
            model,
            request.stop,
            request.options if policies is None else {**request.options, "policies": policies},
        ),
    )


def text_model_key(model: KeyedModel, stop: list[str] | None, options: dict[str, Any]) -> str:
    """Return the text that identifies a model and its options."""
    key_parts = {**_identity(model), "stop": stop, "options": to_jsonable(options)}
    return dumps_canonical(key_parts)


def _identity(model: KeyedModel) -> dict[str, Any]:
    identity = {
        "class": f"{type(model).__module__}.{type(model).__qualname__}",
        "type": model._llm_type,
        "params": to_jsonable(model._identifying_params),
    }
    if untraced := model._untraced_params:
        identity["unsaid"] = to_jsonable(untraced)
    if model.is_lc_serializable():
        return {**identity, "model": to_jsonable(dumpd(model))}
    if model._identifying_params:
        return identity
    fields = {name: getattr(model, name) for name, field in _fields(model) if not field.exclude}
    return {**identity, "fields": to_jsonable(fields)}


def _fields(model: KeyedModel) -> list[tuple[str, Any]]:
    model_fields = cast("type[BaseModel]", type(model)).model_fields
    return [
        (name, field) for name, field in model_fields.items() if name not in IGNORED_MODEL_FIELDS
    ]

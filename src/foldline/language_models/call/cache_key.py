"""What tells one model call from another: the two strings a cache is keyed by. Secrets are no part of them.

A model is told from another by its class and by its `_identifying_params`; where its author wrote none, by all its
fields but those excluded from dumps.
"""

from __future__ import annotations

from typing import Any, Protocol, cast

from pydantic import BaseModel

from foldline.caches.base import BaseCache
from foldline.language_models.call.request import ChatRequest
from foldline.load import dumpd
from foldline.utils.json import dumps_canonical, to_jsonable

UNSAID = frozenset({"id"})
"""Fields of a message that change without its words changing."""
SHARED = frozenset({"name", "verbose", "callbacks", "tags", "metadata", "cache"})
"""Fields of a model that change nothing of what it says."""


class KeyedModel(Protocol):
    """A model as a cache knows it."""

    cache: BaseCache | bool | None

    @property
    def _llm_type(self) -> str: ...
    @property
    def _identifying_params(self) -> dict[str, Any]: ...
    @property
    def _unsaid_params(self) -> dict[str, Any]: ...
    @classmethod
    def is_lc_serializable(cls) -> bool: ...


def cache_key(model: KeyedModel, request: ChatRequest, policies: object = None) -> tuple[str, str]:
    """Return (prompt, model) as text: every message and option on one side or the other.

    `policies` tells answers that had to pass checks or guards from others.
    """
    messages = [
        {
            key: value
            for key, value in message.model_dump(exclude_none=True).items()
            if key not in UNSAID
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
    """Return what tells a model and its options from others, as text."""
    asked = {**_identity(model), "stop": stop, "options": to_jsonable(options)}
    return dumps_canonical(asked)


def _identity(model: KeyedModel) -> dict[str, Any]:
    kind = {
        "class": f"{type(model).__module__}.{type(model).__qualname__}",
        "type": model._llm_type,
        "params": to_jsonable(model._identifying_params),
    }
    if unsaid := model._unsaid_params:
        kind["unsaid"] = to_jsonable(unsaid)
    if model.is_lc_serializable():
        return {**kind, "model": to_jsonable(dumpd(model))}
    if model._identifying_params:
        return kind
    fields = {name: getattr(model, name) for name, field in _fields(model) if not field.exclude}
    return {**kind, "fields": to_jsonable(fields)}


def _fields(model: KeyedModel) -> list[tuple[str, Any]]:
    known = cast("type[BaseModel]", type(model)).model_fields
    return [(name, field) for name, field in known.items() if name not in SHARED]

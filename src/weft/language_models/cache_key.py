"""What tells one model call from another: the two strings a cache is keyed by. Secrets are no part of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.language_models.request import ChatRequest
from weft.load import dumpd
from weft.utils.json import dumps_canonical, to_jsonable

if TYPE_CHECKING:
    from weft.language_models.chat_models import BaseChatModel

UNSAID = frozenset({"id"})
"""Fields of a message that change without its words changing."""


def cache_key(model: BaseChatModel, request: ChatRequest) -> tuple[str, str]:
    """Give (prompt, model) as text: every message and option on one side or the other."""
    messages = [
        {key: value for key, value in message.model_dump(exclude_none=True).items() if key not in UNSAID}
        for message in request.messages
    ]
    asked = {
        "model": to_jsonable(dumpd(model)),
        "params": to_jsonable(model._identifying_params),
        "stop": request.stop,
        "options": to_jsonable(request.options),
    }
    return dumps_canonical(to_jsonable(messages)), dumps_canonical(asked)

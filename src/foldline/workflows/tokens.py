"""`TokenHandler`: sends what models inside a node or a flow say to `stream_mode="messages"`, piece by piece."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from foldline.callbacks.base import BaseCallbackHandler
from foldline.messages import BaseMessage, ToolMessage
from foldline.outputs import LLMResult
from foldline.tracers._streaming import StreamingHandler
from foldline.workflows.events import FlowEvent

__all__ = ["NO_STREAM", "TokenHandler"]

NO_STREAM = ("nostream", "langsmith:nostream")
"""A model run with such a tag is not streamed."""


class TokenHandler(BaseCallbackHandler, StreamingHandler):
    """Listens to the models that a node or a flow calls."""

    run_inline = True

    def __init__(
        self,
        say: Callable[[FlowEvent], None],
        namespace: tuple[str, ...],
        about: Callable[[], dict[str, Any] | None],
    ) -> None:
        """Listen; `about` describes where a model is called, and gives None for one that somebody else listens to."""
        self._say = say
        self._namespace = namespace
        self._about = about
        self._runs: dict[UUID, dict[str, Any]] = {}
        self._seen: set[str | None] = set()

    def on_chat_model_start(
        self, serialized: object, messages: object, *, run_id: UUID, tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None, **kwargs: object,
    ) -> None:  # fmt: skip
        """Begin to listen to a model."""
        about = self._about()
        if about is not None and not any(tag in NO_STREAM for tag in tags or ()):
            self._runs[run_id] = {**(metadata or {}), "tags": tags or [], **about}

    def on_llm_new_token(
        self, token: object, *, chunk: object = None, run_id: UUID, **kwargs: object
    ) -> None:
        """Send a piece."""
        about = self._runs.get(run_id)
        message = getattr(chunk, "message", None)
        if about is not None and message is not None:
            self._seen.add(message.id)
            about["streamed"] = True
            self._send(message, about)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: object) -> None:
        """Send the whole answer, where no piece came."""
        about = self._runs.pop(run_id, None)
        message = (
            getattr(response.generations[0][0], "message", None) if response.generations else None
        )
        if about is None or message is None:
            return
        if not about.get("streamed") and message.id not in self._seen:
            self._send(message, about)
        self._seen.add(message.id)

    def publish_other_messages(self, update: dict[str, Any]) -> None:
        """Send the messages of a node's update that no model streamed; tools' messages go with the update itself."""
        for value in update.values():
            for message in value if isinstance(value, list | tuple) else [value]:
                if (
                    isinstance(message, BaseMessage)
                    and not isinstance(message, ToolMessage)
                    and message.id not in self._seen
                ):
                    self._seen.add(message.id)
                    self._send(message, self._about() or {})

    def _send(self, message: BaseMessage, about: dict[str, Any]) -> None:
        shown = {key: value for key, value in about.items() if key != "streamed"}
        node = about.get("langgraph_node")
        self._say(FlowEvent("tokens", self._namespace, node, (message, shown)))

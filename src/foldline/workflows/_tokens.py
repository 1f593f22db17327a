"""`TokenHandler`: sends the chunks of models inside a node or a flow to `stream_mode="messages"`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from foldline.callbacks.base import BaseCallbackHandler
from foldline.messages import BaseMessage, ToolMessage
from foldline.outputs import LLMResult
from foldline.tracers._streaming import StreamingHandler
from foldline.workflows._run_events import FlowEvent

__all__ = ["NO_STREAM", "TokenHandler"]

NO_STREAM = ("nostream", "langsmith:nostream")
"""A model run with such a tag is not streamed."""


class TokenHandler(BaseCallbackHandler, StreamingHandler):
    """Receives the chunks of the models that a node or a flow calls."""

    run_inline = True

    def __init__(
        self,
        emit: Callable[[FlowEvent], None],
        namespace: tuple[str, ...],
        call_metadata: Callable[[], dict[str, Any] | None],
    ) -> None:
        """Set where events go; `call_metadata` describes a model call, or returns None if another handler sends it."""
        self._emit = emit
        self._namespace = namespace
        self._call_metadata = call_metadata
        self._runs: dict[UUID, dict[str, Any]] = {}
        self._sent_ids: set[str | None] = set()

    def on_chat_model_start(
        self, serialized: object, messages: object, *, run_id: UUID, tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None, **kwargs: object,
    ) -> None:  # fmt: skip
        """Record the start of a model call."""
        call_metadata = self._call_metadata()
        if call_metadata is not None and not any(tag in NO_STREAM for tag in tags or ()):
            self._runs[run_id] = {**(metadata or {}), "tags": tags or [], **call_metadata}

    def on_llm_new_token(
        self, token: object, *, chunk: object = None, run_id: UUID, **kwargs: object
    ) -> None:
        """Send a chunk."""
        metadata = self._runs.get(run_id)
        message = getattr(chunk, "message", None)
        if metadata is not None and message is not None:
            self._sent_ids.add(message.id)
            metadata["streamed"] = True
            self._send(message, metadata)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: object) -> None:
        """Send the complete message if no chunk was sent."""
        metadata = self._runs.pop(run_id, None)
        message = (
            getattr(response.generations[0][0], "message", None) if response.generations else None
        )
        if metadata is None or message is None:
            return
        if not metadata.get("streamed") and message.id not in self._sent_ids:
            self._send(message, metadata)
        self._sent_ids.add(message.id)

    def publish_other_messages(self, update: dict[str, Any]) -> None:
        """Send the messages of a node's update that no model streamed; tool messages are sent with the update."""
        for value in update.values():
            for message in value if isinstance(value, list | tuple) else [value]:
                if (
                    isinstance(message, BaseMessage)
                    and not isinstance(message, ToolMessage)
                    and message.id not in self._sent_ids
                ):
                    self._sent_ids.add(message.id)
                    self._send(message, self._call_metadata() or {})

    def _send(self, message: BaseMessage, metadata: dict[str, Any]) -> None:
        public = {key: value for key, value in metadata.items() if key != "streamed"}
        node = metadata.get("langgraph_node")
        self._emit(FlowEvent("tokens", self._namespace, node, (message, public)))

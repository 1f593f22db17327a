"""The events of handlers, one method each; public as `foldline.callbacks.base`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

from foldline.utils._short_repr import short_repr

if TYPE_CHECKING:
    from foldline.documents.base import Document
    from foldline.messages.base import BaseMessage
    from foldline.outputs import ChatGenerationChunk, GenerationChunk, LLMResult
    from foldline.outputs.agent import AgentAction, AgentFinish
    from foldline.protocol.events import Event

Metadata: TypeAlias = dict[str, Any]


class LLMManagerMixin:
    """Events while a model runs."""

    def on_llm_new_token(
        self,
        token: str,
        *,
        chunk: GenerationChunk | ChatGenerationChunk | None = None,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        **kwargs: object,
    ) -> object:
        """A piece of the answer arrived (v1 streaming)."""

    def on_stream_event(
        self,
        event: Event,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        **kwargs: object,
    ) -> object:
        """A content-block event arrived (v2 streaming)."""

    def on_model_request(
        self,
        request: object,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        **kwargs: Any,
    ) -> object:
        """A request is about to be sent (`foldline.transports.Request`; its headers hold the key)."""

    def on_llm_end(
        self,
        response: LLMResult,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        **kwargs: object,
    ) -> object:
        """The model finished."""

    def on_llm_error(
        self,
        error: BaseException,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        **kwargs: object,
    ) -> object:
        """The model failed; `error.partial` holds what had arrived."""


class ChainManagerMixin:
    """Events while a chain or an agent runs."""

    def on_chain_end(
        self, outputs: object, *, run_id: UUID, parent_run_id: UUID | None = None, **kwargs: object
    ) -> object:
        """The chain finished."""

    def on_chain_error(
        self,
        error: BaseException,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **kwargs: object,
    ) -> object:
        """The chain failed."""

    def on_agent_action(
        self, action: AgentAction, *, run_id: UUID, parent_run_id: UUID | None = None, **kwargs: Any
    ) -> object:
        """An agent chose a tool."""

    def on_agent_finish(
        self, finish: AgentFinish, *, run_id: UUID, parent_run_id: UUID | None = None, **kwargs: Any
    ) -> object:
        """An agent gave its answer."""


class ToolManagerMixin:
    """Events while a tool runs."""

    def on_tool_end(
        self, output: object, *, run_id: UUID, parent_run_id: UUID | None = None, **kwargs: Any
    ) -> object:
        """The tool returned."""

    def on_tool_error(
        self,
        error: BaseException,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **kwargs: object,
    ) -> object:
        """The tool raised."""


class RetrieverManagerMixin:
    """Events while a retriever runs."""

    def on_retriever_end(
        self,
        documents: Sequence[Document],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **kwargs: object,
    ) -> object:
        """The retriever returned documents."""

    def on_retriever_error(
        self,
        error: BaseException,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **kwargs: object,
    ) -> object:
        """The retriever failed."""


class CallbackManagerMixin:
    """Events that begin a run."""

    __repr__ = short_repr

    def on_llm_start(
        self,
        serialized: dict[str, Any],
        prompts: list[str],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        metadata: Metadata | None = None,
        **kwargs: object,
    ) -> object:
        """A text model starts."""

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        metadata: Metadata | None = None,
        **kwargs: object,
    ) -> object:
        """A chat model starts; a handler without this gets `on_llm_start` with the messages as text."""
        raise NotImplementedError(f"{type(self).__name__} does not implement on_chat_model_start")

    def on_retriever_start(
        self,
        serialized: dict[str, Any],
        query: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        metadata: Metadata | None = None,
        **kwargs: object,
    ) -> object:
        """A retriever starts."""

    def on_chain_start(
        self,
        serialized: dict[str, Any],
        inputs: object,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        metadata: Metadata | None = None,
        **kwargs: Any,
    ) -> object:
        """A chain starts."""

    def on_tool_start(
        self,
        serialized: dict[str, Any],
        input_str: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        metadata: Metadata | None = None,
        inputs: dict[str, Any] | None = None,
        **kwargs: object,
    ) -> object:
        """A tool starts."""


class RunManagerMixin:
    """Events any run may have."""

    __repr__ = short_repr

    def on_text(
        self, text: str, *, run_id: UUID, parent_run_id: UUID | None = None, **kwargs: Any
    ) -> object:
        """A text about the run, for people."""

    def on_retry(
        self,
        retry_state: object,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **kwargs: object,
    ) -> object:
        """The run failed and is tried again."""

    def on_custom_event(
        self,
        name: str,
        data: object,
        *,
        run_id: UUID,
        tags: list[str] | None = None,
        metadata: Metadata | None = None,
        **kwargs: object,
    ) -> object:
        """An event of the application's own (`dispatch_custom_event`)."""

"""`SimpleChatModel`: the smallest interface for an author."""

from __future__ import annotations

from foldline.exceptions import UsageError
from foldline.language_models.base_chat_model import BaseChatModel
from foldline.messages import AIMessage, BaseMessage
from foldline.outputs import ChatGeneration, ChatResult

__all__ = ["SimpleChatModel"]


class SimpleChatModel(BaseChatModel):
    """A chat model whose author writes `_call`: messages in, text out."""

    def _call(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: object = None,
        **kwargs: object,
    ) -> str:
        raise NotImplementedError(f"{type(self).__name__} must implement `_call`")

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: object = None,
        **kwargs: object,
    ) -> ChatResult:
        text = self._call(messages, stop=stop, run_manager=run_manager, **kwargs)
        if not isinstance(text, str):
            raise UsageError(
                f"{type(self).__name__}._call must return text, not {type(text).__name__}"
            )
        return ChatResult(generations=[ChatGeneration(message=AIMessage(content=text))])

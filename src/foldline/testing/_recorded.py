"""`RecordedChatModel`: a chat model with the answers of a trace, for tests that `foldline traces --export` writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from pydantic import PrivateAttr

from foldline.exceptions import UsageError
from foldline.language_models.chat_models import BaseChatModel
from foldline.load import load
from foldline.messages import AIMessage, BaseMessage
from foldline.outputs import ChatGeneration, ChatResult

__all__ = ["RecordedChatModel"]


class RecordedChatModel(BaseChatModel):
    """Answers each recorded question with its recorded answer; any other question is an error.

    ```python
    from foldline.load import dumpd
    from foldline.messages import AIMessage, HumanMessage
    from foldline.testing._recorded import RecordedChatModel

    call = {"messages": [dumpd(HumanMessage("1+1?"))], "answer": dumpd(AIMessage("2"))}
    model = RecordedChatModel.of([call])
    print(model.invoke("1+1?").text, model.calls_left)
    #> 2 0
    ```
    """

    _calls: list[tuple[list[BaseMessage], AIMessage]] = PrivateAttr(default_factory=list)

    @classmethod
    def of(cls, calls: Sequence[dict[str, Any]]) -> Self:
        """Make a model of recorded calls: `messages` and `answer`, each as `dumpd` writes it."""
        model = cls()
        model._calls = [(load(call["messages"]), load(call["answer"])) for call in calls]
        return model

    @property
    def calls_left(self) -> int:
        """How many recorded calls have not been replayed."""
        return len(self._calls)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: object = None,
        **kwargs: object,
    ) -> ChatResult:
        question = [_comparable(message) for message in messages]
        for index, (recorded_question, answer) in enumerate(self._calls):
            if [_comparable(message) for message in recorded_question] == question:
                del self._calls[index]
                return ChatResult(generations=[ChatGeneration(message=answer)])
        last = str(messages[-1].text)[:200] if messages else ""
        raise UsageError(
            f"the recording has no answer to these {len(messages)} messages, the last of which is {last!r}: "
            f"{len(self._calls)} recorded calls are left; record the run anew if the prompt was changed"
        )

    @property
    def _llm_type(self) -> str:
        return "recorded"


def _comparable(message: BaseMessage) -> tuple[Any, ...]:
    calls = [(call["name"], call["args"]) for call in getattr(message, "tool_calls", [])]
    return message.type, message.content, calls, getattr(message, "tool_call_id", None)

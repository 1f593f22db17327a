"""`RecordedChatModel`: a chat model that answers as a trace has it, for tests that `foldline traces --export` makes."""

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
    """Answers each recorded question with its recorded answer; whatever else it is asked is an error.

    ```python
    from foldline.load import dumpd
    from foldline.messages import AIMessage, HumanMessage
    from foldline.testing.recorded import RecordedChatModel

    call = {"messages": [dumpd(HumanMessage("1+1?"))], "answer": dumpd(AIMessage("2"))}
    model = RecordedChatModel.of([call])
    print(model.invoke("1+1?").text, model.calls_left)
    #> 2 0
    ```
    """

    _calls: list[tuple[list[BaseMessage], AIMessage]] = PrivateAttr(default_factory=list)

    @classmethod
    def of(cls, calls: Sequence[dict[str, Any]]) -> Self:
        """Make it of recorded calls: `messages` and `answer`, each as `dumpd` writes it."""
        model = cls()
        model._calls = [(load(call["messages"]), load(call["answer"])) for call in calls]
        return model

    @property
    def calls_left(self) -> int:
        """How many recorded calls were not asked for yet."""
        return len(self._calls)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: object = None,
        **kwargs: object,
    ) -> ChatResult:
        asked = [_essence(message) for message in messages]
        for place, (question, answer) in enumerate(self._calls):
            if [_essence(message) for message in question] == asked:
                del self._calls[place]
                return ChatResult(generations=[ChatGeneration(message=answer)])
        last = str(messages[-1].text)[:200] if messages else ""
        raise UsageError(
            f"the recording has no answer to these {len(messages)} messages, the last of which is {last!r}: "
            f"{len(self._calls)} recorded calls are left; record the run anew if the prompt was changed"
        )

    @property
    def _llm_type(self) -> str:
        return "recorded"


def _essence(message: BaseMessage) -> tuple[Any, ...]:
    calls = [(call["name"], call["args"]) for call in getattr(message, "tool_calls", [])]
    return message.type, message.content, calls, getattr(message, "tool_call_id", None)

"""For tests: models with scripted answers, recording and replay of a provider's wire, a kit for authors of models.

`ScriptedChatModel` streams, fails, stalls and calls tools as its script says. `foldline.testing.replay` records a real
provider's answers and replays them. `foldline.testing.conformance` (which needs pytest) has the classes that an author
of a chat model subclasses.
"""

from foldline.testing.models import (
    Call,
    Fail,
    Finish,
    Reason,
    ScriptedChatModel,
    Stall,
    Step,
)

FakeChatModel = ScriptedChatModel

__all__ = [
    "Call",
    "Fail",
    "FakeChatModel",
    "Finish",
    "Reason",
    "ScriptedChatModel",
    "Stall",
    "Step",
]


def __dir__() -> list[str]:
    return sorted(__all__)

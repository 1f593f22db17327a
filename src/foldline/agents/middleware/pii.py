"""`PIIMiddleware`: finds personal data in messages and redacts, masks, hashes or blocks it.

A model's answer is changed when it is complete: a caller that streams the run has seen the original.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypedDict

from foldline._run import Run
from foldline.agents.middleware.base import AgentMiddleware, State, Update
from foldline.agents.runtime import Runtime
from foldline.exceptions import SecurityError, UsageError
from foldline.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from foldline.utils._options import check_options
from foldline.utils._short_repr import short_repr

__all__ = ["PIIDetectionError", "PIIMatch", "PIIMiddleware", "RedactionRule"]

Strategy = Literal["block", "redact", "mask", "hash"]


class PIIMatch(TypedDict):
    """A piece of personal data, and where it is."""

    type: str
    value: str
    start: int
    end: int


Detector = Callable[[str], Sequence[PIIMatch]]


class PIIDetectionError(SecurityError):
    """Personal data was found where none may be; the error does not repeat it."""

    def __init__(self, pii_type: str, matches: Sequence[PIIMatch]) -> None:
        self.pii_type = pii_type
        self.matches = list(matches)
        super().__init__(
            f"found {len(self.matches)} {pii_type} in the messages, which are not sent"
        )


PATTERNS: dict[str, re.Pattern[str]] = {
    "email": re.compile(
        r"(?<![\w.+-])[\w.+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8}"
    ),
    "credit_card": re.compile(r"(?<!\d)\d(?:[ -]?\d){12,18}(?!\d)"),
    "ip": re.compile(r"(?<![\w.:])(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9A-Fa-f:]{3,39})(?![\w:])"),
    "mac_address": re.compile(r"(?<![\w:-])[0-9A-Fa-f]{2}(?:[:-][0-9A-Fa-f]{2}){5}(?![\w:-])"),
    "url": re.compile(r"\b(?:https?://|www\.)[^\s<>\"']{3,2000}"),
}


def _luhn(text: str) -> bool:
    digits = [int(char) for char in text if char.isdigit()][::-1]
    checksum_digits = [
        digit * 2 - 9 * (digit > 4) if index % 2 else digit for index, digit in enumerate(digits)
    ]
    return len(digits) >= 13 and sum(checksum_digits) % 10 == 0


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


CHECKS: dict[str, Callable[[str], bool]] = {"credit_card": _luhn, "ip": _is_address}


class RedactionRule:
    """What to detect, and how to replace it."""

    __repr__ = short_repr

    def __init__(
        self, pii_type: str, strategy: Strategy = "redact", detector: Detector | str | None = None
    ) -> None:
        """Name a built-in kind, or pass a detector: a function or a regular expression."""
        if detector is None and pii_type not in PATTERNS:
            raise UsageError(
                f"pii_type={pii_type!r}: foldline has detectors for {', '.join(PATTERNS)}; for others pass detector="
            )
        if strategy not in ("block", "redact", "mask", "hash"):
            raise UsageError(f'strategy={strategy!r}: "block", "redact", "mask" or "hash"')
        self.pii_type = pii_type
        self.strategy = strategy
        pattern = re.compile(detector) if isinstance(detector, str) else PATTERNS.get(pii_type)
        self._detect: Detector = detector if callable(detector) else self._by_pattern(pattern)  # type: ignore[arg-type]

    def _by_pattern(self, pattern: re.Pattern[str]) -> Detector:
        check = CHECKS.get(self.pii_type)

        def detect(text: str) -> list[PIIMatch]:
            return [
                PIIMatch(
                    type=self.pii_type, value=match.group(), start=match.start(), end=match.end()
                )
                for match in pattern.finditer(text)
                if check is None or check(match.group())
            ]

        return detect

    def apply(self, text: str) -> str:
        """Return a text with the personal data replaced."""
        matches = sorted(self._detect(text), key=lambda match: match["start"])
        if not matches:
            return text
        if self.strategy == "block":
            raise PIIDetectionError(self.pii_type, matches)
        pieces, position = [], 0
        for match in matches:
            if match["start"] < position:
                continue  # inside the previous match
            pieces += [text[position : match["start"]], self._replacement(match["value"])]
            position = match["end"]
        return "".join([*pieces, text[position:]])

    def _replacement(self, value: str) -> str:
        if self.strategy == "hash":
            return f"<{self.pii_type}_hash:{hashlib.sha256(value.encode()).hexdigest()[:8]}>"
        if self.strategy == "mask":
            last_characters = "".join(char for char in value if char.isalnum())[-4:]
            return f"****{last_characters}" if len(value) > 8 else "****"
        return f"[REDACTED_{self.pii_type.upper()}]"


class PIIMiddleware(AgentMiddleware):
    """Keep one kind of personal data from the model, from the answer, or from tool results."""

    @check_options()
    def __init__(
        self,
        pii_type: str,
        *,
        strategy: Strategy = "redact",
        detector: Detector | str | None = None,
        apply_to_input: bool = True,
        apply_to_output: bool = False,
        apply_to_tool_results: bool = False,
    ) -> None:
        """Set what to detect, in which messages, and how to replace it."""
        self.rule = RedactionRule(pii_type, strategy, detector)
        self.apply_to_input = apply_to_input
        self.apply_to_output = apply_to_output
        self.apply_to_tool_results = apply_to_tool_results

    @property
    def name(self) -> str:
        """The name of this middleware's steps; one for each kind of data."""
        return f"{type(self).__name__}[{self.rule.pii_type}]"

    async def _before_model(self, state: State, runtime: Runtime[Any], run: Run) -> Update:
        kinds = (HumanMessage,) * self.apply_to_input + (ToolMessage,) * self.apply_to_tool_results
        return self._redact(
            [message for message in state["messages"] if kinds and isinstance(message, kinds)]
        )

    async def _after_model(self, state: State, runtime: Runtime[Any], run: Run) -> Update:
        last = state["messages"][-1]
        return (
            self._redact([last]) if self.apply_to_output and isinstance(last, AIMessage) else None
        )

    def _redact(self, messages: list[BaseMessage]) -> Update:
        changed = []
        for message in messages:
            content = self._clean(message.content)
            if content != message.content:
                changed.append(message.model_copy(update={"content": content}))
        return {"messages": changed} if changed else None

    def _clean(self, content: str | list[str | dict[Any, Any]]) -> object:
        if isinstance(content, str):
            return self.rule.apply(content)
        return [
            {**block, "text": self.rule.apply(block["text"])}
            if isinstance(block, dict) and isinstance(block.get("text"), str)
            else self.rule.apply(block)
            if isinstance(block, str)
            else block
            for block in content
        ]

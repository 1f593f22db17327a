"""Prompts with examples: `FewShotPromptTemplate` as text, `FewShotChatMessagePromptTemplate` as messages.

Examples and the texts around them are filled once: the content of an example is never used as a template.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field, SerializeAsAny, model_validator

from foldline._io import ASYNC, BLOCKING, IO
from foldline._io.drive import drive
from foldline.example_selectors.base import BaseExampleSelector
from foldline.messages import BaseMessage
from foldline.prompts._compile import PromptTemplateFormat, compile_prompt
from foldline.prompts._examples import FewShotText, check_examples, example_values, select_examples
from foldline.prompts.chat_base import BaseChatPromptTemplate
from foldline.prompts.message import BaseMessagePromptTemplate
from foldline.prompts.string import check_valid_template

__all__ = ["FewShotChatMessagePromptTemplate", "FewShotPromptTemplate"]


class FewShotPromptTemplate(FewShotText):
    """A text with examples.

    ```python
    from foldline.prompts import FewShotPromptTemplate, PromptTemplate

    prompt = FewShotPromptTemplate(
        examples=[{"word": "hot", "opposite": "cold"}],
        example_prompt=PromptTemplate.from_template("{word} -> {opposite}"),
        prefix="Opposites.",
        suffix="{word} ->",
        example_separator="; ",
    )
    print(prompt.format(word="{big}"))
    #> Opposites.; hot -> cold; {big} ->
    ```
    """

    suffix: str
    """The text after the examples, a template."""
    prefix: str = ""
    """The text before the examples, a template."""
    template_format: PromptTemplateFormat = "f-string"
    """The template format of prefix and suffix."""

    @model_validator(mode="before")
    @classmethod
    def _read_variables(cls, values: object) -> object:
        values = check_examples(values)
        if not isinstance(values, dict) or not isinstance(values.get("suffix"), str):
            return values
        kind, partials = (
            values.get("template_format") or "f-string",
            values.get("partial_variables") or {},
        )
        prefix = values.get("prefix") or ""
        if values.get("validate_template"):
            passed = [*(values.get("input_variables") or []), *partials]
            check_valid_template(f"{prefix}{values['suffix']}", kind, passed)
        variables = {
            name
            for text in (prefix, values["suffix"])
            for name in compile_prompt(text, kind).variables
        }
        if values.get("example_selector") is not None:
            variables |= set(values.get("input_variables") or ())
        return {**values, "input_variables": sorted(variables - set(partials))}

    @property
    def _prompt_type(self) -> str:
        return "few_shot"

    async def _prefix_and_suffix(self, values: Mapping[str, Any], io: IO) -> tuple[str, str]:
        prefix, suffix = (
            compile_prompt(text, self.template_format).fill(values)
            for text in (self.prefix, self.suffix)
        )
        return prefix, suffix


class FewShotChatMessagePromptTemplate(BaseChatPromptTemplate):
    """Examples as messages, for use in a chat prompt.

    ```python
    from foldline.prompts import ChatPromptTemplate, FewShotChatMessagePromptTemplate

    examples = FewShotChatMessagePromptTemplate(
        examples=[{"question": "2+2", "answer": "4"}],
        example_prompt=ChatPromptTemplate([("human", "{question}"), ("ai", "{answer}")]),
    )
    prompt = ChatPromptTemplate([("system", "Sums."), examples, ("human", "{question}")])
    print(len(prompt.invoke({"question": "3+3"}).to_messages()))
    #> 4
    ```
    """

    examples: list[dict[str, Any]] | None = None
    """The examples, unless there is an `example_selector`."""
    example_selector: BaseExampleSelector | None = None
    """Selects the examples for an input."""
    input_variables: list[str] = Field(default_factory=list)
    """The variables of the selector."""
    example_prompt: (
        SerializeAsAny[BaseMessagePromptTemplate] | SerializeAsAny[BaseChatPromptTemplate]
    )
    """The template of one example."""

    @model_validator(mode="before")
    @classmethod
    def _check_examples(cls, values: object) -> object:
        return check_examples(values)

    @property
    def _prompt_type(self) -> str:
        return "few_shot_chat"

    async def _messages(self, values: Mapping[str, Any], io: IO) -> list[BaseMessage]:
        values = self._merge_values(values)
        examples = await select_examples(self.examples, self.example_selector, values, io)
        names = self.example_prompt.input_variables
        messages: list[BaseMessage] = []
        for example in examples:
            example_variables = example_values(example, names)
            if io.blocking:
                messages += self.example_prompt.format_messages(**example_variables)
            else:
                messages += await self.example_prompt.aformat_messages(**example_variables)
        return messages

    def format_messages(self, **kwargs: object) -> list[BaseMessage]:
        """Return the examples as messages."""
        return drive(self._messages(kwargs, BLOCKING))

    async def aformat_messages(self, **kwargs: object) -> list[BaseMessage]:
        """Return the examples as messages."""
        return await self._messages(kwargs, ASYNC)

    def pretty_repr(self, html: bool = False) -> str:  # noqa: FBT001, FBT002  LangChain's signature
        """Return the template of an example."""
        return self.example_prompt.pretty_repr(html=html)

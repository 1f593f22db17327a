"""`BasePromptTemplate`: the base class of prompts: variables in, a prompt value out; and documents as text.

A prompt does no I/O, unless its example selector does. Running it means checking the input and calling `format_prompt`
or `aformat_prompt`.
"""

from __future__ import annotations

import builtins
import inspect
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

from pydantic import BaseModel, Field, model_validator

from foldline._config import RunnableConfig
from foldline._run import Run
from foldline.documents.base import Document
from foldline.exceptions import UsageError
from foldline.load._lazy_dump import LazyDump
from foldline.prompt_values import ChatPromptValueConcrete, PromptValue, StringPromptValue
from foldline.prompts._files import write_text
from foldline.runnables._trace import NOTHING, add_up
from foldline.runnables._types import object_model
from foldline.runnables.serializable import RunnableSerializable
from foldline.utils.formatting import MissingVariableError

__all__ = [
    "BasePromptTemplate",
    "PromptInputError",
    "aformat_document",
    "format_document",
]

FormatOutputType = TypeVar("FormatOutputType")
Values = dict[str, Any]


class PromptInputError(UsageError, TypeError):
    """The input of a prompt is not a mapping of variables."""


class BasePromptTemplate(
    RunnableSerializable[dict[str, Any], PromptValue], ABC, Generic[FormatOutputType]
):
    """A prompt with variables: a runnable from a dict of them to a prompt value."""

    input_variables: list[str]
    """The required variables."""
    optional_variables: list[str] = Field(default=[])
    """The optional variables: optional placeholders."""
    input_types: Values = Field(default_factory=dict, exclude=True)
    """The types of the variables, for schemas; default: text."""
    output_parser: Any = None
    """A parser for the answers to this prompt; stored for the program, not used here."""
    partial_variables: Mapping[str, Any] = Field(default_factory=dict)
    """Variables that are already set: values, or functions called whenever the prompt is filled."""
    metadata: Values | None = None
    """Metadata of this prompt's runs."""
    tags: list[str] | None = None
    """Tags of this prompt's runs."""

    _run_type: ClassVar[str | None] = "prompt"

    @model_validator(mode="after")
    def validate_variable_names(self) -> Self:
        """Raise on reserved names, and on variables that are both required and already set."""
        if "stop" in self.input_variables or "stop" in self.partial_variables:
            raise UsageError("a variable may not be named 'stop', which models take: rename it")
        both = set(self.input_variables) & set(self.partial_variables)
        if both:
            raise UsageError(f"variables both asked for and already given: {sorted(both)}")
        return self

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Return True: prompts can be serialized."""
        return True

    # -- running

    async def _invoke_body(self, input: object, run: Run) -> PromptValue:
        values = self._validate_input(input)
        if run.io.blocking:
            return self.format_prompt(**values)
        return await self.aformat_prompt(**values)

    def _own_run(self, run: Run) -> Run:
        return run.with_local(tags=self.tags, metadata=self.metadata)

    async def _stream_traced(self, input: dict[str, Any], run: Run) -> AsyncGenerator[Any, None]:
        yield await self._step(input, run)

    async def _transform_traced(
        self, inputs: AsyncGenerator[Any, None], run: Run
    ) -> AsyncGenerator[Any, None]:
        input = await add_up(inputs)
        if input is not NOTHING:
            yield await self._step(input, run)

    def _serialized(self) -> Values | None:
        return LazyDump(self, name=self.get_name())

    def _validate_input(self, inner_input: object) -> Mapping[str, Any]:
        """Return the variables of an input; an input that is not a mapping is the value of the only variable."""
        if type(inner_input) is not dict and not isinstance(inner_input, Mapping):
            if len(self.input_variables) != 1:
                raise PromptInputError(
                    f"{self.get_name()} takes a mapping of variables, not {type(inner_input).__name__}: "
                    f"it has {len(self.input_variables)} of them, {self.input_variables}"
                )
            return {self.input_variables[0]: inner_input}
        for name in self.input_variables:
            if name not in inner_input:
                raise self._missing(inner_input)
        return inner_input

    def _missing(self, values: Mapping[str, Any]) -> MissingVariableError:
        missing = [name for name in self.input_variables if name not in values]
        first = missing[0] if missing else "name"
        return MissingVariableError(
            f"Input to {self.get_name()} is missing variables {{{', '.join(map(repr, missing))}}}. Expected: "
            f"{self.input_variables} Received: {[str(name) for name in values]}. If {{{first}}} is meant as text and "
            f"not as a variable, double the braces: '{{{{{first}}}}}'"
        )

    # -- filling in

    @abstractmethod
    def format_prompt(self, **kwargs: object) -> PromptValue:
        """Return the prompt value with the variables filled in."""

    async def aformat_prompt(self, **kwargs: object) -> PromptValue:
        """Return the prompt value with the variables filled in."""
        return self.format_prompt(**kwargs)

    @abstractmethod
    def format(self, **kwargs: object) -> FormatOutputType:
        """Return the prompt with the variables filled in."""

    async def aformat(self, **kwargs: object) -> FormatOutputType:
        """Return the prompt with the variables filled in."""
        return self.format(**kwargs)

    def partial(self, **kwargs: Any | Callable[[], Any]) -> BasePromptTemplate[FormatOutputType]:
        """Return a copy with some variables set: values, or functions called whenever the prompt is filled."""
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        fields["input_variables"] = [n for n in self.input_variables if n not in kwargs]
        fields["partial_variables"] = {**self.partial_variables, **kwargs}
        return type(self)(**fields)

    def _merge_partial_and_user_variables(self, **kwargs: object) -> Values:
        return self._merge_values(kwargs)

    def _merge_values(self, values: Mapping[str, Any]) -> Values:
        merged = {**self.partial_variables, **values}
        for name, value in self.partial_variables.items():
            if callable(value) and merged[name] is value:
                merged[name] = _partial_value(name, value)
        return merged

    # -- properties

    @property
    def OutputType(self) -> object:
        """The types of a prompt's output: text or messages."""
        return StringPromptValue | ChatPromptValueConcrete

    def get_input_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Return the variables as a Pydantic model."""
        required = {name: (self.input_types.get(name, str), ...) for name in self.input_variables}
        optional = {
            name: (self.input_types.get(name, str), None) for name in self.optional_variables
        }
        return object_model("PromptInput", {**required, **optional})

    @property
    def _prompt_type(self) -> str:
        raise NotImplementedError(f"{type(self).__name__} has no `_prompt_type`")

    def asdict(self, **kwargs: Any) -> builtins.dict[str, Any]:
        """Return the fields as a dict, with the kind of prompt as `_type`."""
        fields = self.model_dump(**kwargs)
        with suppress(NotImplementedError):
            fields["_type"] = self._prompt_type
        return fields

    def dict(self, **kwargs: Any) -> builtins.dict[str, Any]:
        """Return the fields as a dict; the older name of `asdict`."""
        return self.asdict(**kwargs)

    def save(self, file_path: Path | str) -> None:
        """Save this prompt as a JSON file for `load_prompt`."""
        if self.partial_variables:
            raise UsageError(
                "a prompt with partial variables cannot be saved: save it before `partial`"
            )
        fields = self.asdict()
        if "_type" not in fields:
            raise NotImplementedError(f"{type(self).__name__} cannot be saved")
        write_text(file_path, json.dumps(fields, indent=4, ensure_ascii=False))


def _partial_value(name: str, function: Callable[[], Any]) -> object:
    value = function()
    if inspect.isawaitable(value):
        if inspect.iscoroutine(value):
            value.close()
        raise UsageError(
            f"the function given for the variable {name!r} is async: a prompt calls it without waiting, "
            "so give a plain function or the value"
        )
    return value


def _document_values(doc: Document, prompt: BasePromptTemplate[str]) -> Values:
    values = {**doc.metadata, "page_content": doc.page_content}
    missing = [name for name in prompt.input_variables if name not in values]
    if missing:
        raise MissingVariableError(
            f"the prompt for documents takes {sorted(prompt.input_variables)}, and this document's metadata has no "
            f"{sorted(missing)}; it has {sorted(map(str, doc.metadata))}"
        )
    return {name: values[name] for name in prompt.input_variables}


def format_document(doc: Document, prompt: BasePromptTemplate[str]) -> str:
    """Return a document as text: the variables are its metadata, and `page_content`.

    ```python
    from foldline.documents import Document
    from foldline.prompts import PromptTemplate, format_document

    page = Document(page_content="Looms weave.", metadata={"page": 3})
    print(format_document(page, PromptTemplate.from_template("p. {page}: {page_content}")))
    #> p. 3: Looms weave.
    ```
    """
    return prompt.format(**_document_values(doc, prompt))


async def aformat_document(doc: Document, prompt: BasePromptTemplate[str]) -> str:
    """Return a document as text: the variables are its metadata, and `page_content`."""
    return await prompt.aformat(**_document_values(doc, prompt))

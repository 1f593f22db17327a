"""`DictPromptTemplate`: a dict whose texts, however deep, are templates. Keys stay as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

from pydantic import model_validator

from foldline._run import Run
from foldline.exceptions import UsageError
from foldline.load.lazy_dump import LazyDump
from foldline.prompts._compile import compile_prompt
from foldline.runnables.serializable import RunnableSerializable
from foldline.utils.input import get_colored_text

__all__ = ["DictPromptTemplate"]

DEEPEST = 100
Change = Callable[[str], Any]


class DictPromptTemplate(RunnableSerializable[dict[str, Any], dict[str, Any]]):
    """A dict whose texts are templates: a content block with variables.

    ```python
    from foldline.prompts import DictPromptTemplate

    block = DictPromptTemplate(
        template={"type": "file", "file": {"id": "{id}"}}, template_format="f-string"
    )
    print(block.invoke({"id": "f-1"}))
    #> {'type': 'file', 'file': {'id': 'f-1'}}
    ```
    """

    template: dict[str, Any]
    """The dict; its texts are templates."""
    template_format: Literal["f-string", "mustache"]
    """How the texts mark their variables."""

    _run_type: ClassVar[str | None] = "prompt"

    @model_validator(mode="after")
    def validate_template(self) -> Self:
        """Check every text."""
        self._names()
        return self

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Say that prompts can be written and read back."""
        return True

    @property
    def _prompt_type(self) -> str:
        return "dict-prompt"

    @cached_property
    def input_variables(self) -> list[str]:
        """The variables of all texts."""
        return sorted(self._names())

    def _names(self) -> set[str]:
        return check_texts(self.template, self.template_format)

    async def _invoke_body(self, input: dict[str, Any], run: Run) -> dict[str, Any]:
        return self._filled(input)

    def _serialized(self) -> dict[str, Any] | None:
        return LazyDump(self, name=self.get_name())

    def format(self, **kwargs: object) -> dict[str, Any]:
        """Fill in the variables."""
        return self._filled(kwargs)

    async def aformat(self, **kwargs: object) -> dict[str, Any]:
        """Fill in the variables."""
        return self._filled(kwargs)

    def _filled(self, values: Mapping[str, Any]) -> dict[str, Any]:
        kind = self.template_format
        filled: dict[str, Any] = _changed(
            self.template, lambda text: compile_prompt(text, kind).fill(values)
        )
        return filled

    def pretty_repr(self, *, html: bool = False) -> str:
        """Show the dict with its variables in braces."""
        names = self.input_variables
        shown = {
            name: get_colored_text(f"{{{name}}}", "yellow") if html else f"{{{name}}}"
            for name in names
        }
        return str(self._filled(shown))


def check_texts(template: object, kind: str) -> set[str]:
    """Check every text of a value, and give the variables of all of them."""
    return {name for text in _texts(template, 0) for name in compile_prompt(text, kind).variables}


def _texts(value: object, depth: int) -> Iterator[str]:
    if depth > DEEPEST:
        raise UsageError(f"a template nests deeper than {DEEPEST} levels")
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item, depth + 1)


def _changed(value: object, change: Change) -> Any:  # noqa: ANN401  the same kind of JSON as was given
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _changed(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)([_changed(item, change) for item in value])
    return value

"""`DictPromptTemplate`: a dict whose texts, at any depth, are templates. Keys are not changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

from pydantic import model_validator

from foldline._run import Run
from foldline.exceptions import UsageError
from foldline.load._lazy_dump import LazyDump
from foldline.prompts._compile import compile_prompt
from foldline.runnables.serializable import RunnableSerializable
from foldline.utils.input import get_colored_text

__all__ = ["DictPromptTemplate"]

MAX_DEPTH = 100
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
        """Raise if a text is not a valid template."""
        self._names()
        return self

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Return True: prompts can be serialized."""
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
        return self._fill(input)

    def _serialized(self) -> dict[str, Any] | None:
        return LazyDump(self, name=self.get_name())

    def format(self, **kwargs: object) -> dict[str, Any]:
        """Return the dict with the variables filled in."""
        return self._fill(kwargs)

    async def aformat(self, **kwargs: object) -> dict[str, Any]:
        """Return the dict with the variables filled in."""
        return self._fill(kwargs)

    def _fill(self, values: Mapping[str, Any]) -> dict[str, Any]:
        kind = self.template_format
        result: dict[str, Any] = _map_texts(
            self.template, lambda text: compile_prompt(text, kind).fill(values)
        )
        return result

    def pretty_repr(self, *, html: bool = False) -> str:
        """Return the dict with its variables in braces."""
        names = self.input_variables
        placeholders = {
            name: get_colored_text(f"{{{name}}}", "yellow") if html else f"{{{name}}}"
            for name in names
        }
        return str(self._fill(placeholders))


def check_texts(template: object, kind: str) -> set[str]:
    """Return the variables of all texts of a value; raise if one is not a valid template."""
    return {name for text in _texts(template, 0) for name in compile_prompt(text, kind).variables}


def _texts(value: object, depth: int) -> Iterator[str]:
    if depth > MAX_DEPTH:
        raise UsageError(f"a template nests deeper than {MAX_DEPTH} levels")
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item, depth + 1)


def _map_texts(value: object, change: Change) -> Any:  # noqa: ANN401  JSON of the same type as the value
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _map_texts(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)([_map_texts(item, change) for item in value])
    return value

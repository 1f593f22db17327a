"""Parsers by patterns (`RegexParser`, `RegexDictParser`), and one of several parsers (`CombiningOutputParser`)."""

from __future__ import annotations

import re
from typing import Any, Self

from pydantic import model_validator

from foldline.exceptions import OutputParserException
from foldline.output_parsers.base import BaseOutputParser

__all__ = ["CombiningOutputParser", "RegexDictParser", "RegexParser"]


class RegexParser(BaseOutputParser[dict[str, str]]):
    """Reads the groups of a pattern, each under its name.

    ```python
    from foldline.output_parsers import RegexParser

    parser = RegexParser(regex="(.*), ([0-9]+)", output_keys=["answer", "score"])
    print(parser.parse("Paris, 100"))
    #> {'answer': 'Paris', 'score': '100'}
    ```
    """

    regex: str
    """The pattern."""
    output_keys: list[str]
    """A name for each group."""
    default_output_key: str | None = None
    """Where the whole answer goes if the pattern does not fit; None raises."""

    @property
    def _type(self) -> str:
        return "regex_parser"

    def parse(self, text: str) -> dict[str, str]:
        """Read the groups."""
        found = re.search(self.regex, text)
        if found is not None:
            return {key: found.group(place + 1) for place, key in enumerate(self.output_keys)}
        if self.default_output_key is None:
            raise OutputParserException(f"Could not parse output: {text:.200}", llm_output=text)
        return {key: text if key == self.default_output_key else "" for key in self.output_keys}


class RegexDictParser(BaseOutputParser[dict[str, str]]):
    """Reads lines of the form `Name: value`.

    ```python
    from foldline.output_parsers import RegexDictParser

    parser = RegexDictParser(output_key_to_format={"action": "Action"})
    print(parser.parse("Action: search. Why: to know"))
    #> {'action': 'search'}
    ```
    """

    regex_pattern: str = r"{}:\s?([^.'\n']*)\.?"
    """The pattern of a value; `{}` is its name in the answer."""
    output_key_to_format: dict[str, str]
    """Key of the output -> the name in the answer."""
    no_update_value: str | None = None
    """A value that means nothing: its key is left out."""

    @property
    def _type(self) -> str:
        return "regex_dict_parser"

    def parse(self, text: str) -> dict[str, str]:
        """Read the values; raise where one is missing or there twice."""
        values: dict[str, str] = {}
        for key, name in self.output_key_to_format.items():
            found = re.findall(self.regex_pattern.replace("{}", re.escape(name)), text)
            if len(found) != 1:
                count = "No" if not found else "Multiple"
                raise OutputParserException(
                    f"{count} match found for output key {key!r} ({name}:) in {text:.200}",
                    llm_output=text,
                )
            if found[0] != self.no_update_value:
                values[key] = found[0]
        return values


class CombiningOutputParser(BaseOutputParser[dict[str, Any]]):
    """Reads one answer by several parsers, one for each paragraph; what they found is put together."""

    parsers: list[BaseOutputParser[dict[str, Any]]]
    """The parsers, in the order of the paragraphs."""

    @model_validator(mode="after")
    def _check_parsers(self) -> Self:
        if len(self.parsers) < 2:
            raise ValueError("CombiningOutputParser must have at least two parsers")
        return self

    @property
    def _type(self) -> str:
        return "combining"

    def get_format_instructions(self) -> str:
        """Return what to tell the model."""
        parts = "\n\n".join(one.get_format_instructions() for one in self.parsers)
        return f"Write the following parts, with an empty line between them:\n\n{parts}"

    def parse(self, text: str) -> dict[str, Any]:
        """Read each paragraph by its parser."""
        paragraphs = text.split("\n\n")
        if len(paragraphs) < len(self.parsers):
            raise OutputParserException(
                f"{len(self.parsers)} paragraphs were asked for and {len(paragraphs)} came",
                llm_output=text,
            )
        values: dict[str, Any] = {}
        for parser, paragraph in zip(self.parsers, paragraphs, strict=False):
            values |= parser.parse(paragraph.strip())
        return values

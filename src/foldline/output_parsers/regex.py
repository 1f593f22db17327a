"""Parsers by patterns (`RegexParser`, `RegexDictParser`), and one of several parsers (`CombiningOutputParser`)."""

from __future__ import annotations

import re
from typing import Any, Self

from pydantic import model_validator

from foldline.exceptions import OutputParserException
from foldline.output_parsers.base import BaseOutputParser

__all__ = ["CombiningOutputParser", "RegexDictParser", "RegexParser"]


class RegexParser(BaseOutputParser[dict[str, str]]):
    """Returns the groups of a pattern by name.

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
    """The key for the whole answer if the pattern does not match; None: raise instead."""

    @property
    def _type(self) -> str:
        return "regex_parser"

    def parse(self, text: str) -> dict[str, str]:
        """Return the groups of the first match."""
        match = re.search(self.regex, text)
        if match is not None:
            return {key: match.group(index + 1) for index, key in enumerate(self.output_keys)}
        if self.default_output_key is None:
            raise OutputParserException(f"Could not parse output: {text:.200}", llm_output=text)
        return {key: text if key == self.default_output_key else "" for key in self.output_keys}


class RegexDictParser(BaseOutputParser[dict[str, str]]):
    """Parses lines of the form `Name: value`.

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
    """A value that means "no change": its key is left out."""

    @property
    def _type(self) -> str:
        return "regex_dict_parser"

    def parse(self, text: str) -> dict[str, str]:
        """Return the values; raise if one is missing or occurs twice."""
        values: dict[str, str] = {}
        for key, name in self.output_key_to_format.items():
            matches = re.findall(self.regex_pattern.replace("{}", re.escape(name)), text)
            if len(matches) != 1:
                count = "No" if not matches else "Multiple"
                raise OutputParserException(
                    f"{count} match found for output key {key!r} ({name}:) in {text:.200}",
                    llm_output=text,
                )
            if matches[0] != self.no_update_value:
                values[key] = matches[0]
        return values


class CombiningOutputParser(BaseOutputParser[dict[str, Any]]):
    """Parses one answer with several parsers, one for each paragraph, and merges their results."""

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
        """Return the instructions for the model."""
        parts = "\n\n".join(parser.get_format_instructions() for parser in self.parsers)
        return f"Write the following parts, with an empty line between them:\n\n{parts}"

    def parse(self, text: str) -> dict[str, Any]:
        """Parse each paragraph with its parser."""
        paragraphs = text.split("\n\n")
        if len(paragraphs) < len(self.parsers):
            raise OutputParserException(
                f"{len(self.parsers)} paragraphs were requested and {len(paragraphs)} arrived",
                llm_output=text,
            )
        values: dict[str, Any] = {}
        for parser, paragraph in zip(self.parsers, paragraphs, strict=False):
            values |= parser.parse(paragraph.strip())
        return values

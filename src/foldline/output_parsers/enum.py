"""`EnumOutputParser`: a member of an enum. `BooleanOutputParser`: yes or no."""

from __future__ import annotations

import re
from enum import Enum
from typing import Self

from pydantic import model_validator

from foldline.exceptions import OutputParserException
from foldline.output_parsers.base import BaseOutputParser

__all__ = ["BooleanOutputParser", "EnumOutputParser"]


class EnumOutputParser(BaseOutputParser[Enum]):
    """Parses the value of a member of an enum whose values are strings.

    ```python
    from enum import Enum

    from foldline.output_parsers import EnumOutputParser


    class Size(Enum):
        SMALL = "small"
        LARGE = "large"


    print(EnumOutputParser(enum=Size).parse("large"))
    #> Size.LARGE
    ```
    """

    enum: type[Enum]
    """The enum."""

    @model_validator(mode="after")
    def _check_values(self) -> Self:
        if not all(isinstance(member.value, str) for member in self.enum):
            raise ValueError("Enum values must be strings")
        return self

    @property
    def _type(self) -> str:
        return "enum"

    @property
    def OutputType(self) -> type[Enum]:
        """The enum."""
        return self.enum

    def get_format_instructions(self) -> str:
        """Return the instructions for the model."""
        values = ", ".join(str(member.value) for member in self.enum)
        return f"Answer with one of these and with nothing else: {values}"

    def parse(self, text: str) -> Enum:
        """Return the member with this value."""
        try:
            return self.enum(text.strip())
        except ValueError as error:
            expected = ", ".join(str(member.value) for member in self.enum)
            raise OutputParserException(
                f"Response '{text.strip():.200}' is not one of the expected values: {expected}",
                llm_output=text,
            ) from error


class BooleanOutputParser(BaseOutputParser[bool]):
    """Parses yes or no, alone or in a sentence.

    ```python
    from foldline.output_parsers import BooleanOutputParser

    print(BooleanOutputParser().parse("Yes, it is."))
    #> True
    ```
    """

    true_val: str = "YES"
    """The word that means yes, in any case."""
    false_val: str = "NO"
    """The word that means no, in any case."""

    @property
    def _type(self) -> str:
        return "boolean_output_parser"

    def get_format_instructions(self) -> str:
        """Return the instructions for the model."""
        return f"Answer with {self.true_val} or {self.false_val} and with nothing else."

    def parse(self, text: str) -> bool:
        """Parse the answer; raise if it has both words or neither."""
        words = {word.upper() for word in re.findall(r"\w+", text)}
        is_true, is_false = self.true_val.upper() in words, self.false_val.upper() in words
        if is_true == is_false:
            problem = "Ambiguous response: both" if is_true else "neither"
            raise OutputParserException(
                f"{problem} {self.true_val} and {self.false_val} in {text:.200}", llm_output=text
            )
        return is_true

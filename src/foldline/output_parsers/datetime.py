"""`DatetimeOutputParser`: a date and a time."""

from __future__ import annotations

from datetime import datetime

from foldline.exceptions import OutputParserException
from foldline.output_parsers.base import BaseOutputParser

__all__ = ["DatetimeOutputParser"]

EXAMPLES = (
    datetime(2024, 2, 29, 13, 5, 9, 250000),
    datetime(1815, 6, 18, 11, 35),
    datetime(988, 12, 1, 0, 0),
)


class DatetimeOutputParser(BaseOutputParser[datetime]):
    """Parses a date and a time in one format.

    ```python
    from foldline.output_parsers import DatetimeOutputParser

    print(DatetimeOutputParser(format="%Y-%m-%d").parse("1999-12-31").year)
    #> 1999
    ```
    """

    format: str = "%Y-%m-%dT%H:%M:%S.%fZ"
    """The format, in the syntax of `strptime`."""

    @property
    def _type(self) -> str:
        return "datetime"

    def get_format_instructions(self) -> str:
        """Return the instructions for the model."""
        examples = ", ".join(example.strftime(self.format) for example in EXAMPLES)
        return (
            f"Answer with a date and time in the format {self.format!r} and with nothing else. "
            f"Examples: {examples}"
        )

    def parse(self, text: str) -> datetime:
        """Parse the date and the time."""
        try:
            return datetime.strptime(text.strip(), self.format)
        except ValueError as error:
            raise OutputParserException(
                f"Could not parse datetime string: {text:.200}: it does not fit {self.format!r}",
                llm_output=text,
            ) from error

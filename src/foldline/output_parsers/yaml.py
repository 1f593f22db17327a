"""`YamlOutputParser`: the YAML in a model's answer as an object of a Pydantic model (needs the package pyyaml)."""

from __future__ import annotations

import re
from typing import Annotated, Generic, TypeVar

from pydantic import BaseModel, SkipValidation, ValidationError

from foldline.exceptions import MissingExtraError, OutputParserException
from foldline.output_parsers.base import BaseOutputParser
from foldline.output_parsers.json import schema_for_prompt

__all__ = ["YamlOutputParser"]

Model = TypeVar("Model", bound=BaseModel)
FENCE = re.compile(r"```(?:ya?ml)?[^\S\n]*\n(?P<yaml>.*?)(?:```|\Z)", re.DOTALL | re.IGNORECASE)
INSTRUCTIONS = (
    "Answer with YAML that fits the JSON schema below, in a code fence and with nothing else. Indent by two spaces "
    "and quote texts that hold a colon.\n\nThe schema:\n```\n{schema}\n```"
)


class YamlOutputParser(BaseOutputParser[Model], Generic[Model]):
    """Parses YAML as an object of a model.

    ```python
    from pydantic import BaseModel

    from foldline.output_parsers import YamlOutputParser


    class Joke(BaseModel):
        setup: str
        stars: int


    parser = YamlOutputParser(pydantic_object=Joke)
    print(parser.parse("{setup: Because, stars: 3}"))
    #> setup='Because' stars=3
    ```
    """

    pydantic_object: Annotated[type[Model], SkipValidation()]
    """The model."""
    pattern: re.Pattern[str] = FENCE
    """Finds the YAML as the group `yaml`; if it does not match, the whole answer is parsed."""

    @property
    def _type(self) -> str:
        return "yaml"

    @property
    def OutputType(self) -> type[Model]:
        """The model."""
        return self.pydantic_object

    def get_format_instructions(self) -> str:
        """Return the instructions for the model."""
        return INSTRUCTIONS.replace("{schema}", schema_for_prompt(self.pydantic_object))

    def parse(self, text: str) -> Model:
        """Parse the object."""
        try:
            import yaml  # noqa: PLC0415  an optional package
        except ImportError as error:
            raise MissingExtraError("YamlOutputParser needs pyyaml: pip install pyyaml") from error
        match = self.pattern.search(text.strip())
        try:
            value = yaml.safe_load(match["yaml"] if match else text)
            return self.pydantic_object.model_validate(value)
        except (yaml.YAMLError, ValidationError) as error:
            name = self.pydantic_object.__name__
            raise OutputParserException(
                f"Failed to parse {name} from completion {text:.200}. Got: {error}", llm_output=text
            ) from error

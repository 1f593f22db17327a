"""Types for the fields of chains and memories.

Pydantic treats `Base[Any]` as a separate class, so an instance of `Base[str]` would fail validation. At run time the
fields therefore use the plain classes; type checkers see them with their parameters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from foldline.language_models.base import BaseLanguageModel
from foldline.output_parsers import BaseOutputParser
from foldline.prompts import BasePromptTemplate

if TYPE_CHECKING:
    AnyModel = BaseLanguageModel[Any]
    AnyParser = BaseOutputParser[Any]
    AnyPrompt = BasePromptTemplate[Any]
else:
    AnyModel, AnyParser, AnyPrompt = BaseLanguageModel, BaseOutputParser, BasePromptTemplate

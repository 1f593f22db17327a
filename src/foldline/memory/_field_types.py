"""The kinds of things chains and memories are made of, as Pydantic should check them.

Pydantic takes `Base[Any]` for a class of its own, which an instance of `Base[str]` is not: so the fields name the plain
classes, and the type checker sees them with their parameters.
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

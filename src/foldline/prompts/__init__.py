"""Prompts: templates of texts and messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import Loader, lazy_exports

if TYPE_CHECKING:
    from foldline.prompts.base import BasePromptTemplate, aformat_document, format_document
    from foldline.prompts.chat import (
        AIMessagePromptTemplate,
        BaseChatPromptTemplate,
        ChatMessagePromptTemplate,
        ChatPromptTemplate,
        HumanMessagePromptTemplate,
        MessagesPlaceholder,
        SystemMessagePromptTemplate,
    )
    from foldline.prompts.dict import DictPromptTemplate
    from foldline.prompts.few_shot import FewShotChatMessagePromptTemplate, FewShotPromptTemplate
    from foldline.prompts.few_shot_with_templates import FewShotPromptWithTemplates
    from foldline.prompts.image import ImagePromptTemplate
    from foldline.prompts.loading import load_prompt
    from foldline.prompts.prompt import PromptTemplate
    from foldline.prompts.string import (
        StringPromptTemplate,
        check_valid_template,
        get_template_variables,
        jinja2_formatter,
        validate_jinja2,
    )
    from foldline.prompts.structured import StructuredPrompt

__all__ = [
    "AIMessagePromptTemplate",
    "BaseChatPromptTemplate",
    "BasePromptTemplate",
    "ChatMessagePromptTemplate",
    "ChatPromptTemplate",
    "DictPromptTemplate",
    "FewShotChatMessagePromptTemplate",
    "FewShotPromptTemplate",
    "FewShotPromptWithTemplates",
    "HumanMessagePromptTemplate",
    "ImagePromptTemplate",
    "MessagesPlaceholder",
    "PromptTemplate",
    "StringPromptTemplate",
    "StructuredPrompt",
    "SystemMessagePromptTemplate",
    "aformat_document",
    "check_valid_template",
    "format_document",
    "get_template_variables",
    "jinja2_formatter",
    "load_prompt",
    "validate_jinja2",
]

__getattr__: Loader = lazy_exports(
    __name__,
    {
        ".base": "BasePromptTemplate aformat_document format_document",
        ".chat": "AIMessagePromptTemplate BaseChatPromptTemplate ChatMessagePromptTemplate "
        "ChatPromptTemplate HumanMessagePromptTemplate MessagesPlaceholder "
        "SystemMessagePromptTemplate",
        ".dict": "DictPromptTemplate",
        ".few_shot": "FewShotChatMessagePromptTemplate FewShotPromptTemplate",
        ".few_shot_with_templates": "FewShotPromptWithTemplates",
        ".image": "ImagePromptTemplate",
        ".loading": "load_prompt",
        ".prompt": "PromptTemplate",
        ".string": "StringPromptTemplate check_valid_template get_template_variables "
        "jinja2_formatter validate_jinja2",
        ".structured": "StructuredPrompt",
    },
)

"""Prompts: templates of texts and messages."""

from __future__ import annotations

from foldline._lazy import lazy_exports

with lazy_exports(__name__):
    from foldline.prompts.base import (
        BasePromptTemplate as BasePromptTemplate,
        aformat_document as aformat_document,
        format_document as format_document,
    )
    from foldline.prompts.chat import (
        AIMessagePromptTemplate as AIMessagePromptTemplate,
        BaseChatPromptTemplate as BaseChatPromptTemplate,
        ChatMessagePromptTemplate as ChatMessagePromptTemplate,
        ChatPromptTemplate as ChatPromptTemplate,
        HumanMessagePromptTemplate as HumanMessagePromptTemplate,
        MessagesPlaceholder as MessagesPlaceholder,
        SystemMessagePromptTemplate as SystemMessagePromptTemplate,
    )
    from foldline.prompts.dict import DictPromptTemplate as DictPromptTemplate
    from foldline.prompts.few_shot import (
        FewShotChatMessagePromptTemplate as FewShotChatMessagePromptTemplate,
        FewShotPromptTemplate as FewShotPromptTemplate,
    )
    from foldline.prompts.few_shot_with_templates import (
        FewShotPromptWithTemplates as FewShotPromptWithTemplates,
    )
    from foldline.prompts.image import ImagePromptTemplate as ImagePromptTemplate
    from foldline.prompts.loading import load_prompt as load_prompt
    from foldline.prompts.prompt import PromptTemplate as PromptTemplate
    from foldline.prompts.string import (
        StringPromptTemplate as StringPromptTemplate,
        check_valid_template as check_valid_template,
        get_template_variables as get_template_variables,
        jinja2_formatter as jinja2_formatter,
        validate_jinja2 as validate_jinja2,
    )
    from foldline.prompts.structured import StructuredPrompt as StructuredPrompt

"""The table of what may be loaded: public names of foldline, and LangChain's names for the same classes.

Data only. A row promises that building its class has no side effect (groups `messages` and `core`), or that the caller
must allow it explicitly (group `provider`). Nothing is imported until a dump names a row.
"""

from __future__ import annotations

from typing import Literal

__all__ = []

Group = Literal["messages", "core", "provider"]

LOADABLE: dict[Group, dict[str, str]] = {
    "messages": {
        "foldline.messages": "AIMessage AIMessageChunk ChatMessage ChatMessageChunk FunctionMessage"
        " FunctionMessageChunk HumanMessage HumanMessageChunk RemoveMessage SystemMessage"
        " SystemMessageChunk ToolMessage ToolMessageChunk",
    },
    "core": {
        "foldline.agents": "AgentAction AgentActionMessageLog AgentFinish AgentStep",
        "foldline.chains": "ConversationChain LLMChain MapReduceDocumentsChain ReduceDocumentsChain"
        " RefineDocumentsChain SequentialChain SimpleSequentialChain StuffDocumentsChain",
        "foldline.documents": "Document",
        "foldline.outputs": "ChatGeneration ChatGenerationChunk ChatResult Generation GenerationChunk"
        " LLMResult RunInfo",
        "foldline.prompt_values": "ChatPromptValue ChatPromptValueConcrete ImagePromptValue"
        " StringPromptValue",
        "foldline.structured_query": "Comparison Operation StructuredQuery",
        "foldline.prompts": "AIMessagePromptTemplate ChatMessagePromptTemplate ChatPromptTemplate"
        " DictPromptTemplate FewShotChatMessagePromptTemplate FewShotPromptTemplate"
        " FewShotPromptWithTemplates HumanMessagePromptTemplate ImagePromptTemplate"
        " MessagesPlaceholder PromptTemplate StructuredPrompt"
        " SystemMessagePromptTemplate",
        "foldline.output_parsers": "CommaSeparatedListOutputParser JsonOutputParser"
        " MarkdownListOutputParser NumberedListOutputParser StrOutputParser XMLOutputParser",
        "foldline.runnables": "RouterRunnable RunnableAssign RunnableBinding RunnableBindingBase"
        " RunnableBranch RunnableConfigurableAlternatives RunnableConfigurableFields RunnableEach"
        " RunnableEachBase RunnableParallel RunnablePassthrough RunnablePick RunnableRetry"
        " RunnableSequence RunnableWithFallbacks RunnableWithMessageHistory",
    },
    "provider": {
        "foldline.providers.openai": "AzureChatOpenAI AzureOpenAI AzureOpenAIEmbeddings ChatOpenAI OpenAI"
        " OpenAIEmbeddings",
        "foldline.providers.anthropic": "AnthropicLLM ChatAnthropic",
        "foldline.providers.bedrock": "ChatAnthropicBedrock ChatAnthropicMantle ChatBedrockConverse ChatOpenAIMantle",
        "foldline.providers.google": "ChatGoogle",
        "foldline.providers.local": "ChatLlamaCpp LlamaCpp",
        "foldline.providers.ollama": "OllamaLLM",
        "foldline.providers.openai_compatible": "AzureAIChatCompletionsModel ChatAIGNEHub ChatBaseten"
        " ChatCerebras ChatCohere ChatDeepSeek ChatDoubao ChatFireworks ChatGroq ChatHuggingFace ChatLMStudio"
        " ChatLiteLLM ChatLlamaServer ChatMeta ChatMistral ChatMoonshot ChatNVIDIA ChatOllama ChatOpenAICompatible"
        " ChatOpenRouter ChatPerplexity ChatPoe ChatQwen ChatSambaNova ChatTogether ChatUpstage ChatVLLM ChatWatsonx"
        " ChatXAI",
        "foldline.providers.vertex": "ChatAnthropicVertex ChatVertexAI",
    },
}
"""Group -> public module -> the class names in it."""

HOMES = {
    "foldline.agents": "foldline.outputs.agent",  # the package is in a higher layer than these classes
    "foldline.runnables.RunnableBindingBase": "foldline.runnables.binding",
    "foldline.runnables.RunnableConfigurableAlternatives": "foldline.runnables.configurable",
    "foldline.runnables.RunnableConfigurableFields": "foldline.runnables.configurable",
    "foldline.runnables.RunnableEachBase": "foldline.runnables.each",
}
"""Public module, or id of a class -> the module that it is imported from."""

LANGCHAIN_ROOTS = frozenset(
    {
        "langchain",
        "langchain_anthropic",
        "langchain_aws",
        "langchain_azure_ai",
        "langchain_baseten",
        "langchain_cohere",
        "langchain_core",
        "langchain_deepseek",
        "langchain_fireworks",
        "langchain_google_genai",
        "langchain_google_vertexai",
        "langchain_groq",
        "langchain_huggingface",
        "langchain_ibm",
        "langchain_litellm",
        "langchain_meta",
        "langchain_mistralai",
        "langchain_nvidia_ai_endpoints",
        "langchain_ollama",
        "langchain_openai",
        "langchain_openrouter",
        "langchain_perplexity",
        "langchain_sambanova",
        "langchain_together",
        "langchain_upstage",
        "langchain_xai",
    }
)
"""First parts of the ids in LangChain's dumps; the last part is looked up in `LANGCHAIN_NAMES`."""

RENAMED = {
    "AzureAIOpenAIApiChatModel": "AzureAIChatCompletionsModel",
    "ChatBedrock": "ChatBedrockConverse",
    "ChatGoogleGenerativeAI": "ChatGoogle",
    "ChatMistralAI": "ChatMistral",
    "_DictMessagePromptTemplate": "DictPromptTemplate",
}


def _by_class_name() -> dict[str, tuple[str, ...]]:
    names = {
        name: (*module.split("."), name)
        for modules in LOADABLE.values()
        for module, row in modules.items()
        for name in row.split()
    }
    names.update({old: names[new] for old, new in RENAMED.items()})
    return names


LANGCHAIN_NAMES: dict[str, tuple[str, ...]] = _by_class_name()
"""Class name -> our id. LangChain moved its classes between modules; their names stayed."""

_LANGCHAIN_MODULES = {
    "langchain.schema.messages": "AIMessage AIMessageChunk ChatMessage ChatMessageChunk FunctionMessage"
    " FunctionMessageChunk HumanMessage HumanMessageChunk RemoveMessage SystemMessage"
    " SystemMessageChunk ToolMessage ToolMessageChunk",
    "langchain.schema.agent": "AgentAction AgentActionMessageLog AgentFinish",
    "langchain.schema.document": "Document",
    "langchain.schema.output": "ChatGeneration ChatGenerationChunk Generation GenerationChunk",
    "langchain.prompts.chat": "AIMessagePromptTemplate ChatMessagePromptTemplate ChatPromptTemplate ChatPromptValue"
    " ChatPromptValueConcrete HumanMessagePromptTemplate MessagesPlaceholder SystemMessagePromptTemplate",
    "langchain.prompts.base": "StringPromptValue",
    "langchain.prompts.few_shot_with_templates": "FewShotPromptWithTemplates",
    "langchain.prompts.image": "ImagePromptTemplate",
    "langchain.prompts.prompt": "PromptTemplate",
    "langchain_core.prompts.dict": "DictPromptTemplate",
    "langchain_core.prompts.structured": "StructuredPrompt",
    "langchain.output_parsers.list": "CommaSeparatedListOutputParser",
    "langchain.schema.output_parser": "StrOutputParser",
    "langchain.schema.runnable": "RouterRunnable RunnableAssign RunnableBinding RunnableBindingBase RunnableBranch"
    " RunnableConfigurableAlternatives RunnableConfigurableFields RunnableEach RunnableEachBase RunnableParallel"
    " RunnablePassthrough RunnablePick RunnableRetry RunnableSequence RunnableWithFallbacks"
    " RunnableWithMessageHistory",
    "langchain.chat_models.openai": "ChatOpenAI",
    "langchain.chat_models.azure_openai": "AzureChatOpenAI",
    "langchain.chat_models.anthropic": "ChatAnthropic",
    "langchain.llms.openai": "AzureOpenAI OpenAI",
    "langchain_anthropic.llms": "AnthropicLLM",
}
LANGCHAIN_IDS = {
    name: [*module.split("."), name]
    for module, names in _LANGCHAIN_MODULES.items()
    for name in names.split()
}
"""Class name -> the id under which LangChain's `loads` finds it."""

"""`init_chat_model`: a chat model by name, `"provider:model"`; or one that is chosen by the config of each call."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, overload

from foldline._traceback import entry_point
from foldline.exceptions import UsageError
from foldline.language_models._call.request import CALL_OPTIONS, ChatRequest
from foldline.language_models.chat_models import BaseChatModel
from foldline.language_models.structured._output import STRUCTURED_OPTIONS, OutputSchema
from foldline.language_models.structured.parser import Partial, RawAndParsed, Schema
from foldline.messages import AIMessage, AIMessageChunk
from foldline.providers import ADVICE, find_provider, provider_names
from foldline.runnables._call_options import check_options
from foldline.runnables.base import Runnable
from foldline.runnables.configurable import DynamicRunnable, _MethodResult
from foldline.runnables.utils import ConfigurableFieldSpec
from foldline.utils.strings import suggestion

__all__ = ["BaseChatModel", "ConfigurableChatModel", "init_chat_model"]


def __dir__() -> list[str]:
    return sorted(__all__)


PROVIDER_PREFIXES: Final[tuple[tuple[str, str], ...]] = (
    ("gpt-", "openai"),
    ("chatgpt", "openai"),
    ("o1", "openai"),
    ("o3", "openai"),
    ("o4", "openai"),
    ("codex", "openai"),
    ("text-davinci", "openai"),
    ("amazon.", "bedrock"),
    ("anthropic.", "bedrock"),
    ("meta.", "bedrock"),
    ("command", "cohere"),
    ("solar", "upstage"),
    ("doubao", "doubao"),
    ("claude", "anthropic"),
    ("gemini", "google"),
    ("gemma", "google"),
    ("accounts/fireworks", "fireworks"),
    ("mistral", "mistral"),
    ("mixtral", "mistral"),
    ("magistral", "mistral"),
    ("codestral", "mistral"),
    ("ministral", "mistral"),
    ("deepseek", "deepseek"),
    ("grok", "xai"),
    ("sonar", "perplexity"),
    ("kimi", "moonshot"),
    ("moonshot", "moonshot"),
    ("qwen", "qwen"),
    ("smollm2", "local"),
)
"""The prefix of a model's name -> its provider."""


@overload
def init_chat_model(
    model: str,
    *,
    model_provider: str | None = None,
    configurable_fields: None = None,
    config_prefix: str | None = None,
    **kwargs: object,
) -> BaseChatModel: ...
@overload
def init_chat_model(
    model: None = None,
    *,
    model_provider: str | None = None,
    configurable_fields: Literal["any"] | Sequence[str] | None = None,
    config_prefix: str | None = None,
    **kwargs: object,
) -> ConfigurableChatModel: ...
@overload
def init_chat_model(
    model: str | None = None,
    *,
    model_provider: str | None = None,
    configurable_fields: Literal["any"] | Sequence[str],
    config_prefix: str | None = None,
    **kwargs: object,
) -> ConfigurableChatModel: ...
@entry_point
def init_chat_model(
    model: str | None = None,
    *,
    model_provider: str | None = None,
    configurable_fields: Literal["any"] | Sequence[str] | None = None,
    config_prefix: str | None = None,
    **kwargs: object,
) -> BaseChatModel | ConfigurableChatModel:
    """Return a chat model by name; without a name, or with `configurable_fields`, one that a call's config chooses.

    ```python
    from foldline.chat_models import init_chat_model

    model = init_chat_model("groq:openai/gpt-oss-20b", temperature=0)
    print(type(model).__name__, model.model)
    #> ChatGroq openai/gpt-oss-20b

    any_model = init_chat_model(temperature=0)
    chosen, _ = any_model.prepare({"configurable": {"model": "deepseek:deepseek-chat"}})
    print(type(chosen).__name__, chosen.temperature)
    #> ChatDeepSeek 0.0
    ```
    """
    if model is not None and configurable_fields is None:
        if config_prefix:
            raise UsageError(
                "config_prefix names fields of the config: pass configurable_fields too"
            )
        return _build(model, model_provider, kwargs)
    if configurable_fields is None:
        configurable_fields = ("model", "model_provider")
    all_settings = {"model": model, "model_provider": model_provider, **kwargs}
    settings = {name: value for name, value in all_settings.items() if value is not None}
    fields = configurable_fields if configurable_fields == "any" else list(configurable_fields)
    return ConfigurableChatModel.of(settings, fields, config_prefix or "")


def _build(model: str, provider: str | None, settings: Mapping[str, Any]) -> BaseChatModel:
    name, provider = split_name(model, provider)
    chat_model: BaseChatModel = find_provider(provider)(model=name, **settings)
    return chat_model


def split_name(model: str, provider: str | None = None) -> tuple[str, str]:
    """Return (model, provider) of `"provider:model"`, or guess the provider by the prefix of the model's name."""
    if not isinstance(model, str):
        raise UsageError(
            f"the name of a model is text such as 'openai:gpt-5', not {type(model).__name__}"
        )
    if provider is not None:
        return model.removeprefix(f"{provider}:"), provider
    head, colon, model_name = model.partition(":")
    word = head.replace("-", "_").lower()
    if colon and model_name and (word in ADVICE or word in provider_names()):
        return model_name, head
    lower = model.lower()
    for beginning, guess in PROVIDER_PREFIXES:
        if lower.startswith(beginning):
            return model, guess
    separated = model.partition("/") if not colon else (head, colon, model_name)
    hint = suggestion(separated[0], provider_names()) if separated[1] else ""
    name = separated[2] if hint else model_name or model
    raise UsageError(
        f"whose model is {model!r}?{hint} Write 'provider:{name}' or pass model_provider=..., "
        f"with one of: {', '.join(provider_names())}"
    )


class _NoModel(BaseChatModel):
    """A placeholder if no model is chosen."""

    async def _events(self, request: ChatRequest, run: object) -> AsyncGenerator[Any, None]:
        raise UsageError(
            "no model is chosen: pass config={'configurable': {'model': 'provider:model'}}, "
            "or give init_chat_model a default"
        )
        yield


class ConfigurableChatModel(DynamicRunnable[Any, AIMessage, AIMessageChunk]):
    """A chat model that the config of each call chooses and sets.

    `bind_tools` and `with_structured_output` are deferred until a model is chosen.
    """

    settings: dict[str, Any]
    fields: Literal["any"] | list[str]
    prefix: str = ""

    @classmethod
    def of(
        cls, settings: dict[str, Any], fields: Literal["any"] | list[str], prefix: str
    ) -> ConfigurableChatModel:
        """Return a configurable model; raise now if the default model cannot be built."""
        default: BaseChatModel = _NoModel()
        if settings.get("model"):
            default = _from_settings(settings)
        return cls(
            default=default,
            settings=settings,
            fields=fields,
            prefix=prefix and f"{prefix.rstrip('_')}_",
        )

    def _choose(self, values: Mapping[str, Any]) -> tuple[Runnable[Any, Any], Mapping[str, Any]]:
        configured: dict[str, Any] = {}
        for key, value in values.items():
            name = key.removeprefix(self.prefix)
            if key.startswith(self.prefix) and (self.fields == "any" or name in self.fields):
                configured[name] = value
        settings = dict(self.settings)
        if "model" in configured and "model_provider" not in configured:
            settings.pop("model_provider", None)
        if self.fields == "any" and not self.prefix:
            # A config also contains values for others: the id of a thread, of a user.
            parameters = _parameters_of({**settings, **configured})
            configured = {name: value for name, value in configured.items() if name in parameters}
        return (_from_settings({**settings, **configured}) if configured else self.default), values

    def _option_names(self) -> Iterable[str]:
        return CALL_OPTIONS

    def _accepts_option(self, name: str) -> bool:
        return name in CALL_OPTIONS

    @property
    def config_specs(self) -> list[ConfigurableFieldSpec]:
        """The fields that a config may set, if they were listed."""
        names = [] if self.fields == "any" else self.fields
        specs = [(f"{self.prefix}{name}", self.settings.get(name)) for name in names]
        return [
            ConfigurableFieldSpec(id=id, annotation=Any, name=id, default=default)
            for id, default in specs
        ]

    @entry_point
    def bind_tools(
        self, tools: Sequence[Any], **kwargs: Any
    ) -> Runnable[Any, AIMessage, AIMessageChunk]:
        """Bind tools to the model that is chosen."""
        check_options(self, kwargs, "validate")
        return _MethodResult(default=self, method="bind_tools", arguments=(tools,), options=kwargs)

    @overload
    def with_structured_output(
        self, schema: type[Schema], *, include_raw: Literal[False] = False, **kwargs: Any
    ) -> Runnable[Any, Schema, Schema | Partial[Schema]]: ...
    @overload
    def with_structured_output(
        self, schema: type[Schema], *, include_raw: Literal[True], **kwargs: Any
    ) -> Runnable[Any, RawAndParsed[Schema]]: ...
    @overload
    def with_structured_output(
        self, schema: Mapping[str, Any], **kwargs: Any
    ) -> Runnable[Any, dict[str, Any]]: ...
    @entry_point
    def with_structured_output(self, schema: object, **kwargs: Any) -> Runnable[Any, Any]:
        """Return answers of the chosen model that fit a schema."""
        if schema is not None:
            OutputSchema(schema)  # raises now what would be raised when a model is chosen
        check_options(self, kwargs, *STRUCTURED_OPTIONS)
        return _MethodResult(
            default=self, method="with_structured_output", arguments=(schema,), options=kwargs
        )


def _parameters_of(settings: Mapping[str, Any]) -> set[str]:
    """Return the names of the settings that the model accepts."""
    names = {"model", "model_provider"}
    if settings.get("model"):
        _, provider = split_name(str(settings["model"]), settings.get("model_provider"))
        kind = find_provider(provider)
        aliases = (field.alias for field in kind.model_fields.values())
        names |= {*kind.model_fields, *getattr(kind, "aliases", ()), *filter(None, aliases)}
    return names


def _from_settings(settings: Mapping[str, Any]) -> BaseChatModel:
    other_settings = {
        name: value for name, value in settings.items() if name not in ("model", "model_provider")
    }
    model = settings.get("model")
    if not model:
        raise UsageError(
            "no model is chosen: pass config={'configurable': {'model': 'provider:model'}}"
        )
    return _build(str(model), settings.get("model_provider"), other_settings)

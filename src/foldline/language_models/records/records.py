"""`ChatModelInput` and `ChatModelOutput`: a call and its answer as plain records, in AIGNE's style.

Snake case in Python; camel case is read from JSON too. Roles `agent` and `assistant` are both the model's. The output
has the ordered blocks in `.message`; its other fields are views of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeGuard

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializationInfo,
    ValidationError,
    field_serializer,
    field_validator,
)
from pydantic.alias_generators import to_camel

from foldline._lazy import describe_fields
from foldline.exceptions import UsageError
from foldline.language_models._call.request import messages_of
from foldline.language_models.profile import ModelProfile
from foldline.language_models.records._reading import (
    MEDIA,
    read_message,
    read_response_format,
    read_tool,
)
from foldline.language_models.records._writing import (
    write_call,
    write_file,
    write_message,
    write_options,
    write_tool,
)
from foldline.language_models.structured._output import StructuredCheck, structured_options
from foldline.language_models.structured._tool_binding import bound_tools
from foldline.messages import AIMessage, BaseMessage
from foldline.utils._class_doc import plain_description
from foldline.utils._signature import SIGNATURE, ClassSignature, keep_signature
from foldline.utils.json import dumps_canonical, to_jsonable

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema

__all__ = [
    "ChatModelInput",
    "ChatModelOutput",
    "ChatModelOutputUsage",
    "ChatModelUsage",
]

Options = dict[str, Any]


class _Record(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        arbitrary_types_allowed=True,
        protected_namespaces=(),
        defer_build=True,
        extra="forbid",
    )
    __signature__: ClassVar[ClassSignature] = SIGNATURE

    @classmethod
    def __pydantic_on_complete__(cls) -> None:
        keep_signature(cls)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        describe_fields(cls)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler, /
    ) -> JsonSchemaValue:
        return plain_description(cls, core_schema, handler)


class ChatModelInput(_Record):
    """One call: messages, and options for the answer."""

    messages: list[BaseMessage]
    response_format: Options | None = None
    """`{"type": "json_schema", "json_schema": {...}}`, or None for text."""
    output_file_type: Literal["local", "file", "url"] | None = None
    tools: list[Any] | None = None
    tool_choice: Any = None
    model_options: Options = Field(default_factory=dict)

    @field_validator("messages", mode="before")
    @classmethod
    def _read_messages(cls, value: object) -> list[BaseMessage]:
        if isinstance(value, list):
            value = [read_message(message) for message in value]
        return messages_of(value)

    @field_validator("tools", mode="before")
    @classmethod
    def _read_tools(cls, value: object) -> object:
        if not isinstance(value, list):
            return value
        return [read_tool(tool, f"tools[{index}]") for index, tool in enumerate(value)]

    @field_validator("response_format", mode="before")
    @classmethod
    def _read_format(cls, value: object) -> object:
        return read_response_format(value) if isinstance(value, Mapping) else value

    @field_serializer("messages")
    def _write_messages(self, messages: list[BaseMessage], info: SerializationInfo) -> list[Any]:
        return [write_message(message, camel=bool(info.by_alias)) for message in messages]

    @field_serializer("tools")
    def _write_tools(self, tools: list[Any] | None, info: SerializationInfo) -> list[Any] | None:
        if tools is None:
            return None
        return [write_tool(tool, camel=bool(info.by_alias)) for tool in tools]

    @field_serializer("response_format")
    def _write_format(self, value: Options | None, info: SerializationInfo) -> Options | None:
        if value is None or not info.by_alias:
            return value
        return {to_camel(key): part for key, part in value.items()}

    @field_serializer("model_options")
    def _write_options(self, options: Options, info: SerializationInfo) -> Options:
        return write_options(options, camel=bool(info.by_alias))

    def call_options(
        self, profile: ModelProfile | None, max_retries: int = 0
    ) -> tuple[Options, StructuredCheck | None]:
        """Return the call options of this record, and the check that reads its JSON.

        `max_retries` is the number of retries of the call: failed requests and JSON that does not fit share it.
        """
        options: Options = {}
        if self.model_options:
            options["model_options"] = dict(self.model_options)
        if self.output_file_type is not None:
            options["output_file_type"] = self.output_file_type
        if self.tools:
            options |= bound_tools(self.tools, tool_choice=self.tool_choice)
        elif self.tool_choice is not None:
            options["tool_choice"] = self.tool_choice
        schema, strict = self._schema()
        if schema is None:
            return options, None
        schema_options, check = structured_options(
            schema,
            profile,
            include_raw=True,
            strict=strict,
            max_retries=max_retries,
            tools=self.tools or None,
            method="auto" if profile else "json_schema",
        )
        check.gives_up_quietly = False
        check.shares_retries = True
        return {**options, **schema_options}, check

    def _schema(self) -> tuple[Any, bool | None]:
        response_format = self.response_format
        if response_format is None or response_format.get("type") in ("text", None):
            return None, None
        json_schema = response_format.get("json_schema")
        if not isinstance(json_schema, Mapping) or not isinstance(
            json_schema.get("schema"), Mapping
        ):
            raise UsageError(
                'response_format needs {"type": "json_schema", "json_schema": {"name": …, "schema": {…}}}'
            )
        schema = {"title": json_schema.get("name") or "Answer", **json_schema["schema"]}
        if json_schema.get("name"):
            schema["title"] = json_schema["name"]
        if json_schema.get("description"):
            schema["description"] = json_schema["description"]
        return schema, json_schema.get("strict")


class ChatModelOutputUsage(_Record):
    """Tokens of a call, every attempt included."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    aigne_hub_credits: float | None = None
    """The credits charged by AIGNE Hub."""


ChatModelUsage = ChatModelOutputUsage


class ChatModelOutput(_Record):
    """One answer."""

    text: str | None = None
    json_: Any = Field(default=None, alias="json")
    tool_calls: list[Any] = Field(default_factory=list)
    """`{"id", "type": "function", "function": {"name", "arguments"}}`, arguments as an object."""
    usage: ChatModelOutputUsage | None = None
    model: str | None = None
    files: list[Any] = Field(default_factory=list)
    """Media blocks; in the camelCase dump AIGNE's files: `{"type": "file", "data", "mimeType"}`."""
    thoughts: str | None = None
    message: AIMessage | None = Field(default=None, exclude=True)
    """The answer with its blocks in order; the other fields are views of it."""

    def __getattribute__(self, name: str) -> object:
        # `json` is a deprecated method of every Pydantic model; here it is the answer's JSON.
        return super().__getattribute__("json_" if name == "json" else name)

    @field_serializer("files")
    def _write_files(self, files: list[Any], info: SerializationInfo) -> list[Any]:
        return [write_file(file, camel=True) for file in files] if info.by_alias else files


def is_record(value: object) -> TypeGuard[ChatModelInput | Mapping[str, Any]]:
    """Return whether the input of a model is a record of AIGNE's: a `ChatModelInput`, or a dict with messages."""
    return isinstance(value, ChatModelInput) or (type(value) is dict and "messages" in value)


def input_of(value: object) -> ChatModelInput:
    """Return a record from a record or a dict in snake or camel case; raise for an unknown key."""
    if isinstance(value, ChatModelInput):
        return value
    if not isinstance(value, Mapping):
        raise UsageError(
            f"`run` takes a ChatModelInput or a dict of its fields, not {type(value).__name__}: "
            'write {"messages": …}, or use `invoke`'
        )
    known_names = {
        name for field, info in ChatModelInput.model_fields.items() for name in (field, info.alias)
    }
    unknown_keys = sorted(set(value) - known_names)
    if unknown_keys:
        raise UsageError(
            f"ChatModelInput has no {unknown_keys[0]!r}: put options of the model in model_options"
        )
    try:
        return ChatModelInput.model_validate(dict(value))
    except ValidationError as error:
        issue = error.errors(include_url=False)[0]
        location = ".".join(str(part) for part in issue["loc"])
        raise UsageError(f"ChatModelInput, {location}: {issue['msg']}") from error


def output_of(message: AIMessage, check: StructuredCheck | None = None) -> ChatModelOutput:
    """Return an answer as a record; text that is only the JSON is left out."""
    blocks, metadata = message.content_blocks, message.response_metadata
    answer_tool = check.schema.name if check is not None and check.method == "tool" else None
    calls = [call for call in message.tool_calls if call["name"] != answer_tool]
    is_by_tool = answer_tool is not None and len(calls) < len(message.tool_calls)
    text, value = _text_and_value(message, check, is_by_tool=is_by_tool)
    return ChatModelOutput(
        text=text,
        json_=value,
        tool_calls=_call_records(calls, blocks),
        usage=_usage(message.usage_metadata),
        model=metadata.get("model_name") or metadata.get("model"),
        files=[dict(block) for block in blocks if block.get("type") in MEDIA],
        thoughts=_thoughts(blocks) or None,
        message=message,
    )


def _thoughts(blocks: Sequence[Mapping[str, Any]]) -> str:
    return "".join(
        str(block.get("reasoning") or "") for block in blocks if block.get("type") == "reasoning"
    )


def _call_records(
    calls: Sequence[Mapping[str, Any]], blocks: Sequence[Mapping[str, Any]]
) -> list[Any]:
    """Return calls as records, with the extras of their blocks."""
    extras = {
        block.get("id"): block["extras"]
        for block in blocks
        if block.get("type") == "tool_call" and block.get("extras")
    }
    return [write_call({**call, "extras": extras.get(call.get("id"))}) for call in calls]


def _text_and_value(
    message: AIMessage, check: StructuredCheck | None, *, is_by_tool: bool
) -> tuple[str | None, Any]:
    """Return the text of an answer beside its JSON, and the JSON; `is_by_tool`: it is the arguments of a call."""
    text, metadata = str(message.text) or None, message.response_metadata
    value = None
    if check is None:
        value = metadata.get("json")
    elif not check.calls_others(message):
        value = to_jsonable(check.read(message).value)
        if not is_by_tool and "json" not in metadata:
            text = None  # it was read from the text
    if "json" in metadata and text == dumps_canonical(metadata["json"]):
        text = None
    return text, value


def _usage(usage: Mapping[str, Any] | None) -> ChatModelOutputUsage | None:
    if not usage:
        return None
    details = usage.get("input_token_details") or {}
    return ChatModelOutputUsage(
        input_tokens=usage["input_tokens"],
        output_tokens=usage["output_tokens"],
        cache_read_input_tokens=details.get("cache_read") or 0,
        cache_creation_input_tokens=details.get("cache_creation") or 0,
        aigne_hub_credits=usage.get("aigne_hub_credits"),
    )

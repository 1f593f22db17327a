"""The base classes of messages: content, type, name, id and metadata.

Nothing here is specific to roles, providers or streaming.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeAlias, cast

from pydantic import ConfigDict, Field, field_validator

from foldline._extensions import extension
from foldline._lazy import lazy_exports
from foldline.exceptions import LimitExceededError, UsageError
from foldline.load.serializable import Serializable
from foldline.messages import _growth
from foldline.messages._growth import merge_content
from foldline.messages._runnable_function import runnable_function
from foldline.utils import _surrogates

if TYPE_CHECKING:
    # Not at run time: a program with plain text does not need these fifty classes.
    from foldline.protocol.blocks import ContentBlock

__all__ = [
    "BaseMessage",
    "BaseMessageChunk",
    "Content",
    "TextAccessor",
    "get_msg_title_repr",
    "merge_content",
    "message_to_dict",
    "messages_to_dict",
]

Content: TypeAlias = str | list[str | dict[Any, Any]]
"""The content of a message: text, or a list of texts and blocks."""

TITLE_WIDTH = 80


class TextAccessor(str):
    """The text of a message: a string that can also be called, as older programs do (`message.text()`)."""

    __slots__ = ()

    def __call__(self) -> str:
        """Return the text as a plain string."""
        return str(self)


class BaseMessage(Serializable):
    """One turn of a conversation.

    ```python
    from foldline.messages import HumanMessage

    print(HumanMessage("hello", name="ann").text)
    #> hello
    ```
    """

    content: Content
    """The content: text, or a list of blocks (standard ones, or the provider's own)."""
    additional_kwargs: dict[Any, Any] = Field(default_factory=dict)
    """Further fields of the provider's message."""
    response_metadata: dict[Any, Any] = Field(default_factory=dict)
    """Metadata of the answer: model name, finish reason, log probabilities."""
    type: str
    """The type of message, used for serialization."""
    name: str | None = None
    """The name of the speaker, for providers that support it."""
    id: Annotated[str | None, Field(coerce_numbers_to_str=True)] = None
    """The unique id of this message; the provider's, if it sends one."""

    # Pydantic builds a class on first use, not on import: most programs use three of fifteen.
    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow", defer_build=True)

    def __init__(
        self,
        content: Content | None = None,
        content_blocks: Sequence[ContentBlock] | None = None,
        **kwargs: object,
    ) -> None:
        """Create a message from `content`, or from standard `content_blocks`."""
        if content_blocks is not None:
            if content is not None:
                raise UsageError("give content or content_blocks, not both")
            content = cast("Content", check_blocks(content_blocks))
        super().__init__(content=content, **kwargs)
        if kwargs and self.__pydantic_extra__:
            self._check_extra(self.__pydantic_extra__)

    def _check_extra(self, names: Iterable[str]) -> None:
        """Warn of fields that are not known and resemble one that is, where the program wrote them."""
        from foldline.utils._suggest import is_built_from_data, warn_of_typo  # noqa: PLC0415  few messages have extra fields

        if is_built_from_data():
            return
        cls = type(self)
        for name in names:
            warn_of_typo(cls.__name__, name, cls.model_fields, "it is kept as an extra field")

    @field_validator("additional_kwargs", "response_metadata", mode="before")
    @classmethod
    def _none_is_empty(cls, value: object) -> object:
        return {} if value is None else value

    @field_validator("content", mode="after")
    @classmethod
    def _fix_surrogates(cls, content: Content) -> Content:
        # A lone surrogate cannot be stored or sent; in a chunk the other half may follow in the next chunk.
        if issubclass(cls, BaseMessageChunk):
            return content
        if isinstance(content, str):
            return _surrogates.mend_surrogates(content)
        return [
            _surrogates.mend_surrogates(item) if isinstance(item, str) else _fix_block(item)
            for item in content
        ]

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Return True: messages can be serialized."""
        return True

    @property
    def text(self) -> TextAccessor:
        """The text of the message: all text blocks joined, without media and reasoning."""
        content = self.content
        if isinstance(content, str):
            return TextAccessor(content)
        return TextAccessor("".join(map(_text_of, content)))

    @property
    def content_blocks(self) -> list[ContentBlock]:
        """The content as standard blocks, for any provider, without loss."""
        content = self.content
        if isinstance(content, str):
            return [{"type": "text", "text": content}] if content else []
        from foldline.messages.block_translators._pipeline import standard_blocks  # noqa: PLC0415  rarely used

        return standard_blocks(content, None)

    def __repr_str__(self, join_str: str) -> str:
        try:
            return cast("str", cast("Any", super()).__repr_str__(join_str))
        except RecursionError:  # a message may contain deeply nested JSON
            return join_str.join(
                f"{name}={safe_repr(value)}" for name, value in self.__repr_args__()
            )

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        try:
            return super().__deepcopy__(memo)
        except RecursionError:
            raise LimitExceededError(
                f"this {type(self).__name__} holds values nested too deep to be copied: "
                "model_copy() without deep=True shares them"
            ) from None

    def __add__(self, other: object) -> object:
        """Return a prompt: `SystemMessage(...) + HumanMessage(...)` is a `ChatPromptTemplate`."""
        return extension("add_messages")(self, other)

    def pretty_repr(self, html: bool = False) -> str:  # noqa: FBT001, FBT002  LangChain's signature
        """Return the message under a title line; `html=True` makes the title bold on a terminal."""
        title = get_msg_title_repr(f"{self.type.title()} Message", bold=html)
        name = f"\nName: {self.name}" if self.name is not None else ""
        content = self.content if isinstance(self.content, str) else safe_repr(self.content)
        return f"{title}{name}\n\n{content}"

    def pretty_print(self) -> None:
        """Print `pretty_repr`."""
        print(self.pretty_repr())  # noqa: T201  printing is its job

    def _repr_html_(self) -> str:
        from foldline._display.messages import message_html  # noqa: PLC0415  for notebooks only

        return message_html(self)


class BaseMessageChunk(BaseMessage):
    """A piece of a message; chunks are added with `+`."""

    def __add__(self, other: object) -> Self:
        """Return the sum of two chunks, or of a chunk and a list of chunks."""
        others = other if isinstance(other, list | tuple) else [other]
        total = self
        for part in others:
            if not isinstance(part, BaseMessageChunk):
                raise TypeError(
                    f"cannot add {type(part).__name__} to {type(self).__name__}: only chunks add up"
                )
            total = total._concat(part)
        return total

    def __radd__(self, other: object) -> Self:
        """Let `sum(chunks)` work."""
        if other == 0:
            return self
        return NotImplemented

    def _concat(self, other: BaseMessageChunk) -> Self:
        return self.model_copy(
            update={
                "content": _growth.merge_content(self.content, other.content),
                "additional_kwargs": _growth.merge_kwargs(
                    self.additional_kwargs, other.additional_kwargs
                ),
                "response_metadata": _growth.merge_metadata(
                    self.response_metadata, other.response_metadata
                ),
                "id": _growth.grow_id(self.id, other.id),
                "name": self.name or other.name,
            }
        )


def get_msg_title_repr(title: str, *, bold: bool = False) -> str:
    """Return a title in the middle of a line of equals signs."""
    padded = f" {title} "
    left_rule = "=" * ((TITLE_WIDTH - len(padded)) // 2)
    right_rule = left_rule + "=" if len(padded) % 2 else left_rule
    return (
        f"{left_rule}\x1b[1m{padded}\x1b[0m{right_rule}"
        if bold
        else f"{left_rule}{padded}{right_rule}"
    )


def message_to_dict(message: BaseMessage) -> dict[str, Any]:
    """Return a message as `{"type": ..., "data": ...}`."""
    return {"type": message.type, "data": message.model_dump()}


@runnable_function
def messages_to_dict(messages: Sequence[BaseMessage]) -> list[dict[str, Any]]:
    """Return messages as dicts, for `messages_from_dict`."""
    return [message_to_dict(message) for message in messages]


def _fix_block(block: dict[Any, Any]) -> dict[Any, Any]:
    text = block.get("text")
    if isinstance(text, str) and _surrogates.has_surrogates(text):
        return {**block, "text": _surrogates.mend_surrogates(text)}
    return block


def _text_of(item: str | dict[Any, Any]) -> str:
    if isinstance(item, str):
        return item
    text = item.get("text") if item.get("type") == "text" else None
    return text if isinstance(text, str) else ""


def check_blocks(blocks: object) -> list[dict[str, Any]]:
    """Return `content_blocks`; raise unless they are a list of dicts."""
    if isinstance(blocks, list | tuple) and all(isinstance(block, dict) for block in blocks):
        return list(blocks)
    raise UsageError(
        'content_blocks is a list of dicts such as {"type": "text", "text": "hi"}, '
        f"not {safe_repr(blocks):.80}"
    )


def safe_repr(value: object) -> str:
    """Return `repr(value)`, or a placeholder for values that are nested too deep."""
    try:
        return repr(value)
    except RecursionError:
        return f"<{type(value).__name__} nested too deep to be shown>"


with lazy_exports(__name__):
    from foldline.messages._growth import merge_content as merge_content

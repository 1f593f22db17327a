"""`StrOutputParser`: the text of a model's answer, piece by piece."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from foldline._run import Run
from foldline.messages import BaseMessage
from foldline.output_parsers.base import generation_of
from foldline.output_parsers.transform import BaseTransformOutputParser, Reader

__all__ = ["StrOutputParser"]


class StrOutputParser(BaseTransformOutputParser[str]):
    """Returns the text of an answer.

    ```python
    from foldline.messages import AIMessage
    from foldline.output_parsers import StrOutputParser

    print(StrOutputParser().invoke(AIMessage("hello")))
    #> hello
    ```
    """

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Return True: this parser can be dumped and loaded."""
        return True

    @property
    def _type(self) -> str:
        return "default"

    def parse(self, text: str) -> str:
        """Return the text as it is."""
        return text

    async def _invoke_body(self, input: object, run: Run) -> str:
        return text_of(input) if self._is_ours else await super()._invoke_body(input, run)

    def _reader(self) -> Reader:
        return _TextReader() if self._is_ours else super()._reader()

    def _transform(self, input: Iterator[str | BaseMessage]) -> Iterator[str]:
        if not self._is_ours:
            yield from super()._transform(input)
            return
        for piece in input:
            yield text_of(piece)


class _TextReader:
    def feed(self, piece: str | BaseMessage) -> Iterable[str]:
        return (text_of(piece),)

    def finish(self) -> Iterable[str]:
        return ()


def text_of(piece: object) -> str:
    """Return the text of a message, or the text itself."""
    if type(piece) is str:
        return piece
    if isinstance(piece, BaseMessage):
        content = piece.content
        return content if type(content) is str else str(piece.text)
    return generation_of(piece).text

"""An incremental JSON parser, whose work is linear in the text however it is cut.

It keeps the open containers on a stack, the open string as pieces, and one *step*: the method that reads next. A
container is put into its parent when it closes, so closed parts never change again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from json.decoder import scanstring  # type: ignore[attr-defined]  # C, undocumented, stable since 2.7
from typing import Final, TypeAlias

from foldline.utils._json_bulk import read_prefix
from foldline.utils._json_strict import MAX_DEPTH, Json, JsonError, parse_float, parse_int
from foldline.utils._surrogates import has_surrogates, mend_surrogates

SPACE = r"[ \t\n\r]*+"
VALUE = re.compile(
    SPACE + r'(?:(")|([-0-9][-+.0-9eE]*+)|([{\[])|([A-Za-z]++)|([\]}])|(.))', re.DOTALL
)
NAME = re.compile(SPACE + r'(?:"([^"\\\x00-\x1f]*+)"' + SPACE + r":|(\")|(\})|(.))", re.DOTALL)
MARK = re.compile(SPACE + r"(.)", re.DOTALL)
STRING = re.compile(r'(?:[^"\\]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+')
CONTROL = re.compile(r"[\x00-\x1f]")
CUT_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")
DIGITS = re.compile(r"[-+.0-9eE]*+")
LETTERS = re.compile(r"[A-Za-z]*+")
NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(\.[0-9]++)?+([eE][-+]?[0-9]++)?+")
LITERALS: Final = {"true": True, "false": False, "null": None}
BULK_LENGTH = 1000  # a first slice longer than this is read by the C parser as far as it goes
MAX_SCALAR = 4400  # Python converts integers of at most 4,300 digits


class _Missing:
    """Stands for "no value yet", which is not None."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()
Path: TypeAlias = tuple[str | int, ...]
"""Names and indexes that lead to a value."""
Step = Callable[["PartialJson", str, int], int]


class PartialJson:
    """A parser fed slice by slice, whose best guess can be read at any time.

    ```python
    parser = PartialJson()
    parser.feed('{"city": "Par')
    parser.value()  # {"city": "Par"}
    ```
    """

    __slots__ = (
        "_depth",
        "_is_name",
        "_keys",
        "_may_close",
        "_offset",
        "_on_value",
        "_pieces",
        "_root",
        "_stack",
        "_step",
        "_strict",
        "_tail",
        "error",
    )

    def __init__(
        self,
        *,
        max_depth: int = MAX_DEPTH,
        strict: bool = False,
        on_value: Callable[[Path, Json], None] | None = None,
    ) -> None:
        """Allow raw control characters inside strings unless `strict`.

        `on_value` is called with the path and the value of everything that is complete, the innermost first.
        """
        self._on_value = on_value
        self.error: JsonError | None = None
        self._depth = max_depth
        self._strict = strict
        self._stack: list[dict[str, Json] | list[Json]] = []
        self._keys: list[str] = []  # the current name of each open container, "" for lists
        self._root: Json | _Missing = MISSING
        self._pieces: list[str] = []
        self._tail = ""  # an escape cut by the end of a slice
        self._offset = 0
        self._is_name = False
        self._may_close = False
        self._step: Step = PartialJson._read_value

    def feed(self, text: str, start: int = 0) -> None:
        """Read more text, from `start`. A mistake in it sets `error`; the value before it stays."""
        if self._tail:
            text = self._tail + text[start:]
            start = 0
            self._tail = ""
        position, end = start, len(text)
        self._offset -= start
        if end > BULK_LENGTH and start == 0 and self._on_value is None and self._is_fresh():
            position = self._read_prefix(text)
        while position < end:
            position = self._step(self, text, position)
        self._offset += end - len(self._tail)

    @property
    def is_complete(self) -> bool:
        """Whether the text so far is a complete JSON document."""
        if self.error is not None or self._stack:
            return False
        if self._step is PartialJson._read_scalar:
            return _is_whole_scalar("".join(self._pieces))
        return self._root is not MISSING

    @property
    def has_value(self) -> bool:
        """Whether there is a value yet."""
        return self._snapshot() is not MISSING

    def value(self) -> Json:
        """Return the value so far: open strings as they are, open names and literals left out.

        Nothing yet is None. What is returned does not change with later feeds, and shares its
        closed parts with them: do not change it in place.
        """
        value = self._snapshot()
        return None if isinstance(value, _Missing) else value

    def copy(self) -> PartialJson:
        """Return a copy; the two parsers may then be fed different text."""
        copy = PartialJson.__new__(PartialJson)
        for name in PartialJson.__slots__:
            setattr(copy, name, getattr(self, name))
        copy._stack = [container.copy() for container in self._stack]
        copy._keys = self._keys.copy()
        copy._pieces = self._pieces.copy()
        return copy

    def _snapshot(self) -> Json | _Missing:
        value = self._open_leaf() if self._root is MISSING else self._root
        for container, key in zip(reversed(self._stack), reversed(self._keys), strict=True):
            parent = container.copy()
            if not isinstance(value, _Missing):
                if isinstance(parent, list):
                    parent.append(value)
                else:
                    parent[key] = value
            value = parent
        return value

    def _open_leaf(self) -> Json | _Missing:
        if self._step is PartialJson._read_string and not self._is_name:
            text = self._joined()
            if text and "\ud800" <= text[-1] <= "\udbff":  # its other half may still come
                text = text[:-1]
            return mend_surrogates(text)
        if self._step is PartialJson._read_scalar:
            return _scalar_so_far("".join(self._pieces))
        return MISSING

    def _joined(self) -> str:
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    def _fail(self, reason: str, text: str, position: int) -> int:
        self.error = JsonError(reason, "", 0)
        self.error.pos = self._offset + position
        self.error.args = (f"{reason} at character {self.error.pos}",)
        self._step = PartialJson._read_nothing
        return len(text)

    def _is_fresh(self) -> bool:
        return self._offset == 0 and self._step is PartialJson._read_value and not self._stack

    def _read_prefix(self, text: str) -> int:
        prefix = read_prefix(text, max_depth=self._depth, strict=self._strict)
        if prefix is None:
            return 0
        self._stack, self._keys = prefix.stack, prefix.keys
        self._may_close = prefix.mark in ("[", "{")
        if prefix.mark in ("]", "}"):
            self._step = PartialJson._read_after
        elif isinstance(self._stack[-1], list):
            self._step = PartialJson._read_value
        else:
            self._step = PartialJson._read_name
        return prefix.end

    # Steps: each reads at least one character, sets the next step and says where it stopped.

    def _read_nothing(self, text: str, position: int) -> int:
        return len(text)

    def _read_end(self, text: str, position: int) -> int:
        match = MARK.match(text, position)
        if match is None:
            return len(text)
        return self._fail("text after the end of the value", text, match.start(1))

    def _read_value(self, text: str, position: int) -> int:
        match = VALUE.match(text, position)
        if match is None:
            return len(text)
        kind, end = match.lastindex, match.end()
        may_close, self._may_close = self._may_close, False
        if kind == 1:
            self._open_string(is_name=False)
        elif kind == 2 or kind == 4:
            if end == len(text):
                self._pieces = [match[kind]]
                self._step = PartialJson._read_scalar
            else:
                return self._put_scalar(match[kind], text, match.start(kind), end)
        elif kind == 3:
            return self._open_container(match[3], text, end)
        elif kind == 5 and may_close and match[5] == "]":
            self._close()
        else:
            return self._fail(f"expected a value, found {match[0].strip()!r}", text, end - 1)
        return end

    def _read_name(self, text: str, position: int) -> int:
        match = NAME.match(text, position)
        if match is None:
            return len(text)
        kind, end = match.lastindex, match.end()
        may_close, self._may_close = self._may_close, False
        if kind == 1:
            self._keys[-1] = match[1]
            self._step = PartialJson._read_value
        elif kind == 2:
            self._open_string(is_name=True)
        elif kind == 3 and may_close:
            self._close()
        else:
            return self._fail(
                f"expected a name in quotes, found {match[kind or 0]!r}", text, end - 1
            )
        return end

    def _read_colon(self, text: str, position: int) -> int:
        match = MARK.match(text, position)
        if match is None:
            return len(text)
        if match[1] != ":":
            return self._fail(
                f"expected ':' after a name, found {match[1]!r}", text, match.start(1)
            )
        self._step = PartialJson._read_value
        return match.end()

    def _read_after(self, text: str, position: int) -> int:
        match = MARK.match(text, position)
        if match is None:
            return len(text)
        mark, is_list = match[1], isinstance(self._stack[-1], list)
        if mark == ",":
            self._step = PartialJson._read_value if is_list else PartialJson._read_name
        elif mark == ("]" if is_list else "}"):
            self._close()
        else:
            close = "]" if is_list else "}"
            return self._fail(f"expected ',' or {close!r}, found {mark!r}", text, match.start(1))
        return match.end()

    def _read_scalar(self, text: str, position: int) -> int:
        more = LETTERS if self._pieces[0][0].isalpha() else DIGITS
        match = more.match(text, position)
        end = position if match is None else match.end()
        self._pieces.append(text[position:end])
        scalar = self._joined()
        start = end - len(scalar)  # before this slice if the scalar began there
        if len(scalar) > MAX_SCALAR:
            return self._fail("number too long", text, start)
        if end == len(text):
            return end
        return self._put_scalar(scalar, text, start, end)

    def _put_scalar(self, scalar: str, text: str, start: int, end: int) -> int:
        try:
            value = _scalar(scalar)
        except ValueError as error:
            return self._fail(str(error), text, start)
        if isinstance(value, _Missing):
            return self._fail(f"{scalar[:40]!r} is not a JSON value", text, start)
        self._put(value)
        return end

    def _read_string(self, text: str, position: int) -> int:
        match = STRING.match(text, position)
        end = position if match is None else match.end()
        if end > position:
            run = text[position:end]
            if self._strict and (control := CONTROL.search(run)):
                return self._fail(
                    "raw control character in a string", text, position + control.start()
                )
            if "\\" in run:
                run = _unescaped(run)
            self._pieces.append(run)
        if end == len(text):
            return end
        if text[end] == '"':
            self._close_string()
            return end + 1
        if CUT_ESCAPE.match(text, end):
            self._tail = text[end:]
            return len(text)
        return self._fail(f"invalid escape {text[end : end + 2]!r}", text, end)

    def _open_string(self, *, is_name: bool) -> None:
        self._pieces = []
        self._is_name = is_name
        self._step = PartialJson._read_string

    def _close_string(self) -> None:
        text = self._joined()
        self._pieces = []
        if has_surrogates(text):
            text = mend_surrogates(text)
        if self._is_name:
            self._keys[-1] = text
            self._step = PartialJson._read_colon
        else:
            self._put(text)

    def _open_container(self, mark: str, text: str, end: int) -> int:
        if len(self._stack) >= self._depth:
            return self._fail(f"nested deeper than {self._depth} levels", text, end - 1)
        is_list = mark == "["
        self._stack.append([] if is_list else {})
        self._keys.append("")
        self._may_close = True
        self._step = PartialJson._read_value if is_list else PartialJson._read_name
        return end

    def _close(self) -> None:
        self._keys.pop()
        self._put(self._stack.pop())

    def _path(self) -> Path:
        return tuple(
            len(container) if isinstance(container, list) else key
            for container, key in zip(self._stack, self._keys, strict=True)
        )

    def _put(self, value: Json) -> None:
        if self._on_value is not None:
            self._on_value(self._path(), value)
        if not self._stack:
            self._root = value
            self._step = PartialJson._read_end
            return
        parent = self._stack[-1]
        if isinstance(parent, list):
            parent.append(value)
        else:
            parent[self._keys[-1]] = value
        self._step = PartialJson._read_after


def _scalar(text: str) -> Json | _Missing:
    if text in LITERALS:
        return LITERALS[text]
    match = NUMBER.fullmatch(text)
    if match is None:
        return MISSING
    return parse_int(text) if match.lastindex is None else parse_float(text)


def _unescaped(run: str) -> str:
    text: str = scanstring(run + '"', 0, False)[0]  # noqa: FBT003  a C function: not strict
    return text


def _is_whole_scalar(text: str) -> bool:
    try:
        return _scalar(text) is not MISSING
    except ValueError:
        return False


def _scalar_so_far(text: str) -> Json | _Missing:
    if text in LITERALS:
        return LITERALS[text]
    match = NUMBER.match(text)
    if match is None:
        return MISSING
    try:
        return _scalar(match[0])
    except ValueError:
        return MISSING

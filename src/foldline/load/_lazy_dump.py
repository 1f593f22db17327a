"""`LazyDump`: the JSON form of an object, written when it is first read.

Every `on_*_start` passes the form of the runnable to handlers, and most never read it. It is a real `dict`, so that
handlers may use it as one; a library that reads a dict without its methods sees only the initial item (`lc`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from foldline.load.dump import dumpd

__all__ = ["LazyDump"]


class LazyDump(dict[str, Any]):
    """The result of `dumpd` for an object, computed at the first read; later changes of the object do not show.

    ```python
    from foldline.load._lazy_dump import LazyDump
    from foldline.messages import HumanMessage

    dump = LazyDump(HumanMessage("hello"))
    print(dump["id"][-1])
    #> HumanMessage
    ```
    """

    __slots__ = ("_other_fields", "_source")

    def __init__(self, source: object, **other_fields: object) -> None:
        super().__init__(lc=1)
        self._source: object = source
        self._other_fields = other_fields

    @property
    def unwritten(self) -> tuple[object, str] | None:
        """The object whose form is still to be written, and the `repr` of the other fields; None once it is written."""
        source = self._source
        return None if source is None else (source, repr(self._other_fields))

    def _write(self) -> None:
        source = self._source
        if source is not None:
            dict.update(self, dumpd(source) | self._other_fields)
            self._source = None  # last: another thread may be reading

    def __reduce__(self) -> tuple[type[dict[str, Any]], tuple[dict[str, Any]]]:
        return dict, (self.copy(),)


def _after_writing(name: str) -> Callable[..., object]:
    method = getattr(dict, name)

    def read(self: LazyDump, *args: object, **kwargs: object) -> object:
        self._write()
        return method(self, *args, **kwargs)

    read.__name__, read.__doc__ = name, method.__doc__
    return read


for _name in (
    "__contains__", "__delitem__", "__eq__", "__getitem__", "__ior__", "__iter__", "__len__", "__ne__", "__or__",
    "__repr__", "__reversed__", "__ror__", "__setitem__", "clear", "copy", "get", "items", "keys", "pop", "popitem",
    "setdefault", "update", "values",
):  # fmt: skip
    setattr(LazyDump, _name, _after_writing(_name))

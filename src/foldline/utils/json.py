"""JSON parsing and writing: strict, partial and repaired."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import Loader, lazy_exports

if TYPE_CHECKING:
    from foldline.utils._json_markdown import (
        find_json,
        parse_and_check_json_markdown,
        parse_json_markdown,
        parse_partial_json,
    )
    from foldline.utils._json_partial import PartialJson
    from foldline.utils._json_repair import repair_json
    from foldline.utils._json_strict import (
        MAX_DEPTH,
        Json,
        JsonError,
        nesting_depth,
        parse_strict,
        parse_wire,
    )
    from foldline.utils._json_write import dumps_canonical, to_jsonable
    from foldline.utils._surrogates import (
        SurrogateJoiner,
        has_surrogates,
        mend_surrogates,
        mend_value,
    )

__all__ = [
    "MAX_DEPTH",
    "Json",
    "JsonError",
    "PartialJson",
    "SurrogateJoiner",
    "dumps_canonical",
    "find_json",
    "has_surrogates",
    "mend_surrogates",
    "mend_value",
    "nesting_depth",
    "parse_and_check_json_markdown",
    "parse_json_markdown",
    "parse_partial_json",
    "parse_strict",
    "parse_wire",
    "repair_json",
    "to_jsonable",
]


__getattr__: Loader = lazy_exports(
    __name__,
    {
        "._json_markdown": "find_json parse_and_check_json_markdown parse_json_markdown parse_partial_json",
        "._json_partial": "PartialJson",
        "._json_repair": "repair_json",
        "._json_strict": "Json JsonError MAX_DEPTH nesting_depth parse_strict parse_wire",
        "._json_write": "dumps_canonical to_jsonable",
        "._surrogates": "SurrogateJoiner has_surrogates mend_surrogates mend_value",
    },
)

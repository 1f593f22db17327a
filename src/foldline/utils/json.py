"""JSON parsing and writing: strict, partial and repaired."""

from __future__ import annotations

from foldline._lazy import lazy_exports

__all__ = [
    "Json",
    "parse_and_check_json_markdown",
    "parse_json_markdown",
    "parse_partial_json",
]


with lazy_exports(__name__):
    from foldline.utils._json_markdown import (
        find_json as find_json,
        parse_and_check_json_markdown as parse_and_check_json_markdown,
        parse_json_markdown as parse_json_markdown,
        parse_partial_json as parse_partial_json,
    )
    from foldline.utils._json_partial import PartialJson as PartialJson
    from foldline.utils._json_repair import repair_json as repair_json
    from foldline.utils._json_strict import (
        MAX_DEPTH as MAX_DEPTH,
        Json as Json,
        JsonError as JsonError,
        nesting_depth as nesting_depth,
        parse_strict as parse_strict,
        parse_wire as parse_wire,
    )
    from foldline.utils._json_write import (
        dumps_canonical as dumps_canonical,
        to_jsonable as to_jsonable,
    )
    from foldline.utils._surrogates import (
        SurrogateJoiner as SurrogateJoiner,
        has_surrogates as has_surrogates,
        mend_surrogates as mend_surrogates,
        mend_value as mend_value,
    )

"""Pure helpers. Nothing here does I/O or imports the rest of foldline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import Loader, lazy_exports

if TYPE_CHECKING:
    from foldline.utils.aiter import abatch_iterate
    from foldline.utils.env import from_env, get_from_dict_or_env, get_from_env, secret_from_env
    from foldline.utils.formatting import StrictFormatter, formatter
    from foldline.utils.input import (
        get_bolded_text,
        get_color_mapping,
        get_colored_text,
        print_text,
    )
    from foldline.utils.iter import batch_iterate
    from foldline.utils.pydantic import pre_init
    from foldline.utils.strings import (
        comma_list,
        sanitize_for_postgres,
        stringify_dict,
        stringify_value,
    )
    from foldline.utils.utils import (
        build_extra_kwargs,
        check_package_version,
        convert_to_secret_str,
        get_pydantic_field_names,
        guard_import,
        mock_now,
        raise_for_status_with_text,
        xor_args,
    )

__all__ = [
    "StrictFormatter",
    "abatch_iterate",
    "batch_iterate",
    "build_extra_kwargs",
    "check_package_version",
    "comma_list",
    "convert_to_secret_str",
    "formatter",
    "from_env",
    "get_bolded_text",
    "get_color_mapping",
    "get_colored_text",
    "get_from_dict_or_env",
    "get_from_env",
    "get_pydantic_field_names",
    "guard_import",
    "mock_now",
    "pre_init",
    "print_text",
    "raise_for_status_with_text",
    "sanitize_for_postgres",
    "secret_from_env",
    "stringify_dict",
    "stringify_value",
    "xor_args",
]


__getattr__: Loader = lazy_exports(
    __name__,
    {
        ".aiter": "abatch_iterate",
        ".env": "from_env get_from_dict_or_env get_from_env secret_from_env",
        ".formatting": "StrictFormatter formatter",
        ".input": "get_bolded_text get_color_mapping get_colored_text print_text",
        ".iter": "batch_iterate",
        ".pydantic": "pre_init",
        ".strings": "comma_list sanitize_for_postgres stringify_dict stringify_value",
        ".utils": "build_extra_kwargs check_package_version convert_to_secret_str "
        "get_pydantic_field_names guard_import mock_now raise_for_status_with_text xor_args",
    },
)

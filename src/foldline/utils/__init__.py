"""Pure helpers. Nothing here does I/O or imports the rest of foldline."""

from __future__ import annotations

from foldline._lazy import lazy_exports

with lazy_exports(__name__):
    from foldline.utils.aiter import abatch_iterate as abatch_iterate
    from foldline.utils.env import (
        from_env as from_env,
        get_from_dict_or_env as get_from_dict_or_env,
        get_from_env as get_from_env,
        secret_from_env as secret_from_env,
    )
    from foldline.utils.formatting import StrictFormatter as StrictFormatter, formatter as formatter
    from foldline.utils.input import (
        get_bolded_text as get_bolded_text,
        get_color_mapping as get_color_mapping,
        get_colored_text as get_colored_text,
        print_text as print_text,
    )
    from foldline.utils.iter import batch_iterate as batch_iterate
    from foldline.utils.pydantic import pre_init as pre_init
    from foldline.utils.strings import (
        comma_list as comma_list,
        sanitize_for_postgres as sanitize_for_postgres,
        stringify_dict as stringify_dict,
        stringify_value as stringify_value,
    )
    from foldline.utils.utils import (
        build_extra_kwargs as build_extra_kwargs,
        check_package_version as check_package_version,
        convert_to_secret_str as convert_to_secret_str,
        get_pydantic_field_names as get_pydantic_field_names,
        guard_import as guard_import,
        mock_now as mock_now,
        raise_for_status_with_text as raise_for_status_with_text,
        xor_args as xor_args,
    )

"""The studio: a web page over traces, a playground, threads and datasets (extra `studio`).

`foldline studio` opens it. `create_app(...)` is an ASGI app, served alone or mounted into another one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import lazy_exports

if TYPE_CHECKING:
    from foldline.studio.app import create_app
    from foldline.studio.settings import StudioSettings

__all__ = ["StudioSettings", "create_app"]

__getattr__ = lazy_exports(__name__, {".app": "create_app", ".settings": "StudioSettings"})

"""`RunInfo`: the run of a result."""

from __future__ import annotations

from typing import ClassVar
from uuid import UUID

from pydantic import BaseModel, ConfigDict

from foldline.utils._signature import SIGNATURE, ClassSignature

__all__ = ["RunInfo"]


class RunInfo(BaseModel):
    """The run of one result; read `config["callbacks"]` for more than its id."""

    model_config: ClassVar[ConfigDict] = ConfigDict(defer_build=True)
    __signature__: ClassVar[ClassSignature] = SIGNATURE

    run_id: UUID
    """The id of the run in callbacks and traces."""

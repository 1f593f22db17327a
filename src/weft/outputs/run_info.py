"""`RunInfo`: which run made a result."""

from __future__ import annotations

from uuid import UUID

from pydantic import BaseModel

__all__ = ["RunInfo"]


class RunInfo(BaseModel):
    """The run that made one result; read `config["callbacks"]` for more than its id."""

    run_id: UUID
    """The id that callbacks and traces know the run by."""

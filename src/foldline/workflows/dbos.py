"""`DbosDurability` (extra `dbos`): the steps of agents and flows in DBOS, over SQLite or PostgreSQL.

DBOS runs in this process. When a program restarts, unfinished runs continue automatically.
"""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any

from foldline._io import ASYNC, BLOCKING, IO, PrivateLoop, mutex
from foldline._io.drive import drive
from foldline.exceptions import MissingExtraError, UsageError
from foldline.utils._short_repr import short_repr
from foldline.workflows.durability import Durability, StepBody

__all__ = ["DbosDurability"]


class DbosDurability(Durability):
    """Stores runs in DBOS. One per process, like DBOS; it can serve many agents and flows."""

    __repr__ = short_repr

    def __init__(
        self,
        database: str = "sqlite:///foldline_dbos.sqlite",
        *,
        name: str = "foldline",
        **config: Any,
    ) -> None:
        """Set the database of DBOS (`sqlite:///file` or `postgresql://…`); `config` is passed to `DBOSConfig`."""
        super().__init__()
        try:
            dbos: Any = import_module("dbos")
        except ImportError as error:
            raise MissingExtraError(
                'DbosDurability needs the package "dbos": pip install "foldline[dbos]"'
            ) from error
        self._dbos = dbos
        self._lock = mutex()
        self._is_launched = False
        self._loop: PrivateLoop | None = None
        # Set the version: by default DBOS uses the hash of the code, and an upgrade would orphan runs.
        settings = {
            "name": name,
            "system_database_url": database,
            "application_version": name,
            **config,
        }
        dbos.DBOS(config={"run_migrations": True, "enable_otlp": False, **settings})

        def run(name: str, payload: str) -> str:
            body = self.perform(name, json.loads(payload), BLOCKING, dbos.DBOS.workflow_id)
            return json.dumps(drive(body))

        async def run_async(name: str, payload: str) -> str:
            body = self.perform(name, json.loads(payload), ASYNC, dbos.DBOS.workflow_id)
            return json.dumps(await body)

        self._run = dbos.DBOS.workflow(name="foldline.run")(run)
        self._run_async = dbos.DBOS.workflow(name="foldline.arun")(run_async)

    def launch(self) -> None:
        """Start DBOS after all agents and flows are created: unfinished runs continue. The first run starts it too."""
        with self._lock:
            if not self._is_launched:
                self._dbos.DBOS.launch()
                self._is_launched = True

    async def _start(self, name: str, run_id: str, payload: Any, io: IO) -> dict[str, Any]:  # noqa: ANN401  JSON as `pack` returned it
        await io.call(self.launch)
        text = json.dumps(payload)
        if io.blocking:
            with self._dbos.SetWorkflowID(run_id):
                result = self._dbos.DBOS.start_workflow(self._run, name, text).get_result()
        else:
            result = await self._start_async(name, run_id, text)
        envelope: dict[str, Any] = json.loads(result)
        return envelope

    async def _start_async(self, name: str, run_id: str, text: str) -> str:
        """Run on a private loop: DBOS binds its threads to the loop it runs on, and they end with it."""
        with self._lock:
            if self._loop is None:
                self._loop = PrivateLoop()

        async def run() -> str:
            with self._dbos.SetWorkflowID(run_id):
                handle = await self._dbos.DBOS.start_workflow_async(self._run_async, name, text)
            result: str = await handle.get_result()
            return result

        return await self._loop.run(run(), blocking=False)

    async def step(self, name: str, body: StepBody, io: IO) -> dict[str, Any]:
        """Run a step in DBOS."""
        if io.blocking:
            result = self._dbos.DBOS.run_step({"name": name}, lambda: json.dumps(drive(body())))
        else:

            async def run() -> str:
                return json.dumps(await body())

            result = await self._dbos.DBOS.run_step_async({"name": name}, run)
        envelope: dict[str, Any] = json.loads(result)
        return envelope

    def close(self) -> None:
        """Stop DBOS in this process."""
        if not self._is_launched:
            raise UsageError("this DbosDurability was not launched: there is nothing to close")
        if self._loop is not None:
            self._loop.close()
            self._loop = None
        self._dbos.DBOS.destroy()
        self._is_launched = False

"""`TemporalDurability` (extra `temporal`): the steps of agents and flows as activities of Temporal.

The program that asks is also the worker. A run is a workflow; its activities run in the worker that runs it, because a
step is a function of this program and not a message to another one. Where a worker dies, Temporal gives the workflow to
another one, which is told of the finished activities, and asks for the one that was under way again.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Final

from foldline._io import ASYNC, IO, PrivateLoop
from foldline._io.asynchronous import Inline
from foldline.exceptions import MissingExtraError, UsageError
from foldline.utils.short_repr import short_repr
from foldline.utils.uuid import new_id
from foldline.workflows.durability import Durability, KeptStep

try:
    from temporalio import activity, common, workflow
    from temporalio.client import Client
    from temporalio.exceptions import ActivityError, TimeoutError, TimeoutType
    from temporalio.worker import UnsandboxedWorkflowRunner, Worker
except ImportError as error:
    raise MissingExtraError(
        'TemporalDurability needs the package "temporalio": pip install "foldline[temporal]"'
    ) from error

__all__ = ["TemporalDurability"]

LOST: Final = (TimeoutType.HEARTBEAT, TimeoutType.SCHEDULE_TO_START)
"""How Temporal says that the worker of an activity is gone."""
ONCE: Final = common.RetryPolicy(maximum_attempts=1)
"""Retries are the model's and the step's own; an activity that is lost is asked for again here."""
CLOSE_SECONDS: Final = 30.0
"""How long `close` waits for the workers to end: Python aborts a process that exits while the Rust core calls it."""
LEAVE_SECONDS: Final = 0.2
"""The thread of the Rust core that told us of the end is still inside Python then; it needs a moment to leave."""
_engines: dict[str, TemporalDurability] = {}
"""The engine of each task queue, for the workflow to find."""
_steps: dict[str, KeptStep] = {}
"""The steps that are to run, by the key that their activity is given."""


class TemporalDurability(Durability):
    """Keeps runs in Temporal."""

    __repr__ = short_repr

    def __init__(
        self,
        address: str = "localhost:7233",
        *,
        namespace: str = "default",
        task_queue: str = "foldline",
        step_seconds: float = 3600.0,
        heartbeat_seconds: float = 30.0,
        **connect: Any,
    ) -> None:
        """Name the server; `connect` goes to `Client.connect` (TLS, API keys).

        A step may take `step_seconds`; a worker that was not heard of for `heartbeat_seconds` is gone.
        """
        super().__init__()
        if task_queue in _engines:
            raise UsageError(
                f"the task queue {task_queue!r} has a TemporalDurability already: use that, or another queue"
            )
        self._address = address
        self._connect = {"namespace": namespace, **connect}
        self._queue = task_queue
        self._own_queue = f"{task_queue}-{new_id()}"
        self._step_time = timedelta(seconds=step_seconds)
        self._beat = timedelta(seconds=heartbeat_seconds)
        self._loop: PrivateLoop | None = None
        _engines[task_queue] = self

    async def _start(self, name: str, run_id: str, payload: Any, io: IO) -> dict[str, Any]:  # noqa: ANN401  JSON, as `pack` wrote it
        if self._loop is None:
            self._loop = PrivateLoop()

        async def execute(client: Client) -> dict[str, Any]:
            handle = await client.start_workflow(
                FoldlineRun.run,
                args=[name, payload],
                id=run_id,
                task_queue=self._queue,
                id_conflict_policy=common.WorkflowIDConflictPolicy.USE_EXISTING,
                id_reuse_policy=common.WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY,
            )
            envelope: dict[str, Any] = await handle.result()
            return envelope

        async def execute_or_read(client: Client) -> dict[str, Any]:
            from temporalio.exceptions import WorkflowAlreadyStartedError  # noqa: PLC0415  beside its use

            try:
                return await execute(client)
            except WorkflowAlreadyStartedError:  # it has ended: its result is what is asked for
                envelope: dict[str, Any] = await client.get_workflow_handle(run_id).result()
                return envelope

        return await self._loop.use(self._open, execute_or_read, blocking=io.blocking)

    @asynccontextmanager
    async def _open(self) -> AsyncGenerator[Client, None]:
        """Connect, and work on the queue of the runs and on that of this worker's steps."""
        client = await Client.connect(self._address, **self._connect)
        runs = Worker(
            client,
            task_queue=self._queue,
            workflows=[FoldlineRun],
            workflow_runner=UnsandboxedWorkflowRunner(),
            sticky_queue_schedule_to_start_timeout=min(self._beat, timedelta(seconds=10)),
        )
        steps = Worker(client, task_queue=self._own_queue, activities=[run_step])
        try:
            async with steps, runs:
                yield client
        finally:
            await ASYNC.sleep(LEAVE_SECONDS)

    async def step(self, name: str, kept: KeptStep, io: IO) -> dict[str, Any]:
        """Run a step as an activity of this worker."""
        if io.blocking:
            raise UsageError(
                f"{name}: a flow under TemporalDurability is async: write `async def`, and await its steps"
            )
        key = f"{workflow.info().run_id}/{new_id()}"
        while True:
            _steps[key] = kept
            try:
                envelope: dict[str, Any] = await workflow.execute_activity(
                    run_step,
                    args=[key, self._beat.total_seconds()],
                    task_queue=self._own_queue,
                    start_to_close_timeout=self._step_time,
                    schedule_to_start_timeout=self._beat,
                    heartbeat_timeout=self._beat,
                    retry_policy=ONCE,
                    summary=name,
                )
            except ActivityError as error:
                if not isinstance(error.cause, TimeoutError) or error.cause.type not in LOST:
                    raise
            else:
                return envelope
            finally:
                _steps.pop(key, None)

    def close(self) -> None:
        """Stop the worker; runs that are not finished wait for another one."""
        _engines.pop(self._queue, None)
        if self._loop is not None:
            self._loop.close(CLOSE_SECONDS)
            self._loop = None


@workflow.defn(name="foldline", sandboxed=False)
class FoldlineRun:
    """A run of an agent or a flow."""

    @workflow.run
    async def run(self, name: str, payload: Any) -> Any:  # noqa: ANN401  JSON, as `pack` wrote it
        """Run it."""
        engine = _engines[workflow.info().task_queue]
        return await engine.perform(name, payload, Inline(workflow.in_workflow))


@activity.defn(name="foldline.step")
async def run_step(key: str, heartbeat_seconds: float) -> Any:  # noqa: ANN401  JSON, as `pack` wrote it
    """Run a step of a workflow that this worker runs."""

    async def beat() -> None:
        while True:
            activity.heartbeat()
            await ASYNC.sleep(heartbeat_seconds / 4)

    beating = ASYNC.start(beat())
    try:
        return await _steps[key]()
    finally:
        beating.cancel()

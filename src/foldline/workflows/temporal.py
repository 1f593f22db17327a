"""`TemporalDurability` (extra `temporal`): the steps of agents and flows as activities of Temporal.

The calling program is also the worker. A run is a workflow; its activities run in the same worker, because a step is a
function of this program. If a worker dies, Temporal assigns the workflow to another one, which gets the results of the
finished activities and runs the interrupted one again.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Final

from foldline._io import ASYNC, IO, PrivateLoop
from foldline._io.asynchronous import Inline
from foldline.exceptions import MissingExtraError, UsageError
from foldline.utils._short_repr import short_repr
from foldline.utils.uuid import new_id
from foldline.workflows.durability import Durability, StepBody

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

LOST_WORKER_TIMEOUTS: Final = (TimeoutType.HEARTBEAT, TimeoutType.SCHEDULE_TO_START)
"""The timeouts by which Temporal reports that the worker of an activity has died."""
NO_RETRY: Final = common.RetryPolicy(maximum_attempts=1)
"""Models and steps retry by themselves; a lost activity is started again in `step`."""
CLOSE_SECONDS: Final = 30.0
"""How long `close` waits for the workers: Python aborts a process that exits while the Rust core calls into it."""
LEAVE_SECONDS: Final = 0.2
"""How long to wait until the Rust core's thread, which reports the end, has left Python."""
_engines: dict[str, TemporalDurability] = {}
"""The engine of each task queue; the workflow looks it up."""
_steps: dict[str, StepBody] = {}
"""The steps to run, by the key of their activity."""


class TemporalDurability(Durability):
    """Stores runs in Temporal."""

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
        """Set the server; `connect` is passed to `Client.connect` (TLS, API keys).

        A step may take `step_seconds`; a worker without a heartbeat for `heartbeat_seconds` counts as dead.
        """
        super().__init__()
        if task_queue in _engines:
            raise UsageError(
                f"the task queue {task_queue!r} has a TemporalDurability already: use that, or another queue"
            )
        self._address = address
        self._connect = {"namespace": namespace, **connect}
        self._queue = task_queue
        self._step_queue = f"{task_queue}-{new_id()}"
        self._step_time = timedelta(seconds=step_seconds)
        self._heartbeat = timedelta(seconds=heartbeat_seconds)
        self._loop: PrivateLoop | None = None
        _engines[task_queue] = self

    async def _start(self, name: str, run_id: str, payload: Any, io: IO) -> dict[str, Any]:  # noqa: ANN401  JSON as `pack` returned it
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
            from temporalio.exceptions import WorkflowAlreadyStartedError  # noqa: PLC0415  used only here

            try:
                return await execute(client)
            except WorkflowAlreadyStartedError:  # it has ended: return its result
                envelope: dict[str, Any] = await client.get_workflow_handle(run_id).result()
                return envelope

        return await self._loop.use(self._open, execute_or_read, blocking=io.blocking)

    @asynccontextmanager
    async def _open(self) -> AsyncGenerator[Client, None]:
        """Connect, and run workers for the queue of the runs and the queue of this worker's steps."""
        client = await Client.connect(self._address, **self._connect)
        runs = Worker(
            client,
            task_queue=self._queue,
            workflows=[FoldlineRun],
            workflow_runner=UnsandboxedWorkflowRunner(),
            sticky_queue_schedule_to_start_timeout=min(self._heartbeat, timedelta(seconds=10)),
        )
        steps = Worker(client, task_queue=self._step_queue, activities=[run_step])
        try:
            async with steps, runs:
                yield client
        finally:
            await ASYNC.sleep(LEAVE_SECONDS)

    async def step(self, name: str, body: StepBody, io: IO) -> dict[str, Any]:
        """Run a step as an activity of this worker."""
        if io.blocking:
            raise UsageError(
                f"{name}: a flow under TemporalDurability is async: write `async def`, and await its steps"
            )
        key = f"{workflow.info().run_id}/{new_id()}"
        while True:
            _steps[key] = body
            try:
                envelope: dict[str, Any] = await workflow.execute_activity(
                    run_step,
                    args=[key, self._heartbeat.total_seconds()],
                    task_queue=self._step_queue,
                    start_to_close_timeout=self._step_time,
                    schedule_to_start_timeout=self._heartbeat,
                    heartbeat_timeout=self._heartbeat,
                    retry_policy=NO_RETRY,
                    summary=name,
                )
            except ActivityError as error:
                if (
                    not isinstance(error.cause, TimeoutError)
                    or error.cause.type not in LOST_WORKER_TIMEOUTS
                ):
                    raise
            else:
                return envelope
            finally:
                _steps.pop(key, None)

    def close(self) -> None:
        """Stop the worker; unfinished runs wait for another one."""
        _engines.pop(self._queue, None)
        if self._loop is not None:
            self._loop.close(CLOSE_SECONDS)
            self._loop = None


@workflow.defn(name="foldline", sandboxed=False)
class FoldlineRun:
    """A run of an agent or a flow."""

    @workflow.run
    async def run(self, name: str, payload: Any) -> Any:  # noqa: ANN401  JSON as `pack` returned it
        """Run the agent or flow."""
        engine = _engines[workflow.info().task_queue]
        run_id = workflow.info().workflow_id
        return await engine.perform(name, payload, Inline(workflow.in_workflow), run_id)


@activity.defn(name="foldline.step")
async def run_step(key: str, heartbeat_seconds: float) -> Any:  # noqa: ANN401  JSON as `pack` returned it
    """Run a step of a workflow that this worker runs."""

    async def send_heartbeats() -> None:
        while True:
            activity.heartbeat()
            await ASYNC.sleep(heartbeat_seconds / 4)

    heartbeat_task = ASYNC.start(send_heartbeats())
    try:
        return await _steps[key]()
    finally:
        heartbeat_task.cancel()

"""Durable flows in plain Python: `step` stores a result, `workflow` continues an interrupted run."""

from __future__ import annotations

from foldline._lazy import lazy_exports

with lazy_exports(__name__):
    from foldline.exceptions import (
        EmptyInputError as EmptyInputError,
        FlowChangedError as FlowChangedError,
        FlowError as FlowError,
        FlowInterruptedError as FlowInterruptedError,
        NothingToResumeError as NothingToResumeError,
        StepTimeoutError as StepTimeoutError,
        UnknownInterruptError as UnknownInterruptError,
    )
    from foldline.workflows.dbos import DbosDurability as DbosDurability
    from foldline.workflows.durability import Durability as Durability
    from foldline.workflows.flow import (
        FlowState as FlowState,
        FlowThread as FlowThread,
        JournalRecord as JournalRecord,
        Workflow as Workflow,
        workflow as workflow,
    )
    from foldline.workflows.interrupts import (
        Command as Command,
        Interrupt as Interrupt,
        interrupt as interrupt,
    )
    from foldline.workflows.primitives import (
        asleep as asleep,
        flow_version as flow_version,
        idempotency_key as idempotency_key,
        now as now,
        random as random,
        sleep as sleep,
        uuid as uuid,
        write as write,
    )
    from foldline.workflows.retry import RetryPolicy as RetryPolicy
    from foldline.workflows.steps import (
        Step as Step,
        StepCall as StepCall,
        agather as agather,
        gather as gather,
        step as step,
    )
    from foldline.workflows.temporal import TemporalDurability as TemporalDurability

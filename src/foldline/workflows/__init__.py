"""Durable flows in plain Python: `step` stores a result, `workflow` continues an interrupted run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import Loader, lazy_exports

if TYPE_CHECKING:
    from foldline.exceptions import (
        EmptyInputError,
        FlowChangedError,
        FlowError,
        FlowInterruptedError,
        NothingToResumeError,
        StepTimeoutError,
        UnknownInterruptError,
    )
    from foldline.workflows.dbos import DbosDurability
    from foldline.workflows.durability import Durability
    from foldline.workflows.flow import FlowState, FlowThread, JournalRecord, Workflow, workflow
    from foldline.workflows.interrupts import Command, Interrupt, interrupt
    from foldline.workflows.primitives import (
        asleep,
        flow_version,
        idempotency_key,
        now,
        random,
        sleep,
        uuid,
        write,
    )
    from foldline.workflows.retry import RetryPolicy
    from foldline.workflows.steps import Step, StepCall, agather, gather, step
    from foldline.workflows.temporal import TemporalDurability

__all__ = [
    "Command",
    "DbosDurability",
    "Durability",
    "EmptyInputError",
    "FlowChangedError",
    "FlowError",
    "FlowInterruptedError",
    "FlowState",
    "FlowThread",
    "Interrupt",
    "JournalRecord",
    "NothingToResumeError",
    "RetryPolicy",
    "Step",
    "StepCall",
    "StepTimeoutError",
    "TemporalDurability",
    "UnknownInterruptError",
    "Workflow",
    "agather",
    "asleep",
    "flow_version",
    "gather",
    "idempotency_key",
    "interrupt",
    "now",
    "random",
    "sleep",
    "step",
    "uuid",
    "workflow",
    "write",
]

__getattr__: Loader = lazy_exports(
    __name__,
    {
        "foldline.exceptions": (
            "EmptyInputError FlowChangedError FlowError FlowInterruptedError NothingToResumeError StepTimeoutError "
            "UnknownInterruptError"
        ),
        ".dbos": "DbosDurability",
        ".durability": "Durability",
        ".flow": "FlowState FlowThread JournalRecord Workflow workflow",
        ".interrupts": "Command Interrupt interrupt",
        ".primitives": "asleep flow_version idempotency_key now random sleep uuid write",
        ".retry": "RetryPolicy",
        ".steps": "StepCall Step agather gather step",
        ".temporal": "TemporalDurability",
    },
)

"""An approval that survives a restart: python examples/approval_flow.py begin | approve | refuse | state.

Begin an order in one process, answer it in another, tomorrow: the card is charged once. The order is kept in
`orders.db`; `begin` may be killed at any moment and run again.
"""

from __future__ import annotations

import sys

from pydantic import BaseModel

from foldline.checkpoint import SqliteSaver
from foldline.workflows import (
    FlowInterruptedError,
    gather,
    idempotency_key,
    interrupt,
    step,
    workflow,
)


class Receipt(BaseModel):
    """The payment service's answer."""

    order: str
    amount: int
    key: str


def refund(receipt: Receipt) -> None:
    """Give the money back."""
    print("refund", receipt.amount)


@step(retry=3, timeout=30, on_failure=refund)
def charge(order: str, amount: int) -> Receipt:
    """Charge the card."""
    # The key is the same in every attempt and after a crash: a payment service takes it and charges once.
    print("charge", amount)
    return Receipt(order=order, amount=amount, key=idempotency_key())


@step(retry=3)
def ship(item: str) -> str:
    """Send an item."""
    print(f"ship {item}\n", end="")  # one write: two run at once
    return f"{item} is on its way"


def checkout(order: str, items: list[str]) -> list[str]:
    """Charge, ask a person, ship."""
    receipt = charge(order, 10 * len(items))
    if not interrupt({"question": "ship it?", "order": order, "amount": receipt.amount}):
        raise PermissionError(f"order {order} was refused")
    return gather(ship.each(items), limit=4)


def main(command: str = "begin", path: str = "orders.db") -> None:
    """Begin the order, answer its question, or look at it."""
    flow = workflow(checkpointer=SqliteSaver(path), version="1")(checkout)
    order = flow.thread("order-17")
    try:
        if command == "begin":
            print(order("order-17", ["tea", "cups"]))
        elif command in ("approve", "refuse"):
            print(order.resume(command == "approve"))
        else:
            state = order.state()
            print(state.status, list(state.steps))
    except FlowInterruptedError as interruption:
        print("waiting:", interruption.interrupts[0].value["question"])
    except PermissionError as error:
        print(error)


if __name__ == "__main__":
    main(*sys.argv[1:])

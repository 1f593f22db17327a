"""Runnables that can be written down and read back."""

from __future__ import annotations

from typing import Any

import pytest

from foldline.load import dumps, loads
from foldline.runnables import (
    RouterRunnable,
    RunnableBranch,
    RunnableLambda,
    RunnableParallel,
    RunnablePassthrough,
    RunnablePick,
)

SAME: Any = RunnablePassthrough()


@pytest.mark.parametrize(
    "runnable",
    [
        SAME,
        SAME | RunnablePick("a"),
        SAME.pipe(RunnablePick("a"), SAME, name="three"),
        RunnableParallel(a=SAME, b=RunnablePick(["a", "b"])),
        RunnablePassthrough.assign(a=RunnablePick("b")),
        RunnableBranch((RunnablePick("a"), SAME), (SAME, SAME), RunnablePick("c")),
        RouterRunnable({"a": SAME}),
        SAME.map(),
        SAME.bind(k=1).with_config(tags=["t"], thread_id="x"),
    ],
    ids=repr,
)
def test_what_was_dumped_is_loaded_again(runnable):
    assert loads(dumps(runnable), allowed_objects="all") == runnable


def test_a_function_is_not_written_down():
    assert '"type": "not_implemented"' in dumps(RunnableLambda(len) | SAME)

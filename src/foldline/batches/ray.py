"""`RayExecutor` (extra `ray`): groups of items as Ray tasks, on this machine or a cluster.

Ray runs a task again, on another worker, where its worker dies. It has `submit`, so it can be used wherever a
`concurrent.futures` executor can.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from foldline.exceptions import MissingExtraError
from foldline.utils._short_repr import short_repr

__all__ = ["RayExecutor"]


class RayExecutor:
    """Runs functions as Ray tasks; `submit` returns a `concurrent.futures.Future`."""

    __repr__ = short_repr

    def __init__(
        self,
        address: str | None = None,
        *,
        workers: int | None = None,
        num_cpus: float = 1,
        max_retries: int = 3,
        **init: Any,
    ) -> None:
        """Connect to a cluster, or start one here; a Ray that already runs in this process is used.

        `workers` tasks run at once (default: the processors of the cluster), each on `num_cpus` of them; a
        task whose worker died is run again `max_retries` times. `init` goes to `ray.init`.
        """
        try:
            ray: Any = import_module("ray")
        except ImportError as error:
            raise MissingExtraError(
                'RayExecutor needs the package "ray": pip install "foldline[ray]"'
            ) from error
        self._ray = ray
        self._owns = not ray.is_initialized()
        if self._owns:
            ray.init(
                address=address, **{"log_to_driver": False, "include_dashboard": False, **init}
            )
        self.workers: int = workers or max(
            1, int(ray.cluster_resources().get("CPU", 1) // num_cpus)
        )
        self._task = ray.remote(num_cpus=num_cpus, max_retries=max_retries)(_call)

    def dumps(self, value: object) -> bytes:
        """Pickle for the workers: functions and classes of `__main__`, which workers do not have, by value."""
        return bytes(self._ray.cloudpickle.dumps(value))

    def is_lost(self, error: BaseException) -> bool:
        """Whether an error of a task means that the cluster is gone, not only the task's worker."""
        errors = self._ray.exceptions
        return isinstance(error, errors.LocalRayletDiedError | errors.RaySystemError)

    def submit(self, function: Any, /, *args: Any) -> Any:  # noqa: ANN401
        """Run a function in a worker."""
        return self._task.remote(function, args).future()

    def shutdown(self) -> None:
        """Leave the cluster, if this executor joined it; one that it started ends."""
        if self._owns:
            self._ray.shutdown()

    def __enter__(self) -> RayExecutor:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()


def _call(function: Any, args: tuple[Any, ...]) -> Any:  # noqa: ANN401
    return function(*args)

"""The Dask cluster in use, with a limit of the time to wait for it.

A worker that is stopped, or lost together with all others, leaves tasks that never end: the scheduler waits for it, and
so would a fit. Every result and every answer of the scheduler is therefore fetched by a `Cluster`, which raises when
nothing has happened for too long. Dask is imported when it is first needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any

from termwise._checks import import_optional

TIMEOUT = 600.0  # seconds; by default a scheduler gives up a silent worker after 300, and has its tasks done elsewhere
LOOKS = 10  # at the tasks during a timeout, to see whether any of them has ended
START_CLUSTER = "from dask.distributed import Client; client = Client()"


@dataclass(frozen=True)
class Cluster:
    """The client of a cluster, and the seconds that may pass without progress; None for any number."""

    client: Any
    timeout: float | None = TIMEOUT

    def gather(self, futures: Sequence[Any], tasks: Sequence[Any] = ()) -> list[Any]:
        """Fetch results, while from time to time one of them is there, or one of the tasks they depend on has ended."""
        return self._guarded(lambda: self._gather(list(futures), [*tasks, *futures]))

    def ask(self, question: Callable[[Any], Any]) -> Any:
        """Return the scheduler's answer to a question, a method of the client."""
        return self._guarded(lambda: self.client.sync(lambda: question(self.client), callback_timeout=self.timeout))

    def _gather(self, futures: list[Any], pending: list[Any]) -> list[Any]:
        wait = import_optional("distributed", "dask", "Dask data").wait
        looks = 0  # at which nothing had ended
        while self.timeout is not None:
            try:
                wait(pending, timeout=self.timeout / LOOKS)
                break
            except TimeoutError:
                left = [future for future in pending if not future.done()]
                looks = looks + 1 if len(left) == len(pending) else 0
                pending = left
                if looks >= LOOKS:
                    raise
        fetch = self.client.gather
        return self.client.sync(lambda: fetch(futures, asynchronous=True), callback_timeout=self.timeout)

    def _guarded(self, action: Callable[[], Any]) -> Any:
        """Call a function; raise a sentence if the cluster is lost or does not answer in time."""
        comm = import_optional("distributed.comm", "dask", "Dask data")
        try:
            return action()
        except TimeoutError:
            raise TimeoutError(
                f"The Dask cluster must end a task every timeout={self.timeout:g} seconds, got none: restart workers "
                "that hang, see the dashboard, or allow more time."
            ) from None
        except (CancelledError, comm.CommClosedError) as error:
            raise ConnectionError(
                f"The Dask cluster must be there until the fit ends, got a lost connection ({error}): start it again "
                "and repeat the fit."
            ) from None


def current_cluster(timeout: float | None = TIMEOUT) -> Cluster:
    """Return the cluster in use."""
    distributed = import_optional("distributed", "dask", "Dask data")
    try:
        return Cluster(distributed.get_client(), timeout)
    except ValueError:
        raise ValueError(
            "X must not be a Dask collection without a cluster to work on, got no client: start one by "
            f"`{START_CLUSTER}`, or give X.compute() if it fits into memory."
        ) from None

"""Runs of queries whose course a test scripts instead of Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable

from tests.support.waiting import wait_until

from headrace.driver.streams.supervised_query import RunFailed
from headrace.model.failure import Failure
from headrace.model.lineage import TableUse
from headrace.model.stream_query import DesiredQuery, QueryProgress


class ScriptedRun:
    """A run that continues until the test ends it, or the supervisor stops it."""

    def __init__(self, number: int) -> None:
        self.run_id = f"run-{number}"
        self.lineage: list[TableUse] = []
        self.batches: list[QueryProgress] = []
        self.epoch: int | None = None
        self.is_stopped = threading.Event()
        self._changed = threading.Event()
        self._outcome: Exception | bool = False

    def wait(self) -> bool:
        self._changed.wait(0.01)
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome

    def read_new_batches(self, after: int | None) -> list[QueryProgress]:
        return [batch for batch in self.batches if after is None or batch.batch > after]

    def find_new_epoch(self) -> int | None:
        return self.epoch

    def stop(self) -> None:
        self.is_stopped.set()

    def fail(self, message: str = "boom", *, is_permanent: bool = False) -> None:
        self._outcome = failure(message, is_permanent=is_permanent)
        self._changed.set()

    def lose_jvm(self, error: Exception) -> None:
        self._outcome = error
        self._changed.set()

    def finish(self) -> None:
        self._outcome = True
        self._changed.set()


def failure(message: str = "boom", *, is_permanent: bool = False) -> RunFailed:
    return RunFailed(Failure(code="execution_error", message=message), is_permanent=is_permanent)


class Runs:
    """The runs that the supervisor has started, by the name of their query."""

    def __init__(self) -> None:
        self.started: dict[str, list[ScriptedRun]] = {}
        self.refusal: RunFailed | None = None
        self.on_start: Callable[[], None] = lambda: None
        self.lineage: list[TableUse] = []
        """What each run reads and writes."""

    def start(self, desired: DesiredQuery) -> ScriptedRun:
        self.on_start()
        if self.refusal is not None:
            raise self.refusal
        runs = self.started.setdefault(desired.name, [])
        runs.append(ScriptedRun(len(runs) + 1))
        runs[-1].lineage = self.lineage
        return runs[-1]

    def wait_for(self, name: str, number: int = 1) -> ScriptedRun:
        """Return a run of a query, which the supervisor must start soon."""
        wait_until(
            lambda: len(self.started.get(name, [])) >= number, what=f"run {number} of {name}"
        )
        return self.started[name][number - 1]

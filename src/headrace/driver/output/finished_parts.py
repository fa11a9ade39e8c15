"""Lists the finished parts of a result while its query runs, so that nodes can read them early.

Spark returns the outputs of tasks to the driver when the job ends. An accumulator learns of each
task before that: Spark applies the update of a task of an action once, for the attempt whose result
it accepts. The driver writes the names of the finished parts into the location of the result, for
the longest run of first partitions (`headrace.results.early_rows`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from types import TracebackType

from pyspark import Accumulator
from pyspark.accumulators import _accumulatorRegistry
from pyspark.sql import SparkSession

from headrace.driver.output.task import FinishedTask, FinishedTasks, TaskOptions
from headrace.model.result import FinishedParts, ResultPart
from headrace.results.early_rows import write_finished_parts
from headrace.results.schema import Schema

_LOG = logging.getLogger("headrace.driver")
_INTERVAL_SECONDS = 0.1


class PartsInOrder:
    """Puts the parts of finished tasks in order."""

    def __init__(self) -> None:
        self._tasks: dict[int, FinishedTask] = {}
        """Finished tasks that follow a task which has not finished, by partition."""
        self._next_partition = 0

    def add(self, tasks: Iterable[FinishedTask]) -> list[ResultPart]:
        """Add finished tasks, and return the parts that follow the parts returned before.

        A task that has returned its rows to the driver ends the list: the driver writes these rows
        as a part when the job has ended.
        """
        self._tasks |= {task["partition"]: task for task in tasks}
        parts = []
        while (task := self._tasks.get(self._next_partition)) is not None:
            if task["rows"] and task["name"] is None:
                break
            if task["name"] is not None:
                part = ResultPart(name=task["name"], rows=task["rows"], bytes=task["sizes"])
                parts.append(part)
            del self._tasks[self._next_partition]
            self._next_partition += 1
        return parts


class FinishedPartsLister:
    """A thread that lists finished parts until the end of the block."""

    def __init__(self, session: SparkSession, schema: Schema, options: TaskOptions) -> None:
        nothing: list[FinishedTask] = []
        self.accumulator: Accumulator[list[FinishedTask]] = session.sparkContext.accumulator(
            nothing, FinishedTasks()
        )
        self._spark_schema = dict(schema.spark)
        self._location = options.location
        self._parts = PartsInOrder()
        self._received = 0
        self._files = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headrace-parts", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()
        # PySpark keeps every accumulator for ever.
        _accumulatorRegistry.pop(self.accumulator.aid, None)

    def _run(self) -> None:
        try:
            while not self._ended.wait(_INTERVAL_SECONDS):
                self._list_new_parts()
        except Exception:  # noqa: BLE001 - the result itself reports a location that fails
            _LOG.exception("finished parts in %s are not listed any more", self._location)

    def _list_new_parts(self) -> None:
        tasks = self.accumulator.value
        parts = self._parts.add(tasks[self._received :])
        self._received = len(tasks)
        if parts:
            finished = FinishedParts(spark_schema=self._spark_schema, parts=parts)
            write_finished_parts(self._location, self._files, finished)
            self._files += 1

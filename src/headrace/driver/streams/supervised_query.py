"""One query under supervision: a thread starts it, watches it and starts it again."""

from __future__ import annotations

import itertools
import logging
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from py4j.protocol import Py4JNetworkError
from pydantic import BaseModel

from headrace.model.failure import Failure
from headrace.model.lifecycle import STREAM, StreamState
from headrace.model.lineage import TableUse
from headrace.model.retry_policy import RetryPolicy
from headrace.model.stream_query import (
    DesiredQuery,
    EndReason,
    QueryProgress,
    QueryReport,
    Wanted,
)


@dataclass(frozen=True, slots=True)
class Decision:
    """What follows a failure."""

    delay_seconds: float | None
    """Time until the next start; None: the query is not started again."""
    poison_batch: int | None
    """Number of a batch that has failed as often as the policy needs to name it."""


class FailureSeries:
    """Counts successive failures. A batch and a healthy period after it end the series."""

    def __init__(self, policy: RetryPolicy, *, failures: int = 0, last_batch: int | None = None):
        """Continue a series.

        Args:
            failures: Successive failures so far.
            last_batch: Number of the last committed batch; None: unknown.
        """
        self._policy = policy
        self._failures = failures
        self._last_batch = last_batch
        self._last_delay = 0.0
        self._run_start = 0.0
        self._batch_of_run: int | None = None
        self._failures_of_batch = 0

    @property
    def failures(self) -> int:
        """Number of successive failures."""
        return self._failures

    @property
    def last_batch(self) -> int | None:
        """Number of the last committed batch, if one is known."""
        return self._last_batch

    @property
    def batch_of_run(self) -> int | None:
        """Number of the last batch that the current run has committed; None: none yet."""
        return self._batch_of_run

    def record_start(self, now: float) -> None:
        """Record that a run has started. Times are seconds of one monotonic clock."""
        self._run_start = now
        self._batch_of_run = None

    def record_batch(self, batch: int) -> None:
        """Record that the run has committed a batch.

        The number may be smaller than before: a query without a checkpoint begins at 0 again.
        """
        self._last_batch = self._batch_of_run = batch
        self._failures_of_batch = 0

    def check_health(self, now: float) -> bool:
        """End the series if the run is healthy. Return whether a series has ended."""
        if not self._failures or not self._is_healthy(now):
            return False
        self._failures = 0
        return True

    def record_failure(self, now: float, random: float) -> Decision:
        """Record a failure, and return what follows.

        Args:
            random: A random number from 0 to 1.
        """
        self.check_health(now)
        delay = self._policy.delay(self._failures, random).total_seconds()
        self._failures += 1
        self._failures_of_batch += 1
        self._last_delay = delay
        is_poison = self._failures_of_batch >= self._policy.poison_attempts > 0
        failing = None if self._last_batch is None else self._last_batch + 1
        return Decision(
            delay_seconds=delay if self._policy.allows(self._failures) else None,
            poison_batch=failing if is_poison else None,
        )

    def _is_healthy(self, now: float) -> bool:
        needed = self._policy.healthy_after(timedelta(seconds=self._last_delay))
        return self._batch_of_run is not None and now - self._run_start >= needed.total_seconds()


_LOG = logging.getLogger("headrace.driver.streams")
_REPORTED_BATCHES = 100
"""Largest number of batches whose progress waits for a report."""
REPORT_BYTES = 512 * 1024
"""Largest size of the batches and the lineage in one renewal. A node refuses one of 1 MiB."""
_LOST_JVM_SECONDS = 5.0
"""Time after which a driver whose JVM is gone has ended."""


def measure(values: Iterable[BaseModel]) -> int:
    """Return the size of values in a report, in bytes of JSON."""
    return sum(len(each.model_dump_json().encode()) for each in values)


class RunFailed(Exception):
    """A run of a query failed."""

    def __init__(self, failure: Failure, *, is_permanent: bool) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.is_permanent = is_permanent


class Run(Protocol):
    """One run of a query in Spark.

    Every method raises Py4JNetworkError or ConnectionError if the JVM does not answer.
    """

    run_id: str
    lineage: Sequence[TableUse]
    """What the query reads and writes, as far as it is known."""

    def wait(self) -> bool:
        """Wait a moment for the end; return whether the sources have ended. Raises RunFailed."""

    def read_new_batches(self, after: int | None) -> list[QueryProgress]:
        """Return the progress of the committed batches after a number, oldest first."""

    def find_new_epoch(self) -> int | None:
        """Return the last epoch that the run has committed, for TRIGGER CONTINUOUS; or None.

        Such a run has no batches whose progress could be read.
        """

    def stop(self) -> None:
        """Stop the run, and wait until it has stopped."""


class SupervisedQuery:
    """A query of the driver, and what is to be reported about it. Thread-safe."""

    def __init__(
        self,
        desired: DesiredQuery,
        policy: RetryPolicy,
        *,
        start_run: Callable[[DesiredQuery], Run],
        on_change: Callable[[], None],
        numbers: Iterator[int] | None = None,
        clock: Callable[[], float] = time.monotonic,
        draw: Callable[[], float] = random.random,
    ) -> None:
        """Create a query whose thread has not started.

        Args:
            start_run: Starts a run. Raises RunFailed.
            on_change: Called when the state has changed, so that it is reported.
            numbers: The numbers of reports, which all queries of a driver share.
            clock: A monotonic clock, in seconds.
            draw: Returns a random number from 0 to 1.
        """
        self._desired = desired
        self._policy = policy
        self._start_run = start_run
        self._on_change = on_change
        self._clock = clock
        self._draw = draw
        self._series = FailureSeries(
            policy, failures=desired.failures, last_batch=desired.last_batch
        )
        self._condition = threading.Condition()
        self._state = StreamState.STARTING
        self._run_id: str | None = None
        self._error: Failure | None = None
        self._reason: EndReason | None = None
        self._numbers = itertools.count(1) if numbers is None else numbers
        self._last_report: QueryReport | None = None
        self._delay_seconds: float | None = None
        self._retry_time: float | None = None
        self._batches: deque[QueryProgress] = deque(maxlen=_REPORTED_BATCHES)
        self._lineage: list[TableUse] = []
        self._reported_lineage: list[TableUse] = []
        self._thread = threading.Thread(
            target=self._supervise, name=f"headrace-stream-{desired.name}"[:100], daemon=True
        )

    @property
    def desired(self) -> DesiredQuery:
        """The desired state on which the query acts."""
        with self._condition:
            return self._desired

    def start(self) -> None:
        """Start the thread."""
        if self._desired.retry_seconds is not None and self._desired.failures:
            self._state = StreamState.BACKING_OFF
            self._retry_time = self._clock() + self._desired.retry_seconds
        self._thread.start()

    def update(self, desired: DesiredQuery) -> bool:
        """Act on a newer desired state: stop, or start now if the query backs off.

        Return False if the query has ended, so that another one must act.
        """
        with self._condition:
            if desired.generation <= self._desired.generation:
                return True
            if self._state in STREAM.terminal:
                return False
            self._desired = desired
            self._retry_time = None
            self._condition.notify_all()
        self._on_change()
        return True

    def stop(self) -> None:
        """Stop the query, whatever is desired. `join` waits for the end."""
        with self._condition:
            self._desired = self._desired.model_copy(update={"wanted": Wanted.STOPPED})
            self._condition.notify_all()

    def join(self, timeout: float) -> bool:
        """Wait for the end of the thread; return whether it has ended."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def wait_for_outcome(self, timeout: float) -> StreamState | None:
        """Wait until the first start has succeeded or failed. Return the state, or None."""
        with self._condition:
            self._condition.wait_for(lambda: self._state is not StreamState.STARTING, timeout)
            return None if self._state is StreamState.STARTING else self._state

    def report(self, size_limit: int = REPORT_BYTES) -> QueryReport:
        """Return what is to be reported now.

        A report has a new number only if it says something new: the store ignores repetitions.

        Args:
            size_limit: Largest size of the batches and the lineage in it, in bytes of JSON. The
                others wait for later reports.
        """
        with self._condition:
            retry_seconds = None
            if self._state is StreamState.BACKING_OFF and self._retry_time is not None:
                retry_seconds = max(0.0, self._retry_time - self._clock())
            facts = QueryReport(
                id=self._desired.id,
                generation=self._desired.generation,
                state=self._state,
                run_id=self._run_id,
                failures=self._series.failures,
                delay_seconds=self._delay_seconds,
                last_batch=self._series.last_batch,
                error=self._error,
                reason=self._reason,
            )
            batches, lineage = self._choose_news(size_limit)
            last = self._last_report
            number = None if last is None else last.sequence
            has_news = bool(batches or lineage)
            if last is None or has_news or facts.model_copy(update={"sequence": number}) != last:
                number = next(self._numbers)
                self._last_report = facts.model_copy(update={"sequence": number})
            rest = {"retry_seconds": retry_seconds, "progress": batches, "lineage": lineage}
            return facts.model_copy(update={"sequence": number, **rest})

    def _choose_news(self, size_limit: int) -> tuple[list[QueryProgress], list[TableUse]]:
        """Return the oldest batches, and the lineage, that were not reported and are not larger."""
        rest, batches, lineage = size_limit, list[QueryProgress](), list[TableUse]()
        for batch in self._batches:
            rest -= measure([batch])
            if rest < 0:
                return batches, []
            batches.append(batch)
        if self._lineage != self._reported_lineage and measure(self._lineage) <= rest:
            lineage = self._lineage
        return batches, lineage

    def acknowledge(self, report: QueryReport) -> None:
        """Forget the batches and the lineage of a report that a node has accepted."""
        with self._condition:
            self._reported_lineage = report.lineage or self._reported_lineage
            for batch in report.progress:
                if self._batches and self._batches[0] == batch:
                    self._batches.popleft()

    def _supervise(self) -> None:
        try:
            while self._wait_for_start():
                try:
                    self._run_once()
                except (Py4JNetworkError, ConnectionError) as error:
                    self._wait_for_lost_driver(error)
        except BaseException as error:  # noqa: BLE001 - the thread must not end without a report
            _LOG.exception("query %s: its supervisor failed", self._desired.name)
            self._fail(Failure(code="internal_error", message=str(error)))

    def _wait_for_start(self) -> bool:
        """Wait out the backoff. Return whether the query is to start."""
        with self._condition:
            while self._state not in STREAM.terminal:
                if self._desired.wanted is not Wanted.RUNNING:
                    break
                if self._retry_time is None:
                    self._state = StreamState.STARTING
                    return True
                remaining = self._retry_time - self._clock()
                if remaining <= 0:
                    self._retry_time = None
                else:
                    self._condition.wait(remaining)
            if self._state not in STREAM.terminal:
                self._state = StreamState.STOPPED
            self._condition.notify_all()
        self._on_change()
        return False

    def _run_once(self) -> None:
        try:
            run = self._start_run(self.desired)
        except RunFailed as error:
            self._handle_failure(error)
            return
        with self._condition:
            self._run_id = run.run_id
            self._lineage = list(run.lineage)
            self._series.record_start(self._clock())
        self._change_state(StreamState.RUNNING)
        try:
            self._watch(run)
        except RunFailed as error:
            self._collect(run)
            self._handle_failure(error)

    def _watch(self, run: Run) -> None:
        """Wait for the end of a run. Raises RunFailed."""
        while True:
            if self.desired.wanted is not Wanted.RUNNING:
                run.stop()
                self._collect(run)
                return
            has_ended = run.wait()
            self._collect(run)
            if has_ended:
                with self._condition:
                    self._reason = EndReason.SOURCES_ENDED
                self._change_state(StreamState.STOPPED)
                return

    def _collect(self, run: Run) -> None:
        """Record the batches that the run has committed, and whether the query is healthy."""
        new = run.read_new_batches(self._series.batch_of_run)
        epoch = run.find_new_epoch()
        with self._condition:
            if epoch is not None:
                self._series.record_batch(epoch)
            for batch in new:
                self._series.record_batch(batch.batch)
                self._batches.append(batch)
            is_healthy_again = self._series.check_health(self._clock())
            if is_healthy_again:
                self._error, self._delay_seconds = None, None
        if is_healthy_again:
            self._on_change()

    def _handle_failure(self, error: RunFailed) -> None:
        with self._condition:
            decision = self._series.record_failure(self._clock(), self._draw())
            failures = self._series.failures
        failure = error.failure
        if decision.poison_batch is not None and not error.is_permanent:
            message = (
                f"Batch {decision.poison_batch} has failed"
                f" {self._policy.poison_attempts} times or more in a row: {failure.message}"
            )
            failure = failure.model_copy(update={"message": message})
        delay = None if error.is_permanent else decision.delay_seconds
        if delay is None:
            self._fail(failure)
            return
        _LOG.warning(
            "query %s (%s): failure %d, next start in %.3f s: %s",
            self._desired.name,
            self._desired.id,
            failures,
            delay,
            failure.summarize().message,
        )
        with self._condition:
            self._error, self._delay_seconds = failure, delay
            self._retry_time = self._clock() + delay
        self._change_state(StreamState.BACKING_OFF)

    def _wait_for_lost_driver(self, error: Exception) -> None:
        """Leave the query as it is: the driver ends, and the next driver starts the query.

        If the JVM answers again, this driver starts it.
        """
        _LOG.warning("query %s: the JVM does not answer: %s", self._desired.name, error)
        with self._condition:
            self._retry_time = self._clock() + _LOST_JVM_SECONDS

    def _fail(self, failure: Failure) -> None:
        _LOG.error(
            "query %s (%s) failed for good: %s",
            self._desired.name,
            self._desired.id,
            failure.summarize().message,
        )
        with self._condition:
            self._error = failure
        self._change_state(StreamState.FAILED)

    def _change_state(self, state: StreamState) -> None:
        with self._condition:
            self._state = state
            self._condition.notify_all()
        self._on_change()

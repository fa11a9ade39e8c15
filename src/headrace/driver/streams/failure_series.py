"""The successive failures of one query, and what follows from them. Pure: time is an argument."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from headrace.model.retry_policy import RetryPolicy


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

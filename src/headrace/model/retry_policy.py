"""When a failed streaming query is started again: exponential backoff, and the options of a query.

The delay follows the seed of Headrace's streams (PSTL), and Pekko's `BackoffSupervisor`:
min(max_backoff, min_backoff * 2^failures) * (1 + random * random_factor).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from headrace.errors import InvalidSetting
from headrace.model.headrace_options import (
    QUERY_OPTIONS,
    RETRY_ENABLED,
    RETRY_HEALTHY_PERIOD,
    RETRY_MAX_ATTEMPTS,
    RETRY_MAX_BACKOFF,
    RETRY_MIN_BACKOFF,
    RETRY_POISON_ATTEMPTS,
    RETRY_RANDOM_FACTOR,
    describe_unknown,
    is_own_key,
)
from headrace.text.durations import format_duration

_MAX_EXPONENT = 64
"""From this exponent on, one microsecond exceeds every duration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """When and how often a failed query is started again."""

    enabled: bool = RETRY_ENABLED.default
    max_attempts: int = RETRY_MAX_ATTEMPTS.default
    """Largest number of successive failures after which the query is started again."""
    min_backoff: timedelta = RETRY_MIN_BACKOFF.default
    max_backoff: timedelta = RETRY_MAX_BACKOFF.default
    random_factor: float = RETRY_RANDOM_FACTOR.default
    """Largest share of the delay that is added at random, so that queries do not start together."""
    healthy_period: timedelta | None = RETRY_HEALTHY_PERIOD.default
    """Time without failure that ends a series of failures; None: a minute, or the last delay if
    that is longer."""
    poison_attempts: int = RETRY_POISON_ATTEMPTS.default
    """Number of successive failures in one batch after which the error names the batch."""

    def allows(self, failures: int) -> bool:
        """Return whether a query is started again after so many successive failures."""
        return self.enabled and failures <= self.max_attempts

    def delay(self, failures: int, random: float) -> timedelta:
        """Return the time from a failure to the next start.

        Args:
            failures: Successive failures before this one.
            random: A random number from 0 to 1.
        """
        exponent = min(failures, _MAX_EXPONENT)
        microsecond = timedelta(microseconds=1)
        backoff = min(
            self.max_backoff // microsecond, (self.min_backoff // microsecond) << exponent
        )
        # The cap comes first: otherwise, queries at the cap would start together.
        return timedelta(microseconds=round(backoff * (1 + random * self.random_factor)))

    def healthy_after(self, last_delay: timedelta) -> timedelta:
        """Return the time without failure after which the next failure is the first of a series."""
        if self.healthy_period is not None:
            return self.healthy_period
        return max(timedelta(minutes=1), last_delay)


def read_retry_policy(options: Mapping[str, str], conf: Mapping[str, str]) -> RetryPolicy:
    """Return the policy of a query.

    An option `headrace.retry.x` or `pstl.retry.x` of the query wins over `spark.headrace.retry.x`
    or `spark.pstl.retry.x` of its session.

    Args:
        options: The options of the query. Upper and lower case are equal.
        conf: Spark's configuration of the session.

    Raises:
        InvalidSetting: a value is not allowed, two spellings of an option have different values,
            or an option below a prefix is unknown.
    """
    by_key = {key.lower(): value for key, value in options.items()}
    for key in options:
        if is_own_key(key) and key.lower() not in QUERY_OPTIONS:
            raise InvalidSetting(describe_unknown(key, QUERY_OPTIONS))
    policy = RetryPolicy(
        enabled=RETRY_ENABLED.read_query(by_key, conf),
        max_attempts=RETRY_MAX_ATTEMPTS.read_query(by_key, conf),
        min_backoff=RETRY_MIN_BACKOFF.read_query(by_key, conf),
        max_backoff=RETRY_MAX_BACKOFF.read_query(by_key, conf),
        random_factor=RETRY_RANDOM_FACTOR.read_query(by_key, conf),
        healthy_period=RETRY_HEALTHY_PERIOD.read_query(by_key, conf),
        poison_attempts=RETRY_POISON_ATTEMPTS.read_query(by_key, conf),
    )
    if policy.max_backoff < policy.min_backoff:
        raise InvalidSetting(
            f"The longest backoff, {format_duration(policy.max_backoff)}, is shorter than the"
            f" shortest, {format_duration(policy.min_backoff)}. Set"
            f" {RETRY_MAX_BACKOFF.written_key(by_key, conf)} to at least"
            f" {RETRY_MIN_BACKOFF.written_key(by_key, conf)}."
        )
    return policy

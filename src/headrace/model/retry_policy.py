"""When a failed streaming query is started again: exponential backoff, and the options of a query.

The delay follows the seed of Headrace's streams (PSTL), and Pekko's `BackoffSupervisor`:
min(max_backoff, min_backoff * 2^failures) * (1 + random * random_factor).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeVar

from headrace.durations import format_duration, parse_compact_duration
from headrace.errors import InvalidSetting

T = TypeVar("T", timedelta, None)

_PREFIXES = ("headrace.retry.", "pstl.retry.")
"""Prefixes of the options of a query, and, after `spark.`, of the configuration."""
_SUFFIXES = (
    "enabled",
    "max.attempts",
    "min.backoff",
    "max.backoff",
    "random.factor",
    "healthy.period",
    "poison.attempts",
)
_MAX_ATTEMPTS = 2**31 - 1
_MAX_EXPONENT = 64
"""From this exponent on, one microsecond exceeds every duration."""
_BOOLEANS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """When and how often a failed query is started again."""

    enabled: bool = True
    max_attempts: int = _MAX_ATTEMPTS
    """Largest number of successive failures after which the query is started again."""
    min_backoff: timedelta = timedelta(seconds=1)
    max_backoff: timedelta = timedelta(hours=1)
    random_factor: float = 0.0
    """Largest share of the delay that is added at random, so that queries do not start together."""
    healthy_period: timedelta | None = None
    """Time without failure that ends a series of failures; None: a minute, or the last delay if
    that is longer."""
    poison_attempts: int = 3
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


@dataclass(frozen=True, slots=True)
class _PolicyValues:
    """The options of a query, with the configuration of its session behind them."""

    options: Mapping[str, str]
    conf: Mapping[str, str]
    by_key: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        lowered = {key.lower(): value for key, value in self.options.items()}
        object.__setattr__(self, "by_key", lowered)

    def find(self, suffix: str) -> tuple[str, str] | None:
        """Return key and value of an option, or None if it is given nowhere.

        Raises InvalidSetting if two spellings of the option have different values.
        """
        option = _find_spelling(self.by_key, [f"{prefix}{suffix}" for prefix in _PREFIXES])
        conf = _find_spelling(self.conf, [f"spark.{prefix}{suffix}" for prefix in _PREFIXES])
        return option or conf

    def name(self, suffix: str) -> str:
        """Return the key of an option as the user wrote it, or its first spelling."""
        found = self.find(suffix)
        return f"{_PREFIXES[0]}{suffix}" if found is None else found[0]

    def boolean(self, suffix: str, default: bool) -> bool:
        key, value = self.find(suffix) or ("", str(default))
        if value.lower() not in _BOOLEANS:
            raise InvalidSetting(f"{key} is {value!r}. Allowed values: true, false.")
        return _BOOLEANS[value.lower()]

    def count(self, suffix: str, default: int) -> int:
        key, value = self.find(suffix) or ("", str(default))
        if not value.isdecimal() or int(value) > _MAX_ATTEMPTS:
            raise InvalidSetting(
                f"{key} is {value!r}. Allowed values: integers from 0 to {_MAX_ATTEMPTS}."
            )
        return int(value)

    def factor(self, suffix: str, default: float) -> float:
        key, value = self.find(suffix) or ("", str(default))
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not (math.isfinite(number) and number >= 0):
            raise InvalidSetting(f"{key} is {value!r}. Allowed values: numbers from 0.")
        return number

    def duration(self, suffix: str, default: T) -> timedelta | T:
        found = self.find(suffix)
        if found is None:
            return default
        key, value = found
        try:
            return parse_compact_duration(value)
        except ValueError as error:
            raise InvalidSetting(f"{key}: {error}.") from error


def _find_spelling(values: Mapping[str, str], keys: Sequence[str]) -> tuple[str, str] | None:
    given = [(key, values[key]) for key in keys if key in values]
    if len({value for _, value in given}) > 1:
        written = " and ".join(f"{key} = {value!r}" for key, value in given)
        raise InvalidSetting(
            f"Two spellings of one option have different values: {written}. Remove one of them."
        )
    return given[0] if given else None


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
    for key in options:
        prefix = next((prefix for prefix in _PREFIXES if key.lower().startswith(prefix)), None)
        if prefix is not None and key.lower().removeprefix(prefix) not in _SUFFIXES:
            allowed = ", ".join(f"{prefix}{suffix}" for suffix in _SUFFIXES)
            raise InvalidSetting(f"The option {key} is unknown. Allowed options: {allowed}.")
    values, default = _PolicyValues(options, conf), RetryPolicy()
    policy = RetryPolicy(
        enabled=values.boolean("enabled", default.enabled),
        max_attempts=values.count("max.attempts", default.max_attempts),
        min_backoff=values.duration("min.backoff", default.min_backoff),
        max_backoff=values.duration("max.backoff", default.max_backoff),
        random_factor=values.factor("random.factor", default.random_factor),
        healthy_period=values.duration("healthy.period", None),
        poison_attempts=values.count("poison.attempts", default.poison_attempts),
    )
    if policy.max_backoff < policy.min_backoff:
        raise InvalidSetting(
            f"The longest backoff, {format_duration(policy.max_backoff)}, is shorter than the"
            f" shortest, {format_duration(policy.min_backoff)}. Set {values.name('max.backoff')} to"
            f" at least {values.name('min.backoff')}."
        )
    return policy

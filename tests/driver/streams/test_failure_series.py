"""The successive failures of a query, with the times of a test."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.driver.streams.supervised_query import FailureSeries
from headrace.model.retry_policy import RetryPolicy

SECOND = timedelta(seconds=1)


def series(**policy: object) -> FailureSeries:
    return FailureSeries(RetryPolicy(**policy))  # type: ignore[arg-type]


def fail(failures: FailureSeries, now: float = 0.0, random: float = 0.0) -> float | None:
    return failures.record_failure(now, random).delay_seconds


def test_successive_failures_have_the_delays_of_the_first_table_of_the_seed() -> None:
    failures = series()

    assert [fail(failures) for _ in range(5)] == [1.0, 2.0, 4.0, 8.0, 16.0]
    assert failures.failures == 5


def test_a_random_factor_gives_delays_within_the_second_table_of_the_seed() -> None:
    failures = series(random_factor=0.1)
    table = [1.023, 2.064, 4.094, 8.495, 16.062]
    draws = [delay / base / 0.1 - 10 for delay, base in zip(table, (1, 2, 4, 8, 16), strict=True)]

    assert all(0 <= draw <= 1 for draw in draws)
    assert [fail(failures, random=draw) for draw in draws] == pytest.approx(table)


def test_a_healthy_run_with_a_new_batch_ends_the_series() -> None:
    failures = series(healthy_period=60 * SECOND)
    fail(failures)
    failures.record_start(10.0)
    failures.record_batch(0)

    assert not failures.check_health(69.9)
    assert failures.failures == 1
    assert failures.check_health(70.0)
    assert failures.failures == 0
    assert fail(failures, now=71.0) == 1.0


def test_a_long_run_without_a_new_batch_continues_the_series() -> None:
    failures = series(healthy_period=SECOND)
    fail(failures)
    failures.record_start(10.0)

    assert not failures.check_health(1000.0)
    assert fail(failures, now=1000.0) == 2.0


def test_a_batch_of_an_earlier_run_does_not_make_a_run_healthy() -> None:
    failures = series(healthy_period=SECOND)
    failures.record_start(0.0)
    failures.record_batch(3)
    fail(failures, now=0.5)
    failures.record_start(2.0)

    assert not failures.check_health(100.0)
    assert failures.last_batch == 3


def test_the_healthy_period_is_at_least_a_minute_and_at_least_the_last_delay() -> None:
    failures = series(min_backoff=600 * SECOND)
    fail(failures)
    failures.record_start(0.0)
    failures.record_batch(0)

    assert not failures.check_health(599.0)
    assert failures.check_health(600.0)


def test_a_failure_after_a_healthy_run_is_the_first_although_nothing_has_checked() -> None:
    failures = series(healthy_period=SECOND)
    fail(failures)
    failures.record_start(0.0)
    failures.record_batch(1)

    assert fail(failures, now=5.0) == 1.0


def test_a_query_is_not_started_again_after_the_last_attempt() -> None:
    failures = series(max_attempts=2)

    assert [fail(failures) for _ in range(3)] == [1.0, 2.0, None]
    assert fail(series(enabled=False)) is None


def test_a_batch_that_fails_again_and_again_is_named() -> None:
    failures = series(poison_attempts=3)
    failures.record_start(0.0)
    failures.record_batch(7)
    named = []
    for _ in range(4):
        named.append(failures.record_failure(1.0, 0.0).poison_batch)
        failures.record_start(1.0)

    assert named == [None, None, 8, 8]


def test_a_new_batch_ends_the_failures_of_the_batch_before() -> None:
    failures = series(poison_attempts=2)
    failures.record_start(0.0)
    failures.record_batch(0)
    failures.record_failure(1.0, 0.0)
    failures.record_start(1.0)
    failures.record_batch(1)

    assert failures.record_failure(2.0, 0.0).poison_batch is None


def test_a_series_continues_with_the_failures_of_the_driver_before() -> None:
    failures = FailureSeries(RetryPolicy(), failures=4, last_batch=9)

    assert fail(failures) == 16.0
    assert failures.last_batch == 9


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["start", "batch", "fail"]), st.floats(0, 1e6)), max_size=60
    ),
    random=st.floats(0, 1),
)
def test_delays_stay_between_the_bounds_of_the_policy(
    steps: list[tuple[str, float]], random: float
) -> None:
    policy = RetryPolicy(min_backoff=SECOND, max_backoff=30 * SECOND, random_factor=0.5)
    failures, now, batch = FailureSeries(policy), 0.0, 0
    for step, duration in steps:
        now += duration
        if step == "start":
            failures.record_start(now)
        elif step == "batch":
            failures.record_batch(batch)
            batch += 1
        else:
            delay = fail(failures, now, random)
            assert delay is not None
            assert 1.0 <= delay <= 45.0
        assert failures.failures >= 0

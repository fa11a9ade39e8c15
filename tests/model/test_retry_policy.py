"""The backoff of streaming queries: the seed's tables, its bounds, and the options."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import InvalidSetting
from headrace.model.retry_policy import RetryPolicy, read_retry_policy

MS = timedelta(milliseconds=1)
_durations = st.timedeltas(timedelta(0), timedelta(days=36_525))


def test_the_delays_of_the_seed_without_randomness() -> None:
    policy = RetryPolicy()
    delays = [policy.delay(failures, random=0.7) for failures in range(5)]
    assert delays == [timedelta(seconds=seconds) for seconds in (1, 2, 4, 8, 16)]


@pytest.mark.parametrize(
    ("failures", "delay"), [(0, 1023), (1, 2064), (2, 4094), (3, 8495), (4, 16062)]
)
def test_the_delays_of_the_seed_are_within_its_random_factor(failures: int, delay: int) -> None:
    policy = RetryPolicy(random_factor=0.1)
    shortest, longest = policy.delay(failures, random=0.0), policy.delay(failures, random=1.0)
    assert shortest <= delay * MS <= longest
    random = (delay * MS / shortest - 1) / 0.1
    assert abs(policy.delay(failures, random) - delay * MS) < MS


@given(
    st.integers(0, 2**31),
    st.floats(0, 1),
    _durations,
    _durations,
    st.floats(0, 10, allow_nan=False),
)
def test_a_delay_is_at_most_the_cap_and_its_random_share(
    failures: int, random: float, first: timedelta, second: timedelta, factor: float
) -> None:
    shortest, longest = sorted((first, second))
    policy = RetryPolicy(min_backoff=shortest, max_backoff=longest, random_factor=factor)
    delay = policy.delay(failures, random)
    assert shortest <= delay + timedelta(microseconds=1)
    assert delay <= longest * (1 + factor) + timedelta(microseconds=1)
    assert policy.delay(failures, 0.0) <= policy.delay(failures + 1, 0.0) <= longest


def test_queries_at_the_cap_do_not_start_together() -> None:
    policy = RetryPolicy(random_factor=0.2)
    assert policy.delay(40, random=0.0) == timedelta(hours=1)
    assert policy.delay(40, random=1.0) == timedelta(hours=1.2)


def test_attempts_end_after_the_largest_number() -> None:
    policy = RetryPolicy(max_attempts=3)
    assert [policy.allows(failures) for failures in (1, 2, 3, 4)] == [True, True, True, False]
    assert not RetryPolicy(enabled=False).allows(1)


def test_a_healthy_period_lasts_at_least_as_long_as_the_last_delay() -> None:
    assert RetryPolicy().healthy_after(timedelta(seconds=4)) == timedelta(minutes=1)
    assert RetryPolicy().healthy_after(timedelta(minutes=8)) == timedelta(minutes=8)
    policy = RetryPolicy(healthy_period=timedelta(seconds=5))
    assert policy.healthy_after(timedelta(minutes=8)) == timedelta(seconds=5)


def test_options_in_each_spelling_win_over_the_configuration() -> None:
    conf = {
        "spark.pstl.retry.min.backoff": "2s",
        "spark.headrace.retry.max.attempts": "7",
        "spark.headrace.retry.random.factor": "0.2",
    }
    options = {
        "pstl.retry.max.backoff": "1d",
        "PSTL.retry.random.factor": "0.5",
        "headrace.retry.random.factor": "0.5",
        "pstl.retry.enabled": "FALSE",
    }
    assert read_retry_policy(options, conf) == RetryPolicy(
        enabled=False,
        max_attempts=7,
        min_backoff=timedelta(seconds=2),
        max_backoff=timedelta(days=1),
        random_factor=0.5,
    )
    assert read_retry_policy({}, {}) == RetryPolicy()


def test_a_backoff_of_zero_is_kept() -> None:
    policy = read_retry_policy({"headrace.retry.min.backoff": "0s"}, {})
    assert policy.delay(7, random=1.0) == timedelta(0)


@pytest.mark.parametrize("text", ["50s", "100ms", "250us", "1m", "2min", "3h", "1d"])
def test_durations_have_the_units_of_the_seed(text: str) -> None:
    options = {"pstl.retry.min.backoff": text, "pstl.retry.max.backoff": "2d"}
    assert read_retry_policy(options, {}).min_backoff > timedelta(0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"headrace.retry.min.backoff": "10"},
            "min.backoff is '10'. Allowed values: an integer and a unit, for example 10s",
        ),
        (
            {"pstl.retry.min.backoff": "50 s"},
            "pstl.retry.min.backoff is '50 s'. Allowed values: an integer and a unit",
        ),
        (
            {"pstl.retry.max.backoff": " 50s"},
            "pstl.retry.max.backoff is ' 50s'. Allowed values: an integer and a unit",
        ),
        (
            {"headrace.retry.healthy.period": "1.5s"},
            "headrace.retry.healthy.period is '1.5s'. Allowed values: an integer",
        ),
        (
            {"pstl.retry.min.backoff": "5s", "pstl.retry.max.backoff": "4s"},
            "Set pstl.retry.max.backoff to at least pstl.retry.min.backoff.",
        ),
        (
            {"headrace.retry.enabled": "true", "pstl.retry.enabled": "false"},
            "headrace.retry.enabled = 'true' and pstl.retry.enabled = 'false'. Remove one",
        ),
        (
            {"headrace.retry.min.backoff": "-1s"},
            "headrace.retry.min.backoff is '-1s'. Allowed values: an integer and a unit",
        ),
        ({"headrace.retry.min.backoff": "2h"}, "The longest backoff, 1h, is shorter than"),
        ({"headrace.retry.random.factor": "-0.1"}, "'-0.1'. Allowed values: numbers from 0."),
        ({"headrace.retry.random.factor": "nan"}, "'nan'. Allowed values: numbers from 0."),
        ({"pstl.retry.enabled": "yes"}, "pstl.retry.enabled is 'yes'. Allowed values: true, false"),
        ({"headrace.retry.max.attempts": "-1"}, "Allowed values: integers from 0 to 2147483647."),
        (
            {"headrace.retry.attempts": "3"},
            "headrace.retry.attempts is not an option of Headrace. Did you mean",
        ),
    ],
)
def test_a_wrong_option_is_refused_with_what_is_allowed(
    options: dict[str, str], message: str
) -> None:
    with pytest.raises(InvalidSetting) as caught:
        read_retry_policy(options, {})
    assert message in caught.value.message


@pytest.mark.parametrize("suffix", ["enabled", "max.attempts", "min.backoff", "random.factor"])
def test_two_spellings_in_the_configuration_must_agree(suffix: str) -> None:
    conf = {f"spark.headrace.retry.{suffix}": "1", f"spark.pstl.retry.{suffix}": "2"}
    with pytest.raises(InvalidSetting) as caught:
        read_retry_policy({}, conf)
    assert f"spark.headrace.retry.{suffix} = '1'" in caught.value.message
    assert f"spark.pstl.retry.{suffix} = '2'" in caught.value.message

"""The options of Headrace: one description decides everywhere which keys and values are allowed."""

from __future__ import annotations

import re
import string
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import InvalidSetting
from headrace.model.headrace_options import (
    CONF_OPTIONS,
    OPTIONS,
    QUERY_OPTIONS,
    Option,
    check_conf_option,
    count,
    duration,
)
from headrace.model.retry_policy import read_retry_policy
from headrace.text.durations import LONGEST_DURATION

_ANY_TEXT = st.text(alphabet=string.printable + "\u017f\u212a\u0130\u0663", max_size=30)
WRONG = ["", "bogus", "-1", "nan", "inf", "1_0", "٣", "auto;", "true\n", "50 s", "1.5s", "10"]


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.key)
@given(text=_ANY_TEXT)
def test_each_text_is_a_value_or_is_refused_with_the_allowed_values(
    option: Option[object], text: str
) -> None:
    try:
        option.parse(text)
    except InvalidSetting as error:
        assert error.message.endswith(f"Allowed values: {option.type.allowed}.")  # noqa: PT017


@pytest.mark.parametrize("key", CONF_OPTIONS)
def test_a_wrong_value_is_refused_under_the_key_that_the_user_wrote(key: str) -> None:
    refused = [text for text in WRONG if not CONF_OPTIONS[key].type.matches(text)]
    assert {"", "bogus", "-1", "nan", "true\n"} <= set(refused)
    for text in refused:
        with pytest.raises(InvalidSetting, match=f"^{re.escape(key)} is "):
            check_conf_option(key, text)


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.key)
def test_the_documented_default_is_the_default(option: Option[object]) -> None:
    if option.default is None:
        assert not option.type.matches(option.default_text)
    else:
        assert option.parse(option.default_text) == option.default


@given(st.integers(0, 10**12), st.integers(0, 10**12))
def test_a_count_is_an_integer_up_to_its_maximum(maximum: int, number: int) -> None:
    assert count(maximum).matches(str(number)) == (number <= maximum)
    assert count(maximum).matches(f"000{maximum}")
    assert not count(maximum).matches(str(maximum + 1))


@given(st.integers(0, 10**19), st.sampled_from(["us", "ms", "s", "m", "min", "h", "d"]))
def test_a_duration_is_at_most_the_longest_that_a_database_can_add(number: int, unit: str) -> None:
    seconds = {"us": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}[unit]
    fits = number <= LONGEST_DURATION.total_seconds() / seconds
    assert duration().matches(f"{number}{unit}") == fits
    if fits:
        assert timedelta(0) <= duration().convert(f"{number}{unit}") <= LONGEST_DURATION


@pytest.mark.parametrize("key", [*QUERY_OPTIONS, "HEADRACE.RETRY.ENABLED"])
def test_an_option_of_a_query_is_checked_in_any_letter_case(key: str) -> None:
    with pytest.raises(InvalidSetting, match="is 'bogus'"):
        read_retry_policy({key: "bogus"}, {})


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("headrace.ctas.atomicty", "headrace.ctas.atomicity"),
        ("HEADRACE.CTAS.ATOMICITY", "headrace.ctas.atomicity"),
        ("headrace.retry.max.attempts", "spark.headrace.retry.max.attempts"),
        ("spark.pstl.retry.max.attempt", "spark.pstl.retry.max.attempts"),
        ("spark.headrace.token", None),
    ],
)
def test_an_unknown_key_of_headrace_is_refused_with_the_nearest(
    key: str, meant: str | None
) -> None:
    with pytest.raises(InvalidSetting) as caught:
        check_conf_option(key, "1")
    assert caught.value.message.startswith(f"{key} is not an option of Headrace.")
    if meant:
        assert f"Did you mean {meant}?" in caught.value.message
    assert "headrace.writes.atomicity" in caught.value.message

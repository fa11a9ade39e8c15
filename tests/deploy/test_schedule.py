"""Schedules: what is accepted, and when each fires over changes of the clock."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from headrace.deploy.schedule import (
    ScheduleProblem,
    check_schedule,
    describe_schedule,
    find_last,
    find_next,
    list_firings,
    preview,
)
from headrace.model.schedule import Schedule

NEW_YORK, BERLIN, LORD_HOWE = "America/New_York", "Europe/Berlin", "Australia/Lord_Howe"
ZONES = [NEW_YORK, BERLIN, LORD_HOWE, "Asia/Kolkata", "Antarctica/Troll", "Africa/Cairo", "UTC"]
EXPRESSIONS = [
    *("30 2 * * *", "30 1 * * *", "0 0 * * *", "*/5 * * * *", "15 */2 * * *", "*/30 2 * * *"),
    *("1,31 0-3 * * *", "0 0 1 * *", "0 0 29 2 *", "*/7 1-3 * * 0", "0 0 */2 * 1", "0 12 * * 5L"),
]

INSTANTS = st.integers(1_735_689_600, 1_830_297_600).map(lambda at: datetime.fromtimestamp(at, UTC))
"""Instants of 2025 to 2027."""


def _times(cron: str, zone: str, start: str, count: int) -> list[str]:
    """Return the next firings in the zone, with their offsets."""
    after = datetime.fromisoformat(start).astimezone(UTC)
    firings = list_firings(Schedule(cron=cron, timezone=zone), after)
    return [
        f"{firing.local:%m-%d %H:%M%z}{' shifted' if firing.is_shifted else ''}"
        for firing in islice(firings, count)
    ]


def test_a_daily_job_runs_after_the_gap_of_the_clock_on_the_day_that_skips_its_time() -> None:
    assert _times("30 2 * * *", NEW_YORK, "2026-03-07T00:00-05:00", 3) == [
        "03-07 02:30-0500",
        "03-08 03:00-0400 shifted",
        "03-09 02:30-0400",
    ]
    assert _times("30 2 * * *", BERLIN, "2026-03-28T00:00+01:00", 3) == [
        "03-28 02:30+0100",
        "03-29 03:00+0200 shifted",
        "03-30 02:30+0200",
    ]
    assert _times("15 2 * * *", LORD_HOWE, "2026-10-03T00:00+10:30", 3) == [
        "10-03 02:15+1030",
        "10-04 02:30+1100 shifted",
        "10-05 02:15+1100",
    ]


def test_a_daily_job_runs_in_the_first_of_two_equal_hours_alone() -> None:
    assert _times("30 1 * * *", NEW_YORK, "2026-10-31T00:00-04:00", 3) == [
        "10-31 01:30-0400",
        "11-01 01:30-0400",
        "11-02 01:30-0500",
    ]
    assert _times("30 2 * * *", BERLIN, "2026-10-24T00:00+02:00", 3) == [
        "10-24 02:30+0200",
        "10-25 02:30+0200",
        "10-26 02:30+0100",
    ]
    assert _times("45 1 * * *", LORD_HOWE, "2026-04-04T00:00+11:00", 3) == [
        "04-04 01:45+1100",
        "04-05 01:45+1100",
        "04-06 01:45+1030",
    ]


@pytest.mark.parametrize(
    ("zone", "start"),
    [
        (NEW_YORK, "2026-03-08T00:00-05:00"),
        (NEW_YORK, "2026-11-01T00:00-04:00"),
        (BERLIN, "2026-03-29T00:00+01:00"),
        (BERLIN, "2026-10-25T00:00+02:00"),
        (LORD_HOWE, "2026-10-04T00:00+10:30"),
        (LORD_HOWE, "2026-04-05T00:00+11:00"),
    ],
)
def test_a_job_with_any_hour_runs_by_elapsed_time_over_a_change_of_the_clock(
    zone: str, start: str
) -> None:
    after = datetime.fromisoformat(start).astimezone(UTC)
    firings = islice(list_firings(Schedule(cron="*/10 * * * *", timezone=zone), after), 40)
    gaps = {later.instant - earlier.instant for earlier, later in pairwise(firings)}
    assert gaps == {timedelta(minutes=10)}


def test_a_leap_day_is_one_in_four_years() -> None:
    assert [
        f"{firing.local:%Y-%m-%d %z}"
        for firing in islice(
            list_firings(
                Schedule(cron="0 0 29 2 *", timezone=BERLIN), datetime(2027, 1, 1, tzinfo=UTC)
            ),
            2,
        )
    ] == ["2028-02-29 +0100", "2032-02-29 +0100"]
    assert _times("0 0 28-29 2 *", NEW_YORK, "2028-02-01T00:00-05:00", 2) == [
        "02-28 00:00-0500",
        "02-29 00:00-0500",
    ]


@given(
    cron=st.sampled_from(EXPRESSIONS),
    zone=st.sampled_from(ZONES),
    start=INSTANTS,
    part=st.integers(0, 99),
)
@settings(max_examples=300, deadline=None)
def test_firings_follow_each_other_whatever_the_instant_from_which_they_are_listed(
    cron: str, zone: str, start: datetime, part: int
) -> None:
    schedule = Schedule(cron=cron, timezone=zone)
    firings = list(islice(list_firings(schedule, start), 5))
    assert all(earlier.instant < later.instant for earlier, later in pairwise(firings))
    assert firings[0].instant > start
    for earlier, later in pairwise(firings):
        between = earlier.instant + (later.instant - earlier.instant) * part / 100
        assert find_next(schedule, between) == later
    assert find_last(schedule, firings[1].instant) == firings[0]


@given(
    seconds=st.integers(1, 10**6),
    start=INSTANTS,
)
def test_elapsed_times_are_multiples_since_1970(seconds: int, start: datetime) -> None:
    schedule = Schedule.model_validate({"every": f"{seconds}s"})
    first = find_next(schedule, start)
    assert first is not None
    assert timedelta() < first.instant - start <= timedelta(seconds=seconds)
    assert first.instant.timestamp() % seconds == 0
    assert find_last(schedule, first.instant + timedelta(seconds=1)) == first


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"cron": "0 0 30 2 *"}, "bad day-of-month"),
        ({"cron": "0 0 */31 2 1#5"}, "never fires"),
        ({"cron": "* * * * * *"}, "five fields"),
        ({"cron": "@reboot"}, "five fields"),
        ({"cron": ""}, "five fields"),
        ({"cron": "5-1 * * * *"}, "bad minute"),
        ({"cron": "? * * * *"}, "bad minute"),
        ({"cron": "0 0 15W * *"}, "bad day-of-month"),
        ({"cron": "0 25 * * *"}, "bad hour"),
        ({"cron": "0 0 * * *", "timezone": "Mars/Olympus"}, "no time zone 'Mars/Olympus'"),
        ({"cron": "0 0 * * *", "timezone": "../etc/passwd"}, "no time zone"),
        ({"every": "1h", "timezone": "Europe/Berlin"}, "only goes with `cron`"),
        ({"every": "0s"}, "at least 1s"),
        ({"every": "soon"}, "is not a duration"),
        ({}, "has no condition"),
        ({"cron": "0 0 * * *", "every": "1h"}, "has `cron` and `every`"),
        ({"after": []}, "at least 1 item"),
        ({"all": [{"cron": "0 0 * * *"}, {}]}, "has no condition"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_schedule_that_cannot_fire_as_written_is_refused(
    value: dict[str, Any], message: str
) -> None:
    with pytest.raises((ValidationError, ScheduleProblem), match=message):
        check_schedule(Schedule.model_validate(value))


def test_names_of_cron_are_their_expressions() -> None:
    for name, expression in (("@daily", "0 0 * * *"), (" @Hourly ", "0 * * * *")):
        start = datetime(2026, 1, 1, 0, 30, tzinfo=UTC)
        assert find_next(Schedule(cron=name), start) == find_next(Schedule(cron=expression), start)
        check_schedule(Schedule(cron=name))


def test_a_preview_shows_the_next_firings_and_the_day_of_the_next_change_of_the_clock() -> None:
    shown = preview(
        Schedule(cron="30 2 * * *", timezone=NEW_YORK), datetime(2026, 1, 1, tzinfo=UTC)
    )
    assert [f"{each.local:%d}" for each in shown.firings] == ["01", "02", "03", "04", "05"]
    assert [each.is_shifted for each in shown.at_change] == [True]
    assert shown.warnings == []


def test_a_preview_warns_of_runs_that_a_gap_of_the_clock_leaves_out() -> None:
    schedule = Schedule(cron="*/30 2 * * *", timezone=NEW_YORK)
    shown = preview(schedule, datetime(2026, 1, 1, tzinfo=UTC))
    assert len(shown.warnings) == 1
    assert "On 2026-03-08 the clock of America/New_York skips 02:00 to 03:00" in shown.warnings[0]
    every_hour = Schedule(cron="*/30 * * * *", timezone=NEW_YORK)
    assert preview(every_hour, datetime(2026, 1, 1, tzinfo=UTC)).warnings == []


_LEAVES = ({"every": "1h"}, {"after": ["a"]}, {"after": ["b", "c"]}, {"on-change": ["t"]})


@st.composite
def _trees(draw: st.DrawFn) -> dict[str, Any]:
    """Return a schedule whose conditions differ, in at most three levels of lists."""
    leaves = draw(st.permutations(_LEAVES))[: draw(st.integers(1, len(_LEAVES)))]

    def combine(parts: Sequence[dict[str, Any]], level: int) -> dict[str, Any]:
        if len(parts) == 1 and (level or draw(st.booleans())):
            return parts[0]
        cut = draw(st.integers(1, len(parts))) if level < 2 else 0
        first = [combine(parts[:cut], level + 1)] if cut else []
        word = draw(st.sampled_from(["all", "any"]))
        return {word: [*first, *parts[cut:]]}

    return combine(leaves, 0)


def _is_met(tree: Schedule, met: Collection[Schedule]) -> bool:
    parts = [_is_met(part, met) for part in tree.parts]
    if not parts:
        return tree in met
    return all(parts) if tree.all_ else any(parts)


@given(tree=_trees(), number=st.integers(0, 2 ** len(_LEAVES) - 1))
def test_the_combinations_of_a_schedule_start_it_exactly_when_its_conditions_are_met(
    tree: dict[str, Any], number: int
) -> None:
    schedule = Schedule.model_validate(tree)
    check_schedule(schedule)
    met = [Schedule.model_validate(leaf) for bit, leaf in enumerate(_LEAVES) if number & 1 << bit]
    combinations = schedule.list_combinations()
    assert len(combinations) == schedule.count_combinations()
    assert any(set(map(str, each.parts)) <= set(map(str, met)) for each in combinations) is (
        _is_met(schedule, met)
    )
    assert schedule.is_clock_enough is _is_met(schedule, [Schedule.model_validate(_LEAVES[0])])


@pytest.mark.parametrize(
    ("schedule", "text"),
    [
        ({"cron": "30 2 * * *", "timezone": NEW_YORK}, f"At 02:30 every day, {NEW_YORK}"),
        ({"cron": "@daily"}, "At 00:00 every day, UTC"),
        ({"every": "90min"}, "Every 1 h 30 min"),
        ({"after": ["load", "clean"]}, "After load and clean"),
        ({"on-files": "/in"}, "When /in has new files"),
        ({"max-lag": "15min", "of": ["sales", "u"]}, "At most 15 min behind sales and u"),
        (
            {"any": [{"every": "1h"}, {"on-change": ["sales", "db.orders"]}]},
            "Every 1 h, or when sales or db.orders changes",
        ),
        ({"all": [{"after": ["load"]}, {"every": "1h"}]}, "After load, and every 1 h"),
        ({"all": [{"every": "1h"}, {"on-files": "/in"}]}, "Every 1 h, and when /in has new files"),
        (
            {"all": [{"every": "1h"}, {"any": [{"after": ["load"]}, {"on-change": ["t"]}]}]},
            "Every 1 h, and (after load, or when t changes)",
        ),
    ],
    ids=["cron", "alias", "every", "after", "files", "lag", "any", "all", "with files", "nested"],
)
def test_a_schedule_is_described_in_words(schedule: dict[str, Any], text: str) -> None:
    assert describe_schedule(Schedule.model_validate(schedule)) == text
    assert describe_schedule(None) == "Only users start it"


def test_a_stored_schedule_has_only_the_keys_that_are_set() -> None:
    """A node of an older version reads it, and refuses keys that it does not know."""
    conditions = {"all": [{"cron": "@daily"}, {"any": [{"after": ["a"]}, {"on_change": ["t"]}]}]}
    schedule = Schedule.model_validate(conditions)
    stored = schedule.model_dump(mode="json")
    assert stored == {
        "all_": [{"cron": "@daily"}, {"any_": [{"after": ["a"]}, {"on_change": ["t"]}]}]
    }
    assert Schedule.model_validate(stored) == schedule

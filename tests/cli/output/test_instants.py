from __future__ import annotations

from datetime import UTC, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from tests.cli.conftest import RunHeadrace
from tests.cli.scripted_node import ScriptedNode

from headrace.cli.output.readable_values import find_zone, format_timestamp, strip_fraction

pytestmark = pytest.mark.finding("U9")


@pytest.mark.parametrize(
    ("text", "zone", "shown"),
    [
        ("2026-11-24T10:00:00.000000Z", "Europe/Paris", "2026-11-24 11:00:00"),
        ("2026-07-24T10:00:00.500000Z", "Europe/Paris", "2026-07-24 12:00:00.5"),
        ("2026-11-24T23:30:00.000001Z", "Asia/Kathmandu", "2026-11-25 05:15:00.000001"),
        ("0001-01-02T00:00:00.000000Z", "UTC", "0001-01-02 00:00:00"),
        ("2026-11-24T10:00:00.000000Z", "+05:30", "2026-11-24 15:30:00"),
        # Python has no years beyond 9999, and the shell may not know a zone of Spark.
        ("+10000-01-01T00:00:00.120000Z", "Europe/Paris", "+10000-01-01 00:00:00.12Z"),
        ("0001-01-01T00:00:00.000000Z", "-08:00", "0001-01-01 00:00:00Z"),
        ("2026-11-24T10:00:00.000000Z", "No/Such", "2026-11-24 10:00:00Z"),
        ("2026-11-24T10:00:00.000000Z", None, "2026-11-24 10:00:00Z"),
    ],
)
def test_timestamps_are_shown_in_the_zone_without_an_empty_fraction(
    text: str, zone: str | None, shown: str
) -> None:
    assert format_timestamp(text, find_zone(zone)) == shown


@pytest.mark.parametrize(
    ("name", "zone"),
    [
        ("Europe/Paris", ZoneInfo("Europe/Paris")),
        ("UTC", UTC),
        ("Z", UTC),
        ("GMT+2", timezone(timedelta(hours=2))),
        ("-03:30", timezone(-timedelta(hours=3, minutes=30))),
        ("+01:02:03", timezone(timedelta(hours=1, minutes=2, seconds=3))),
        ("+99:00", None),
        ("Europe", None),
        ("../../etc/passwd", None),
        ("", None),
        (None, None),
    ],
)
def test_zones_of_spark_are_known_and_others_are_not(name: str | None, zone: object) -> None:
    assert find_zone(name) == zone


def test_only_zeros_after_a_point_are_removed() -> None:
    texts = ["10:00:00.000000", "10:00:00.100000", "10:00:00"]
    assert [strip_fraction(text) for text in texts] == ["10:00:00", "10:00:00.1", "10:00:00"]


INSTANT = "2026-11-24T10:00:00.000000Z"
LOCAL = "2026-11-24T10:00:00.000000"


@pytest.fixture
def script(node: ScriptedNode) -> None:
    columns = [("t", "timestamp"), ("n", "timestamp_ntz"), ("c", "time(6)"), ("s", "string")]
    columns.append(("a", "array<timestamp>"))
    row = [INSTANT, LOCAL, "01:02:03.000000", INSTANT, [INSTANT]]
    node.on("SELECT", columns=columns, chunks=[[row], [[None] * 5]], time_zone="Asia/Tokyo")


@pytest.mark.usefixtures("script")
@pytest.mark.parametrize("format_", ["table", "vertical", "markdown"])
def test_formats_for_people_show_the_session_zone(headrace: RunHeadrace, format_: str) -> None:
    text = headrace("sql", "SELECT", "--format", format_).stdout
    assert text.count("2026-11-24 19:00:00") == 1
    assert text.count("2026-11-24 10:00:00") == 1
    assert "01:02:03 " in text or "01:02:03\n" in text
    assert text.count(INSTANT) == 2  # texts and nested values stay as they are
    assert text.count("NULL") == 5


@pytest.mark.usefixtures("script")
@pytest.mark.parametrize("format_", ["csv", "tsv", "jsonl"])
def test_formats_for_programs_keep_utc(headrace: RunHeadrace, format_: str) -> None:
    text = headrace("sql", "SELECT", "--format", format_).stdout
    assert text.count(INSTANT) == 3
    assert "19:00" not in text

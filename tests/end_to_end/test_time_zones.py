"""The shell shows timestamps as Spark does: in the time zone of the session."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.node import NodeProcess

pytestmark = [pytest.mark.spark, pytest.mark.finding("U9")]

HEADRACE = Path(sys.executable).with_name("headrace")
INSTANTS = (
    *("2026-01-15T12:00:00Z", "2026-07-15T12:00:00.5Z", "2026-07-15T23:59:59.999999Z"),
    *("1969-12-31T23:59:59.000001Z", "1850-06-01T00:00:00Z", "0700-03-01T10:00:00Z"),
)
QUERY = " UNION ALL ".join(
    f"SELECT t, CAST(t AS STRING) AS text FROM (SELECT timestamp'{instant}' AS t)"
    for instant in INSTANTS
)


@pytest.fixture(scope="module")
def changed_session(node: NodeProcess) -> str:
    """Return a session whose time zone the tests change."""
    return node.session()


@pytest.mark.parametrize("zone", ["Europe/Paris", "Asia/Kathmandu", "-03:30", "UTC"])
def test_a_timestamp_is_shown_like_its_text_in_spark(
    node: NodeProcess, changed_session: str, zone: str
) -> None:
    script = [f"SET TIME ZONE '{zone}'", QUERY, "--results", "last", "--format", "table"]
    completed = subprocess.run(
        [HEADRACE, "sql", "--session", changed_session, *script],
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
        env=node.client_environment,
    )
    rows = [line.split("│") for line in completed.stdout.splitlines()[2:]]
    assert len(rows) == len(INSTANTS)
    for shown, text in rows:
        assert shown.strip() == text.strip()


def test_a_zone_for_one_statement_is_reported_with_its_result(node: NodeProcess) -> None:
    for disposition in ("inline", "stored"):
        conf = {"spark.sql.session.timeZone": "America/New_York"}
        ended = node.run(QUERY, conf=conf, result=disposition)
        assert ended["result"]["time_zone"] == "America/New_York"
        assert [column["type"] for column in ended["result"]["schema"]] == ["timestamp", "string"]
    assert node.run("SELECT 1 AS x")["result"]["time_zone"] is None

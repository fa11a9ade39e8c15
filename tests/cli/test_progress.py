from __future__ import annotations

from typing import Any

import pytest

from headrace.cli.support.progress import describe_progress


@pytest.mark.finding("U14")
@pytest.mark.parametrize(
    ("progress", "line"),
    [
        (None, "running · 7 s"),
        ({"tasks_done": 0, "tasks_total": 0}, "running · 7 s"),
        ({"tasks_done": 1, "tasks_total": 3}, "running · 7 s · 1 of 3 tasks"),
        ({"tasks_done": 3000, "tasks_total": 3000}, "running · 7 s · 3,000 of 3,000 tasks"),
        (
            {"tasks_done": 1, "tasks_total": 2, "rows_read": 1234567, "bytes_read": 1572864},
            "running · 7 s · 1 of 2 tasks · 1,234,567 rows read · 1.5 MiB",
        ),
        ({"rows_read": 1}, "running · 7 s · 1 row read"),
        ({"bytes_read": 900}, "running · 7 s · 900 B"),
        ({"bytes_read": 5 * 2**60}, "running · 7 s · 5,242,880.0 TiB"),
    ],
)
def test_a_running_statement_shows_tasks_rows_and_bytes(
    progress: dict[str, Any] | None, line: str
) -> None:
    assert describe_progress({"state": "running", "progress": progress}, None, 7.2) == line


def test_a_waiting_statement_shows_the_reason_of_the_node() -> None:
    reason = {"code": "queue", "text": "It is behind 2 statements of its session."}
    statement = {"state": "waiting", "waiting_for": reason}
    line = describe_progress(statement, "running", 2)
    assert line == "waiting · 2 s · It is behind 2 statements of its session"


def test_a_waiting_statement_of_an_older_node_shows_the_state_of_its_session() -> None:
    line = describe_progress({"state": "waiting"}, "starting", 2)
    assert line == "waiting · 2 s · the session's driver is starting"

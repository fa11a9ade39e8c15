"""Lists and objects on terminals of 80 and 140 columns, and in pipes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.cli.conftest import RunHeadrace
from tests.cli.pseudo_terminal import PseudoTerminal
from tests.cli.scripted_node import ScriptedNode

from headrace.cli.output.text import display_width
from headrace.cli.support.readable import shorten_ids

pytestmark = pytest.mark.finding("U7")

SQL = "SELECT *\n  FROM 日本, a_table_with_a_long_name WHERE " + "x = 1 AND " * 30
NUMBERS = [0x019F0A1B2C3D7AAA0000000000000000 + step for step in (0, 1 << 72, 1 << 90)]


def ago(*, now: datetime | None = None, **time: float) -> str:
    """Return an instant before now. Two instants with a length between them need the same now."""
    return ((now or datetime.now(UTC)) - timedelta(**time)).isoformat(timespec="microseconds")


@pytest.fixture
def statements(node: ScriptedNode) -> list[str]:
    """Ids of a statement that has failed, one with many rows, and one that runs; oldest first."""
    node.ids = [*NUMBERS]
    named = node._add_session({"name": "a-session-with-a-very-long-name-for-reports"})["id"]
    for text, session in (("DROP", named), ("SELECT big", named), (SQL, "se_" + "7" * 32)):
        node._add_statement(text, session)
    failed, big, running = node.statements.values()
    for item in node.statements.values():
        item["session_name"] = item["session_id"] == named and node.sessions[named]["name"]
    now = datetime.now(UTC)
    failed |= {"state": "failed", "created_at": ago(now=now, days=3)}
    failed["ended_at"] = ago(now=now, days=2, hours=20)
    big |= {"state": "success", "created_at": ago(now=now, minutes=5)}
    big["ended_at"] = ago(now=now, minutes=4)
    big["result"] = {"row_count": 123456789, "schema": [{"name": "n", "type": "int"}]}
    failed["result"] = {"row_count": 0, "schema": []}
    running |= {"state": "cancelling", "created_at": ago(hours=7, minutes=1)}
    return [*node.statements]


@pytest.fixture(params=[80, 140])
def terminal(
    request: pytest.FixtureRequest, environment: dict[str, str]
) -> Iterator[PseudoTerminal]:
    terminal = PseudoTerminal({**environment, "NO_COLOR": "1"}, columns=request.param)
    yield terminal
    terminal.close()


def split(line: str) -> list[str]:
    return re.split(r" {2,}", line.strip())


def test_statements_fit_the_terminal(statements: list[str], terminal: PseudoTerminal) -> None:
    lines = terminal.run("statement", "list").splitlines()
    assert max(map(display_width, lines)) <= terminal.columns
    header, running, big, failed = map(split, lines)
    assert header == ["ID", "STATE", "AGE", "TIME", "ROWS", "SESSION", "SQL"]
    assert running[1:4] == ["cancelling", "7 h 1 min", "7 h 1 min"]
    assert running[4] == "se_7777777777"[: len(running[4].rstrip("…"))] + (
        "…" if "…" in running[4] else ""
    )
    assert running[-1].startswith("SELE")
    assert running[-1].endswith("…")
    assert big[1:5] == ["success", big[2], "1 min", "123,456,789"]
    assert big[2].startswith("5 min")
    assert failed[1:4] == ["failed", "3 d", "4 h"]
    assert failed[4].startswith("a-sess")
    for statement, line in zip(reversed(statements), (running, big, failed), strict=True):
        assert statement.startswith(line[0])
        assert len(line[0]) < 20
    if terminal.columns == 140:
        assert "FROM 日本, a_table_with_a_long_name" in running[-1]


def test_a_short_id_of_the_list_names_its_statement(
    statements: list[str], environment: dict[str, str], headrace: RunHeadrace
) -> None:
    terminal = PseudoTerminal({**environment, "NO_COLOR": "1"})
    lines = terminal.run("statement", "list").splitlines()
    for line, statement in zip(lines[1:], reversed(statements), strict=True):
        shown = headrace("statement", "show", split(line)[0], "--format", "json")
        assert json.loads(shown.stdout)["id"] == statement


def test_a_list_is_never_vertical(statements: list[str], environment: dict[str, str]) -> None:
    terminal = PseudoTerminal({**environment, "NO_COLOR": "1"}, columns=30)
    assert len(terminal.run("statement", "list").splitlines()) > len(statements)
    terminal = PseudoTerminal({**environment, "NO_COLOR": "1"}, columns=60)
    lines = terminal.run("statement", "list", "--format", "table").splitlines()
    assert len(lines) == len(statements) + 1


def test_pipes_have_whole_ids_and_times_in_utc(
    node: ScriptedNode, statements: list[str], headrace: RunHeadrace
) -> None:
    csv = headrace("statement", "list", TZ="Asia/Tokyo").stdout
    table = headrace("statement", "list", "--format", "table", TZ="Asia/Tokyo").stdout
    shown = headrace("statement", "show", "last", TZ="Asia/Tokyo").stdout
    for statement in statements:
        assert statement in csv
        assert statement in table
        assert node.statements[statement]["created_at"] in csv
    assert f"created_at     {node.statements[statements[-1]]['created_at']}\n" in shown


def test_show_has_times_in_the_zone_of_the_terminal(
    node: ScriptedNode, statements: list[str], environment: dict[str, str]
) -> None:
    node.statements[statements[0]]["created_at"] = "2026-07-01T20:30:00.123456Z"
    terminal = PseudoTerminal({**environment, "TZ": "Asia/Tokyo"})
    lines = terminal.run("statement", "show", statements[0]).splitlines()
    assert "created_at     2026-07-02 05:30:00 JST" in lines
    assert f"id             {statements[0]}" in lines
    terminal = PseudoTerminal(environment)
    shown = terminal.run("statement", "show", statements[2]).splitlines()
    assert any(line.startswith(" " * 17 + "FROM 日本, a_table") for line in shown)


def test_status_has_the_time_in_the_zone_of_the_terminal(environment: dict[str, str]) -> None:
    lines = PseudoTerminal({**environment, "TZ": "Asia/Tokyo"}).run("status").splitlines()
    assert "since     2026-11-21 19:00:00 JST" in lines


def test_sessions_fit_the_terminal(node: ScriptedNode, terminal: PseudoTerminal) -> None:
    first, second = (
        node._add_session({"name": "n" * 100, "profile": "p" * 100}),
        node._add_session({}),
    )
    first |= {"busy": True, "kind": "interactive", "created_at": ago(hours=2, minutes=1)}
    second |= {"pool": True, "kind": "streaming", "created_at": ago(seconds=1)}
    first["id"], second["id"] = (f"se_{number:032x}" for number in NUMBERS[:2])
    lines = terminal.run("session", "list").splitlines()
    assert max(map(display_width, lines)) <= terminal.columns
    header, newest, oldest = map(split, lines)
    assert header == ["ID", "NAME", "STATE", "AGE", "TIME", "KIND", "PROFILE"]
    assert newest[1].startswith("pool")
    assert newest[2] == "running"
    assert oldest[2:5] == ["running, busy", "2 h 1 min", "2 h 1 min"]


def make_job(**changes: Any) -> dict[str, Any]:
    return {
        "name": "orders",
        "state": "running",
        "version": 3,
        "session": "jobs-default",
        "last_batch": 41,
        "updated_at": ago(minutes=3),
        "failure": None,
        **changes,
    }


def test_jobs_fit_the_terminal(node: ScriptedNode, terminal: PseudoTerminal) -> None:
    failure = {"message": "The source is gone. " * 20 + "\nmore"}
    node.jobs = [make_job(), make_job(name="n" * 90, state="failed", failure=failure)]
    lines = terminal.run("job", "list").splitlines()
    assert max(map(display_width, lines)) <= terminal.columns
    assert split(lines[0]) == ["NAME", "STATE", "VERSION", "CHANGED", "BATCH", "SESSION", "ERROR"]
    assert split(lines[1])[1:3] == ["running", "3"]
    assert split(lines[1])[3].startswith("3 min")
    assert split(lines[1])[4:6] == ["41", "jobs-default"[:12]]
    assert "The source" in lines[2]
    assert lines[2].endswith("…")


def test_nodes_fit_the_terminal(node: ScriptedNode, terminal: PseudoTerminal) -> None:
    node.node_fields = {
        "address": "http://a-host-with-a-very-long-name.example.com:8040",
        "host": "a-host-with-a-very-long-name.example.com",
        "version": "0.1.0",
        "profiles": [f"profile-{number}" for number in range(20)],
        "lease_until": (datetime.now(UTC) + timedelta(hours=5, minutes=30)).isoformat(),
    }
    lines = terminal.run("node", "list").splitlines()
    assert max(map(display_width, lines)) <= terminal.columns
    header, values = map(split, lines)
    assert header == [
        *("ID", "STATE", "AGE", "LEASE", "ADDRESS", "HOST", "VERSION", "PROFILES"),
    ]
    assert values[0] == node.node_id[:13]
    # A fast node shows the whole length, a slow one some minutes less.
    assert re.fullmatch(r"5 h [23]\d min", values[3])


def test_states_have_colours_unless_no_color_is_set(
    statements: list[str], environment: dict[str, str]
) -> None:
    environment = {key: value for key, value in environment.items() if key != "NO_COLOR"}
    assert "\x1b[31mfailed\x1b[0m" in PseudoTerminal(environment).run("statement", "list")
    plain = PseudoTerminal({**environment, "NO_COLOR": "1"}).run("statement", "list")
    assert "\x1b" not in plain
    assert "\x1b" not in PseudoTerminal({**environment, "NO_COLOR": "1"}).run("session", "list")


def test_ids_are_cut_to_a_prefix_that_is_unique_in_the_list() -> None:
    ids = [f"st_{number:032x}" for number in (5, 6, 0x15)]
    assert shorten_ids([*ids, "name", ""]) == [*ids, "name", ""]
    far = ["st_019f0a1b2c3d" + "0" * 20, "st_019f0a1b2d3d" + "0" * 20]
    assert shorten_ids(far) == ["st_019f0a1b2c", "st_019f0a1b2d"]
    assert shorten_ids([far[0], far[0]]) == ["st_019f0a1b2c"] * 2
    near = ["st_019f0a1b2c3d7a" + "0" * 18, "st_019f0a1b2c3d7b" + "0" * 18]
    assert shorten_ids(near) == ["st_019f0a1b2c3d7a", "st_019f0a1b2c3d7b"]


@pytest.mark.parametrize(
    ("view", "columns", "time"),
    [
        ("waiting", "ID WAITED OWNER SESSION REASON SQL", "3 min"),
        ("running", "ID STATE RAN OWNER SESSION REASON SQL", "7 h 1 min"),
        ("slow", "ID STATE ENDED RAN OWNER SESSION SQL", "7 h 1 min"),
    ],
)
def test_times_of_statements_that_wait_run_or_were_slow_fit_the_terminal(
    node: ScriptedNode,
    statements: list[str],
    terminal: PseudoTerminal,
    view: str,
    columns: str,
    time: str,
) -> None:
    for item in node.statements.values():
        item |= {"waiting_since": ago(minutes=3), "waiting_for": {"text": "It is next."}}
        item |= {"started_at": item["created_at"], "launched_at": item["created_at"]}
    lines = terminal.run("statement", "list", f"--{view}").splitlines()
    assert max(map(display_width, lines)) <= terminal.columns
    assert split(lines[0]) == [column.replace("_", " ") for column in columns.split()]
    assert time in lines[1]
    assert ("It is" in lines[1]) == (view != "slow")

"""`headrace sql` without a server: its own node, whose tables are there for the next command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

HEADRACE = Path(sys.executable).with_name("headrace")


@pytest.fixture(autouse=True)
def _own_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever listens on this host's default port is left alone."""
    monkeypatch.setenv("HEADRACE_SERVER", "embedded")


def headrace(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [HEADRACE, *arguments], capture_output=True, text=True, timeout=240, check=False
    )


def test_a_table_and_a_named_session_outlive_the_nodes_that_made_them(home: Path) -> None:
    made = headrace("sql", "CREATE TABLE t AS SELECT 1 AS a")
    assert (made.returncode, made.stdout) == (0, ""), made.stderr

    # The first node has ended by now, or is ending: with it went driver and metastore.
    changes = [
        "CREATE DATABASE kept",
        "USE kept",
        "SET my.own = 7",
        "CREATE TEMP VIEW v AS SELECT 1 AS x",
        "DECLARE VARIABLE u STRING DEFAULT uuid()",
        "EXECUTE IMMEDIATE 'SET my.other = 8'",
    ]
    look = "SELECT x, u, current_database(), '${my.own}', '${my.other}' FROM v"
    asked = ["--session", "mine", "--format", "json"]
    first = headrace("sql", "SELECT * FROM t", *changes, look, *asked, "--create")
    assert first.returncode == 0, first.stderr
    table, *_, row = first.stdout.splitlines(keepends=True)
    assert table == '[{"a": 1}]\n'
    assert '"current_schema()": "kept", "7": "7", "8": "8"' in row

    # The third node finds the session without a driver.
    second = headrace("sql", look, "SELEC 1", *asked)
    assert second.stdout == row, second.stderr
    assert second.returncode == 1
    told = (
        "error: statement 2: [PARSE_SYNTAX_ERROR] Syntax error at or near 'SELEC'."
        " (line 1, column 1)\n"
        "   1 │ SELEC 1\n"
        "     │ ^\n"
    )
    assert told in second.stderr

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


def test_a_table_outlives_the_node_that_made_it(home: Path) -> None:
    made = headrace("sql", "CREATE TABLE t AS SELECT 1 AS a")
    assert (made.returncode, made.stdout) == (0, ""), made.stderr

    # The first node has ended by now, or is ending: with it went driver and metastore.
    read = headrace("sql", "SELECT * FROM t", "SELEC 1", "--format", "json")
    assert read.stdout == '[{"a": 1}]\n', read.stderr
    assert read.returncode == 1
    told = (
        "error: statement 2: [PARSE_SYNTAX_ERROR] Syntax error at or near 'SELEC'."
        " (line 1, column 1)\n"
        "   1 │ SELEC 1\n"
        "     │ ^\n"
    )
    assert told in read.stderr


def test_a_named_session_outlives_the_node_that_it_was_made_by(home: Path) -> None:
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
    first = headrace("sql", *changes, look, *asked, "--create")
    assert first.returncode == 0, first.stderr
    *_, row = first.stdout.splitlines(keepends=True)
    assert '"current_schema()": "kept", "7": "7", "8": "8"' in row
    # With the first node went the driver; the second finds the session without one.
    second = headrace("sql", look, *asked)
    assert (second.returncode, second.stdout) == (0, row), second.stderr

"""`headrace sql` without a server: its own node, whose tables are there for the next command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

HEADRACE = Path(sys.executable).with_name("headrace")


@pytest.fixture(autouse=True)
def _use_embedded_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the shell from using a node on this host's default port."""
    monkeypatch.setenv("HEADRACE_SERVER", "embedded")


def run_headrace(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [HEADRACE, *arguments], capture_output=True, text=True, timeout=280, check=False
    )


@pytest.mark.finding("U19")
def test_tables_and_named_sessions_outlive_the_embedded_node_that_created_them(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Relative paths are those of the folder that contains the home, also for the last node."""
    (home.parent / "numbers.csv").write_text("5\n")
    create = run_headrace("sql", "CREATE TABLE t AS SELECT 1 AS a")
    assert (create.returncode, create.stdout) == (0, ""), create.stderr

    # The first node ends after the command, with its driver and its metastore.
    changes = [
        "CREATE DATABASE kept",
        "USE kept",
        "SET my.own = 7",
        "CREATE TEMP VIEW v AS SELECT 1 AS x",
        "DECLARE VARIABLE u STRING DEFAULT uuid()",
        "EXECUTE IMMEDIATE 'SET my.other = 8'",
        "CREATE TEMP VIEW numbers USING csv OPTIONS (path 'numbers.csv')",
    ]
    query = "SELECT _c0, x, u, current_database(), '${my.own}', '${my.other}' FROM v, numbers"
    options = ["--session", "mine", "--format", "json"]
    first = run_headrace("sql", "SELECT * FROM t", *changes, query, *options, "--create")
    assert first.returncode == 0, first.stderr
    table, *_, row = first.stdout.splitlines(keepends=True)
    assert table == '[{"a": 1}]\n'
    assert '"current_schema()": "kept", "7": "7", "8": "8"' in row

    # The third node finds the session without a driver. A command in another folder starts it.
    elsewhere = home.parent / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    second = run_headrace("sql", query, "SELEC 1", *options)
    assert second.stdout == row, second.stderr
    assert second.returncode == 1
    message = (
        "error: statement 2: [PARSE_SYNTAX_ERROR] Syntax error at or near 'SELEC'."
        " (line 1, column 1)\n"
        "   1 │ SELEC 1\n"
        "     │ ^\n"
    )
    assert message in second.stderr

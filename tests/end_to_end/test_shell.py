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

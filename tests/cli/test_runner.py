"""Where the statements of a command run."""

from __future__ import annotations

import pytest

from headrace.cli.support.runner import RunOptions, needs_session, runs_in_pool
from headrace.cli.support.script import Source, split_sources


@pytest.mark.parametrize(
    ("text", "options", "in_pool"),
    [
        ("SELECT 1", RunOptions(), True),
        ("CREATE TABLE t AS SELECT 1", RunOptions(), True),
        ("SELECT 1; CREATE VIEW v AS SELECT 1", RunOptions(), True),
        ("USE d; SELECT 1", RunOptions(), False),
        ("SHOW STREAMS", RunOptions(), False),
        ("SHOW STREAMS; SELECT 1", RunOptions(), True),
        ("SELECT 1", RunOptions(session="mine"), False),
        ("SELECT 1", RunOptions(fields={"kind": "batch"}), False),
    ],
)
def test_the_pool_session_runs_what_needs_no_session_of_its_own(
    text: str, options: RunOptions, in_pool: bool
) -> None:
    statements = split_sources([Source(None, text)])
    assert runs_in_pool(statements, options) is in_pool


def test_statements_share_a_session_only_after_a_change() -> None:
    assert needs_session(split_sources([Source(None, "SET a = 1; SELECT 1")]), RunOptions())
    assert not needs_session(split_sources([Source(None, "SELECT 1; SET a = 1")]), RunOptions())

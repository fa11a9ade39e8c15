"""Each statement of a script has the same outcome in Headrace as in PySpark without it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.node import NodeProcess
from tests.support.outcome import Outcome, run_to_outcome
from tests.support.plain_spark import PlainSpark

from headrace.grammar.script import ScriptStatement, split_script

pytestmark = pytest.mark.spark

SCRIPTS = {file.stem: file for file in sorted((Path(__file__).parent / "scripts").glob("*.sql"))}
FAILS = re.compile(r"-- fails: (\S+)")
"""Comment in a statement that must fail, with the condition of Spark's error."""
CLEANUP = ("USE default", "RESET", "DROP DATABASE IF EXISTS script_{name} CASCADE")


@pytest.fixture(params=SCRIPTS)
def script(
    request: pytest.FixtureRequest, node: NodeProcess, session: str, plain: PlainSpark
) -> Iterator[str]:
    """Yield the text of a script, and remove its database after the test."""
    yield SCRIPTS[request.param].read_text()
    for statement in CLEANUP:
        text = statement.format(name=request.param)
        plain.run(text)
        node.run(text, session)


def test_every_statement_has_the_same_outcome_as_in_plain_spark(
    node: NodeProcess, session: str, plain: PlainSpark, script: str
) -> None:
    for statement in split_script(script):
        wait_for_outcome = plain.start(statement.text)
        result = run_to_outcome(node, statement.text, session)
        compare(statement, result, wait_for_outcome())


def compare(statement: ScriptStatement, result: Outcome, expected: Outcome) -> None:
    """Check that rows, types and errors are equal, and that the script announces each error."""
    context = f"line {statement.line}: {statement.text}"
    match = FAILS.search(statement.text)
    assert expected.condition == (match[1] if match else None), f"{context}\n{expected.message}"
    assert result.error == expected.error, f"{context}\n{result.message}"
    assert result.schema == expected.schema, context
    if "ORDER BY" in statement.text:
        assert result.rows == expected.rows, context
    else:
        assert result.sorted_rows == expected.sorted_rows, context

"""Each statement of a script ends through Headrace as it does in PySpark alone."""

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
"""A comment of a statement that must fail, with Spark's condition."""
TIDY = ("USE default", "RESET", "DROP DATABASE IF EXISTS script_{name} CASCADE")


@pytest.fixture(params=SCRIPTS)
def script(
    request: pytest.FixtureRequest, node: NodeProcess, session: str, plain: PlainSpark
) -> Iterator[str]:
    """A script that tidies up after itself, unless it fails in between."""
    yield SCRIPTS[request.param].read_text()
    for statement in TIDY:
        text = statement.format(name=request.param)
        plain.run(text)
        node.run(text, session)


def test_every_statement_ends_as_in_plain_spark(
    node: NodeProcess, session: str, plain: PlainSpark, script: str
) -> None:
    for piece in split_script(script):
        answer = plain.start(piece.text)
        result = run_to_outcome(node, piece.text, session)
        compare(piece, result, answer())


def compare(piece: ScriptStatement, result: Outcome, expected: Outcome) -> None:
    """Rows, types and errors are the same, and errors are where the script tells them."""
    place = f"line {piece.line}: {piece.text}"
    told = FAILS.search(piece.text)
    assert expected.condition == (told[1] if told else None), f"{place}\n{expected.message}"
    assert result.error == expected.error, f"{place}\n{result.message}"
    assert result.schema == expected.schema, place
    if "ORDER BY" in piece.text:
        assert result.rows == expected.rows, place
    else:
        assert result.sorted_rows == expected.sorted_rows, place

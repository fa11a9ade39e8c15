"""How a driver plans writes, without Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.journal import JournalLink

from headrace.model.connection import AssignedConnection
from headrace.model.messages import Assignment
from headrace.model.result import ResultRequest

SESSION, STATEMENT = "se_1", "st_" + "1" * 32


@pytest.mark.parametrize(
    ("place", "writer", "version"),
    [
        ({}, SESSION, 7),
        ({"isolated": True}, STATEMENT, 0),
        ({"connection": AssignedConnection(id="cn_1")}, STATEMENT, 0),
    ],
    ids=["session", "pool", "connection"],
)
def test_writes_that_can_overtake_each_other_are_no_versions_of_one_writer(
    place: dict[str, Any], writer: str, version: int
) -> None:
    from headrace.driver.planner import _define_write

    assignment = Assignment(
        statement_id=STATEMENT,
        text="INSERT INTO t SELECT 1",
        parameters=[],
        conf={},
        result_request=ResultRequest(),
        is_query=False,
        attempt=1,
        ordinal=7,
        **place,
    )
    change: Any = SimpleNamespace(command=None)
    session: Any = None
    write = _define_write(session, assignment, JournalLink().as_link(), change, "tx_1")
    assert (write.writer, write.version) == (f"headrace/{writer}", version)

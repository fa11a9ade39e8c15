"""Tables that appear whole or not at all: `CREATE TABLE … AS SELECT` in two phases."""

from headrace.driver.ctas.base import (
    Destination,
    TableDefinition,
    TablePath,
    TwoPhaseCatalog,
    TwoPhaseTable,
    UntouchedTable,
)
from headrace.driver.ctas.journal import Cancelled
from headrace.driver.ctas.recovery import recover
from headrace.driver.ctas.transaction import CommitUnfinished
from headrace.driver.hooks import StatementFacts, StatementHook
from headrace.driver.planner import ExecutionPlan, empty_frame, plan_statement

__all__ = [
    "Cancelled",
    "CommitUnfinished",
    "Destination",
    "ExecutionPlan",
    "StatementFacts",
    "StatementHook",
    "TableDefinition",
    "TablePath",
    "TwoPhaseCatalog",
    "TwoPhaseTable",
    "UntouchedTable",
    "empty_frame",
    "plan_statement",
    "recover",
]
